# SPDX-License-Identifier: Apache-2.0
"""PTP messages of the end-to-end delay mechanism: build and parse.

Layouts are those of IEEE 1588-2019 clause 13. Over UDP (annexes C and D) event messages go to port
319, general ones to 320; over Ethernet (annex E) both have EtherType 0x88F7.
"""

import functools
from dataclasses import dataclass
from enum import IntEnum, unique

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode, encode
from controller.telemetry.datagram import (
    ETHER_TYPE_PTP,
    UDP_PORT_PTP_EVENT,
    UDP_PORT_PTP_GENERAL,
    unwrap_link,
    unwrap_udp,
    wrap_link,
    wrap_udp,
)
from controller.telemetry.layout import (
    PTP,
    PTP_DELAY_RESP,
    PTP_TIMESTAMP,
    UDP,
    Ipv4,
    Ptp,
    PtpDelayRespBody,
    PtpTimestampBody,
)


@unique
class PtpMessageType(IntEnum):
    """Message types of the end-to-end delay mechanism (IEEE 1588-2019 table 36)."""

    SYNC = 0x0
    DELAY_REQ = 0x1
    FOLLOW_UP = 0x8
    DELAY_RESP = 0x9


@unique
class PtpTransport(IntEnum):
    """What a PTP message travels on, numbered as networkProtocol (IEEE 1588-2019 table 3)."""

    UDP_IPV4 = 1
    UDP_IPV6 = 2
    ETHERNET = 3


