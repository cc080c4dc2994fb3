# SPDX-License-Identifier: Apache-2.0
"""Every frame of a test through BMv2 as well, and both outputs compared byte for byte.

The embedded switch of the test is run once more under BMv2's conditions (empty queues), on
registers of its own; BMv2 gets the same tables over P4Runtime and the same frame. What may differ
are the named timing fields of `frame_fields`. A UDP checksum over such a field must differ exactly
by what the field differs. Copies of one frame leave BMv2 in no defined order across ports.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from finsy import pbutil
from finsy.proto import p4i

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted
from bmv2_lab.switch.p4values import decode_match
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.tables import Cell, Match
from bmv2_lab.switch.translate import SwitchProgram
from controller.pipeline import Pipeline
from tests.support.bmv2_state import (
    REPLICATION,
    Rows,
    fingerprint,
    kept_at_takeover,
    read_rows,
    updates,
)
from tests.support.bmv2_switch import Bmv2Switch
from tests.support.frame_fields import Dissection, dissect, ones_sum

POOL_SIZE = 8
"""BMv2 processes per test session: a path of as many switches keeps all its nodes loaded."""
RESIDENCE = 100
"""Stamp units that a copy stays in the embedded switch; BMv2's own are masked."""

TIME_ARGUMENTS: dict[str, dict[int, Callable[[int], int]]] = {
    "set_report_filter": {2: lambda _: 40, 3: lambda _: 44},
    "set_queue_report": {1: lambda latency: 0xFFFFFFFF if latency else 0},
}
"""Arguments in stamp units, which decide by how long things take: both switches run with others.

A filter's latency steps and intervals are longer than any test; a queue's latency threshold is 0
or never reached.
"""

Frames = list[tuple[int, bytes]]
EntryKey = tuple[str, tuple[Match, ...], int]


@dataclass(slots=True)
class Counts:
    """What a session compared."""

    packets: int = 0
    frames: int = 0
    nodes: int = 0
    undefined: int = 0
    """Packets whose way or bytes P4 leaves open; not compared."""
    fatal: int = 0
    """Packets that ended BMv2."""


@dataclass(eq=False, slots=True)
class _Twin:
    """What BMv2 was told of one embedded switch, and the registers that go with BMv2's frames."""

    info: PipelineInfo
    program: SwitchProgram
    registers: dict[str, list[int]]
    counters: dict[str, list[int]]
    entry_counters: dict[EntryKey, list[int]] = field(default_factory=dict)
    loads: int = 0
    wants_push: bool = False
    now: int = 1_000_000


@dataclass(eq=False, slots=True)
class _Slot:
    """One BMv2 process and the twin that it holds."""

    bmv2: Bmv2Switch
    twin: _Twin | None = None
    rows: Rows = field(default_factory=dict)
    marks: list[object] = field(default_factory=list)
    lent: bool = False
    used: int = 0


