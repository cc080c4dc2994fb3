# SPDX-License-Identifier: Apache-2.0
"""What a router or an INT node should make of a frame, so that a test can expect all of it."""

from tests.p4.frames import ethernet
from tests.p4.wire import IPV4, IPV6, Offsets, added, ones_sum, refresh_ip, replaced


def traffic_class(frame: bytes) -> int:
    """DSCP and ECN as one byte."""
    l3 = Offsets.of(frame).l3
    if frame[l3] >> 4 == 6:
        return (frame[l3] & 15) << 4 | frame[l3 + 1] >> 4
    return frame[l3 + 1]


def with_class(frame: bytes, *, dscp: int | None = None, ecn: int | None = None) -> bytes:
    """The frame with another DSCP or ECN."""
    at, old = Offsets.of(frame), traffic_class(frame)
    new = (old >> 2 if dscp is None else dscp) << 2 | (old & 3 if ecn is None else ecn)
    if at.version == 6:
        first = (frame[at.l3] & 0xF0 | new >> 4, frame[at.l3 + 1] & 0x0F | (new & 15) << 4)
        return replaced(frame, at.l3, bytes(first))
    return refresh_ip(replaced(frame, at.l3 + 1, bytes([new])))


def routed(frame: bytes, port: int, *, vlan: int | None = None, hops: int = 1) -> bytes:
    """What a route of `Node.route` makes of a frame: MACs, tag and TTL; `vlan` as in `ethernet`."""
    at = Offsets.of(frame)
    packet = frame[at.l3 :]
    ether_type = IPV6 if at.version == 6 else IPV4
    destination = int.from_bytes(frame[0:6], "big")
    out = ethernet(ether_type, packet, dst=member_mac(port), src=destination, vlan=vlan)
    at = Offsets.of(out)
    return refresh_ip(added(out, at.l3 + (7 if at.version == 6 else 8), 1, -hops))


def member_mac(port: int) -> int:
    """Next hop MAC of the members that `Node.route` makes."""
    return 0x020000000000 | port


def inserted(frame: bytes, data: bytes, *, dscp: int | None = None) -> bytes:
    """INT put in after UDP; lengths, IP checksum, UDP checksum (RFC 1624) and DSCP follow."""
    at = Offsets.of(frame)
    out = frame[: at.payload] + data + frame[at.payload :]
    out = added(out, at.l3 + (4 if at.version == 6 else 2), 2, len(data))
    out = _adjusted(added(out, at.l4 + 4, 2, len(data)), at, data, 0, len(data))
    return with_class(out, dscp=dscp)


def removed(frame: bytes, count: int, *, dscp: int | None = None) -> bytes:
    """The inverse of `inserted`, for `count` bytes after UDP."""
    at = Offsets.of(frame)
    data = frame[at.payload : at.payload + count]
    out = frame[: at.payload] + frame[at.payload + count :]
    out = added(out, at.l3 + (4 if at.version == 6 else 2), 2, -count)
    ones = bytes(byte ^ 0xFF for byte in data)
    out = _adjusted(added(out, at.l4 + 4, 2, -count), at, ones, 0, -count)
    return with_class(out, dscp=dscp)


def _adjusted(frame: bytes, at: Offsets, new: bytes, old: int, length_change: int) -> bytes:
    """UDP checksum updated for added words and a length that is summed twice; 0 stays 0."""
    place = at.l4 + 6
    checksum = int.from_bytes(frame[place : place + 2], "big")
    if checksum == 0:
        return frame
    total = (0xFFFF - checksum) + ones_sum(new) - old + 2 * (length_change % 0xFFFF)
    checksum = 0xFFFF - total % 0xFFFF  # 1 to 0xFFFF: never "no checksum"
    return replaced(frame, place, checksum.to_bytes(2, "big"))


def with_udp_field(frame: bytes, offset: int, data: bytes) -> bytes:
    """Bytes of the UDP payload overwritten (even offset and size); the checksum follows."""
    at = Offsets.of(frame)
    place = at.payload + offset
    old = frame[place : place + len(data)]
    out = replaced(frame, place, data)
    return _adjusted(out, at, data, ones_sum(old), 0)


def ip_packet(frame: bytes) -> bytes:
    """The IP packet of a frame, without Ethernet header and padding."""
    at = Offsets.of(frame)
    place = at.l3 + (4 if at.version == 6 else 2)
    length = int.from_bytes(frame[place : place + 2], "big") + (40 if at.version == 6 else 0)
    return frame[at.l3 : at.l3 + length]
