# SPDX-License-Identifier: Apache-2.0
"""What the Tofino compiler writes: checked, and brought into the form of the contract."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from finsy.proto import p4i
from google.protobuf import text_format

from controller.pipeline_manifest import PipelineError, read_text

# What only this program has; the ids of everything else are those of the v1model program.
OWN_IDS: Final[Mapping[str, int]] = MappingProxyType({"probe_sequence": 0x16000008})


def with_contract_ids(p4info: str, contract: str) -> str:
    """A p4info with the ids that `contract` gives to counters, registers and the selector.

    Tofino's compiler ignores @id for them and numbers them by a hash of their names. bfrt.json
    keeps those numbers: a P4Runtime server maps these objects by name.
    """
    theirs = {**_extern_ids(contract), **OWN_IDS}
    renumbered = {}
    for alias, number in _extern_ids(p4info).items():
        if alias not in theirs:
            raise PipelineError(f"the compiler's p4info has {alias}, for which there is no id")
        renumbered[str(number)] = str(theirs[alias])
    return re.sub(r"\b\d{8,}\b", lambda found: renumbered.get(found[0], found[0]), p4info)


def _extern_ids(p4info: str) -> dict[str, int]:
    try:
        info = text_format.Parse(p4info, p4i.P4Info())
    except text_format.ParseError as error:
        raise PipelineError(f"the compiler's p4info cannot be read: {error}") from error
    groups = (info.counters, info.direct_counters, info.registers, info.action_profiles)
    return {item.preamble.alias: item.preamble.id for group in groups for item in group}


# Headers that are in one packet although no path of a parser reads both: what a report consists of,
# and what crosses from ingress to egress with every packet.
_OF_A_REPORT: Final = re.compile(r"hdr\.(recirculated|ethernet|ipv4|udp|report_\w+|hop_\w+)\.")
_IN_A_REPORT: Final = re.compile(r"hdr\.(inner_\w+|ptp_start|ptp_correction)\.")
_OF_EVERY_PACKET: Final = re.compile(r"hdr\.bridged\.")


def shared_containers(assembly: str) -> list[str]:
    """Fields that the compiler put into one container although one packet has both, a line each.

    It takes headers for exclusive when no path of a parser reads both, even if the pipeline fills
    one of them in: such fields need @pa_no_overlay in the program.
    """
    found = set()
    for name, others in re.findall(
        r"name : ([\w.$-]+), .*mutually_exclusive_with: \[ (.+?) \]", assembly
    ):
        for other in others.split(", "):
            pair = (name, other)
            reports = [bool(_OF_A_REPORT.match(field)) for field in pair]
            in_a_report = all(reports) or (any(reports) and any(map(_IN_A_REPORT.match, pair)))
            if in_a_report or any(map(_OF_EVERY_PACKET.match, pair)):
                found.add(" and ".join(sorted(pair)) + " share a container")
    return sorted(found)


def without_times(path: Path) -> dict[str, object]:
    """A JSON file of the compiler without the times of its making, which nothing reads."""
    try:
        raw = json.loads(read_text(path))
    except ValueError as error:
        raise PipelineError(f"the compiler's {path.name} is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise PipelineError(f"the compiler's {path.name} is not a JSON object")
    return {key: value for key, value in raw.items() if key not in ("build_date", "run_id")}
