# SPDX-License-Identifier: Apache-2.0
"""Commands of a switch test that set up the switch, as in BMv2's command line."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bmv2_lab.switch.packets import Emitted
from bmv2_lab.switch.state import CloneSession, SwitchState
from bmv2_lab.switch.stf_text import (
    StfSyntaxError,
    action_call,
    buckets,
    key_name,
    match,
    number,
    split_call,
    words,
)
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.tables import BYTES, PACKETS, Entry, MatchKind, TableSpec

STF_PRIORITY_TOP = 10_000


@dataclass(slots=True)
class StfRun:
    """One test while it runs."""

    switch: EmbeddedSwitch
    now: int = 0
    sent: list[Emitted] = field(default_factory=list)
    expected: dict[int, list[str]] = field(default_factory=dict)
    expected_any: set[int] = field(default_factory=set)
    nodes: list[list[tuple[int, int]]] = field(default_factory=list)
    handles: dict[str, Entry] = field(default_factory=dict)
    packets_in: int = 0

    @property
    def state(self) -> SwitchState:
        return self.switch.state


def resolve(known: Iterable[str], name: str, what: str) -> str:
    """The full name of an object that a test names in full or by its last part."""
    names = list(known)
    if name in names:
        return name
    found = [full for full in names if full.endswith(f".{name}")]
    if len(found) != 1:
        raise StfSyntaxError(f"{'several' if found else 'no'} {what} called {name!r}")
    return found[0]


# Tables


def _table(run: StfRun, name: str) -> TableSpec:
    tables = run.switch.program.tables
    return tables[resolve(tables, name, "table")]


def _action(spec: TableSpec, name: str) -> int:
    for full, action_id in zip(spec.action_names, spec.action_ids, strict=True):
        if full == name or full.endswith(f".{name}"):
            return action_id
    raise StfSyntaxError(f"table {spec.name} has no action {name!r}")


def _arguments(run: StfRun, action_id: int, values: dict[str, str]) -> list[int]:
    action = run.switch.program.actions[action_id]
    found = []
    for parameter in action["runtime_data"]:
        name = str(parameter["name"])
        if name not in values:
            raise StfSyntaxError(f"action {action['name']} needs {name!r}")
        found.append(number(values[name], f"argument {name}") & (1 << parameter["bitwidth"]) - 1)
    return found


def add(run: StfRun, text: str) -> None:
    """add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= $HANDLE]"""
    name, _, rest = text.partition(" ")
    spec = _table(run, name)
    found = re.match(r"\s*(\d+)\s+(?=\S)", rest)
    priority = 0
    if found is not None:
        priority = int(found[1])
        rest = rest[found.end() :]
    rest, _, handle = (part.strip() for part in rest.partition("="))
    keys, call = split_call(rest)
    action, values = action_call(call)
    action_id = _action(spec, action)
    texts = {}
    for word in keys.split():
        key, _, value = word.partition(":")
        texts[key_name(spec, key)] = value
    ranked = spec.kind in (MatchKind.TERNARY, MatchKind.RANGE)
    entry = run.state.add_entry(
        spec.name,
        tuple(match(part, texts.get(part.name)) for part in spec.key),
        spec.action_names[spec.action_ids.index(action_id)],
        tuple(_arguments(run, action_id, values)),
        priority=STF_PRIORITY_TOP + priority if ranked else 0,
    )
    if handle:
        run.handles["$" + handle.removeprefix("$")] = entry


def set_default(run: StfRun, text: str) -> None:
    """setdefault TABLE ACTION(NAME:VALUE, ...)"""
    name, _, call = text.partition(" ")
    spec = _table(run, name)
    action, values = action_call(call)
    action_id = _action(spec, action)
    cell = run.state.cell(action_id, _arguments(run, action_id, values), hit=False)
    run.state.tables[spec.name].set_default(cell)


def check_counter(run: StfRun, text: str) -> str:
    """check_counter NAME(INDEX or $HANDLE) [[packets|bytes] == VALUE]; the difference if any."""
    found = re.fullmatch(
        r"([\w.]+)\s*\(?(\d*|\$\w+)\)?\s*(?:(packets|bytes)?\s*==?\s*(\d+))?", text
    )
    if found is None:
        raise StfSyntaxError("usage: check_counter NAME(INDEX or $HANDLE) [packets|bytes] == N")
    name, index, unit, wanted = found[1], found[2], found[3], found[4]
    if index.startswith("$"):
        if index not in run.handles:
            raise StfSyntaxError(f"no entry has the handle {index}")
        value = run.handles[index].cell[BYTES if unit == "bytes" else PACKETS]
    else:
        arrays = run.state.counter_bytes if unit == "bytes" else run.state.counter_packets
        name = resolve(arrays, name, "counter")
        value = arrays[name][_index(arrays[name], index or "0")]
    if wanted is None or value == int(wanted):
        return ""
    return f"counter {name} is {value}, not {wanted}"


# Arrays, clones, multicast


def _index(array: list[int], text: str) -> int:
    index = number(text, "index")
    if not 0 <= index < len(array):
        raise StfSyntaxError(f"index {index} is outside of 0 to {len(array) - 1}")
    return index


def _counter_write(run: StfRun, text: str) -> None:
    name, index, packets, octets = words(text, 4, "counter_write NAME INDEX PACKETS BYTES")[:4]
    name = resolve(run.state.counter_packets, name, "counter")
    place = _index(run.state.counter_packets[name], index)
    run.state.counter_packets[name][place] = number(packets, "packets")
    run.state.counter_bytes[name][place] = number(octets, "bytes")


def _register_write(run: StfRun, text: str) -> None:
    name, index, value = words(text, 3, "register_write NAME INDEX VALUE")[:3]
    array = run.state.registers[resolve(run.state.registers, name, "register")]
    array[_index(array, index)] = number(value, "value")


def _register_reset(run: StfRun, text: str) -> None:
    (name,) = words(text, 1, "register_reset NAME")[:1]
    array = run.state.registers[resolve(run.state.registers, name, "register")]
    array[:] = [0] * len(array)


def _meter_set_rates(run: StfRun, text: str) -> None:
    name, index, *rates = words(text, 4, "meter_set_rates NAME INDEX RATE:BURST RATE:BURST")
    name = resolve(run.state.meters, name, "meter")
    run.state.meters[name].buckets[number(index, "index")] = buckets(rates)


def _meter_array_set_rates(run: StfRun, text: str) -> None:
    name, *rates = words(text, 3, "meter_array_set_rates NAME RATE:BURST RATE:BURST")
    name = resolve(run.state.meters, name, "meter")
    arrays = run.switch.program.document["meter_arrays"]
    size = next(int(item["size"]) for item in arrays if item["name"] == name)
    for index in range(size):
        run.state.meters[name].buckets[index] = buckets(rates)


def _mirroring_add(run: StfRun, text: str) -> None:
    session, port = words(text, 2, "mirroring_add SESSION PORT")[:2]
    session_id = number(session, "session")
    replicas = ((number(port, "port"), 0),)
    run.state.clone_sessions[session_id] = CloneSession(session_id=session_id, replicas=replicas)


def _mirroring_add_mc(run: StfRun, text: str) -> None:
    session, group = words(text, 2, "mirroring_add_mc SESSION GROUP")[:2]
    session_id = number(session, "session")
    replicas = run.state.multicast_groups.get(number(group, "group"), ())
    run.state.clone_sessions[session_id] = CloneSession(session_id=session_id, replicas=replicas)


def _mirroring_delete(run: StfRun, text: str) -> None:
    (session,) = words(text, 1, "mirroring_delete SESSION")[:1]
    run.state.clone_sessions.pop(number(session, "session"), None)


def _mc_mgrp_create(run: StfRun, text: str) -> None:
    (group,) = words(text, 1, "mc_mgrp_create GROUP")[:1]
    run.state.multicast_groups[number(group, "group")] = ()


def _mc_node_create(run: StfRun, text: str) -> None:
    instance, *ports = words(text, 1, "mc_node_create INSTANCE PORT ...")
    rid = number(instance, "instance")
    run.nodes.append([(number(port, "port"), rid) for port in ports if port != "|"])


def _mc_node_associate(run: StfRun, text: str) -> None:
    first, second = words(text, 2, "mc_node_associate GROUP NODE")[:2]
    group, node = number(first, "group"), number(second, "node")
    if group not in run.state.multicast_groups or not 0 <= node < len(run.nodes):
        raise StfSyntaxError(f"no group {group} or no node {node}")
    # BMv2 puts a node in front of the list and replicates from there.
    old = run.state.multicast_groups[group]
    run.state.multicast_groups[group] = (*run.nodes[node], *old)


def _crc_parameters(run: StfRun, text: str) -> None:
    usage = "NAME POLYNOMIAL INITIAL FINAL_XOR REFLECT_DATA REFLECT_REMAINDER"
    name, *rest = words(text, 6, usage)
    names = run.switch.program.hash_names
    if name not in names:
        raise StfSyntaxError(f"no calculation called {name!r}")
    values = [number(word, "parameter") for word in rest[:3]]
    flags = [word.lower() in ("1", "true", "yes") for word in rest[3:5]]
    run.switch.set_crc(
        name,
        polynomial=values[0],
        initial=values[1],
        final_xor=values[2],
        reflected=flags[0],
        reflected_output=flags[1],
    )


COMMANDS: dict[str, Callable[[StfRun, str], None]] = {
    "add": add,
    "setdefault": set_default,
    "counter_write": _counter_write,
    "register_write": _register_write,
    "register_reset": _register_reset,
    "meter_set_rates": _meter_set_rates,
    "meter_array_set_rates": _meter_array_set_rates,
    "mirroring_add": _mirroring_add,
    "mirroring_add_mc": _mirroring_add_mc,
    "mirroring_delete": _mirroring_delete,
    "mc_mgrp_create": _mc_mgrp_create,
    "mc_node_create": _mc_node_create,
    "mc_node_associate": _mc_node_associate,
    "set_crc8_parameters": _crc_parameters,
    "set_crc16_parameters": _crc_parameters,
    "set_crc32_parameters": _crc_parameters,
    "set_crc64_parameters": _crc_parameters,
}
"""Commands by their first word."""
