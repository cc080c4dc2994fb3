# SPDX-License-Identifier: Apache-2.0
"""Compiled: the reported packet, its key and its lengths (`telemetry.packet`).

Functions return 0, a `ReasonCode` of a packet that does not decode, or the negative one of a packet
that decodes and tells nothing about this fabric's links.
"""

from typing import Any

from controller.collector import columns as c
from controller.collector.columns import ReasonCode
from controller.collector.decode_int import NPT_INSERTED_UDP, NPT_UDP_PORT, decode_int
from controller.collector.fabric_tables import FabricTables, node_at, node_row, tables_at
from controller.collector.kernel import SOURCES_DIGEST, entry, part, routine
from controller.collector.loads import be16, be32, be64, get, mix, put, u8
from controller.telemetry.packet import (
    NETWORK_ETHERNET,
    NETWORK_IPV4,
    NETWORK_IPV6,
    PROBE_VERSION,
)
from correction.records import TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE

_UDP, _TCP = 17, 6
_PORT_ROCE, _PORT_PTP, _PORT_PROBE = 4791, 319, 32767
_IPV4, _IPV6, _VLAN, _PTP = 0x0800, 0x86DD, 0x8100, 0x88F7
_TRUNCATED = int(ReasonCode.TRUNCATED)
_INNER_IP_HEADER = int(ReasonCode.INNER_IP_HEADER)
_INNER_ETHER_TYPE = int(ReasonCode.INNER_ETHER_TYPE)
_PTP_VERSION = int(ReasonCode.PTP_VERSION)
_PROBE_VERSION = int(ReasonCode.PROBE_VERSION)
_NOT_TIMED = -int(ReasonCode.INNER_PROTOCOL)
_UNKNOWN_NODE = int(ReasonCode.UNKNOWN_NODE)


@part
def wire_bytes(ip_bytes: int, tag_bytes: int) -> int:
    """Ethernet frame around an IP packet: header, tag, padding and FCS included."""
    return max(18 + tag_bytes + ip_bytes, 64)


