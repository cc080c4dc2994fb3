# SPDX-License-Identifier: Apache-2.0
"""Updates of counters, meters and parser value sets."""

from finsy.proto import p4i, p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.bytestrings import decode_value
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import Bucket
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4values import find_cell
from bmv2_lab.switch.pipeline_info import TableInfo, lookup
from bmv2_lab.switch.tables import BYTES, PACKETS, Cell

BURST_MAX = (1 << 32) - 1  # of BMv2's server


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


class ArrayWriter:
    """Applies updates; an update that raises StateError changes nothing."""

    def __init__(self, target: Target) -> None:
        self.state = target.state
        self.info = target.info

    def counter(self, kind: int, message: p4r.CounterEntry) -> None:
        """One counter, or all of an array."""
        info = lookup(self.info.counters, message.counter_id, "counter")
        _only_modify(kind, "a counter")
        packets = self.state.counter_packets[info.preamble.name]
        octets = self.state.counter_bytes[info.preamble.name]
        for index in indices(message, len(packets)):
            if message.HasField("data"):
                packets[index], octets[index] = new_counts(
                    info.spec.unit, packets[index], octets[index], message.data
                )

    def _table(self, message: p4r.DirectCounterEntry | p4r.DirectMeterEntry) -> TableInfo:
        if not message.HasField("table_entry"):
            raise _invalid("a direct resource needs its table entry")
        return lookup(self.info.tables, message.table_entry.table_id, "table")

    def _cell(self, info: TableInfo, message: p4r.TableEntry) -> Cell:
        return find_cell(self.state.tables[info.name], info, message)

    def direct_counter(self, kind: int, message: p4r.DirectCounterEntry) -> None:
        """The counter of a table entry."""
        info = self._table(message)
        if info.direct_counter is None:
            raise _invalid(f"{info.name} has no direct counter")
        cell = self._cell(info, message.table_entry)
        _only_modify(kind, "a direct counter")
        if message.HasField("data"):
            write_cell(info.direct_counter, cell, message.data)

    def meter(self, kind: int, message: p4r.MeterEntry) -> None:
        """One meter, or all of an array."""
        info = lookup(self.info.meters, message.meter_id, "meter")
        _only_modify(kind, "a meter")
        if message.HasField("counter_data"):
            raise StateError(errors.UNIMPLEMENTED, "meters do not count by colour")
        array = self.state.meters[info.preamble.name]
        configure(message.config)
        for index in indices(message, info.size):
            _set(array.buckets, index, message)

    def direct_meter(self, kind: int, message: p4r.DirectMeterEntry) -> None:
        """The meter of a table entry."""
        info = self._table(message)
        if not info.direct_meter:
            raise _invalid(f"{info.name} has no direct meter")
        cell = self._cell(info, message.table_entry)
        _only_modify(kind, "a direct meter")
        if message.HasField("counter_data"):
            raise StateError(errors.UNIMPLEMENTED, "meters do not count by colour")
        _set(self.state.meters[info.meter].buckets, id(cell), message)

    def value_set(self, kind: int, message: p4r.ValueSetEntry) -> None:
        """The members of a parser value set."""
        info = lookup(self.info.value_sets, message.value_set_id, "value set")
        _only_modify(kind, "a value set")
        name = info.preamble.name
        if info.size and len(message.members) > info.size:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"{name} holds {info.size} members")
        members: set[tuple[int, ...]] = set()
        for member in message.members:
            given = {item.field_id: item for item in member.match}
            if len(given) != len(member.match) or given.keys() != {m.id for m in info.match}:
                raise _invalid(f"{name}: a member has each field once")
            values = []
            for field in info.match:
                item = given[field.id]
                if item.WhichOneof("field_match_type") != "exact":
                    raise StateError(errors.UNIMPLEMENTED, f"{name}: members match exactly")
                values.append(decode_value(item.exact.value, field.bitwidth, name))
            if tuple(values) in members:
                raise StateError(errors.ALREADY_EXISTS, f"{name}: a member stands twice")
            members.add(tuple(values))
        known = self.state.value_sets[name]
        known.clear()
        known.update(members)


def _only_modify(kind: int, what: str) -> None:
    if kind != p4r.Update.MODIFY:
        raise _invalid(f"{what} can only be modified")


def indices(message: p4r.CounterEntry | p4r.MeterEntry, size: int) -> range:
    """The elements that a message means: one, or all without an index."""
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        raise _invalid("an index cannot be negative")
    if index >= size:
        raise StateError(errors.OUT_OF_RANGE, f"index {index} is outside of 0 to {size - 1}")
    return range(index, index + 1)


def new_counts(unit: int, packets: int, octets: int, data: p4r.CounterData) -> tuple[int, int]:
    """Packets and bytes of a counter after a write, which only sets what it counts."""
    return (
        packets if unit == p4i.CounterSpec.BYTES else data.packet_count,
        octets if unit == p4i.CounterSpec.PACKETS else data.byte_count,
    )


def write_cell(unit: int | None, cell: Cell, data: p4r.CounterData) -> None:
    """Set the direct counter of an entry."""
    assert unit is not None
    cell[PACKETS], cell[BYTES] = new_counts(unit, cell[PACKETS], cell[BYTES], data)


def configure(config: p4r.MeterConfig) -> Bucket | None:
    """A meter with full buckets; None if the configuration means green for ever.

    As in BMv2's server, -1 everywhere means that.
    """
    values = (config.cir, config.cburst, config.pir, config.pburst)
    if values == (-1, -1, -1, -1):
        return None
    if min(values) < 0 or config.eburst:
        raise _invalid("meter rates and bursts cannot be negative, and there is no excess burst")
    if max(config.cburst, config.pburst) > BURST_MAX:
        raise StateError(errors.UNIMPLEMENTED, f"bursts are 0 to {BURST_MAX}")
    if config.cir > config.pir:
        raise _invalid("the committed rate is above the peak rate")
    return Bucket(
        committed_rate=config.cir,
        committed_burst=config.cburst,
        peak_rate=config.pir,
        peak_burst=config.pburst,
    )


def _set(
    buckets: dict[int, Bucket], index: int, message: p4r.MeterEntry | p4r.DirectMeterEntry
) -> None:
    """Set or, without a configuration, remove one meter."""
    bucket = configure(message.config) if message.HasField("config") else None
    if bucket is None:
        buckets.pop(index, None)
    else:
        buckets[index] = bucket
