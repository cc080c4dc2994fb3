# SPDX-License-Identifier: Apache-2.0
"""LLDP frames (IEEE Std 802.1AB-2016): who sends, out of which port, and for how long that holds.

Encoder and decoder of what the check of the cabling needs: the three mandatory TLVs and the system
name. TLVs of other types are passed over (clause 9.2.7.7.1).
"""

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Annotated, NamedTuple

from controller.addresses import format_mac
from controller.telemetry.codec import Buffer, DecodeError, decode, encode, packer
from controller.telemetry.layout import ETHERNET, VLAN, Ethernet
from controller.telemetry.layout_table import Wire, header_layout

ETHER_TYPE_LLDP = 0x88CC
NEAREST_BRIDGE_MAC = 0x0180_C200_000E
"""Destination that no bridge passes on (clause 7.1)."""
FRAME_BYTES_MIN = 60
"""Smallest frame without its check sequence (IEEE 802.3 clause 4.2.3.3)."""
TTL_S_MAX = 0xFFFF
ID_BYTES_MAX = 255
"""Of a chassis id or port id, and of a system name (clauses 8.5.2, 8.5.3, 8.5.6)."""
_ETHER_TYPE_TAG = 0x8100
_MAC_BYTES = 6


class LldpTlv(NamedTuple):
    """Head of a TLV (802.1AB clause 8.4)."""

    type: Annotated[int, Wire(7, "What the value is")]
    length: Annotated[int, Wire(9, "Bytes of the value")]


class LldpSubtype(NamedTuple):
    """First byte of a chassis id or port id (802.1AB clauses 8.5.2.2, 8.5.3.2)."""

    subtype: Annotated[int, Wire(8, "What the rest is")]


class LldpTtl(NamedTuple):
    """Value of a time to live TLV (802.1AB clause 8.5.4)."""

    seconds: Annotated[int, Wire(16, "How long the information holds; 0 = it ends now")]


LLDP_TLV = header_layout("lldp_tlv_t", LldpTlv)
LLDP_SUBTYPE = header_layout("lldp_subtype_t", LldpSubtype)
LLDP_TTL = header_layout("lldp_ttl_t", LldpTtl)


@unique
class TlvType(IntEnum):
    """TLV types that are read (table 8-1)."""

    END = 0
    CHASSIS_ID = 1
    PORT_ID = 2
    TTL = 3
    SYSTEM_NAME = 5


@unique
class ChassisSubtype(IntEnum):
    """What a chassis id is (table 8-2)."""

    COMPONENT = 1
    INTERFACE_ALIAS = 2
    PORT_COMPONENT = 3
    MAC_ADDRESS = 4
    NETWORK_ADDRESS = 5
    INTERFACE_NAME = 6
    LOCAL = 7


@unique
class PortSubtype(IntEnum):
    """What a port id is (table 8-3)."""

    INTERFACE_ALIAS = 1
    COMPONENT = 2
    MAC_ADDRESS = 3
    NETWORK_ADDRESS = 4
    INTERFACE_NAME = 5
    CIRCUIT_ID = 6
    LOCAL = 7


class LldpError(ValueError):
    """A frame that is no LLDP frame; `str()` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LldpFrame:
    """One frame's content."""

    src_mac: int
    chassis_subtype: int
    chassis_id: bytes
    port_subtype: int
    port_id: bytes
    ttl_s: int
    """0: the sender says goodbye."""
    system_name: str = ""

    @property
    def chassis_mac(self) -> int | None:
        """The chassis id, where it is a MAC address."""
        return _mac(self.chassis_id, self.chassis_subtype == ChassisSubtype.MAC_ADDRESS)

    @property
    def port_mac(self) -> int | None:
        """The port id, where it is a MAC address."""
        return _mac(self.port_id, self.port_subtype == PortSubtype.MAC_ADDRESS)

    @property
    def label(self) -> str:
        """The sender and its port as people write them."""
        chassis_mac, port_mac = self.chassis_mac, self.port_mac
        chassis = _text(self.chassis_id) if chassis_mac is None else format_mac(chassis_mac)
        port = _text(self.port_id) if port_mac is None else format_mac(port_mac)
        return f"{self.system_name or chassis} port {port}"


def switch_lldp_frame(*, name: str, mac: int, port: int, ttl_s: int) -> LldpFrame:
    """What a switch of the fabric says of itself: its MAC, its name, and the port's number."""
    return LldpFrame(
        src_mac=mac,
        chassis_subtype=ChassisSubtype.MAC_ADDRESS,
        chassis_id=mac.to_bytes(_MAC_BYTES, "big"),
        port_subtype=PortSubtype.LOCAL,
        port_id=str(port).encode(),
        ttl_s=ttl_s,
        system_name=name,
    )


