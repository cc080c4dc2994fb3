# SPDX-License-Identifier: Apache-2.0
"""Checksums and the deparser as generated functions."""

import struct

from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject, TypeLayout
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.fields import Source
from bmv2_lab.switch.layout import FLAG_TRUNCATE
from bmv2_lab.switch.primitives import Primitives
from bmv2_lab.switch.writer import Writer


class DeparserTranslator:
    """Writes checksum verification, checksum update and one deparser."""

    def __init__(
        self,
        document: JsonObject,
        expressions: Expressions,
        primitives: Primitives,
        calculations: Calculations,
        writer: Writer,
    ) -> None:
        self.checksums: list[JsonObject] = document.get("checksums") or []
        self.expressions = expressions
        self.primitives = primitives
        self.calculations = calculations
        self.layout = expressions.layout
        self.writer = writer

    def _function(self, item: JsonObject, where: str) -> str:
        """Name of the function that computes a checksum."""
        kind = item.get("type", "generic")
        if kind == "ipv4":
            return self.calculations.of_ipv4(item, where)
        if kind != "generic":
            raise ProgramError(where, f"unsupported checksum type {kind}")
        return self.calculations.named(str(item["calculation"]), where)

    def _condition(self, item: JsonObject) -> str:
        condition = item.get("if_cond")
        return "True" if condition is None else self.expressions.boolean(condition)

    def emit_verify(self) -> bool:
        """Write `verify_checksums(P)`; False when there is nothing to verify."""
        items = [item for item in self.checksums if item.get("verify", True)]
        if not items:
            return False
        functions = [self._function(item, f"checksums[{item['name']}]") for item in items]
        with self.writer.block("def verify_checksums(P):"):
            for item, function in zip(items, functions, strict=True):
                where = f"checksums[{item['name']}]"
                self.expressions.where = where
                header, field = self.layout.field(item["target"], where)
                value = self.expressions.load(field, header.base, raw=True).text
                test = f"{self._condition(item)} and {function}(P) != {value}"
                if not header.metadata:
                    test = f"P[{header.base}] and {test}"
                with self.writer.block(f"if {test}:"):
                    self.writer.line(f"P[{self.layout.slots.checksum_error}] = 1")
        self.writer.line("")
        return True

    def _emit_updates(self, items: list[JsonObject], functions: list[str]) -> None:
        for item, function in zip(items, functions, strict=True):
            where = f"checksums[{item['name']}]"
            self.expressions.where = where
            header, field = self.layout.field(item["target"], where)
            condition = self._condition(item)
            if item.get("type") == "ipv4":
                condition = f"P[{header.base}] and {condition}"
            with self.writer.block(f"if {condition}:"):
                value = Source(f"{function}(P)", self.calculations.bits(item))
                for line in self.expressions.store(field, header.base, value):
                    self.writer.line(line)

    def emit(self, deparser: JsonObject, function: str) -> None:
        """Write `def function(P) -> bytes`: checksums, headers in order, payload, truncation."""
        writer, place = self.writer, self.layout.slots
        where = f"deparsers[{deparser['name']}]"
        items = [item for item in self.checksums if item.get("update", True)]
        functions = [self._function(item, f"checksums[{item['name']}]") for item in items]
        with writer.block(f"def {function}(P):"):
            self._emit_updates(items, functions)
            for primitive in deparser.get("primitives", []):
                self.expressions.where = where
                self.primitives.one(primitive)
            writer.line("out = []")
            for name in deparser["order"]:
                header = self.layout.header(str(name), where)
                if header.metadata:
                    raise ProgramError(where, f"{name} is metadata and cannot be sent")
                with writer.block(f"if P[{header.base}]:"):
                    self._emit_header(header.base, header.type)
            writer.line(f"out.append(P[{place.frame}][P[{place.payload}]:])")
            writer.line("data = b''.join(out)")
            with writer.block(f"if P[{place.flags}] & {FLAG_TRUNCATE}:"):
                writer.line(f"data = data[:P[{place.truncate}]]")
            writer.line("return data")
        writer.line("")

    def _emit_header(self, base: int, layout: TypeLayout) -> None:
        self._emit_run(base + 1, layout.head_slots, layout.head)
        if layout.varbit_slot is not None:
            self.writer.line(f"out.append(P[{base + layout.varbit_slot}])")
            if layout.tail is not None:
                self._emit_run(base + layout.varbit_slot + 1, layout.tail_slots, layout.tail)

    def _emit_run(self, first: int, count: int, layout: struct.Struct) -> None:
        if count == 0:
            return
        pack = self.writer.constant("pack_", layout.pack)
        if count <= 4:
            values = ", ".join(f"P[{first + number}]" for number in range(count))
        else:
            values = f"*P[{first}:{first + count}]"
        self.writer.line(f"out.append({pack}({values}))")
