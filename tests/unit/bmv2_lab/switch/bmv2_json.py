# SPDX-License-Identifier: Apache-2.0
"""Small BMv2 JSON documents, built in the tests, and short ways to run packets through them."""

import json
from typing import Any

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram

STANDARD_METADATA = [
    ["ingress_port", 9, False],
    ["egress_spec", 9, False],
    ["egress_port", 9, False],
    ["instance_type", 32, False],
    ["packet_length", 32, False],
    ["enq_timestamp", 32, False],
    ["enq_qdepth", 19, False],
    ["deq_timedelta", 32, False],
    ["deq_qdepth", 19, False],
    ["ingress_global_timestamp", 48, False],
    ["egress_global_timestamp", 48, False],
    ["mcast_grp", 16, False],
    ["egress_rid", 16, False],
    ["checksum_error", 1, False],
    ["parser_error", 32, False],
    ["priority", 3, False],
    ["_padding", 3, False],
]
ALIASES = [
    ("queueing_metadata", "enq_timestamp"),
    ("queueing_metadata", "enq_qdepth"),
    ("queueing_metadata", "deq_timedelta"),
    ("queueing_metadata", "deq_qdepth"),
    ("intrinsic_metadata", "ingress_global_timestamp"),
    ("intrinsic_metadata", "egress_global_timestamp"),
    ("intrinsic_metadata", "mcast_grp"),
    ("intrinsic_metadata", "egress_rid"),
    ("intrinsic_metadata", "priority"),
]
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort")

Json = dict[str, Any]


def const(value: int) -> Json:
    """A constant."""
    return {"type": "hexstr", "value": hex(value)}


def fld(header: str, name: str) -> Json:
    """A field reference."""
    return {"type": "field", "value": [header, name]}


def meta(name: str) -> Json:
    """A field of standard_metadata."""
    return fld("standard_metadata", name)


def arg(number: int) -> Json:
    """Runtime data of an action."""
    return {"type": "runtime_data", "value": number}


def hdr(name: str) -> Json:
    """A header reference."""
    return {"type": "header", "value": name}


def op(operator: str, left: Json | None, right: Json | None, **more: Json) -> Json:
    """An expression."""
    return {
        "type": "expression",
        "value": {"op": operator, "left": left, "right": right, **more},
    }


def call(name: str, *parameters: Json) -> Json:
    """A primitive."""
    return {"op": name, "parameters": list(parameters)}


def extract(name: str, kind: str = "regular") -> Json:
    """A parser operation."""
    return {"op": "extract", "parameters": [{"type": kind, "value": name}]}


def goto(state: str | None, value: str | None = None, mask: str | None = None) -> Json:
    """A transition."""
    kind = "default" if value is None else "hexstr"
    return {"type": kind, "value": value, "mask": mask, "next_state": state}