PTP_VERSION = 2
PTP_EVENT_TYPE_MAX = 3
"""Message types 0 to 3 are event messages: they are stamped (IEEE 1588-2019 table 36)."""
PTP_MINOR_VERSION = 1
PTP_FLAG_TWO_STEP = 0x0200
PTP_FLAG_UNICAST = 0x0400
PTP_LOG_INTERVAL_NONE = 0x7F
PTP_CORRECTION_TOO_BIG = 2**63 - 1
"""correctionField whose value does not fit (IEEE 1588-2019 13.3.2.9): not a number."""
_CONTROL_FIELD = {
    PtpMessageType.SYNC: 0,
    PtpMessageType.DELAY_REQ: 1,
    PtpMessageType.FOLLOW_UP: 2,
    PtpMessageType.DELAY_RESP: 3,
}
_MAC_GROUP_BIT = 1 << 40
"""Of an address that several receivers share (IEEE 802 clause 8.2)."""
_NS_PER_S = 1_000_000_000
_PREFIXES_CACHED_MAX = 4096
"""Prepared headers: two per pair of addresses and port, for some thousand clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtpAddresses:
    """Where a PTP message comes from and goes to, and on what; no IP addresses over Ethernet."""

    src_mac: int
    dst_mac: int
    src_ip: int = 0
    dst_ip: int = 0
    dscp: int = 0
    ttl: int = 64
    transport: PtpTransport = PtpTransport.UDP_IPV4
    vlan_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PtpMessage:
    """A PTP message of the end-to-end mechanism.

    `timestamp_ns` is originTimestamp (Sync, Delay_Req), preciseOriginTimestamp (Follow_Up) or
    receiveTimestamp (Delay_Resp), on the sender's clock. `correction_scaled_ns` is the
    correctionField in units of 2^-16 ns, signed. The requesting identity is 0 except in a
    Delay_Resp.
    """

    message_type: PtpMessageType
    domain: int
    clock_identity: int
    port_number: int
    sequence_id: int
    timestamp_ns: int = 0
    correction_scaled_ns: int = 0
    two_step: bool = False
    requesting_clock_identity: int = 0
    requesting_port_number: int = 0

    @property
    def correction_ns(self) -> int | None:
        """Whole nanoseconds, rounded towards minus infinity; None when it was too big to state."""
        if self.correction_scaled_ns == PTP_CORRECTION_TOO_BIG:
            return None
        return self.correction_scaled_ns >> 16


def ptp_sync(
    addresses: PtpAddresses,
    *,
    domain: int,
    clock_identity: int,
    port_number: int = 1,
    sequence_id: int,
    timestamp_ns: int = 0,
    correction_scaled_ns: int = 0,
    two_step: bool = True,
) -> bytes:
    """A Sync frame; two-step by default, its exact time follows in the Follow_Up."""
    return ptp_frame(
        addresses,
        PtpMessage(
            message_type=PtpMessageType.SYNC,
            domain=domain,
            clock_identity=clock_identity,
            port_number=port_number,
            sequence_id=sequence_id,
            timestamp_ns=timestamp_ns,
            correction_scaled_ns=correction_scaled_ns,
            two_step=two_step,
        ),
    )


def ptp_follow_up(
    addresses: PtpAddresses,
    *,
    domain: int,
    clock_identity: int,
    port_number: int = 1,
    sequence_id: int,
    timestamp_ns: int,
    correction_scaled_ns: int = 0,
) -> bytes:
    """A Follow_Up frame: `timestamp_ns` is when the Sync of the same sequence id left (t1)."""
    return ptp_frame(
        addresses,
        PtpMessage(
            message_type=PtpMessageType.FOLLOW_UP,
            domain=domain,
            clock_identity=clock_identity,
            port_number=port_number,
            sequence_id=sequence_id,
            timestamp_ns=timestamp_ns,
            correction_scaled_ns=correction_scaled_ns,
        ),
    )


def ptp_delay_req(
    addresses: PtpAddresses,
    *,
    domain: int,
    clock_identity: int,
    port_number: int = 1,
    sequence_id: int,
    timestamp_ns: int = 0,
    correction_scaled_ns: int = 0,
) -> bytes:
    """A Delay_Req frame of the client; it leaves at t3."""
    return ptp_frame(
        addresses,
        PtpMessage(
            message_type=PtpMessageType.DELAY_REQ,
            domain=domain,
            clock_identity=clock_identity,
            port_number=port_number,
            sequence_id=sequence_id,
            timestamp_ns=timestamp_ns,
            correction_scaled_ns=correction_scaled_ns,
        ),
    )


def ptp_delay_resp(
    addresses: PtpAddresses,
    *,
    domain: int,
    clock_identity: int,
    port_number: int = 1,
    sequence_id: int,
    timestamp_ns: int,
    requesting_clock_identity: int,
    requesting_port_number: int = 1,
    correction_scaled_ns: int = 0,
) -> bytes:
    """A Delay_Resp frame: `timestamp_ns` is when the Delay_Req arrived (t4).

    Its correctionField is what the Delay_Req arrived with (IEEE 1588-2019 11.3.2): the responder
    passes on `parse_ptp(delay_req).correction_scaled_ns`.
    """
    return ptp_frame(
        addresses,
        PtpMessage(
            message_type=PtpMessageType.DELAY_RESP,
            domain=domain,
            clock_identity=clock_identity,
            port_number=port_number,
            sequence_id=sequence_id,
            timestamp_ns=timestamp_ns,
            correction_scaled_ns=correction_scaled_ns,
            requesting_clock_identity=requesting_clock_identity,
            requesting_port_number=requesting_port_number,
        ),
    )


def ptp_frame(addresses: PtpAddresses, message: PtpMessage) -> bytes:
    """The message on the transport of its addresses."""
    seconds, nanoseconds = divmod(message.timestamp_ns, _NS_PER_S)
    if message.message_type is PtpMessageType.DELAY_RESP:
        body = encode(
            PtpDelayRespBody(
                seconds=seconds,
                nanoseconds=nanoseconds,
                requesting_clock_identity=message.requesting_clock_identity,
                requesting_port_number=message.requesting_port_number,
            )
        )
    else:
        body = encode(PtpTimestampBody(seconds=seconds, nanoseconds=nanoseconds))
    unicast = 0 if addresses.dst_mac & _MAC_GROUP_BIT else PTP_FLAG_UNICAST
    header = Ptp(
        major_sdo_id=0,
        message_type=message.message_type,
        minor_version_ptp=PTP_MINOR_VERSION,
        version_ptp=PTP_VERSION,
        message_length=PTP.byte_count + len(body),
        domain_number=message.domain,
        minor_sdo_id=0,
        flag_field=unicast | (PTP_FLAG_TWO_STEP if message.two_step else 0),
        correction_field=message.correction_scaled_ns & (2**64 - 1),
        message_type_specific=0,
        source_clock_identity=message.clock_identity,
        source_port_number=message.port_number,
        sequence_id=message.sequence_id & 0xFFFF,
        control_field=_CONTROL_FIELD[message.message_type],
        log_message_interval=PTP_LOG_INTERVAL_NONE,
    )
    whole = encode(header) + body
    if addresses.transport is PtpTransport.ETHERNET:
        return wrap_link(
            whole,
            src_mac=addresses.src_mac,
            dst_mac=addresses.dst_mac,
            ether_type=ETHER_TYPE_PTP,
            vlan_id=addresses.vlan_id,
        )
    event = message.message_type <= PTP_EVENT_TYPE_MAX
    port = UDP_PORT_PTP_EVENT if event else UDP_PORT_PTP_GENERAL
    if addresses.transport is PtpTransport.UDP_IPV6:
        return _udp_frame(addresses, port, whole)  # IPv6 wants a checksum over the message
    return _udp_prefix(addresses, port, len(whole)) + whole


@functools.lru_cache(maxsize=_PREFIXES_CACHED_MAX)
def _udp_prefix(addresses: PtpAddresses, port: int, message_length: int) -> bytes:
    """Ethernet, IPv4 and UDP headers of a message; linuxptp uses one port on both sides."""
    return _udp_frame(addresses, port, bytes(message_length))[:-message_length]


def _udp_frame(addresses: PtpAddresses, port: int, message: bytes) -> bytes:
    is_ipv6 = addresses.transport is PtpTransport.UDP_IPV6
    return wrap_udp(
        message,
        src_mac=addresses.src_mac,
        dst_mac=addresses.dst_mac,
        src_ip=addresses.src_ip,
        dst_ip=addresses.dst_ip,
        src_port=port,
        dst_port=port,
        ip_version=6 if is_ipv6 else 4,
        dscp=addresses.dscp,
        ttl=addresses.ttl,
        vlan_id=addresses.vlan_id,
        udp_checksum=is_ipv6,
    )


def parse_ptp_addresses(frame: Buffer) -> PtpAddresses:
    """The addresses that a frame carries; `DecodeError` when it is neither UDP nor PTP."""
    link = unwrap_link(frame)
    vlan_id = None if link.vlan is None else link.vlan.vlan_id
    if link.ether_type == ETHER_TYPE_PTP:
        return PtpAddresses(
            src_mac=link.ethernet.src_addr,
            dst_mac=link.ethernet.dst_addr,
            transport=PtpTransport.ETHERNET,
            vlan_id=vlan_id,
        )
    ip = unwrap_udp(frame).ip
    is_ipv4 = isinstance(ip, Ipv4)
    return PtpAddresses(
        src_mac=link.ethernet.src_addr,
        dst_mac=link.ethernet.dst_addr,
        src_ip=ip.src_addr,
        dst_ip=ip.dst_addr,
        dscp=ip.dscp,
        ttl=ip.ttl if isinstance(ip, Ipv4) else ip.hop_limit,
        transport=PtpTransport.UDP_IPV4 if is_ipv4 else PtpTransport.UDP_IPV6,
        vlan_id=vlan_id,
    )


def parse_ptp(frame: Buffer) -> PtpMessage:
    """The PTP message in a frame; `DecodeError` when it holds none of the four types."""
    start, end = _ptp_span(frame)
    payload = frame[:end]
    header = decode(PTP, payload, start)
    if header.version_ptp != PTP_VERSION:
        raise DecodeError(DecodeReason.PTP_VERSION, start + 1)
    try:
        message_type = PtpMessageType(header.message_type)
    except ValueError:
        raise DecodeError(DecodeReason.INNER_PROTOCOL, start) from None
    if not PTP.byte_count <= header.message_length <= end - start:
        raise DecodeError(DecodeReason.TRUNCATED, start + 2)
    payload = payload[: start + header.message_length]
    body_start = start + PTP.byte_count
    requesting_clock_identity = requesting_port_number = 0
    if message_type is PtpMessageType.DELAY_RESP:
        response = decode(PTP_DELAY_RESP, payload, body_start)
        seconds, nanoseconds = response.seconds, response.nanoseconds
        requesting_clock_identity = response.requesting_clock_identity
        requesting_port_number = response.requesting_port_number
    else:
        seconds, nanoseconds = decode(PTP_TIMESTAMP, payload, body_start)
    correction = header.correction_field
    return PtpMessage(
        message_type=message_type,
        domain=header.domain_number,
        clock_identity=header.source_clock_identity,
        port_number=header.source_port_number,
        sequence_id=header.sequence_id,
        timestamp_ns=seconds * _NS_PER_S + nanoseconds,
        correction_scaled_ns=correction - (correction >> 63 << 64),
        two_step=bool(header.flag_field & PTP_FLAG_TWO_STEP),
        requesting_clock_identity=requesting_clock_identity,
        requesting_port_number=requesting_port_number,
    )


def _ptp_span(frame: Buffer) -> tuple[int, int]:
    """(start, end) of what a frame carries to PTP; Ethernet padding may be part of it."""
    link = unwrap_link(frame)
    if link.ether_type == ETHER_TYPE_PTP:
        return link.payload_start, len(frame)
    datagram = unwrap_udp(frame)
    if datagram.udp.dst_port not in (UDP_PORT_PTP_EVENT, UDP_PORT_PTP_GENERAL):
        raise DecodeError(DecodeReason.INNER_PROTOCOL, datagram.payload_start - UDP.byte_count)
    return datagram.payload_start, datagram.payload_end
