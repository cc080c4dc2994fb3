# SPDX-License-Identifier: Apache-2.0
"""Switch tests in STF, the format that P4's open compiler uses for its v1model samples.

    packet 0 00112233          a packet in hex arrives on port 0
    expect 1 0011**33 $        one leaves port 1; `*` is any digit, `$` forbids more bytes
    add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= $HANDLE]
    setdefault TABLE ACTION(NAME:VALUE, ...)
    mirroring_add, mirroring_add_mc, mirroring_delete, mc_mgrp_create, mc_node_create,
    mc_node_associate, counter_write, check_counter, register_write, register_reset,
    meter_set_rates, meter_array_set_rates as in BMv2's command line; reads are ignored

The outcome is that of the compiler's own runner: packets of each port in order, none missing and
none too many.
"""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from bmv2_lab.switch.errors import AssertionFailed, ProgramError, StateError
from bmv2_lab.switch.meters import Bucket
from bmv2_lab.switch.packets import EgressCopy, Emitted
from bmv2_lab.switch.state import CloneSession, lpm_match
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.tables import (
    BYTES,
    PACKETS,
    Entry,
    KeyField,
    Match,
    MatchKind,
    TableSpec,
)
from bmv2_lab.switch.translate import SwitchProgram

IGNORED = {
    "wait",
    "no_packet",
    "register_read",
    "counter_read",
    "mirroring_get",
    "meter_get_rates",
    "remove",
}
# A packet that loops through the switch more often than this is a fault of the program.
PASS_LIMIT = 10_000
STF_PRIORITY_TOP = 10_000


class StfError(Exception):
    """A line that cannot be understood; names line number and reason."""


@dataclass(slots=True)
class StfResult:
    """Outcome of a test; `difference` is empty if it passed."""

    difference: str
    packets_in: int = 0
    packets_out: int = 0

    @property
    def passed(self) -> bool:
        return not self.difference


@dataclass(slots=True)
class _Run:
    switch: EmbeddedSwitch
    now: int = 0
    sent: dict[int, list[bytes]] = field(default_factory=dict)
    expected: dict[int, list[str]] = field(default_factory=dict)
    expected_any: set[int] = field(default_factory=set)
    nodes: list[list[tuple[int, int]]] = field(default_factory=list)
    handles: dict[str, Entry] = field(default_factory=dict)
    packets_in: int = 0


def run_stf(program: SwitchProgram, text: str) -> StfResult:
    """Run a test; StfError for a line that is not STF."""
    run = _Run(EmbeddedSwitch(program))
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        try:
            difference = _command(run, word, rest.strip())
        except (StateError, AssertionFailed) as error:
            difference = f"{error}"
        except (ValueError, IndexError, KeyError) as error:
            raise StfError(f"line {number}: {line}: {error!r}") from error
        if difference:
            return StfResult(f"line {number}: {difference}", run.packets_in)
    difference = _compare(run)
    count = sum(len(frames) for frames in run.sent.values())
    return StfResult(difference, run.packets_in, count)


def run_stf_text(json_text: str, stf_text: str) -> StfResult:
    """Translate and run; a program that cannot be translated is a difference."""
    try:
        program = SwitchProgram.from_json(json_text)
    except ProgramError as error:
        return StfResult(f"program: {error}")
    return run_stf(program, stf_text)


def _command(run: _Run, word: str, rest: str) -> str:
    """Run one line; returns a difference or an empty string."""
    arguments = rest.split()
    state = run.switch.state
    match word:
        case "packet":
            port, _, data = rest.partition(" ")
            _packet(run, int(port), bytes.fromhex("".join(data.split())))
        case "expect":
            port, _, data = rest.partition(" ")
            pattern = "".join(data.split()).lower()
            if pattern:
                run.expected.setdefault(int(port), []).append(pattern)
            else:
                run.expected_any.add(int(port))
        case "add":
            _add(run, rest)
        case "setdefault":
            table, _, call = rest.partition(" ")
            spec = _table(run, table)
            action, values = _call(call)
            number = _action(spec, action)
            run.switch.state.tables[spec.name].set_default(
                state.cell(number, _arguments(run, number, values), hit=False)
            )
        case "mirroring_add":
            number = int(arguments[0])
            replicas = ((int(arguments[1]), 0),)
            state.clone_sessions[number] = CloneSession(session_id=number, replicas=replicas)
        case "mirroring_add_mc":
            number = int(arguments[0])
            members = state.multicast_groups.get(int(arguments[1]), ())
            state.clone_sessions[number] = CloneSession(session_id=number, replicas=members)
        case "mirroring_delete":
            state.clone_sessions.pop(int(arguments[0]), None)
        case "mc_mgrp_create":
            state.multicast_groups[int(arguments[0])] = ()
        case "mc_node_create":
            instance = int(arguments[0])
            run.nodes.append([(int(port), instance) for port in arguments[1:]])
        case "mc_node_associate":
            group, node = int(arguments[0]), run.nodes[int(arguments[1])]
            # BMv2 puts a node in front of the list and replicates from there.
            state.multicast_groups[group] = (*node, *state.multicast_groups[group])
        case "check_counter":
            return _check_counter(run, rest)
        case "counter_write":
            name = _resolve(state.counter_packets, arguments[0])
            state.counter_packets[name][int(arguments[1])] = int(arguments[2])
            state.counter_bytes[name][int(arguments[1])] = int(arguments[3])
        case "register_write":
            array = state.registers[_resolve(state.registers, arguments[0])]
            array[int(arguments[1])] = int(arguments[2])
        case "register_reset":
            array = state.registers[_resolve(state.registers, arguments[0])]
            array[:] = [0] * len(array)
        case "meter_set_rates":
            name = _resolve(state.meters, arguments[0])
            state.meters[name].buckets[int(arguments[1])] = _bucket(arguments[2:])
        case "meter_array_set_rates":
            name = _resolve(state.meters, arguments[0])
            sizes = {
                str(item["name"]): int(item["size"])
                for item in run.switch.program.document["meter_arrays"]
            }
            for index in range(sizes[name]):
                state.meters[name].buckets[index] = _bucket(arguments[1:])
        case _ if word not in IGNORED:
            raise ValueError(f"unknown command {word}")
    return ""