@routine
def decode_inner(
    offset: int,
    end: int,
    inner_type: int,
    tracked: int,
    tables: FabricTables,
    report: int,
    hops: int,
    datagram: int,
    shim: int,
) -> int:
    """The packet at `offset`, of which the report holds what is before `end`."""
    ether_type = _IPV4
    tag_bytes = 0
    if inner_type == 3:
        if offset + 14 > end:
            return _TRUNCATED
        ether_type = be16(offset + 12)
        start = offset + 14
        if ether_type == _VLAN:
            if start + 4 > end:
                return _TRUNCATED
            ether_type = be16(start + 2)
            start += 4
            tag_bytes = 4
        if ether_type == _PTP:
            return _decode_ptp_frame(offset, start, end, tag_bytes, tables, report)
        if ether_type != _IPV4 and ether_type != _IPV6:
            return _INNER_ETHER_TYPE
        offset = start
    elif inner_type == 5:
        ether_type = _IPV6
    if ether_type == _IPV4:
        if offset + 20 > end:
            return _TRUNCATED
        word = be32(offset)
        header_bytes = (word >> 24 & 0xF) * 4
        packet_bytes = word & 0xFFFF
        if word >> 28 != 4 or header_bytes < 20 or packet_bytes < header_bytes:
            return _INNER_IP_HEADER
        if be16(offset + 6) & 0x3FFF:
            return _INNER_IP_HEADER
        dscp = word >> 18 & 0x3F
        protocol = u8(offset + 9)
        network = NETWORK_IPV4
        put(report, c.R_SRC_HIGH, 0)
        put(report, c.R_SRC_LOW, be32(offset + 12))
        put(report, c.R_DST_HIGH, 0)
        put(report, c.R_DST_LOW, be32(offset + 16))
    else:
        if offset + 40 > end:
            return _TRUNCATED
        word = be32(offset)
        if word >> 28 != 6:
            return _INNER_IP_HEADER
        header_bytes = 40
        packet_bytes = 40 + be16(offset + 4)
        dscp = word >> 22 & 0x3F
        protocol = u8(offset + 6)
        network = NETWORK_IPV6
        put(report, c.R_SRC_HIGH, be64(offset + 8))
        put(report, c.R_SRC_LOW, be64(offset + 16))
        put(report, c.R_DST_HIGH, be64(offset + 24))
        put(report, c.R_DST_LOW, be64(offset + 32))

    payload = offset + header_bytes
    if protocol == _UDP:
        if payload + 8 > end:
            return _TRUNCATED
    elif protocol == _TCP:
        if payload + 4 > end:
            return _TRUNCATED
    else:
        return _NOT_TIMED
    ports = be32(payload)
    int_bytes = 0
    has_stack = False
    fault = 0
    if protocol == _UDP:
        payload += 8
        # F = 0 guarantees that the reported packet holds no telemetry (TR 3.3)
        original = get(tables.original_dscp, dscp) if tracked else -1
        by_port = tracked and (ports & 0xFFFF) == tables.int_udp_port
        if original >= 0 or by_port:
            counts = get(node_at(tables, get(report, c.R_NODE)), c.N_SHIM_COUNTS_SHIM)
            error = decode_int(payload, end, tables, counts, report, hops, datagram, shim)
            if error:
                return error
            int_bytes = get(shim, 2)
            fault = get(shim, 3)
            has_stack = get(report, c.R_FLAGS) & c.FLAG_STACK != 0
            payload += int_bytes
            if original >= 0:
                dscp = original
            if get(shim, 0) == NPT_UDP_PORT:
                ports = (ports & 0xFFFF0000) | get(shim, 1)
            elif get(shim, 0) == NPT_INSERTED_UDP:
                # the added UDP header in front of the shim goes too; the original one follows
                int_bytes += 8
                put(report, c.R_SOURCE_BYTES, get(report, c.R_SOURCE_BYTES) + 8)
                protocol = get(shim, 1) & 0xFF
                if protocol != _UDP and protocol != _TCP:
                    return _NOT_TIMED
                if payload + 4 > end:
                    return _TRUNCATED
                ports = be32(payload)
                if protocol == _UDP:
                    payload += 8
    if int_bytes > packet_bytes - header_bytes:
        return _INNER_IP_HEADER
    if protocol != _UDP:
        return _NOT_TIMED
    put(report, c.R_DSCP, dscp)
    put(report, c.R_INT_BYTES, int_bytes)
    put(report, c.R_WIRE_BYTES, wire_bytes(packet_bytes - int_bytes, tag_bytes))
    key = network << 48 | protocol << 32 | ports
    port = ports & 0xFFFF
    if port == _PORT_ROCE:
        if payload + 12 > end:
            return _TRUNCATED
        opcode = u8(payload)
        dest_qp = be32(payload + 4) & 0xFFFFFF
        psn = be32(payload + 8) & 0xFFFFFF
        put(report, c.R_KEY, TRAFFIC_ROCE << 56 | key)
        put(report, c.R_KEY_NUMBERS, opcode << 48 | dest_qp << 24 | psn)
        put(report, c.R_KEY_MORE, 0)
        set_hash(tables, report)
        return -fault
    if port == _PORT_PTP:
        if payload + 34 > end:
            return _TRUNCATED
        result = _decode_ptp(payload, tables, report, key)
        return -fault if result == 0 else result
    if port == _PORT_PROBE and not has_stack:
        if payload + 12 > end:
            return _TRUNCATED
        word = be32(payload)
        if word >> 28 != PROBE_VERSION:
            return _PROBE_VERSION
        node_id = be32(payload + 4)
        put(report, c.R_INT_BYTES, 0)
        put(report, c.R_WIRE_BYTES, wire_bytes(packet_bytes, tag_bytes))
        put(report, c.R_KEY, TRAFFIC_PROBE << 56 | key)
        put(report, c.R_KEY_NUMBERS, node_id << 16 | (word & 0xFFFF))
        put(report, c.R_KEY_MORE, be32(payload + 8))
        if word & 0x08000000:
            put(report, c.R_FLAGS, get(report, c.R_FLAGS) | c.FLAG_RETURNING)
            high, low = get(report, c.R_SRC_HIGH), get(report, c.R_SRC_LOW)
            put(report, c.R_SRC_HIGH, get(report, c.R_DST_HIGH))
            put(report, c.R_SRC_LOW, get(report, c.R_DST_LOW))
            put(report, c.R_DST_HIGH, high)
            put(report, c.R_DST_LOW, low)
        set_hash(tables, report)
        return 0 if node_row(tables, node_id) >= 0 else -_UNKNOWN_NODE
    return _NOT_TIMED