class Mirror:
    """Sends what embedded switches get to BMv2 too; `compare` raises AssertionError."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.counts = Counts()
        self._json = pipeline.bmv2_json.encode()
        self._p4info = pbutil.from_text(pipeline.p4info, p4i.P4Info)
        self._twins: weakref.WeakKeyDictionary[EmbeddedSwitch, _Twin] = weakref.WeakKeyDictionary()
        self._slots: list[_Slot] = []
        self._clock = 0

    def close(self) -> None:
        """End all processes."""
        for slot in self._slots:
            slot.bmv2.close()
        self._slots.clear()

    def compare(self, switch: EmbeddedSwitch, frame: bytes, port: int) -> None:
        """One frame into both switches."""
        with _timeless(switch):
            self._compare(switch, frame, port)

    def _compare(self, switch: EmbeddedSwitch, frame: bytes, port: int) -> None:
        twin = self._twin(switch)
        slot = self._slot(switch, twin)
        marks = fingerprint(switch.state)
        if marks != slot.marks:
            self._write(slot, read_rows(switch, twin.info))
            slot.marks = marks
        expected = _run(switch, twin, frame, port)
        actual = slot.bmv2.send(frame, port)
        self.counts.packets += 1
        self.counts.frames += len(actual)
        assert_same(expected, actual)

    def bmv2(self, switch: EmbeddedSwitch) -> Bmv2Switch:
        """The process that holds this switch's tables now, for frames that are not compared."""
        slot = self._slot(switch, self._twin(switch))
        slot.lent = True  # its registers are not known any more
        self._write(slot, read_rows(switch, self._twin(switch).info))
        return slot.bmv2

    def start_fresh(self, switch: EmbeddedSwitch) -> None:
        """BMv2 counts from zero for this switch, which has sent nothing yet."""
        self._twin(switch).wants_push = True

    @staticmethod
    def _write(slot: _Slot, rows: Rows) -> None:
        for batch in updates(rows, slot.rows):
            slot.bmv2.write(batch)
        slot.rows = rows

    def _twin(self, switch: EmbeddedSwitch) -> _Twin:
        twin = self._twins.get(switch)
        if twin is None or twin.program is not switch.program:
            info = PipelineInfo.build(self._p4info, switch.program)
            registers = {name: [0] * len(cells) for name, cells in switch.state.registers.items()}
            counters = {
                name: [0] * len(cells) for name, cells in switch.state.counter_packets.items()
            }
            twin = self._twins[switch] = _Twin(info, switch.program, registers, counters)
            self.counts.nodes += 1
        return twin

    def _slot(self, switch: EmbeddedSwitch, twin: _Twin) -> _Slot:
        """The process that holds a twin: its own, a new one, or the one not used for longest."""
        self._clock += 1
        slot = next((slot for slot in self._slots if slot.twin is twin), None)
        if slot is None:
            alive = set(map(id, self._twins.values()))
            free = [slot for slot in self._slots if id(slot.twin) not in alive]
            if free:
                slot = free[0]
            elif len(self._slots) < POOL_SIZE:
                slot = _Slot(Bmv2Switch())
                self._slots.append(slot)
            else:
                slot = min(self._slots, key=lambda item: item.used)
            self._load(slot, switch, twin)
        slot.used = self._clock
        return slot

    def _load(self, slot: _Slot, switch: EmbeddedSwitch, twin: _Twin) -> None:
        """Make a process another switch, with the registers that the twin has."""
        old, has_registers = slot.twin, False
        slot.twin = None
        if old is not None and not twin.wants_push and not slot.lent:
            has_registers = self._write_registers(slot, old.registers, twin.registers)
        if has_registers:
            self._write(slot, kept_at_takeover(slot.rows, read_rows(switch, twin.info)))
        else:  # a push makes all anew, but leaves the copies of clone sessions behind
            kept = {key: row for key, row in slot.rows.items() if row.kind not in REPLICATION}
            self._write(slot, kept)
            slot.bmv2.push(self._p4info, self._json)
            slot.rows, slot.lent = {}, False
            zero = {name: [0] * len(cells) for name, cells in twin.registers.items()}
            assert self._write_registers(slot, zero, twin.registers), "this BMv2 has no Thrift"
        slot.marks = []
        slot.twin = twin
        twin.loads += 1

    @staticmethod
    def _write_registers(
        slot: _Slot, present: dict[str, list[int]], wanted: dict[str, list[int]]
    ) -> bool:
        """Write the cells that differ; False where they do and this BMv2 has no Thrift."""
        differing = [
            (name, index, value)
            for name, cells in wanted.items()
            if cells != present[name]
            for index, value in enumerate(cells)
            if value != present[name][index]
        ]
        try:
            for row in differing:
                slot.bmv2.thrift.write_register(*row)
        except OSError:
            return False
        return True

    def compare_counters(self, switch: EmbeddedSwitch) -> None:
        """Packets of all counters, and packets and bytes of all entries."""
        twin = self._twins[switch]
        slot = self._slot(switch, twin)
        assert twin.wants_push, "start_fresh was not called"
        assert twin.loads == 1, "BMv2 was reset meanwhile and has lost its counts"
        for number, counter in twin.info.counters.items():
            name = counter.preamble.name
            counted = slot.bmv2.read_counter(number)
            ours = twin.counters[name]
            differ = {
                index: (ours[index], counted.get(index, 0))
                for index in range(len(ours))
                if ours[index] != counted.get(index, 0)
            }
            assert not differ, f"{name}: embedded and BMv2 counted by index {differ}"
        for table in twin.info.tables.values():
            if not table.direct_counter:
                continue
            entries = {
                (tuple(match.value for match in key[1]), key[2]): tuple(counts)
                for key, counts in twin.entry_counters.items()
                if key[0] == table.name
            }
            theirs = {
                (
                    tuple(match.value for match in decode_match(table, list(entry.match))),
                    entry.priority,
                ): (
                    entry.counter_data.packet_count,
                    entry.counter_data.byte_count,
                )
                for entry in slot.bmv2.read_entries(table.number)
            }
            for key, counts in theirs.items():
                assert entries.get(key, (0, 0)) == counts, f"{table.name}: counters of {key}"


@contextmanager
def _timeless(switch: EmbeddedSwitch) -> Iterator[None]:
    """Other arguments for actions that decide by time, for a while."""
    numbers = {
        number: TIME_ARGUMENTS[name.rsplit(".", 1)[-1]]
        for number, name in (
            (number, str(item["name"])) for number, item in switch.program.actions.items()
        )
        if name.rsplit(".", 1)[-1] in TIME_ARGUMENTS
    }
    tables = switch.state.tables.values()
    cells = [entry.cell for table in tables for entry in table.entries.values()]
    cells += [table.default for table in tables]
    changed = [(cell, cell[:]) for cell in cells if cell[1] in numbers]
    for cell, _ in changed:
        for place, change in numbers[cell[1]].items():
            cell[5 + place] = change(cell[5 + place])
    try:
        yield
    finally:
        for cell, own in changed:
            cell[5:] = own[5:]


