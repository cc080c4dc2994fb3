# SPDX-License-Identifier: Apache-2.0
"""Frames made byte by byte, from the standards and not with the product's encoders."""

from typing import Any

from tests.p4.wire import (
    IPV4,
    IPV6,
    PTP,
    UDP_PROTOCOL,
    VLAN,
    Offsets,
    icrc,
    ones_sum,
    packed,
    refresh_ip,
)

HOST_MAC = 0x020000000101
ROUTER_MAC = 0x0200000001FE
ROCE_PORT = 4791
PROBE_PORT = 32767
ACKNOWLEDGE, CNP = 0x11, 0x81

HOST_V4 = ("10.0.1.1", "10.0.2.1")
HOST_V6 = ("fd00:0:1::1", "fd00:0:2::1")
"""Source and destination of a test packet unless it says otherwise."""


def ethernet(
    ether_type: int,
    body: bytes,
    *,
    dst: int = ROUTER_MAC,
    src: int = HOST_MAC,
    vlan: int | None = None,
) -> bytes:
    """An Ethernet frame without FCS; `vlan` is the 16-bit tag control information."""
    tag = b"" if vlan is None else VLAN.to_bytes(2, "big") + vlan.to_bytes(2, "big")
    return (
        dst.to_bytes(6, "big") + src.to_bytes(6, "big") + tag + ether_type.to_bytes(2, "big") + body
    )