@routine
def _decode_ptp_frame(
    frame: int,
    offset: int,
    end: int,
    tag_bytes: int,
    tables: FabricTables,
    report: int,
) -> int:
    """PTP over Ethernet: the addresses are MAC addresses."""
    if offset + 34 > end:
        return _TRUNCATED
    put(report, c.R_SRC_HIGH, 0)
    put(report, c.R_SRC_LOW, be16(frame + 6) << 32 | be32(frame + 8))
    put(report, c.R_DST_HIGH, 0)
    put(report, c.R_DST_LOW, be16(frame) << 32 | be32(frame + 2))
    put(report, c.R_DSCP, 0)
    put(report, c.R_INT_BYTES, 0)
    put(report, c.R_WIRE_BYTES, wire_bytes(be16(offset + 2), tag_bytes))
    return _decode_ptp(offset, tables, report, NETWORK_ETHERNET << 48 | _PTP << 32)


@part
def _decode_ptp(offset: int, tables: FabricTables, report: int, key: int) -> int:
    """A PTP header that is there as a whole."""
    word = be32(offset)
    if word >> 16 & 0xF != 2:
        return _PTP_VERSION
    message_type = word >> 24 & 0xF
    if message_type > 3:
        return _NOT_TIMED
    put(report, c.R_KEY, TRAFFIC_PTP << 56 | key)
    numbers = u8(offset + 4) << 40 | message_type << 32 | be32(offset + 28)
    put(report, c.R_KEY_NUMBERS, numbers)
    put(report, c.R_KEY_MORE, be64(offset + 20))
    set_hash(tables, report)
    return 0


@part
def set_hash(tables: FabricTables, report: int) -> None:
    """The hash of a key; the addresses of a probe change places and are no part of it."""
    key, numbers, more = (
        get(report, c.R_KEY),
        get(report, c.R_KEY_NUMBERS),
        get(report, c.R_KEY_MORE),
    )
    mixed = mix(key ^ tables.seed, numbers ^ 0x3F58476D1CE4E5B9)
    mixed ^= mix(more ^ 0x14D049BB133111EB, 0x1B873593CC9E2D51)
    if key >> 56 != TRAFFIC_PROBE:
        src, dst = get(report, c.R_SRC_LOW), get(report, c.R_DST_LOW)
        mixed ^= mix(src ^ 0x2545F4914F6CDD1D, dst ^ 0x5851F42D4C957F2D)
        src, dst = get(report, c.R_SRC_HIGH), get(report, c.R_DST_HIGH)
        if src != 0 or dst != 0:
            mixed ^= mix(src ^ 0x369DEA0F31A53F85, dst ^ 0x14057B7EF767814F)
    put(report, c.R_HASH, mixed & 0x7FFFFFFFFFFFFFFF)


@part
def same_key(a: int, b: int) -> bool:
    """Whether two reports are of one packet."""
    if (
        get(a, c.R_HASH) != get(b, c.R_HASH)
        or get(a, c.R_KEY) != get(b, c.R_KEY)
        or get(a, c.R_KEY_NUMBERS) != get(b, c.R_KEY_NUMBERS)
        or get(a, c.R_KEY_MORE) != get(b, c.R_KEY_MORE)
    ):
        return False
    if get(a, c.R_KEY) >> 56 == TRAFFIC_PROBE:
        return True
    return (
        get(a, c.R_SRC_LOW) == get(b, c.R_SRC_LOW)
        and get(a, c.R_DST_LOW) == get(b, c.R_DST_LOW)
        and get(a, c.R_SRC_HIGH) == get(b, c.R_SRC_HIGH)
        and get(a, c.R_DST_HIGH) == get(b, c.R_DST_HIGH)
    )


def _hash_row_entry(digest: int) -> Any:  # noqa: ANN401
    def hash_row(report: int, tables: int) -> None:
        """`set_hash`, for rows that were not decoded here; both by their addresses."""
        if digest != 0:
            set_hash(tables_at(tables), report)

    return entry(hash_row)


hash_row = _hash_row_entry(SOURCES_DIGEST)
