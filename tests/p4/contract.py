# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime contract as text: one line per object, from the committed p4info.

`python -m tests.p4.contract` (from the repository's root) rewrites the golden file after an
intended change; ids are a register of their own, to which a line is added by hand.
"""

from pathlib import Path

from finsy.proto import p4i
from google.protobuf import text_format

from controller.pipeline import load_pipeline

GOLDEN = Path(__file__).parents[1] / "golden" / "p4runtime_contract.txt"
KINDS = ("tables", "actions", "action_profiles", "counters", "direct_counters", "registers")


def load_p4info() -> p4i.P4Info:
    """The committed p4info, parsed."""
    return text_format.Parse(load_pipeline().p4info, p4i.P4Info())


def object_ids(info: p4i.P4Info) -> dict[str, dict[str, str]]:
    """Kind -> id in hex -> alias; without the compiler's own NoAction."""
    return {
        kind: {
            f"0x{item.preamble.id:08X}": item.preamble.alias
            for item in getattr(info, kind)
            if item.preamble.alias != "NoAction"
        }
        for kind in KINDS
    }


def describe(info: p4i.P4Info) -> str:
    """Every table with its keys, size and actions, every action with its parameters, and so on."""
    actions = {item.preamble.id: item.preamble.alias for item in info.actions}
    lines = []
    for table in info.tables:
        lines.append(f"table 0x{table.preamble.id:08X} {table.preamble.alias} size {table.size}")
        for key in table.match_fields:
            kind = p4i.MatchField.MatchType.Name(key.match_type).lower()
            lines.append(f"  key {key.id} {key.name} {key.bitwidth} {kind}")
        for ref in table.action_refs:
            scope = " default only" if ref.scope == p4i.ActionRef.DEFAULT_ONLY else ""
            lines.append(f"  action {actions[ref.id]}{scope}")
        if table.implementation_id:
            lines.append(f"  implementation 0x{table.implementation_id:08X}")
        lines += [f"  direct 0x{number:08X}" for number in table.direct_resource_ids]
    for action in info.actions:
        lines.append(f"action 0x{action.preamble.id:08X} {action.preamble.alias}")
        lines += [f"  param {p.id} {p.name} {p.bitwidth}" for p in action.params]
    for profile in info.action_profiles:
        selector = " selector" if profile.with_selector else ""
        sizes = f"size {profile.size} group {profile.max_group_size}"
        lines.append(
            f"profile 0x{profile.preamble.id:08X} {profile.preamble.alias}{selector} {sizes}"
        )
    for counter in info.counters:
        preamble = counter.preamble
        lines.append(f"counter 0x{preamble.id:08X} {preamble.alias} size {counter.size}")
    for direct in info.direct_counters:
        lines.append(f"direct counter 0x{direct.preamble.id:08X} {direct.preamble.alias}")
    for packet in info.controller_packet_metadata:
        lines.append(f"controller header {packet.preamble.name}")
        lines += [f"  field {m.id} {m.name} {m.bitwidth}" for m in packet.metadata]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(describe(load_p4info()), encoding="utf-8")
