# SPDX-License-Identifier: Apache-2.0
"""Link samples: one-way differences between two clocks, from hops of the same packet.

x = ingress stamp at the receiving end - egress stamp at the sending end. Whatever queueing lies
between two stamps of one switch is not in it. Fabric links come from consecutive hops, access
links from PTP exchanges joined to their own packets' hops (`exchange_join`).
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.model import ClockKind, FabricModel
from correction.records import (
    LINK_SAMPLE_DTYPE,
    TRAFFIC_PTP,
    UNKNOWN_U32,
    Exchanges,
    Hops,
    LinkSamples,
    Packets,
)
from correction.remembered import remembered
from correction.timebase import Bools, Int64s, has_stamp, modular_difference_ns

RESIDENCE_NS_MAX = 4_000_000_000
"""A packet does not stay in one switch for longer; the stamps are wrong instead. Less than 2^32 ns,
by multiples of which clocks are known to jump."""


@unique
class Reject(StrEnum):
    """Why a packet, hop pair, exchange or sample was left out; each is counted."""

    NO_STAMP = "no_stamp"
    UNKNOWN_PORT = "unknown_port"
    NOT_ADJACENT = "not_adjacent"
    RESIDENCE_IMPOSSIBLE = "residence_impossible"
    LENGTH_DISAGREES = "length_disagrees"
    LENGTH_UNKNOWN = "length_unknown"
    SHARED_HOPS = "shared_hops"
    """The same two hops are in the path of another copy of a multicast packet: counted there."""
    EXCHANGE_NO_STAMP = "exchange_no_stamp"
    EXCHANGE_CORRECTION_NEGATIVE = "exchange_correction_negative"
    EXCHANGE_CORRECTION_TOO_LARGE = "exchange_correction_too_large"
    EXCHANGE_CORRECTION_ABOVE_DELAY = "exchange_correction_above_delay"
    EXCHANGE_DELAY_NEGATIVE = "exchange_delay_negative"
    EXCHANGE_DELAY_TOO_LARGE = "exchange_delay_too_large"
    EXCHANGE_CLOCK_JUMP = "exchange_clock_jump"
    EXCHANGE_CLOCK_JUMP_2_32 = "exchange_clock_jump_2_32"
    EXCHANGE_CLOCK_JUMP_UTC_TAI = "exchange_clock_jump_utc_tai"
    EXCHANGE_STAMP_FROM_1970 = "exchange_stamp_from_1970"
    EXCHANGE_UNKNOWN_CLIENT = "exchange_unknown_client"
    EXCHANGE_WRONG_CLIENT = "exchange_wrong_client"
    EXCHANGE_WRONG_TRANSMITTER = "exchange_wrong_transmitter"
    EXCHANGE_WRONG_IDENTITY = "exchange_wrong_identity"
    EXCHANGE_DUPLICATE = "exchange_duplicate"
    EXCHANGE_AMBIGUOUS = "exchange_ambiguous"
    EXCHANGE_STALE = "exchange_stale"
    EXCHANGE_WITHOUT_PACKET = "exchange_without_packet"
    EXCHANGE_WRONG_PORT = "exchange_wrong_port"
    CROSS_STAMP_CLOCK_JUMP = "cross_stamp_clock_jump"
    CROSS_STAMP_CLOCK_JUMP_2_32 = "cross_stamp_clock_jump_2_32"
    CROSS_STAMP_CLOCK_JUMP_UTC_TAI = "cross_stamp_clock_jump_utc_tai"
    CROSS_STAMP_FROM_1970 = "cross_stamp_from_1970"
    CROSS_STAMP_DUPLICATE = "cross_stamp_duplicate"
    CROSS_STAMP_NO_STAMP = "cross_stamp_no_stamp"
    CROSS_STAMP_WIDE = "cross_stamp_wide"
    CROSS_STAMP_OUTSIDE = "cross_stamp_outside"
    OUTSIDE_WINDOWS = "outside_windows"
    CLOCK_JUMP = "clock_jump"
    CLOCK_JUMP_2_32 = "clock_jump_2_32"
    CLOCK_JUMP_UTC_TAI = "clock_jump_utc_tai"
    STAMP_FROM_1970 = "stamp_from_1970"
    CLOCK_STUCK = "clock_stuck"
    BELOW_ENVELOPE = "below_envelope"


@dataclass(slots=True, kw_only=True)
class JoinCounters:
    """What became samples, and what did not, by reason."""

    fabric_samples: int = 0
    access_samples: int = 0
    exchanges_joined: int = 0
    rejected: dict[Reject, int] = field(default_factory=dict)

    def reject(self, reason: Reject, count: "int | np.integer[Any]" = 1) -> None:
        """Count `count` rejections."""
        if count:
            self.rejected[reason] = self.rejected.get(reason, 0) + int(count)

    def copy(self) -> "JoinCounters":
        """Counters that go on from here on their own."""
        return replace(self, rejected=dict(self.rejected))


@dataclass(frozen=True, slots=True, kw_only=True)
class PortIndex:
    """Finds a link by a switch's node id and port; vectorised."""

    key: Int64s
    """node_id << 16 | port, sorted."""
    link: NDArray[np.int32]
    at_a: Bools
    """The port is the link's end a."""

    def find(self, node_id: NDArray[np.integer], port: NDArray[np.integer]) -> NDArray[np.int64]:
        """Positions in this index, -1 where no cable is declared."""
        if not len(self.key):
            return np.full(len(node_id), -1, np.int64)
        key = (node_id.astype(np.int64) << 16) | port.astype(np.int64)
        position = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        found: NDArray[np.int64] = np.where(self.key[position] == key, position, -1)
        return found


