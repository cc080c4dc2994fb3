# SPDX-License-Identifier: Apache-2.0
"""Access-link samples: each PTP exchange joined to the hops of its own packets.

Key: (domain, message type, source port identity, destination, sequenceId), and time, since a
sequenceId comes round again. A Sync gives t1 -> first hop's ingress (the time transmitter's
access link) and last hop's egress -> t2 (the client's); a Delay_Req gives t3 -> first hop's
ingress (the client's) and last hop's egress -> t4 (the time transmitter's). The switches between
them do not matter here, so no residence enters, measured or told by correctionField, and nothing
of what the controller made transparent clocks add can come back as a measurement (`injected`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.exchange import CORRECTION_NS_MAX
from correction.links import JoinCounters, PortIndex, Reject
from correction.model import ClockKind, FabricModel, link_ends
from correction.records import (
    LINK_SAMPLE_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    Hops,
    LinkSamples,
    Packets,
)
from correction.timebase import NS_PER_S, Bools, Int64s, has_stamp

SYNC = 0
DELAY_REQ = 1
CORRECTION_BELOW_ZERO_NS_MAX = 10_000
"""A correctionField may be that far below zero: `delayAsymmetry` of a port (sent as its negative in
a Delay_Req) and link delays less a constant. Residence is positive; more is a broken bridge."""
LINK_DELAY_ERROR_NS_MAX = 100
"""Link delays that a transparent clock adds are estimates: the rest of the path may come out
negative by this much."""
STALE_NS = NS_PER_S
"""A packet whose capture is off its exchange's stamp by more, against the median of that clock,
is another round of the same sequenceId."""

_KEY_DTYPE = np.dtype(
    [
        ("domain", np.uint8),
        ("message_type", np.uint8),
        ("clock_identity", np.uint64),
        ("port_number", np.uint16),
        ("src_ip", np.uint32),
        ("dst_ip", np.uint32),
        ("sequence_id", np.uint16),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One direction of all exchanges: which stamps belong to which end."""

    message_type: int
    sent: str
    received: str
    correction: str
    """Field of its correctionField total."""


MESSAGES = (
    Message(message_type=SYNC, sent="t1_reference_ns", received="t2_local_ns", correction="c1_ns"),
    Message(
        message_type=DELAY_REQ, sent="t3_local_ns", received="t4_reference_ns", correction="c2_ns"
    ),
)


def accept_exchanges(exchanges: Exchanges, model: FabricModel, counters: JoinCounters) -> Exchanges:
    """The exchanges that can be true, once each, and that are of the clocks they claim.

    A row names its client three times: by clock index, by address and by the port identity of its
    Delay_Req. t2 and t3 may already have been mapped by the servo log of the clock index, so a row
    whose names disagree is of no clock at all.
    """
    told = np.ones(len(exchanges), np.bool_)

    def reject(bad: Bools, reason: Reject) -> None:
        counters.reject(reason, np.count_nonzero(told & bad))
        told[bad] = False

    stamps = ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns")
    reject(~np.all([has_stamp(exchanges[name]) for name in stamps], axis=0), _NO_STAMP)
    client = exchanges["client"]
    kinds = (ClockKind.NIC, ClockKind.PTP)
    is_client = np.array([clock.kind in kinds for clock in model.clocks], np.bool_)
    known = (client >= 0) & (client < len(is_client))
    reject(~known | ~is_client[np.where(known, client, 0)], Reject.EXCHANGE_UNKNOWN_CLIENT)
    address = np.array([clock.ip for clock in model.clocks], np.int64)
    claimed = address[np.where(known, client, 0)]
    reject(claimed != exchanges["client_ip"].astype(np.int64), Reject.EXCHANGE_WRONG_CLIENT)
    transmitter = exchanges["time_transmitter_ip"].astype(np.int64)
    serving = address[transmitters(model)]
    own = np.isin(claimed, serving) & (claimed == transmitter)
    reject(~np.isin(transmitter, serving) | own, Reject.EXCHANGE_WRONG_TRANSMITTER)
    reject(_foreign_identity(exchanges, told), Reject.EXCHANGE_WRONG_IDENTITY)
    c1, c2 = exchanges["c1_ns"], exchanges["c2_ns"]
    below = -CORRECTION_BELOW_ZERO_NS_MAX
    reject((c1 < below) | (c2 < below), Reject.EXCHANGE_CORRECTION_NEGATIVE)
    reject((c1 > CORRECTION_NS_MAX) | (c2 > CORRECTION_NS_MAX), _TOO_LARGE)
    # round trip = (t4 - t1) - (t3 - t2): differences on one clock each, so no epoch remains
    turnaround = exchanges["t3_local_ns"] - exchanges["t2_local_ns"]
    whole = exchanges["t4_reference_ns"] - exchanges["t1_reference_ns"]
    rate_slack = np.abs(turnaround.astype(np.float64)) * model.rate_offset_max_ppb * 2e-9
    units = 4 * max((clock.stamp_unit_ns for clock in model.clocks), default=1)
    residual = (whole - turnaround - c1 - c2).astype(np.float64)
    slack = rate_slack + units + LINK_DELAY_ERROR_NS_MAX
    reject(residual < -slack, Reject.EXCHANGE_DELAY_NEGATIVE)
    accepted = exchanges[told]
    unique, first = np.unique(accepted, return_index=True)
    counters.reject(Reject.EXCHANGE_DUPLICATE, len(accepted) - len(unique))
    return accepted[np.sort(first)]


