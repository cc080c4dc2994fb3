# SPDX-License-Identifier: Apache-2.0
"""Formats of the fabric schema that a pattern cannot express: addresses and prefixes.

The names are those of `format` in the schema; each check raises ValueError with what is wrong and
what was expected.
"""

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network

from jsonschema import FormatChecker

from controller.addresses import parse_ip, parse_ipv6

NO_DEVICE = (0, 127)
"""First octets of addresses that are this host's own, or nobody's (RFC 6890)."""
IPV4_MULTICAST = 0xE
"""First four bits of multicast; above it are reserved addresses and broadcast."""
IPV6_MULTICAST = 0xFF
IPV6_LOOPBACK = 1


def _device_ip(text: str) -> None:
    try:
        ip = parse_ip(text)
    except ValueError:
        raise ValueError("is not valid; expected an IPv4 address such as 10.0.1.2") from None
    if ip >> 24 in NO_DEVICE or ip >> 28 >= IPV4_MULTICAST:
        raise ValueError("is no device's; expected a unicast address such as 10.0.1.2")


def _device_ipv6(text: str) -> None:
    try:
        ip = parse_ipv6(text)
    except ValueError:
        raise ValueError("is not valid; expected an IPv6 address such as fd00:0:1::2") from None
    if ip <= IPV6_LOOPBACK or ip >> 120 == IPV6_MULTICAST:
        raise ValueError("is no device's; expected a unicast address such as fd00:0:1::2")


def _network(of: Callable[[str], object], expected: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        try:
            of(text)
        except ValueError:
            raise ValueError(f"is not valid; expected {expected}") from None

    return check


def _host_or_prefix(text: str) -> None:
    if "/" in text:
        CHECKS["ip-prefix"](text)


CHECKS: dict[str, Callable[[str], None]] = {
    "device-ipv4": _device_ip,
    "device-ipv6": _device_ipv6,
    "ipv4-prefix": _network(IPv4Network, "an IPv4 prefix without host bits such as 10.0.1.0/24"),
    "ipv6-prefix": _network(IPv6Network, "an IPv6 prefix without host bits such as fd00:0:1::/64"),
    "ip-prefix": _network(
        ip_network, "a prefix without host bits such as 10.0.1.0/24 or fd00:0:1::/64"
    ),
    "host-or-prefix": _host_or_prefix,
}


def format_checker() -> FormatChecker:
    """The checks for jsonschema; what is no text passes them."""
    checker = FormatChecker(formats=())
    for name, check in CHECKS.items():
        checker.checks(name, raises=ValueError)(_passes(check))
    return checker


def _passes(check: Callable[[str], None]) -> Callable[[object], bool]:
    def passes(value: object) -> bool:
        if isinstance(value, str):
            check(value)
        return True

    return passes
