# SPDX-License-Identifier: Apache-2.0
"""What the controller made transparent clocks add to correctionField, taken off again.

The engine measures links from switch stamps alone, so that nothing it wrote comes back as data:
residence is taken once, from telemetry, and correctionField is never a measurement where the
packet's own hops are known. What remains are uses of c1 and c2 as the hosts saw them. This module
knows each delay that was in force per (switch, ingress port) and time, removes it along the path
that telemetry reports for the packet, and says what of a correctionField nothing explains.

    c = sum of residences + residence offsets + link delays (of the packet's own hops)

A residence is in c where the switch is declared to be a transparent clock, and only there.
"""

from dataclasses import dataclass, field

import numpy as np

from correction.exchange_join import MESSAGES, join_to_packets, usable_exchanges
from correction.links import JoinCounters, residence_time_ns
from correction.model import FabricModel
from correction.records import TRAFFIC_PTP, Exchanges, Hops, Packets
from correction.timebase import Bools, Float64s, Int64s

SCALED_PER_NS = 1 << 16
"""correctionField counts units of 2^-16 ns."""
SETTLE_NS = 50_000_000
"""A packet captured so near to a change may have met the old value or the new one."""
END_OF_TIME_NS = np.iinfo(np.int64).max

INJECTED_DTYPE = np.dtype(
    [
        ("node_id", np.uint32),
        ("ingress_port", np.uint16),
        ("delay_scaled_ns", np.int64),  # added to every PTP event message that comes in there
        ("from_collector_ns", np.int64),
        ("to_collector_ns", np.int64),  # END_OF_TIME_NS while it is in force
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """All values that were in force during a recording."""

    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, INJECTED_DTYPE))
    """Array of `INJECTED_DTYPE`; the spans of one port do not overlap."""
    residence_offset_scaled_ns: dict[int, int] = field(default_factory=dict)
    """By node id: what it adds to every residence (stamp points)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Exchanges without what was injected, and how the correctionFields add up."""

    exchanges: Exchanges
    """Those that can be true (`usable_exchanges`); c1 and c2 are the residence of transparent
    clocks alone where `known`."""
    known: Bools
    """[exchange, (c1, c2)]: the packet's path was reported whole, and no value was changing."""
    injected_ns: Float64s
    """[exchange, (c1, c2)]: what was taken off."""
    unexplained_ns: Float64s
    """[exchange, (c1, c2)]: correctionField less residence and injected delays; NaN if not known.
    Within about 1 ns of 0, since stamps and c are whole ns."""


def account(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    injected: Injected,
    counters: JoinCounters | None = None,
) -> Accounted:
    """Follow every exchange's two packets and take off what their ports added."""
    counters = counters or JoinCounters()
    whole = packets["complete"] & (packets["hop_count"] > 0)
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & whole]
    accepted = usable_exchanges(exchanges, ptp, model, counters)
    known = np.zeros((len(accepted), 2), np.bool_)
    taken = np.zeros((len(accepted), 2))
    unexplained = np.full((len(accepted), 2), np.nan)
    residence = residence_time_ns(hops, model)
    transparent = transparent_hops(hops, model)
    delay, settled = _delays(ptp, hops, injected)
    offsets = injected.residence_offset_scaled_ns
    nodes, which = np.unique(hops["node_id"], return_inverse=True)
    offset = np.array([offsets.get(node, 0) for node in nodes.tolist()], np.int64)[which]
    if len(accepted) and len(ptp):
        for column, message in enumerate(MESSAGES):
            row, packet = join_to_packets(accepted, ptp, message, counters)
            first, count = ptp["first_hop"][packet], ptp["hop_count"][packet].astype(np.int64)
            untimed = transparent & (residence < 0)
            whole = settled[packet] & (_path_sums(untimed, first, count) == 0)
            row, packet, first, count = row[whole], packet[whole], first[whole], count[whole]
            added = (delay[packet] + _path_sums(offset, first, count)) / SCALED_PER_NS
            left = accepted[message.correction][row] - added
            known[row, column] = True
            taken[row, column] = added
            stays = np.where(transparent, residence, 0)
            unexplained[row, column] = left - _path_sums(stays, first, count)
            accepted[message.correction][row] = np.rint(left).astype(np.int64)
    return Accounted(exchanges=accepted, known=known, injected_ns=taken, unexplained_ns=unexplained)


def transparent_hops(hops: Hops, model: FabricModel) -> Bools:
    """[hop]: its switch adds residence to correctionField, as declared."""
    nodes = [clock.node_id for clock in model.clocks if clock.transparent]
    declared: Bools = np.isin(hops["node_id"], nodes)
    return declared


def _delays(ptp: Packets, hops: Hops, injected: Injected) -> tuple[Int64s, Bools]:
    """Per packet the sum of its ports' delays, and whether all of them had settled."""
    count = ptp["hop_count"].astype(np.int64)
    packet = np.repeat(np.arange(len(ptp)), count)
    within = np.arange(len(packet)) - np.repeat(np.cumsum(count) - count, count)
    hop = hops[ptp["first_hop"][packet] + within]
    at_ns = ptp["capture_collector_ns"][packet]
    total = np.zeros(len(ptp), np.int64)
    settled = np.ones(len(ptp), np.bool_)
    for one in injected.rows:
        here = (hop["node_id"] == one["node_id"]) & (hop["ingress_port"] == one["ingress_port"])
        if not here.any():
            continue
        start, end = int(one["from_collector_ns"]), int(one["to_collector_ns"])
        there = here & (at_ns >= start) & (at_ns < end)
        np.add.at(total, packet[there], one["delay_scaled_ns"])
        for edge in (start, end):
            if edge != END_OF_TIME_NS:
                settled[packet[here & (np.abs(at_ns - edge) <= SETTLE_NS)]] = False
    return total, settled


def _path_sums(values: Int64s | Bools, first: Int64s, count: Int64s) -> Int64s:
    """Sum of `values` over each packet's hops, exact."""
    running = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return np.asarray(running[first + count] - running[first], np.int64)