def transmitters(model: FabricModel) -> NDArray[np.int64]:
    """Clocks that exchanges may name: the reference, or all of several, and boundary clocks."""
    several = [one.clock for one in model.references] or [model.reference]
    several += [n for n, clock in enumerate(model.clocks) if clock.kind is ClockKind.PTP]
    return np.array(several, np.int64)


def _foreign_identity(exchanges: Exchanges, told: Bools) -> Bools:
    """Rows whose Delay_Req's clockIdentity is not their client's.

    An identity belongs to the client for which most of the `told` rows use it, and to nobody on a
    tie; the Sync's sender is another clock than the Delay_Req's.
    """
    identity = exchanges["delay_req_clock_identity"]
    foreign: Bools = identity == exchanges["sync_clock_identity"]
    pairs = np.stack([identity, exchanges["client"].astype(np.uint64)], axis=1)
    used, number = np.unique(pairs[told], axis=0, return_counts=True)
    for value in np.unique(used[:, 0]):
        mine = used[:, 0] == value
        if np.count_nonzero(mine) < 2:
            continue
        count, owner = number[mine], used[mine, 1]
        sure = np.count_nonzero(count == count.max()) == 1
        strange = (pairs[:, 1] != owner[np.argmax(count)]) | (not sure)
        foreign |= (identity == value) & strange
    return foreign


_NO_STAMP = Reject.EXCHANGE_NO_STAMP
_TOO_LARGE = Reject.EXCHANGE_CORRECTION_TOO_LARGE


def access_samples(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    index: PortIndex,
    counters: JoinCounters,
) -> LinkSamples:
    """Up to four samples per exchange, two on the client's access link."""
    accepted = accept_exchanges(exchanges, model, counters)
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    parts = [np.zeros(0, LINK_SAMPLE_DTYPE)]
    if len(accepted) and len(ptp):
        nic_of_ip = {c.ip: i for i, c in enumerate(model.clocks) if c.kind is ClockKind.NIC}
        for message in MESSAGES:
            row, candidate = join_to_packets(accepted, ptp, message, counters)
            rows, found = accepted[row], ptp[candidate]
            counters.exchanges_joined += len(rows)
            ends = (("src_ip", True), ("dst_ip", False))
            for ip_field, from_host in ends:
                nic = np.array([nic_of_ip.get(int(ip), -1) for ip in found[ip_field]], np.int64)
                stamp = rows[message.sent if from_host else message.received]
                parts.append(
                    _end_samples(
                        found, hops, model, index, nic, stamp, counters, from_host=from_host
                    )
                )
    return np.concatenate(parts)


