# SPDX-License-Identifier: Apache-2.0
"""Reported packets and their hops, as columns of `correction.records`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.records import HOP_DTYPE, PACKET_DTYPE, Hops, Packets
from tracing_core.store.engine import Engine

_PACKET_COLUMNS = tuple(name for name in PACKET_DTYPE.names or () if name != "first_hop")
_HOP_COLUMNS = HOP_DTYPE.names or ()
_IDENTITY = [name for name in _PACKET_COLUMNS if name not in ("hop_count", "complete")]
"""What tells one reported packet from another, its capture time included."""


class TelemetryStore:
    """Appends and reads packets with their hops."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.revision = 0
        """Rises with every append."""

    def append(self, packets: Packets, hops: Hops) -> None:
        """Stores packets and the hops they refer to."""
        if len(packets) == 0:
            return
        counts = packets["hop_count"].astype(np.int64)
        packet_row = np.repeat(np.arange(len(packets)), counts)
        hop_index = np.arange(len(packet_row)) - np.repeat(np.cumsum(counts) - counts, counts)
        hop_row = packets["first_hop"][packet_row] + hop_index
        if len(hop_row) and not 0 <= hop_row.min() <= hop_row.max() < len(hops):
            raise ValueError("a packet refers to hops that are not there")
        with self._engine.transaction_lock():
            first_id = self.count() and 1 + self._engine.scalar_int(
                "SELECT max(packet_id) FROM packets"
            )
            packet_id = (first_id + np.arange(len(packets))).astype(np.uint64)
            if len(hop_row):  # hops first: a packet that is visible has its hops
                chosen = hops[hop_row]
                self._engine.insert(
                    "hops",
                    {
                        "packet_id": packet_id[packet_row],
                        "hop_index": hop_index.astype(np.uint16),
                        **{name: np.ascontiguousarray(chosen[name]) for name in _HOP_COLUMNS},
                    },
                )
            columns: dict[str, NDArray[Any]] = {"packet_id": packet_id}
            for name in _PACKET_COLUMNS:
                columns[name] = np.ascontiguousarray(packets[name])
            columns["hop_count"] = columns["hop_count"].astype(np.uint16)
            columns["complete"] = columns["complete"].astype(np.uint8)
            self._engine.insert("packets", columns)
            self.revision += 1

    def append_new(self, packets: Packets, hops: Hops) -> int:
        """As `append`, without what the store has; the number of packets that were left out.

        A recording may be read again. Packets are looked up by their captures' times.
        """
        if len(packets) == 0:
            return 0
        with self._engine.transaction_lock():
            there = self._identities_between(
                int(packets["capture_collector_ns"].min()),
                int(packets["capture_collector_ns"].max()),
            )
            known = np.array([one in there for one in _identities(packets)], np.bool_)
            self.append(packets[~known], hops)
        return int(known.sum())

    def _identities_between(self, first_ns: int, last_ns: int) -> set[bytes]:
        columns = self._engine.columns(
            f"SELECT {', '.join(_IDENTITY)} FROM packets"
            " WHERE capture_collector_ns BETWEEN {first_ns:Int64} AND {last_ns:Int64}",
            _IDENTITY,
            {"first_ns": first_ns, "last_ns": last_ns},
        )
        return set(_identities(_structured(columns, PACKET_DTYPE)))

    def count(self) -> int:
        """Number of packets."""
        return self._engine.scalar_int("SELECT count() FROM packets")

    def hop_count(self) -> int:
        """Number of hop records."""
        return self._engine.scalar_int("SELECT count() FROM hops")

    def read(self, traffic: int) -> tuple[Packets, Hops]:
        """Packets of one kind of traffic (`TRAFFIC_*`) with their hops, in order of arrival."""
        parameters = {"traffic": traffic}
        with self._engine.transaction_lock():
            packet_columns = self._engine.columns(
                f"SELECT {', '.join(_PACKET_COLUMNS)} FROM packets"
                " WHERE traffic = {traffic:UInt8} ORDER BY packet_id",
                _PACKET_COLUMNS,
                parameters,
            )
            hop_columns = self._engine.columns(
                f"SELECT {', '.join(_HOP_COLUMNS)} FROM hops WHERE packet_id IN"
                " (SELECT packet_id FROM packets WHERE traffic = {traffic:UInt8})"
                " ORDER BY packet_id, hop_index",
                _HOP_COLUMNS,
                parameters,
            )
        packets = _structured(packet_columns, PACKET_DTYPE)
        counts = packets["hop_count"].astype(np.int64)
        packets["first_hop"] = np.cumsum(counts) - counts
        return packets, _structured(hop_columns, HOP_DTYPE)


def _identities(packets: Packets) -> list[bytes]:
    """Of each packet."""
    wanted = np.dtype([(name, PACKET_DTYPE[name]) for name in _IDENTITY])
    rows = np.zeros(len(packets), wanted)
    for name in _IDENTITY:
        rows[name] = packets[name]
    return [row.tobytes() for row in rows]


def _structured(columns: dict[str, NDArray[Any]], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    table = np.zeros(len(next(iter(columns.values()))), dtype)
    for name, column in columns.items():
        table[name] = column
    return table