def encode_lldp(frame: LldpFrame) -> bytes:
    """The Ethernet frame, padded to the smallest length; `ValueError` for what does not fit."""
    name = frame.system_name.encode()
    for part in (frame.chassis_id, frame.port_id, name or b"-"):
        if not 1 <= len(part) <= ID_BYTES_MAX:
            raise ValueError(f"LLDP ids and names have 1 to {ID_BYTES_MAX} bytes")
    parts = [
        encode_header(ETHER_TYPE_LLDP, frame.src_mac),
        _tlv(TlvType.CHASSIS_ID, _id(frame.chassis_subtype, frame.chassis_id)),
        _tlv(TlvType.PORT_ID, _id(frame.port_subtype, frame.port_id)),
        _tlv(TlvType.TTL, packer(LLDP_TTL)((min(frame.ttl_s, TTL_S_MAX),))),
    ]
    if name:
        parts.append(_tlv(TlvType.SYSTEM_NAME, name))
    parts.append(_tlv(TlvType.END, b""))
    return b"".join(parts).ljust(FRAME_BYTES_MIN, b"\0")


def encode_header(ether_type: int, src_mac: int) -> bytes:
    """The Ethernet header of a frame to the nearest bridge."""
    return encode(Ethernet(dst_addr=NEAREST_BRIDGE_MAC, src_addr=src_mac, ether_type=ether_type))


def _tlv(kind: TlvType, value: bytes) -> bytes:
    return packer(LLDP_TLV)((kind, len(value))) + value


def _id(subtype: int, value: bytes) -> bytes:
    return packer(LLDP_SUBTYPE)((subtype,)) + value


def decode_lldp(frame: Buffer) -> LldpFrame:
    """The frame's content; `LldpError` for anything that is no LLDP frame, or is cut off."""
    try:
        return _decode(bytes(frame))
    except DecodeError:
        raise LldpError("the frame ends inside a header") from None


def _decode(frame: bytes) -> LldpFrame:
    ethernet = decode(ETHERNET, frame)
    ether_type, start = ethernet.ether_type, ETHERNET.byte_count
    if ether_type == _ETHER_TYPE_TAG:  # a priority tag
        ether_type = decode(VLAN, frame, start).ether_type
        start += VLAN.byte_count
    if ether_type != ETHER_TYPE_LLDP:
        raise LldpError(f"EtherType {ether_type:#06x}, expected {ETHER_TYPE_LLDP:#06x}")
    tlvs = _tlvs(frame, start)
    wanted = [TlvType.CHASSIS_ID, TlvType.PORT_ID, TlvType.TTL]
    if [kind for kind, _ in tlvs[:3]] != wanted:  # clause 9.2.7.7.1
        raise LldpError("it does not begin with chassis id, port id and time to live")
    if any(kind in wanted for kind, _ in tlvs[3:]):
        raise LldpError("a mandatory TLV comes twice")
    chassis, port, ttl = (value for _, value in tlvs[:3])
    if not all(2 <= len(value) <= ID_BYTES_MAX + 1 for value in (chassis, port)):
        raise LldpError("a chassis id or port id has an impossible length")
    names = [value for kind, value in tlvs[3:] if kind == TlvType.SYSTEM_NAME]
    return LldpFrame(
        src_mac=ethernet.src_addr,
        chassis_subtype=decode(LLDP_SUBTYPE, chassis).subtype,
        chassis_id=chassis[1:],
        port_subtype=decode(LLDP_SUBTYPE, port).subtype,
        port_id=port[1:],
        ttl_s=decode(LLDP_TTL, ttl).seconds,
        system_name=_text(names[0]) if names else "",
    )


def _tlvs(frame: bytes, start: int) -> list[tuple[int, bytes]]:
    """Type and value of each TLV up to the end TLV, which may be left out (clause 8.5.1)."""
    found = []
    while start < len(frame):
        head = decode(LLDP_TLV, frame, start)
        start += LLDP_TLV.byte_count
        if head.type == TlvType.END:
            break
        if start + head.length > len(frame):
            raise LldpError("a TLV reaches past the end of the frame")
        found.append((head.type, frame[start : start + head.length]))
        start += head.length
    return found


def _mac(value: bytes, is_mac: bool) -> int | None:
    return int.from_bytes(value, "big") if is_mac and len(value) == _MAC_BYTES else None


def _text(value: bytes) -> str:
    """For logs and terminals: what others send is not to be trusted with either."""
    text = value.decode("utf-8", "replace")
    return text if text.isprintable() else value.hex(":")
