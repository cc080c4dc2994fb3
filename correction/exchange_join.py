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

from correction.exchange_accept import REJECT_OF_JUMP, accept_exchanges
from correction.jumps import jump_kinds, of_their_time
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
STALE_NS = NS_PER_S
"""A packet whose capture is off its exchange's stamps by more, against what else their clocks
stamped, is another round of the same sequenceId."""

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


def access_samples(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    index: PortIndex,
    counters: JoinCounters,
) -> LinkSamples:
    """Up to four samples per exchange, two on the client's access link."""
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    accepted = usable_exchanges(exchanges, ptp, model, counters)
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
    samples = np.concatenate(parts)
    # a Sync to several clients passes the time transmitter's own cable once
    _, first = np.unique(samples, return_index=True)
    counters.reject(Reject.SHARED_HOPS, len(samples) - len(first))
    return samples[np.sort(first)]


def usable_exchanges(
    exchanges: Exchanges, ptp: Packets, model: FabricModel, counters: JoinCounters
) -> Exchanges:
    """Those that can be true by themselves, and by the packets that they name."""
    return _without_damaged(accept_exchanges(exchanges, model, counters), ptp, counters)


def _without_damaged(exchanges: Exchanges, ptp: Packets, counters: JoinCounters) -> Exchanges:
    """Without the exchanges of which one stamp is off where another one fits its packet.

    A client (or its transmitter) that was set back and forth shows as more stamps in a row than
    stray ones: those stay, and the window's own judgement (`prepare`) is that the clock moved.
    """
    damaged = np.zeros(len(exchanges), np.bool_)
    jump, stamp = np.zeros(len(exchanges), np.int64), np.zeros(len(exchanges), np.int64)
    for message, pairs in zip(MESSAGES, _candidates(exchanges, ptp), strict=True):
        fitting = np.bincount(pairs.row[np.logical_and(*pairs.fits)], minlength=len(exchanges))
        for end, name in enumerate((message.sent, message.received)):
            off = ~pairs.fits[end] & pairs.fits[1 - end] & (fitting[pairs.row] == 0)
            row = pairs.row[off]
            damaged[row], jump[row], stamp[row] = True, pairs.off_ns[end][off], exchanges[name][row]
    kinds = jump_kinds(jump[damaged], stamp[damaged])
    for kind, reason in REJECT_OF_JUMP.items():
        counters.reject(reason, np.count_nonzero(kinds == kind))
    return exchanges[~damaged]


def join_to_packets(
    exchanges: Exchanges, ptp: Packets, message: Message, counters: JoinCounters
) -> tuple[Int64s, Int64s]:
    """Pairs of exchange and packet, as two index arrays, that belong together beyond doubt."""
    pairs = _candidates(exchanges, ptp)[MESSAGES.index(message)]
    row, candidate = pairs.row, pairs.candidate
    count = np.bincount(row, minlength=len(exchanges))
    counters.reject(Reject.EXCHANGE_WITHOUT_PACKET, np.count_nonzero(count == 0))
    near = np.logical_and(*pairs.fits)
    near_per_row = np.bincount(row[near], minlength=len(exchanges))
    near_per_packet = np.bincount(candidate[near], minlength=len(ptp))
    counters.reject(Reject.EXCHANGE_STALE, np.count_nonzero((count > 0) & (near_per_row == 0)))
    sure = near & (near_per_row[row] == 1) & (near_per_packet[candidate] == 1)
    doubtful = np.count_nonzero(near_per_row > 0) - np.count_nonzero(sure)
    counters.reject(Reject.EXCHANGE_AMBIGUOUS, doubtful)
    return row[sure], candidate[sure]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    """Every pair of an exchange and a packet with the key of one of its messages."""

    row: Int64s
    """Into the exchanges."""
    candidate: Int64s
    """Into the packets."""
    fits: tuple[Bools, Bools]
    """Sent and received stamp are of the packet's time, by what else their clocks stamped."""
    off_ns: tuple[Int64s, Int64s]
    """Stamp less what it would have to be, roughly."""


def _candidates(exchanges: Exchanges, ptp: Packets) -> list[_Candidates]:
    """Of Sync and Delay_Req."""
    pairs = [_same_key(exchanges, ptp, message) for message in MESSAGES]
    client = exchanges["client"].astype(np.int64)
    transmitter = exchanges["time_transmitter_ip"].astype(np.int64) - (1 << 33)
    clocks, lags, captures = list[Int64s](), list[Int64s](), list[Int64s]()
    for message, (row, candidate) in zip(MESSAGES, pairs, strict=True):
        ends = (transmitter, client) if message.message_type == SYNC else (client, transmitter)
        for clock, stamp in zip(ends, (message.sent, message.received), strict=True):
            captures.append(ptp["capture_collector_ns"][candidate])
            clocks.append(clock[row])
            lags.append(captures[-1] - exchanges[stamp][row])
    fits, above = of_their_time(
        np.concatenate(clocks), np.concatenate(lags), np.concatenate(captures), apart_ns=STALE_NS
    )
    off = -above
    result, at = [], 0
    for row, candidate in pairs:
        sent, received = slice(at, at + len(row)), slice(at + len(row), at + 2 * len(row))
        at = received.stop
        result.append(
            _Candidates(
                row=row,
                candidate=candidate,
                fits=(fits[sent], fits[received]),
                off_ns=(off[sent], off[received]),
            )
        )
    return result


def _same_key(exchanges: Exchanges, ptp: Packets, message: Message) -> tuple[Int64s, Int64s]:
    """(row, packet) of every pair with one key, by row."""
    wanted, offered = _exchange_keys(exchanges, message), _packet_keys(ptp)
    keys, inverse = np.unique(hashed(np.concatenate([wanted, offered])), return_inverse=True)
    exchange_key, packet_key = inverse[: len(wanted)], inverse[len(wanted) :]
    order = np.argsort(packet_key, kind="stable")
    start = np.searchsorted(packet_key[order], np.arange(len(keys)))
    count = np.bincount(packet_key, minlength=len(keys))[exchange_key]
    row = np.repeat(np.arange(len(exchanges)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, order[start[exchange_key[row]] + within]


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


def hashed(keys: NDArray[np.void]) -> NDArray[np.uint64]:
    """A number for each key: equal ones have the same, others hardly ever do."""
    mixed = np.zeros(len(keys), np.uint64)
    for name in keys.dtype.names or ():
        mixed = (mixed ^ keys[name].astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


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
