# SPDX-License-Identifier: Apache-2.0
"""PTP packets and exchanges that wait for each other.

An exchange has no time on the collector's clock until it is joined to a packet. How far its
transmitter's clock is from the collector's is learnt from the joins, so that later windows need
look at their own exchanges only; until then all are looked at.
"""

from dataclasses import dataclass, field

import numpy as np

from correction.exchange_join import MESSAGES, join_to_packets
from correction.links import JoinCounters
from correction.records import (
    EXCHANGE_DTYPE,
    HOP_DTYPE,
    PACKET_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    Hops,
    Packets,
)
from correction.timebase import NS_PER_S, Bools, Int64s, has_stamp

AROUND_NS = NS_PER_S // 2
"""Exchanges whose Sync left so far outside a window are looked at for it."""
KEPT_NS = 10 * NS_PER_S
"""An exchange is forgotten so long after its window."""
LEARNT_FROM = 20_000
"""Exchanges of a window that lags are learnt from."""
EXCHANGES_MAX = 1_000_000
"""Waiting at most; the oldest are forgotten first."""


def with_own_hops(packets: Packets, hops: Hops, chosen: Bools) -> tuple[Packets, Hops]:
    """Copies of the chosen packets, and of their hops one after the other."""
    mine = packets[chosen]
    count = mine["hop_count"].astype(np.int64)
    first = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(first, count)
    rows = hops[np.repeat(mine["first_hop"], count) + within]
    mine["first_hop"] = first
    return mine, rows


@dataclass(slots=True)
class PtpPackets:
    """PTP packets by window."""

    window_ns: int
    packets: dict[int, list[tuple[Packets, Hops]]] = field(default_factory=dict)

    def add(self, packets: Packets, hops: Hops) -> None:
        """Keep those of PTP."""
        ptp = (packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)
        number = packets["capture_collector_ns"] // self.window_ns
        for one in np.unique(number[ptp]).tolist():
            part = with_own_hops(packets, hops, ptp & (number == one))
            self.packets.setdefault(one, []).append(part)

    def take(self, number: int) -> tuple[Packets, Hops]:
        """The packets of one window, which are forgotten, as are those of earlier ones."""
        found = self.packets.pop(number, [])
        for old in [one for one in self.packets if one < number]:
            del self.packets[old]
        packets, hops, base = [np.zeros(0, PACKET_DTYPE)], [np.zeros(0, HOP_DTYPE)], 0
        for some, own in found:
            moved = some.copy()
            moved["first_hop"] += base
            packets.append(moved)
            hops.append(own)
            base += len(own)
        return np.concatenate(packets), np.concatenate(hops)


@dataclass(slots=True)
class PendingExchanges:
    """Exchanges as read, clock indices of the model with boundary clocks."""

    rows: Exchanges = field(default_factory=lambda: np.zeros(0, EXCHANGE_DTYPE))
    lag_ns: dict[int, int] = field(default_factory=dict)
    """By address of the time transmitter: capture of a Sync - t1."""
    forgotten: int = 0
    """For want of room."""
    _new: list[Exchanges] = field(default_factory=list)

    def add(self, rows: Exchanges) -> None:
        """Take rows, in any order."""
        if len(rows):
            self._new.append(rows)

    def around(self, start_collector_ns: int, end_collector_ns: int) -> Exchanges:
        """Those that may belong to packets of a window."""
        self._gather()
        sent = self._sent_collector_ns()
        near = (sent > start_collector_ns - AROUND_NS) & (sent < end_collector_ns + AROUND_NS)
        found: Exchanges = self.rows[near | (sent == 0)]
        return found

    def learn(self, exchanges: Exchanges, ptp: Packets) -> None:
        """Transmitters' lags by the exchanges, as read, whose Syncs are among a window's packets.

        Few are enough, and a median does not mind a wrong one.
        """
        exchanges = exchanges[has_stamp(exchanges["t1_reference_ns"])]
        exchanges = exchanges[:: max(len(exchanges) // LEARNT_FROM, 1)]
        if not len(exchanges) or not len(ptp):
            return
        row, candidate = join_to_packets(exchanges, ptp, MESSAGES[0], JoinCounters())
        lag = ptp["capture_collector_ns"][candidate] - exchanges["t1_reference_ns"][row]
        sender = exchanges["time_transmitter_ip"][row]
        for one in np.unique(sender).tolist():
            mine = np.sort(lag[sender == one])
            self.lag_ns[one] = int(mine[(len(mine) - 1) // 2])

    def expire(self, end_collector_ns: int) -> Exchanges:
        """Forget what is older than the window that has ended; returns it."""
        sent = self._sent_collector_ns()
        old = (sent != 0) & (sent < end_collector_ns - KEPT_NS)
        gone: Exchanges = self.rows[old]
        self.rows = self.rows[~old]
        if len(self.rows) > EXCHANGES_MAX:
            self.forgotten += len(self.rows) - EXCHANGES_MAX
            self.rows = self.rows[-EXCHANGES_MAX:]
        return gone

    def renumbered(self, place: dict[int, int]) -> None:
        """Clients by their new indices; those that are gone are left out."""
        self._gather()
        client = np.array([place.get(one, -1) for one in self.rows["client"].tolist()], np.int64)
        self.rows = self.rows[client >= 0]
        self.rows["client"] = client[client >= 0]

    def _gather(self) -> None:
        if self._new:
            self.rows = np.concatenate([self.rows, *self._new])
            self._new.clear()

    def _sent_collector_ns(self) -> Int64s:
        """Collector's time when each Sync left; 0 where the transmitter's lag is not known."""
        stamps = self.rows["t1_reference_ns"]
        sent = np.zeros(len(stamps), np.int64)
        usable = has_stamp(stamps)
        for transmitter, lag_ns in self.lag_ns.items():
            mine = usable & (self.rows["time_transmitter_ip"] == transmitter)
            sent[mine] = stamps[mine] + lag_ns
        return sent