@remembered
def port_index(model: FabricModel) -> PortIndex:
    """Every switch port that the model cables."""
    rows = []
    cables = [(number, link) for number, link in enumerate(model.links) if link.cable]
    for number, link in cables:
        for clock, port, at_a in ((link.a, link.a_port, True), (link.b, link.b_port, False)):
            if model.clocks[clock].kind is ClockKind.SWITCH:
                rows.append(((model.clocks[clock].node_id << 16) | port, number, at_a))
    rows.sort()
    return PortIndex(
        key=np.array([row[0] for row in rows], np.int64),
        link=np.array([row[1] for row in rows], np.int32),
        at_a=np.array([row[2] for row in rows], np.bool_),
    )


def residence_time_ns(hops: Hops, model: FabricModel) -> Int64s:
    """egress - ingress of each hop on its own clock, modulo its stamp width; -1 if unknown."""
    bits = {c.node_id: c.stamp_bits for c in model.clocks if c.kind is ClockKind.SWITCH}
    ingress, egress = hops["ingress_tstamp_local_ns"], hops["egress_tstamp_local_ns"]
    known = has_stamp(ingress) & has_stamp(egress)
    residence = np.full(len(hops), -1, np.int64)
    for width in set(bits.values()) | {64}:
        nodes = [node for node, node_bits in bits.items() if node_bits == width]
        chosen = known & np.isin(hops["node_id"], nodes)
        residence[chosen] = modular_difference_ns(egress[chosen], ingress[chosen], bits=width)
    return residence


def link_samples(
    packets: Packets, hops: Hops, exchanges: Exchanges, model: FabricModel
) -> tuple[LinkSamples, JoinCounters]:
    """All samples of all links, and the count of what was rejected and why."""
    from correction.exchange_join import access_samples  # beside us, and needs our types

    counters = JoinCounters()
    index = port_index(model)
    fabric = fabric_samples(packets, hops, model, index, counters)
    access = access_samples(packets, hops, exchanges, model, index, counters)
    counters.fabric_samples, counters.access_samples = len(fabric), len(access)
    return np.concatenate([fabric, access]), counters