def _bucket(rates: list[str]) -> Bucket:
    """Two `RATE:BURST` words, rates in units per microsecond as BMv2 takes them."""
    (committed, committed_burst), (peak, peak_burst) = (word.split(":") for word in rates[:2])
    return Bucket(
        committed_rate=round(float(committed) * 1e6),
        committed_burst=int(committed_burst),
        peak_rate=round(float(peak) * 1e6),
        peak_burst=int(peak_burst),
    )


def _resolve(known: Iterable[str], name: str) -> str:
    """The full name of an array that a test names in full or by its last part."""
    names = list(known)
    if name in names:
        return name
    found = [full for full in names if full.endswith(f".{name}")]
    if len(found) != 1:
        raise ValueError(f"unknown array {name}")
    return found[0]


# Packets


def _packet(run: _Run, port: int, frame: bytes) -> None:
    if not frame:  # no device delivers a frame without bytes
        return
    run.now += 1000
    run.packets_in += 1
    waiting: deque[EgressCopy] = deque(run.switch.ingress(frame, port, run.now))
    passes = 0
    while waiting:
        passes += 1
        if passes > PASS_LIMIT:
            raise ValueError("the packet does not leave the switch")
        run.now += 1
        for output in run.switch.egress(
            waiting.popleft(),
            enq_timestamp=run.now - 1,
            enq_qdepth=0,
            deq_timedelta=1,
            deq_qdepth=0,
            egress_tstamp=run.now,
        ):
            if isinstance(output, Emitted):
                run.sent.setdefault(output.port, []).append(output.frame)
            else:
                waiting.append(output)


def _compare(run: _Run) -> str:
    """The first difference between sent and expected packets."""
    for port in sorted(run.sent.keys() | run.expected.keys()):
        if port in run.expected_any:
            continue
        frames, patterns = run.sent.get(port, []), run.expected.get(port, [])
        if len(frames) != len(patterns):
            sent = ", ".join(frame.hex() for frame in frames[:4])
            return f"port {port}: expected {len(patterns)} packets, got {len(frames)} [{sent}]"
        for number, (frame, pattern) in enumerate(zip(frames, patterns, strict=True)):
            difference = _packet_difference(frame.hex(), pattern)
            if difference:
                return f"port {port}, packet {number}: {difference}"
    return ""


def _packet_difference(got: str, pattern: str) -> str:
    exact = pattern.endswith("$")
    pattern = pattern.rstrip("$")
    if len(got) < len(pattern):
        return f"too short: expected {pattern}, got {got}"
    for position, digit in enumerate(pattern):
        if digit not in ("*", got[position]):
            return f"digit {position} differs: expected {pattern}, got {got}"
    if exact and len(got) > len(pattern):
        return f"too long: expected {pattern}, got {got}"
    return ""


def _check_counter(run: _Run, rest: str) -> str:
    """`NAME(INDEX or $HANDLE) [[packets|bytes] == VALUE]`; a handle names a table entry."""
    found = re.fullmatch(
        r"([\w.]+)\s*\(?(\d*|\$\w+)\)?\s*(?:(packets|bytes)?\s*==?\s*(\d+))?", rest
    )
    if found is None:
        raise ValueError("cannot read check_counter")
    name, index, unit, wanted = found[1], found[2], found[3], found[4]
    state = run.switch.state
    if index.startswith("$"):
        value = run.handles[index].cell[BYTES if unit == "bytes" else PACKETS]
    else:
        name = _resolve(state.counter_packets, name)
        values = state.counter_bytes if unit == "bytes" else state.counter_packets
        value = values[name][int(index or 0)]
    if wanted is None or value == int(wanted):
        return ""
    return f"counter {name} is {value}, not {wanted}"


