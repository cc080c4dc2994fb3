# SPDX-License-Identifier: Apache-2.0
"""IP and MAC addresses as integers, and their usual text forms.

Integers inside, text at the edge: records, P4Runtime values and frames all want the number.
"""

from ipaddress import AddressValueError, IPv4Address, IPv6Address


def parse_ip(text: str) -> int:
    """The IPv4 address as an integer.

    >>> hex(parse_ip("10.0.1.2"))
    '0xa000102'
    """
    try:
        return int(IPv4Address(text))
    except AddressValueError as error:
        raise ValueError(f"{text!r} is not an IPv4 address") from error


def format_ip(ip: int) -> str:
    """Dotted text of an IPv4 address.

    >>> format_ip(0x0A000102)
    '10.0.1.2'
    """
    return str(IPv4Address(ip))


def parse_ipv6(text: str) -> int:
    """The IPv6 address as an integer.

    >>> hex(parse_ipv6("fd00:0:1::2"))
    '0xfd000000000100000000000000000002'
    """
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError(f"{text!r} is not an IPv6 address") from error
    if address.scope_id is not None:
        raise ValueError(f"{text!r} has a scope")
    return int(address)


def format_ipv6(ipv6: int) -> str:
    """Shortest text of an IPv6 address (RFC 5952).

    >>> format_ipv6(0xFD00_0000_0001_0000_0000_0000_0000_0002)
    'fd00:0:1::2'
    """
    return str(IPv6Address(ipv6))


def parse_mac(text: str) -> int:
    """The MAC address, six octets separated by colons, as an integer.

    >>> hex(parse_mac("02:00:00:00:01:02"))
    '0x20000000102'
    """
    octets = text.split(":")
    if len(octets) != 6 or not all(len(octet) == 2 for octet in octets):
        raise ValueError(f"{text!r} is not a MAC address")
    return int.from_bytes(bytes.fromhex("".join(octets)), "big")


def format_mac(mac: int) -> str:
    """Text of a MAC address, lower case.

    >>> format_mac(0x020000000102)
    '02:00:00:00:01:02'
    """
    return mac.to_bytes(6, "big").hex(":")