class Document:
    """A program with one parser, an ingress, an egress and a deparser."""

    def __init__(self) -> None:
        self.json: Json = {
            "header_types": [],
            "headers": [],
            "header_stacks": [],
            "header_union_types": [],
            "header_unions": [],
            "header_union_stacks": [],
            "field_lists": [],
            "errors": [[name, number] for number, name in enumerate(ERRORS)],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": []}],
            "parse_vsets": [],
            "deparsers": [{"name": "deparser", "id": 0, "order": []}],
            "meter_arrays": [],
            "counter_arrays": [],
            "register_arrays": [],
            "calculations": [],
            "checksums": [],
            "learn_lists": [],
            "actions": [],
            "pipelines": [self._pipeline("ingress", 0), self._pipeline("egress", 1)],
            "field_aliases": [
                [f"{prefix}.{name}", ["standard_metadata", name]] for prefix, name in ALIASES
            ],
        }
        self._add("standard_metadata", STANDARD_METADATA, metadata=True)

    @staticmethod
    def _pipeline(name: str, number: int) -> Json:
        return {
            "name": name,
            "id": number,
            "init_table": None,
            "tables": [],
            "conditionals": [],
            "action_profiles": [],
        }

    def _add(self, name: str, fields: list[Any], *, metadata: bool, **more: Any) -> None:
        kinds, headers = self.json["header_types"], self.json["headers"]
        kinds.append({"name": f"{name}_t", "id": len(kinds), "fields": fields, **more})
        headers.append(
            {
                "name": name,
                "id": len(headers),
                "header_type": f"{name}_t",
                "metadata": metadata,
            }
        )

    def header(self, name: str, *fields: tuple[str, int | str], **more: Any) -> None:
        """A packet header, in the deparser's order of definition."""
        self._add(name, [[f, bits, False] for f, bits in fields], metadata=False, **more)
        self.json["deparsers"][0]["order"].append(name)

    def metadata(self, name: str, *fields: tuple[str, int]) -> None:
        """A user metadata header."""
        self._add(name, [[f, bits, False] for f, bits in fields], metadata=True)

    def stack(self, name: str, depth: int, *fields: tuple[str, int]) -> None:
        """A header stack `name[0]` ..., in the deparser's order of definition."""
        kinds, headers = self.json["header_types"], self.json["headers"]
        kinds.append(
            {
                "name": f"{name}_t",
                "id": len(kinds),
                "fields": [[f, bits, False] for f, bits in fields],
            }
        )
        ids = []
        for index in range(depth):
            ids.append(len(headers))
            headers.append(
                {
                    "name": f"{name}[{index}]",
                    "id": len(headers),
                    "header_type": f"{name}_t",
                    "metadata": False,
                }
            )
            self.json["deparsers"][0]["order"].append(f"{name}[{index}]")
        self.json["header_stacks"].append(
            {"name": name, "id": 0, "header_type": f"{name}_t", "size": depth, "header_ids": ids}
        )

    def state(
        self, name: str, *ops: Json, key: tuple[Json, ...] = (), go: tuple[Json, ...]
    ) -> None:
        """A parser state."""
        states = self.json["parsers"][0]["parse_states"]
        states.append(
            {
                "name": name,
                "id": len(states),
                "parser_ops": list(ops),
                "transition_key": list(key),
                "transitions": list(go),
            }
        )

    def action(self, name: str, *primitives: Json, data: tuple[tuple[str, int], ...] = ()) -> int:
        """An action; returns its id."""
        number = len(self.json["actions"])
        self.json["actions"].append(
            {
                "name": name,
                "id": number,
                "runtime_data": [{"name": n, "bitwidth": bits} for n, bits in data],
                "primitives": list(primitives),
            }
        )
        return number

    def table(
        self,
        pipeline: str,
        name: str,
        actions: list[int],
        *,
        key: tuple[tuple[str, Json], ...] = (),
        kind: str = "exact",
        default: int | None = None,
        **more: Any,
    ) -> None:
        """A table behind the ones so far."""
        where = self.json["pipelines"][0 if pipeline == "ingress" else 1]
        names = [self.json["actions"][number]["name"] for number in actions]
        if where["tables"]:
            previous = where["tables"][-1]
            previous["next_tables"] = dict.fromkeys(previous["next_tables"], name)
            previous["base_default_next"] = name
        else:
            where["init_table"] = name
        table = {
            "name": name,
            "id": 100 * where["id"] + len(where["tables"]),
            "key": [
                {"match_type": match, "target": field["value"], "mask": None}
                for match, field in key
            ],
            "match_type": kind,
            "type": "simple",
            "max_size": 16,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": actions,
            "actions": names,
            "base_default_next": None,
            "next_tables": dict.fromkeys(names),
        }
        if default is not None:
            table["default_entry"] = {
                "action_id": default,
                "action_const": not key,
                "action_data": [],
                "action_entry_const": not key,
            }
        where["tables"].append({**table, **more})

    def always(self, pipeline: str, *primitives: Json) -> int:
        """Statements that run for every packet, as p4c writes them."""
        number = self.action(f"act_{len(self.json['actions'])}", *primitives)
        self.table(pipeline, f"tbl_{number}", [number], default=number)
        return number

    def program(self) -> SwitchProgram:
        """The translated program."""
        return SwitchProgram.from_json(json.dumps(self.json))

    def switch(self) -> EmbeddedSwitch:
        """A switch that runs it."""
        return EmbeddedSwitch(self.program())


def egress(switch: EmbeddedSwitch, copy: EgressCopy, **stamps: int) -> list[Any]:
    """Egress with all stamps zero but the given ones."""
    names = ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "egress_tstamp")
    return list(switch.egress(copy, **{name: stamps.get(name, 0) for name in names}))


def send(
    switch: EmbeddedSwitch, frame: bytes, port: int = 1, tstamp: int = 0
) -> list[tuple[int, bytes]]:
    """A packet through both halves; (port, frame) of all that leaves, in order."""
    sent = []
    work = list(switch.ingress(frame, port, tstamp))
    while work:
        for output in egress(switch, work.pop(0)):
            if isinstance(output, Emitted):
                sent.append((output.port, output.frame))
            else:
                work.append(output)
    return sent


def forwarding(*fields: tuple[str, int | str], **more: Any) -> Document:
    """A program with one header `h` that is parsed and sent to port 2."""
    document = Document()
    document.header("h", *fields, **more)
    document.state("start", extract("h"), go=(goto(None),))
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    return document