def join_to_packets(
    exchanges: Exchanges, ptp: Packets, message: Message, counters: JoinCounters
) -> tuple[Int64s, Int64s]:
    """Pairs of exchange and packet, as two index arrays, that belong together beyond doubt."""
    wanted, offered = _exchange_keys(exchanges, message), _packet_keys(ptp)
    keys, inverse = np.unique(np.concatenate([wanted, offered]), return_inverse=True)
    exchange_key, packet_key = inverse[: len(wanted)], inverse[len(wanted) :]
    order = np.argsort(packet_key, kind="stable")
    start = np.searchsorted(packet_key[order], np.arange(len(keys)))
    count = np.bincount(packet_key, minlength=len(keys))[exchange_key]
    counters.reject(Reject.EXCHANGE_WITHOUT_PACKET, np.count_nonzero(count == 0))
    # every candidate pair, judged by time
    row = np.repeat(np.arange(len(exchanges)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    candidate = order[start[exchange_key[row]] + within]
    lag = ptp["capture_collector_ns"][candidate] - exchanges[message.sent][row]
    sender = "client" if message.message_type == DELAY_REQ else "time_transmitter_ip"
    clock = exchanges[sender][row]
    near = np.zeros(len(row), np.bool_)
    for value in np.unique(clock):
        mine = clock == value
        near[mine] = np.abs(lag[mine] - _median_int(lag[mine])) <= STALE_NS
    near_per_row = np.bincount(row[near], minlength=len(exchanges))
    near_per_packet = np.bincount(candidate[near], minlength=len(ptp))
    counters.reject(Reject.EXCHANGE_STALE, np.count_nonzero((count > 0) & (near_per_row == 0)))
    sure = near & (near_per_row[row] == 1) & (near_per_packet[candidate] == 1)
    doubtful = np.count_nonzero(near_per_row > 0) - np.count_nonzero(sure)
    counters.reject(Reject.EXCHANGE_AMBIGUOUS, doubtful)
    return row[sure], candidate[sure]


def _end_samples(
    found: Packets,
    hops: Hops,
    model: FabricModel,
    index: PortIndex,
    nic: Int64s,
    stamp_local_ns: Int64s,
    counters: JoinCounters,
    *,
    from_host: bool,
) -> LinkSamples:
    """Samples of one end's access link: NIC -> first hop, or last hop -> NIC."""
    last = found["hop_count"].astype(np.int64) - 1
    hop = hops[found["first_hop"] + (0 if from_host else last)]
    port = hop["ingress_port" if from_host else "egress_port"]
    position = index.find(hop["node_id"], port)
    link = np.where(position >= 0, index.link[position], -1)
    ends = link_ends(model)
    at_nic = (link >= 0) & (nic >= 0) & np.any(ends[link] == nic[:, None], axis=1)
    # an incomplete packet's outermost hop may not be the host's own switch: not a fault then
    counters.reject(
        Reject.EXCHANGE_WRONG_PORT, np.count_nonzero(~at_nic & found["complete"] & (nic >= 0))
    )
    switch_ns = hop["ingress_tstamp_local_ns" if from_host else "egress_tstamp_local_ns"]
    stamped = has_stamp(switch_ns) & has_stamp(stamp_local_ns)
    counters.reject(Reject.NO_STAMP, np.count_nonzero(at_nic & ~stamped))
    usable = at_nic & stamped
    length_bytes = hop["ingress_bytes" if from_host else "egress_bytes"]
    length_bytes = np.where(length_bytes > 0, length_bytes, found["wire_bytes"])

    samples = np.zeros(np.count_nonzero(usable), LINK_SAMPLE_DTYPE)
    nic_is_a = ends[link, 0] == nic
    samples["link"] = link[usable]
    samples["reverse"] = (nic_is_a != from_host)[usable]
    samples["egress_local_ns"] = (stamp_local_ns if from_host else switch_ns)[usable]
    samples["ingress_local_ns"] = (switch_ns if from_host else stamp_local_ns)[usable]
    samples["frame_bytes"] = length_bytes[usable]
    samples["queue_id"] = 0 if from_host else hop["queue_id"][usable]
    samples["capture_collector_ns"] = found["capture_collector_ns"][usable]
    return samples


def _exchange_keys(exchanges: Exchanges, message: Message) -> NDArray[np.void]:
    keys = np.zeros(len(exchanges), _KEY_DTYPE)
    prefix = "sync" if message.message_type == SYNC else "delay_req"
    keys["domain"] = exchanges["ptp_domain"]
    keys["message_type"] = message.message_type
    for name in ("clock_identity", "port_number", "sequence_id"):
        keys[name] = exchanges[f"{prefix}_{name}"]
    down = message.message_type == SYNC
    keys["src_ip"] = exchanges["time_transmitter_ip" if down else "client_ip"]
    keys["dst_ip"] = exchanges["client_ip" if down else "time_transmitter_ip"]
    return keys


def _packet_keys(ptp: Packets) -> NDArray[np.void]:
    keys = np.zeros(len(ptp), _KEY_DTYPE)
    keys["domain"] = ptp["ptp_domain"]
    keys["message_type"] = ptp["ptp_message_type"]
    keys["clock_identity"] = ptp["ptp_clock_identity"]
    keys["port_number"] = ptp["ptp_port_number"]
    keys["sequence_id"] = ptp["ptp_sequence_id"]
    keys["src_ip"], keys["dst_ip"] = ptp["src_ip"], ptp["dst_ip"]
    return keys


def _median_int(values: Int64s) -> int:
    """The lower median: a member, so exact at any epoch."""
    return int(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])
