# SPDX-License-Identifier: Apache-2.0
"""Link samples of the fabric for a collector at full rate: `links.fabric_samples`, compiled.

One pass over packets and hops instead of whole columns, and the ports found by a hash table that is
made once per model.
"""

from typing import Any

import numpy as np

from correction.compiled import compiled, inlined
from correction.links import RESIDENCE_NS_MAX, JoinCounters, Reject, port_index
from correction.model import ClockKind, FabricModel
from correction.records import (
    LINK_SAMPLE_DTYPE,
    NO_TSTAMP_NS,
    TRAFFIC_PTP,
    UNKNOWN_U32,
    Hops,
    LinkSamples,
    Packets,
)
from correction.recycled import RecycledArrays
from correction.timebase import STAMP_NS_MAX

Array = Any  # numba compiles for what it is given

_REASONS = (
    Reject.UNKNOWN_PORT,
    Reject.NOT_ADJACENT,
    Reject.NO_STAMP,
    Reject.RESIDENCE_IMPOSSIBLE,
    Reject.LENGTH_DISAGREES,
    Reject.LENGTH_UNKNOWN,
    Reject.SHARED_HOPS,
)
_UNKNOWN_PORT, _NOT_ADJACENT, _NO_STAMP, _RESIDENCE, _DISAGREES, _UNKNOWN, _SHARED = range(
    len(_REASONS)
)
_PTP = TRAFFIC_PTP
_KEY, _LINK, _AT_A, _BITS, _FAR_KEY, _FAR_BITS, _COLUMNS = range(7)
_FREE = -1
_NODE_FACTOR, _PORT_FACTOR = 2_654_435_761, 40_503
"""Odd, so that neighbours lie far apart; only the product's low bits matter."""
_NO_TSTAMP_NS = NO_TSTAMP_NS
_STAMP_NS_MAX = STAMP_NS_MAX
_RESIDENCE_NS_MAX = RESIDENCE_NS_MAX
assert _RESIDENCE_NS_MAX == 4_000_000_000, "compiled code is kept as long as this file stays"
_UNKNOWN_U32 = UNKNOWN_U32


class FabricSampler:
    """Makes link samples of one model's fabric links."""

    def __init__(self, model: FabricModel) -> None:
        index = port_index(model)
        bits = {c.node_id: c.stamp_bits for c in model.clocks if c.kind is ClockKind.SWITCH}
        self._arrays = RecycledArrays(LINK_SAMPLE_DTYPE)
        size = max(8, 1 << (4 * len(index.key)).bit_length())
        self._ports = np.full((size, _COLUMNS), _FREE, np.int64)
        ends = list(zip(index.key.tolist(), index.link.tolist(), index.at_a.tolist(), strict=True))
        key_of = {(link, at_a): key for key, link, at_a in ends}
        for key, link, at_a in ends:
            slot = int(_slot(key)) % size
            while self._ports[slot, _KEY] != _FREE:
                slot = (slot + 1) % size
            far_key = key_of.get((link, not at_a), _FREE)
            far_bits = _FREE if far_key == _FREE else bits[far_key >> 16]
            self._ports[slot] = key, link, at_a, bits[key >> 16], far_key, far_bits

    def samples(self, packets: Packets, hops: Hops, counters: JoinCounters) -> LinkSamples:
        """One sample per pair of consecutive hops that a declared cable joins.

        The array is written to again when nobody holds it any more.
        """
        pairs = int(np.maximum(packets["hop_count"].astype(np.int64) - 1, 0).sum())
        samples = self._arrays.take(pairs)
        rejected = np.zeros(len(_REASONS), np.int64)
        count = _sample(packets, hops, self._ports, samples, rejected)
        for reason, number in zip(_REASONS, rejected.tolist(), strict=True):
            counters.reject(reason, number)
        counters.fabric_samples += count
        return samples[:count]


def _slot(key: int) -> int:
    return (key >> 16) * _NODE_FACTOR ^ (key & 0xFFFF) * _PORT_FACTOR


@inlined
def _find(ports: Array, node_id: np.int64, port: np.int64) -> np.int64 | int:
    """Row of a cabled port, -1 where no cable is declared."""
    key = node_id << 16 | port
    last = len(ports) - 1
    slot = ((key >> 16) * _NODE_FACTOR ^ (key & 0xFFFF) * _PORT_FACTOR) & last
    while ports[slot, _KEY] != _FREE:
        if ports[slot, _KEY] == key:
            return slot
        slot = (slot + 1) & last
    return -1


