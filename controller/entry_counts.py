# SPDX-License-Identifier: Apache-2.0
"""Packet counters of table entries. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from finsy.proto import p4r

from controller.p4info_decode import CodecError


@dataclass(frozen=True, slots=True)
class CounterKey:
    """A table entry whose packets are counted."""

    table: str
    priority: int
    match: bytes
    """As the switch writes it; only good for telling entries apart."""


def counted_entry(entity: p4r.Entity, tables: Mapping[int, str]) -> tuple[CounterKey, int]:
    """The entry of a direct counter and its packets; tables: names by id. CodecError for what is
    none of them."""
    entry = entity.direct_counter_entry.table_entry
    if entry.table_id not in tables:
        raise CodecError("the switch answered with something else than the counters asked for")
    fields = sorted(field.SerializeToString(deterministic=True) for field in entry.match)
    key = CounterKey(tables[entry.table_id], entry.priority, b"".join(fields))
    return key, entity.direct_counter_entry.data.packet_count