def fabric_samples(
    packets: Packets, hops: Hops, model: FabricModel, index: PortIndex, counters: JoinCounters
) -> LinkSamples:
    """One sample per pair of consecutive hops that a declared cable joins."""
    pair_count = np.maximum(packets["hop_count"].astype(np.int64) - 1, 0)
    packet = np.repeat(np.arange(len(packets)), pair_count)
    first_of_packet = np.cumsum(pair_count) - pair_count
    within = np.arange(len(packet)) - np.repeat(first_of_packet, pair_count)
    here = packets["first_hop"][packet] + within
    sender, receiver = hops[here], hops[here + 1]

    out = index.find(sender["node_id"], sender["egress_port"])
    into = index.find(receiver["node_id"], receiver["ingress_port"])
    shared = _shared(packets, hops, packet, within, here)
    counters.reject(Reject.SHARED_HOPS, np.count_nonzero(shared))
    known = (out >= 0) & (into >= 0) & ~shared
    counters.reject(Reject.UNKNOWN_PORT, np.count_nonzero(~known & ~shared))
    adjacent = known & (index.link[out] == index.link[into]) & (index.at_a[out] != index.at_a[into])
    counters.reject(Reject.NOT_ADJACENT, np.count_nonzero(known & ~adjacent))
    stamped = has_stamp(sender["egress_tstamp_local_ns"]) & has_stamp(
        receiver["ingress_tstamp_local_ns"]
    )
    counters.reject(Reject.NO_STAMP, np.count_nonzero(adjacent & ~stamped))
    residence = residence_time_ns(hops, model)
    both = has_stamp(hops["ingress_tstamp_local_ns"]) & has_stamp(hops["egress_tstamp_local_ns"])
    impossible = both & ((residence < 0) | (residence > RESIDENCE_NS_MAX))
    sane = ~(impossible[here] | impossible[here + 1])
    counters.reject(Reject.RESIDENCE_IMPOSSIBLE, np.count_nonzero(adjacent & stamped & ~sane))
    usable = adjacent & stamped & sane
    frame_bytes = sender["egress_bytes"].copy()
    told = _length_known(frame_bytes)
    other_told = _length_known(receiver["ingress_bytes"])
    frame_bytes[~told] = receiver["ingress_bytes"][~told]
    agree = ~(told & other_told) | (sender["egress_bytes"] == receiver["ingress_bytes"])
    counters.reject(Reject.LENGTH_DISAGREES, np.count_nonzero(usable & ~agree))
    counters.reject(Reject.LENGTH_UNKNOWN, np.count_nonzero(usable & ~(told | other_told)))
    usable &= agree & (told | other_told)

    samples = np.zeros(np.count_nonzero(usable), LINK_SAMPLE_DTYPE)
    samples["link"] = index.link[out[usable]]
    samples["reverse"] = ~index.at_a[out[usable]]
    samples["egress_local_ns"] = sender["egress_tstamp_local_ns"][usable]
    samples["ingress_local_ns"] = receiver["ingress_tstamp_local_ns"][usable]
    samples["frame_bytes"] = frame_bytes[usable]
    samples["queue_id"] = sender["queue_id"][usable]
    samples["capture_collector_ns"] = packets["capture_collector_ns"][packet[usable]]
    return samples


def _shared(packets: Packets, hops: Hops, packet: Int64s, within: Int64s, here: Int64s) -> Bools:
    """Pairs of hops that begin at the same place of the packet before, a copy of the same packet.

    packet, within, here: per pair, its packet, which pair of it, and the row of its first hop.
    """
    same = np.zeros(len(packets), np.bool_)
    same[1:] = (packets["traffic"][1:] == TRAFFIC_PTP) & (packets["traffic"][:-1] == TRAFFIC_PTP)
    for name in ("src_ip", "ptp_message_type", "ptp_clock_identity", "ptp_sequence_id"):
        same[1:] &= packets[name][1:] == packets[name][:-1]
    chosen = np.flatnonzero(same[packet])
    chosen = chosen[within[chosen] + 1 < packets["hop_count"][packet[chosen] - 1]]
    place = packets["first_hop"][packet[chosen] - 1] + within[chosen]
    mine, following = hops[here[chosen]], hops[here[chosen] + 1]
    other, other_following = hops[place], hops[place + 1]
    equal = np.ones(len(chosen), np.bool_)
    for name in ("node_id", "egress_port", "egress_tstamp_local_ns"):
        equal &= mine[name] == other[name]
    for name in ("node_id", "ingress_port", "ingress_tstamp_local_ns"):
        equal &= following[name] == other_following[name]
    shared = np.zeros(len(packet), np.bool_)
    shared[chosen[equal]] = True
    return shared


def _length_known(length_bytes: NDArray[np.uint32]) -> Bools:
    known: Bools = (length_bytes > 0) & (length_bytes != UNKNOWN_U32)
    return known
