# SPDX-License-Identifier: Apache-2.0
"""Packets that two NICs stamped: all that a method without telemetry has.

Stamps are put on the reference time scale by a solution of the same recording, its offset and its
rate; what a method then finds is how far its own offset is off the solution's. Methods that are
equivariant (they follow when a clock is set or sped up) find the same as from the raw stamps, and
no float ever holds an epoch.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.exchange_join import MESSAGES, join_to_packets, usable_exchanges
from correction.links import RESIDENCE_NS_MAX, JoinCounters, residence_time_ns
from correction.records import TRAFFIC_PTP, Exchanges, Hops, Packets
from correction.solution import FabricSolution, WindowSolution
from correction.table import Status
from correction.timebase import NS_PER_S, Bools, Float64s

HOST_PACKET_DTYPE = np.dtype(
    [
        ("sender", np.int32),  # clock index of the NIC that sent it
        ("receiver", np.int32),  # clock index of the NIC that received it
        ("sent_local_ns", np.int64),  # on the sender's clock
        ("received_local_ns", np.int64),  # on the receiver's clock
        ("residence_ns", np.float64),  # in all switches of its path together; NaN: not known
    ]
)
HostPackets = NDArray[np.void]
"""Array of `HOST_PACKET_DTYPE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Packets in windows, their stamps on the solution's reference time; arrays over packets."""

    packet: NDArray[np.int64]
    """Index of each among those that were to be placed, ascending within a window."""
    window: NDArray[np.int64]
    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    sent_ns: Float64s
    """After the window's instant."""
    delay_ns: Float64s
    """received - sent: the true delay, but for the errors of the solution's two offsets."""
    residence_ns: Float64s


def exchange_packets(
    exchanges: Exchanges, packets: Packets, hops: Hops, solution: FabricSolution
) -> HostPackets:
    """Two packets of every sound exchange, first all Syncs, then all Delay_Reqs in the same order.

    The residence is that of the exchange's own packets, from their hops; correctionFields are not
    looked at.
    """
    model = solution.model
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    accepted = usable_exchanges(exchanges, ptp, model, JoinCounters())
    clock_of_ip = {clock.ip: n for n, clock in enumerate(model.clocks) if clock.ip}
    transmitter = np.array(
        [clock_of_ip.get(int(ip), -1) for ip in accepted["time_transmitter_ip"]], np.int32
    )
    known = transmitter >= 0
    accepted, transmitter = accepted[known], transmitter[known]
    path_ns = _path_residence_ns(ptp, hops, solution)
    parts = []
    for message, down in zip(MESSAGES, (True, False), strict=True):
        rows = np.zeros(len(accepted), HOST_PACKET_DTYPE)
        client = accepted["client"]
        rows["sender"], rows["receiver"] = (transmitter, client) if down else (client, transmitter)
        rows["sent_local_ns"] = accepted[message.sent]
        rows["received_local_ns"] = accepted[message.received]
        rows["residence_ns"] = np.nan
        if len(accepted) and len(ptp):
            row, candidate = join_to_packets(accepted, ptp, message, JoinCounters())
            rows["residence_ns"][row] = path_ns[candidate]
        parts.append(rows)
    return np.concatenate(parts)


def _path_residence_ns(ptp: Packets, hops: Hops, solution: FabricSolution) -> Float64s:
    """Sum over each packet's hops, each divided by its clock's rate; NaN where one is missing."""
    model = solution.model
    if not solution.windows:
        return np.full(len(ptp), np.nan)
    mean_rate = np.mean([one.rate_ppb for one in solution.windows], axis=0) / NS_PER_S
    of_node = {c.node_id: float(mean_rate[n]) for n, c in enumerate(model.clocks) if c.node_id}
    raw = residence_time_ns(hops, model)
    nodes, which = np.unique(hops["node_id"], return_inverse=True)
    rate = np.array([of_node.get(int(node), 0.0) for node in nodes])
    sound = (raw >= 0) & (raw <= RESIDENCE_NS_MAX)
    own = np.where(sound, raw * (1.0 - rate[which]), 0.0)
    total = np.concatenate([[0.0], np.cumsum(own)])
    missing = np.concatenate([[0], np.cumsum(~sound)])
    first = ptp["first_hop"]
    last = first + ptp["hop_count"]
    whole = ptp["complete"] & (missing[last] == missing[first])
    path: Float64s = np.where(whole, total[last] - total[first], np.nan)
    return path


def place(packets: HostPackets, solution: FabricSolution) -> Placed:
    """The packets that were sent inside a window between clocks that the solution has there."""
    parts: list[Placed] = []
    taken = np.zeros(len(packets), np.bool_)
    for w, one in enumerate(solution.windows):
        if one.reference_ns is None:
            continue
        usable = has_offset(one.status)
        usable[solution.model.reference] = True
        half_ns = (one.end_collector_ns - one.start_collector_ns) // 2
        ends = (packets["sender"], packets["receiver"])
        ok = usable[ends[0]] & usable[ends[1]] & ~taken
        from_anchor = packets["sent_local_ns"] - one.anchor_local_ns[ends[0]]
        ok &= np.abs(from_anchor) <= half_ns
        inside = packets[ok]
        taken |= ok
        # anchor - offset: whole ns on the reference's time scale, at most a few from the instant
        origin = one.anchor_local_ns - one.offset_ns - one.reference_ns
        sent_ns = _since_ns(inside["sent_local_ns"], inside["sender"], one, origin)
        received_ns = _since_ns(inside["received_local_ns"], inside["receiver"], one, origin)
        parts.append(
            Placed(
                packet=np.flatnonzero(ok),
                window=np.full(len(inside), w, np.int64),
                sender=inside["sender"].astype(np.int64),
                receiver=inside["receiver"].astype(np.int64),
                sent_ns=sent_ns,
                delay_ns=received_ns - sent_ns,
                residence_ns=inside["residence_ns"],
            )
        )
    return _joined(parts)


def has_offset(status: NDArray[np.uint8]) -> Bools:
    """Clocks whose published offset means something."""
    usable: Bools = (status == Status.OK) | (status == Status.AMBIGUOUS)
    return usable


def _since_ns(
    local_ns: NDArray[np.int64],
    clock: NDArray[np.int32],
    window: WindowSolution,
    origin_ns: NDArray[np.int64],
) -> Float64s:
    """Reference time of readings after the window's instant, by the solution."""
    from_anchor = local_ns - window.anchor_local_ns[clock]
    rate = window.rate_ppb[clock] / NS_PER_S
    since: Float64s = (from_anchor + origin_ns[clock]).astype(np.float64)
    return since - rate * from_anchor


def _joined(parts: list[Placed]) -> Placed:
    nothing, none = np.zeros(0, np.int64), np.zeros(0)
    return Placed(
        packet=np.concatenate([nothing, *(one.packet for one in parts)]),
        window=np.concatenate([nothing, *(one.window for one in parts)]),
        sender=np.concatenate([nothing, *(one.sender for one in parts)]),
        receiver=np.concatenate([nothing, *(one.receiver for one in parts)]),
        sent_ns=np.concatenate([none, *(one.sent_ns for one in parts)]),
        delay_ns=np.concatenate([none, *(one.delay_ns for one in parts)]),
        residence_ns=np.concatenate([none, *(one.residence_ns for one in parts)]),
    )


def chosen(placed: Placed, packets: NDArray[np.int64]) -> Placed:
    """Only those of `packets` (ascending indices, all of them placed), in that order."""
    order = np.argsort(placed.packet, kind="stable")
    rows = order[np.searchsorted(placed.packet[order], packets)]
    return Placed(
        packet=placed.packet[rows],
        window=placed.window[rows],
        sender=placed.sender[rows],
        receiver=placed.receiver[rows],
        sent_ns=placed.sent_ns[rows],
        delay_ns=placed.delay_ns[rows],
        residence_ns=placed.residence_ns[rows],
    )