def _cells(switch: EmbeddedSwitch) -> dict[EntryKey, Cell]:
    """Where each entry counts."""
    return {
        (name, *key): entry.cell
        for name, table in switch.state.tables.items()
        for key, entry in table.entries.items()
    }


def _run(switch: EmbeddedSwitch, twin: _Twin, frame: bytes, port: int) -> Frames:
    """What the embedded switch sends, without a trace in its own counters and registers."""
    state = switch.state
    cells = _cells(switch)
    defaults = [table.default for table in state.tables.values()]
    own_entries = {key: cell[3:5] for key, cell in cells.items()}
    own_defaults = [cell[3:5] for cell in defaults]
    own_bytes = [array[:] for array in state.counter_bytes.values()]
    lent = [(state.registers, twin.registers), (state.counter_packets, twin.counters)]
    for key, cell in cells.items():
        cell[3:5] = twin.entry_counters.get(key, [0, 0])
    for arrays, values in lent:
        _swap(arrays, values)
    twin.now += 10_000
    try:
        return run_frame(switch, frame, port, twin.now)
    finally:
        for arrays, values in lent:
            _swap(arrays, values)
        for key, cell in cells.items():
            twin.entry_counters[key] = cell[3:5]
            cell[3:5] = own_entries[key]
        for cell, counts in zip(defaults, own_defaults, strict=True):
            cell[3:5] = counts
        for array, saved in zip(state.counter_bytes.values(), own_bytes, strict=True):
            array[:] = saved


def _swap(arrays: dict[str, list[int]], values: dict[str, list[int]]) -> None:
    """Exchange contents; the arrays themselves are known to the running program."""
    for name, array in arrays.items():
        array[:], values[name] = values[name], array[:]


def run_frame(switch: EmbeddedSwitch, frame: bytes, port: int, ingress_tstamp: int) -> Frames:
    """What an embedded switch with empty queues sends because of one frame."""
    waiting: list[EgressCopy] = list(switch.ingress(frame, port, ingress_tstamp))
    sent: Frames = []
    while waiting:
        for output in switch.egress(
            waiting.pop(0),
            enq_timestamp=ingress_tstamp + RESIDENCE // 2,
            enq_qdepth=0,
            deq_timedelta=RESIDENCE // 2,
            deq_qdepth=0,
            egress_tstamp=ingress_tstamp + RESIDENCE,
        ):
            if isinstance(output, Emitted):
                sent.append((output.port, output.frame))
            else:
                waiting.append(output)
    return sent


# Comparison


@dataclass(slots=True)
class _Seen:
    """One frame that left, with what time decides taken out."""

    port: int
    cut: Dissection
    rest: bytes

    @classmethod
    def of(cls, port: int, frame: bytes) -> "_Seen":
        cut = dissect(frame, port)
        numbers = [cut.sequence] if cut.sequence is not None else []
        return cls(port, cut, cut.without([*cut.timing, *numbers]))

    def sequence(self) -> bytes:
        place = self.cut.sequence
        return b"" if place is None else self.cut.frame[place.start : place.end]


def _sorted(frames: Frames) -> list[_Seen]:
    seen = [_Seen.of(port, frame) for port, frame in frames]
    return sorted(seen, key=lambda item: (item.port, item.rest, item.sequence()))


def assert_same(expected: Frames, actual: Frames) -> None:
    """Both switches sent the same; otherwise names the first field that differs."""
    ours, theirs = _sorted(expected), _sorted(actual)
    ports = [item.port for item in ours], [item.port for item in theirs]
    assert ports[0] == ports[1], (
        f"sent on ports {ports[0]} by the embedded switch, {ports[1]} by BMv2\n"
        + _dump(ours, theirs)
    )
    for our, their in zip(ours, theirs, strict=True):
        _assert_same_frame(our, their)
    numbers = [sorted(item.sequence() for item in items) for items in (ours, theirs)]
    assert numbers[0] == numbers[1], "report.sequence_number differs\n" + _dump(ours, theirs)


def _assert_same_frame(our: _Seen, their: _Seen) -> None:
    names = [field.name for field in our.cut.timing]
    if our.rest != their.rest or names != [field.name for field in their.cut.timing]:
        length = min(len(our.rest), len(their.rest))
        differ = [i for i in range(length) if our.rest[i] != their.rest[i]] or [length]
        fields = dict.fromkeys(our.cut.name_at(position) for position in differ)
        raise AssertionError(
            f"port {our.port}: {', '.join(fields)} differ from BMv2\n" + _dump([our], [their])
        )
    for segment in our.cut.segments:
        sums = [ones_sum(item.cut.frame[segment.start : segment.end]) for item in (our, their)]
        assert sums[0] == sums[1], f"port {our.port}: {segment.name} does not fit its fields\n" + (
            _dump([our], [their])
        )


def _dump(ours: list[_Seen], theirs: list[_Seen]) -> str:
    lines = []
    for name, items in (("embedded", ours), ("BMv2", theirs)):
        lines += [f"{name:>8} port {item.port}: {item.cut.frame.hex()}" for item in items]
    return "\n".join(lines)
