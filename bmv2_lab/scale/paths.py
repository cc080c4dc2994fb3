# SPDX-License-Identifier: Apache-2.0
"""Paths as the data plane chooses them: CRC-32 of the 5-tuple, mixed per switch, into buckets.

The arithmetic is that of `flow_hash.p4`: the CRC plus the switch's offset (seed plus node id, plus
tier x 0x9E3779B9), then the finaliser of MurmurHash3; the low bits choose one of 64 buckets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.topology import BUCKETS, Topology
from controller.fabric import PROTOCOL_UDP

TIER_STEP = 0x9E3779B9
_CRC_POLYNOMIAL = 0xEDB88320
NO_LINK = -1

Uint32s = NDArray[np.uint32]
Int64s = NDArray[np.int64]


def _crc_table() -> Uint32s:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_CRC_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


_TABLE = _crc_table()


def flow_hash(src_ip: Int64s, dst_ip: Int64s, src_port: Int64s, dst_port: Int64s) -> Uint32s:
    """CRC-32 of source, destination, protocol UDP and both ports, in the order of the header.

    >>> import zlib
    >>> data = bytes([10, 0, 1, 1, 10, 0, 2, 1, 17, 0xC0, 0x00, 0x12, 0xB7])
    >>> fields = (data[0:4], data[4:8], data[9:11], data[11:13])
    >>> arrays = [np.array([int.from_bytes(field)]) for field in fields]
    >>> int(flow_hash(*arrays)[0]) == zlib.crc32(data)
    True
    """
    crc = np.full(len(src_ip), 0xFFFF_FFFF, np.uint32)
    protocol = np.full(len(src_ip), PROTOCOL_UDP, np.int64)
    for field, width in ((src_ip, 4), (dst_ip, 4), (protocol, 1), (src_port, 2), (dst_port, 2)):
        for shift in range(8 * (width - 1), -1, -8):
            byte = (field >> shift).astype(np.uint32)
            crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return ~crc


def tier_offsets(topology: Topology) -> Uint32s:
    """[switch]: what is added to the flow's hash there."""
    seed = topology.ecmp_seed + topology.node_id
    return ((seed + topology.tier * TIER_STEP) & 0xFFFF_FFFF).astype(np.uint32)


def mix(value: Uint32s) -> Uint32s:
    """The finaliser of MurmurHash3, 32 bits."""
    value = value ^ (value >> np.uint32(16))
    value = value * np.uint32(0x85EBCA6B)
    value = value ^ (value >> np.uint32(13))
    value = value * np.uint32(0xC2B2AE35)
    return value ^ (value >> np.uint32(16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The way of every packet."""

    link: NDArray[np.int32]
    """[packet, hop]: directed link that leaves the hop's switch; NO_LINK beyond the last hop."""
    count: NDArray[np.int16]
    """[packet]: number of switches."""


def find_paths(
    topology: Topology,
    src_nic: Int64s,
    dst_nic: Int64s,
    src_port: Int64s,
    dst_port: Int64s,
) -> Paths:
    """Paths of packets with these addresses and UDP ports."""
    offsets = tier_offsets(topology)
    hashed = flow_hash(topology.nic_ip[src_nic], topology.nic_ip[dst_nic], src_port, dst_port)
    at = topology.nic_leaf[src_nic]
    last = topology.nic_leaf[dst_nic]
    column = topology.leaf_row[last]
    receiver = topology.receiver - topology.nic_count
    hops_max = 2 * topology.tier_count - 1
    link = np.full((len(at), hops_max), NO_LINK, np.int32)
    count = np.zeros(len(at), np.int16)
    travelling = np.arange(len(at))
    for hop in range(hops_max):
        here = at[travelling]
        there = here == last[travelling]
        out = np.where(there, topology.access_link[dst_nic[travelling]], NO_LINK)
        go = travelling[~there]
        group = topology.group[here[~there], column[go]]
        bucket = mix(hashed[go] + offsets[here[~there]]) % np.uint32(BUCKETS)
        out[~there] = topology.buckets[group, bucket]
        link[travelling, hop] = out
        count[travelling[there]] = hop + 1
        at[go] = receiver[out[~there]]
        travelling = go
        if not len(travelling):
            break
    assert not len(travelling), "every route ends at its leaf"
    return Paths(link=link, count=count)