# Table entries


def _table(run: _Run, name: str) -> TableSpec:
    known = run.switch.program.tables
    if name in known:
        return known[name]
    found = [full for full in known if full.endswith(f".{name}")]
    if len(found) != 1:
        raise ValueError(f"unknown table {name}")
    return known[found[0]]


def _action(spec: TableSpec, name: str) -> int:
    for full, number in zip(spec.action_names, spec.action_ids, strict=True):
        if full == name or full.endswith(f".{name}"):
            return number
    raise ValueError(f"{spec.name} has no action {name}")


def _call(text: str) -> tuple[str, dict[str, str]]:
    name, _, rest = text.strip().partition("(")
    values = {}
    for word in rest.rstrip().rstrip(")").split(","):
        if word.strip():
            key, _, value = word.partition(":")
            values[key.strip()] = value.strip()
    return name.strip(), values


def _arguments(run: _Run, action_id: int, values: dict[str, str]) -> list[int]:
    parameters = run.switch.program.actions[action_id]["runtime_data"]
    return [
        int(values[str(item["name"])], 0) & (1 << int(item["bitwidth"])) - 1 for item in parameters
    ]


def _add(run: _Run, rest: str) -> None:
    name, _, rest = rest.partition(" ")
    spec = _table(run, name)
    found = re.match(r"\s*(\d+)\s+(?=\S)", rest)
    priority = 0
    if found is not None and ":" not in found[0]:
        priority = int(found[1])
        rest = rest[found.end() :]
    rest, _, handle = (part.strip() for part in rest.partition("="))
    keys, call = _split_call(rest)
    action, values = _call(call)
    number = _action(spec, action)
    texts = dict(word.partition(":")[::2] for word in keys.split())
    used: dict[str, str] = {}
    for key, value in texts.items():
        used[_key_name(spec, key)] = value
    match = tuple(_match(part, used.get(part.name)) for part in spec.key)
    ranked = spec.kind in (MatchKind.TERNARY, MatchKind.RANGE)
    entry = run.switch.state.add_entry(
        spec.name,
        match,
        spec.action_names[spec.action_ids.index(number)],
        tuple(_arguments(run, number, values)),
        priority=STF_PRIORITY_TOP + priority if ranked else 0,
    )
    if handle:
        run.handles["$" + handle.removeprefix("$")] = entry


def _split_call(text: str) -> tuple[str, str]:
    """Keys and `ACTION(...)`."""
    opening = text.find("(")
    if opening < 0:
        keys, _, call = text.rpartition(" ")
        return keys, call
    start = text.rfind(" ", 0, opening) + 1
    return text[:start], text[start:]


def _key_name(spec: TableSpec, key: str) -> str:
    """The key field that a test means: `$0` stands for `[0]`, a suffix is enough."""
    key = re.sub(r"\$(\d+)", r"[\1]", key)
    names = [part.name for part in spec.key]
    for wanted in (key, f"{key}$", f"{key}.$valid$", key.removesuffix("valid") + "$valid$"):
        if wanted in names:
            return wanted
    found = [n for n in names if n.endswith((f".{key}", f".{key}$"))]
    if key == "valid":
        found += [n for n in names if n.endswith("$valid$")]
    if not found:
        raise ValueError(f"{spec.name} has no key {key}")
    return found[-1]


def _match(part: KeyField, text: str | None) -> Match:
    whole = (1 << part.bits) - 1
    if text is None:
        return Match(0, high=whole) if part.kind is MatchKind.RANGE else Match(0)
    match part.kind:
        case MatchKind.EXACT | MatchKind.VALID:
            return Match(int(text, 0))
        case MatchKind.RANGE:
            low, _, high = text.partition("->")
            if not high:
                low, _, high = text.partition("..")
            return Match(int(low, 0), high=int(high or low, 0))
        case MatchKind.LPM:
            value, _, length = text.partition("/")
            if not length:
                digits = len(value) - 2 - value.count("*")
                bits = digits * {"x": 4, "b": 1, "o": 3}.get(value[1:2], 4)
                return lpm_match(int(value.replace("*", "0"), 0), bits, part.bits)
            return lpm_match(int(value, 0), int(length), part.bits)
        case MatchKind.TERNARY:
            value, _, mask = text.partition("&&&")
            if mask:
                return Match(int(value, 0) & int(mask, 0), int(mask, 0))
            if "*" in value:
                width = {"x": 4, "b": 1, "o": 3}[value[1]]
                number = 0
                for digit in value[2:]:
                    number = number << width | (0 if digit == "*" else (1 << width) - 1)
                return Match(int(value.replace("*", "0"), 0) & number, number)
            return Match(int(value, 0), whole)