def ip_frame(
    body: bytes,
    protocol: int,
    *,
    src: str = HOST_V4[0],
    dst: str = HOST_V4[1],
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = 64,
    options: bytes = b"",
    flow_label: int = 0,
    vlan: int | None = None,
) -> bytes:
    """A frame with an IPv4 or IPv6 packet; the address family is that of `src`."""
    traffic_class = dscp << 2 | ecn
    if ":" in src:
        word = 6 << 28 | traffic_class << 20 | flow_label
        header = word.to_bytes(4, "big") + len(body).to_bytes(2, "big") + bytes([protocol, ttl])
        return ethernet(IPV6, header + packed(src) + packed(dst) + body, vlan=vlan)
    total = 20 + len(options) + len(body)
    header = bytes([0x40 | 5 + len(options) // 4, traffic_class]) + total.to_bytes(2, "big")
    header += bytes.fromhex("1a2b4000") + bytes([ttl, protocol, 0, 0])
    header += packed(src) + packed(dst) + options
    return refresh_ip(ethernet(IPV4, header + body, vlan=vlan))


def udp_frame(
    body: bytes,
    *,
    sport: int,
    dport: int,
    udp_checksum: bool = False,
    src: str = HOST_V4[0],
    dst: str = HOST_V4[1],
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = 64,
    options: bytes = b"",
    flow_label: int = 0,
    vlan: int | None = None,
) -> bytes:
    """A frame with a UDP datagram, with the right checksum or 0 for none."""
    length = 8 + len(body)
    header = sport.to_bytes(2, "big") + dport.to_bytes(2, "big") + length.to_bytes(2, "big")
    checksum = 0
    if udp_checksum:
        pseudo = packed(src) + packed(dst) + length.to_bytes(4, "big") + b"\0\0\0\x11"
        checksum = 0xFFFF - ones_sum(pseudo + header + b"\0\0" + body) or 0xFFFF
    return ip_frame(
        header + checksum.to_bytes(2, "big") + body,
        UDP_PROTOCOL,
        src=src,
        dst=dst,
        dscp=dscp,
        ecn=ecn,
        ttl=ttl,
        options=options,
        flow_label=flow_label,
        vlan=vlan,
    )


def roce(
    *,
    v6: bool = False,
    src: str = "",
    dst: str = "",
    sport: int = 0xC123,
    opcode: int = 4,
    psn: int = 7,
    dest_qp: int = 0x1234,
    extended: bytes = b"",
    payload: bytes = b"payload.",
    dscp: int = 26,
    ecn: int = 2,
    ttl: int = 64,
    udp_checksum: bool = False,
    flow_label: int = 0x5A5A5,
    options: bytes = b"",
    vlan: int | None = None,
) -> bytes:
    """A RoCEv2 frame with a right ICRC; `extended` stands between BTH and payload."""
    pad = -len(payload) % 4
    bth = bytes([opcode, pad << 4, 0xFF, 0xFF, 0]) + dest_qp.to_bytes(3, "big")
    bth += bytes([0x80]) + psn.to_bytes(3, "big")
    default = HOST_V6 if v6 else HOST_V4

    def build(crc: bytes) -> bytes:
        return udp_frame(
            bth + extended + payload + bytes(pad) + crc,
            sport=sport,
            dport=ROCE_PORT,
            udp_checksum=udp_checksum,
            src=src or default[0],
            dst=dst or default[1],
            dscp=dscp,
            ecn=ecn,
            ttl=ttl,
            flow_label=flow_label,
            options=options,
            vlan=vlan,
        )

    return build(icrc(build(bytes(4))))


def aeth(syndrome: int, msn: int = 5) -> bytes:
    """An ACK extended transport header."""
    return bytes([syndrome]) + msn.to_bytes(3, "big")


def reth(virtual_address: int = 0x1122334455667788, key: int = 0xABCD, length: int = 4096) -> bytes:
    """An RDMA extended transport header."""
    return virtual_address.to_bytes(8, "big") + key.to_bytes(4, "big") + length.to_bytes(4, "big")


def cnp(**changes: Any) -> bytes:
    """A congestion notification packet: BECN set, 16 zero bytes."""
    frame = bytearray(roce(opcode=CNP, extended=bytes(16), payload=b"", psn=0, **changes))
    frame[Offsets.of(bytes(frame)).l4 + 12] = 0x40
    return bytes(frame)  # the ICRC does not cover FECN and BECN


def ptp_body(
    message_type: int = 0,
    *,
    version: int = 2,
    length: int = 44,
    domain: int = 24,
    correction: int = 0,
    two_step: bool = False,
    sequence_id: int = 0x0102,
    clock: int = 0xAABBCCFFFEDDEEFF,
) -> bytes:
    """A PTP message: 34 bytes of header and an arbitrary body up to `length`."""
    flags = 0x0200 if two_step else 0
    header = bytes([message_type, 0x10 | version]) + length.to_bytes(2, "big")
    header += bytes([domain, 0]) + flags.to_bytes(2, "big")
    header += (correction & (1 << 64) - 1).to_bytes(8, "big") + bytes(4)
    header += clock.to_bytes(8, "big") + b"\0\x01" + sequence_id.to_bytes(2, "big") + b"\0\x7f"
    return (header + bytes(i & 0xFF for i in range(0x30, 0x30 + length)))[:length]


def ptp(
    message_type: int = 0,
    *,
    over: str = "ipv4",
    dst: str = "",
    udp_checksum: bool = False,
    vlan: int | None = None,
    version: int = 2,
    length: int = 44,
    domain: int = 24,
    correction: int = 0,
    two_step: bool = False,
    sequence_id: int = 0x0102,
) -> bytes:
    """A PTP frame over "ipv4", "ipv6" or "ethernet"; event types go to port 319, others to 320."""
    body = ptp_body(
        message_type,
        version=version,
        length=length,
        domain=domain,
        correction=correction,
        two_step=two_step,
        sequence_id=sequence_id,
    )
    if over == "ethernet":
        return ethernet(PTP, body, dst=0x011B19000000, vlan=vlan)
    source, destination = HOST_V6 if over == "ipv6" else HOST_V4
    port = 319 if message_type < 4 else 320
    return udp_frame(
        body,
        sport=port,
        dport=port,
        udp_checksum=udp_checksum,
        src=source,
        dst=dst or destination,
        vlan=vlan,
    )


def probe(
    *,
    src: str = "10.254.0.1",
    dst: str = "10.254.0.101",
    version: int = 1,
    returning: int = 0,
    egress_port: int = 1,
    node_id: int = 1,
    sequence_number: int = 77,
    dscp: int = 46,
    ttl: int = 255,
    length: int = 60,
) -> bytes:
    """A link probe as its sender makes it, with `length` bytes of UDP payload."""
    word = version << 28 | returning << 27 | egress_port
    body = word.to_bytes(4, "big") + node_id.to_bytes(4, "big") + sequence_number.to_bytes(4, "big")
    body = body.ljust(length, b"\x5a")
    return udp_frame(body, sport=PROBE_PORT, dport=PROBE_PORT, src=src, dst=dst, dscp=dscp, ttl=ttl)
