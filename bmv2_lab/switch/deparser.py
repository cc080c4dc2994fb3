# SPDX-License-Identifier: Apache-2.0
"""Checksums and the deparser as generated functions."""

import struct

from bmv2_lab.switch.calculations import Calculations
from bmv2_lab.switch.containers import JsonObject, TypeLayout
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.expressions import Expressions, Source
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
        self.checksums: list[JsonObject] = document.get("checksums", [])
        self.expressions = expressions
        self.primitives = primitives
        self.calculations = calculations
        self.layout = expressions.layout
        self.writer = writer

    def prepare(self) -> None:
        """Write the calculations that the functions below call."""
        for item in self.checksums:
            self.calculations.named(str(item["calculation"]), f"checksums[{item['name']}]")

    def _condition(self, item: JsonObject) -> str:
        condition = item.get("if_cond")
        return "True" if condition is None else self.expressions.boolean(condition)

    def emit_verify(self) -> bool:
        """Write `verify_checksums(P)`; False when there is nothing to verify."""
        items = [item for item in self.checksums if item.get("verify", True)]
        if not items:
            return False
        with self.writer.block("def verify_checksums(P):"):
            for item in items:
                where = f"checksums[{item['name']}]"
                self.expressions.where = where
                header, field = self.layout.field(item["target"], where)
                function = self.calculations.named(str(item["calculation"]), where)
                value = self.expressions.load(field, header.base).text
                test = f"{self._condition(item)} and {function}(P) != {value}"
                if not header.metadata:
                    test = f"P[{header.base}] and {test}"
                with self.writer.block(f"if {test}:"):
                    self.writer.line(f"P[{self.layout.slots.checksum_error}] = 1")
        self.writer.line("")
        return True

    def _emit_update(self) -> None:
        for item in self.checksums:
            if not item.get("update", True):
                continue
            where = f"checksums[{item['name']}]"
            self.expressions.where = where
            header, field = self.layout.field(item["target"], where)
            function = self.calculations.named(str(item["calculation"]), where)
            with self.writer.block(f"if {self._condition(item)}:"):
                value = Source(f"{function}(P)", 16 if item.get("algo") == "csum16" else None)
                for line in self.expressions.store(field, header.base, value):
                    self.writer.line(line)

    def emit(self, deparser: JsonObject, function: str) -> None:
        """Write `def function(P) -> bytes`: checksums, headers in order, payload, truncation."""
        writer, place = self.writer, self.layout.slots
        where = f"deparsers[{deparser['name']}]"
        with writer.block(f"def {function}(P):"):
            self._emit_update()
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