@inlined
def _has_stamp(stamp_local_ns: int) -> bool:
    return stamp_local_ns > -_STAMP_NS_MAX and stamp_local_ns < _STAMP_NS_MAX


@inlined
def _is_impossible(ingress_local_ns: int, egress_local_ns: int, bits: int) -> bool:
    """Whether both stamps are there and say that the packet stayed for no possible time."""
    if not (_has_stamp(ingress_local_ns) and _has_stamp(egress_local_ns)):
        return False
    residence_ns = egress_local_ns - ingress_local_ns
    if bits < 64:
        half = 1 << (bits - 1)
        residence_ns = ((residence_ns + half) & ((1 << bits) - 1)) - half
    return residence_ns < 0 or residence_ns > _RESIDENCE_NS_MAX


@inlined
def _is_copy(packet: Array, before: Array) -> bool:
    """Whether both are copies of one PTP message."""
    return bool(
        packet["traffic"] == _PTP
        and before["traffic"] == _PTP
        and packet["src_ip"] == before["src_ip"]
        and packet["ptp_message_type"] == before["ptp_message_type"]
        and packet["ptp_clock_identity"] == before["ptp_clock_identity"]
        and packet["ptp_sequence_id"] == before["ptp_sequence_id"]
    )


@inlined
def _is_shared(before: Array, hops: Array, pair: int, sender: Array, receiver: Array) -> bool:
    """Whether the same two hops stand at that place of the packet before."""
    if pair + 1 >= before["hop_count"]:
        return False
    other, following = hops[before["first_hop"] + pair], hops[before["first_hop"] + pair + 1]
    return bool(
        sender["node_id"] == other["node_id"]
        and sender["egress_port"] == other["egress_port"]
        and sender["egress_tstamp_local_ns"] == other["egress_tstamp_local_ns"]
        and receiver["node_id"] == following["node_id"]
        and receiver["ingress_port"] == following["ingress_port"]
        and receiver["ingress_tstamp_local_ns"] == following["ingress_tstamp_local_ns"]
    )


@compiled
def _sample(packets: Array, hops: Array, ports: Array, samples: Array, rejected: Array) -> int:
    """Fill `samples`; returns how many. rejected: int64[reasons], counts added up."""
    count = 0
    for number in range(len(packets)):
        packet = packets[number]
        first = packet["first_hop"]
        is_copy = number > 0 and _is_copy(packet, packets[number - 1])
        for at in range(first, first + packet["hop_count"] - 1):
            sender, receiver = hops[at], hops[at + 1]
            if is_copy and _is_shared(packets[number - 1], hops, at - first, sender, receiver):
                rejected[_SHARED] += 1
                continue
            out = _find(ports, np.int64(sender["node_id"]), np.int64(sender["egress_port"]))
            key = np.int64(receiver["node_id"]) << 16 | np.int64(receiver["ingress_port"])
            if out < 0 or ports[out, _FAR_KEY] != key:
                known = out >= 0 and _find(ports, key >> 16, key & 0xFFFF) >= 0
                rejected[_NOT_ADJACENT if known else _UNKNOWN_PORT] += 1
                continue
            sent = sender["egress_tstamp_local_ns"]
            received = receiver["ingress_tstamp_local_ns"]
            if not (_has_stamp(sent) and _has_stamp(received)):
                rejected[_NO_STAMP] += 1
                continue
            if _is_impossible(
                sender["ingress_tstamp_local_ns"], sent, ports[out, _BITS]
            ) or _is_impossible(
                received, receiver["egress_tstamp_local_ns"], ports[out, _FAR_BITS]
            ):
                rejected[_RESIDENCE] += 1
                continue
            sent_bytes, received_bytes = sender["egress_bytes"], receiver["ingress_bytes"]
            told = sent_bytes > 0 and sent_bytes != _UNKNOWN_U32
            other_told = received_bytes > 0 and received_bytes != _UNKNOWN_U32
            if told and other_told and sent_bytes != received_bytes:
                rejected[_DISAGREES] += 1
                continue
            if not (told or other_told):
                rejected[_UNKNOWN] += 1
                continue
            sample = samples[count]
            sample["link"] = ports[out, _LINK]
            sample["reverse"] = ports[out, _AT_A] == 0
            sample["egress_local_ns"] = sent
            sample["ingress_local_ns"] = received
            sample["frame_bytes"] = sent_bytes if told else received_bytes
            sample["queue_id"] = sender["queue_id"]
            sample["capture_collector_ns"] = packet["capture_collector_ns"]
            count += 1
    return count
