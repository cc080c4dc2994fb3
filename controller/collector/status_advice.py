# SPDX-License-Identifier: Apache-2.0
"""What to do about refused reports, by reason."""

from collections.abc import Mapping
from types import MappingProxyType

from controller.telemetry.codec import DecodeReason

_FORMAT = (
    "The payload is no report of the declared profile: look whether another profile of "
    "docs/dialects.md fits, and whether something else sends to the report port."
)
_FRAME = (
    "What arrives is not a report datagram: check that the capture or port holds the collector's "
    "traffic, and where the frames are damaged on the way."
)
_CUT = (
    "Reports are cut: capture with a larger snap length (tcpdump -s 0), and compare the switches' "
    "truncate_bytes with the MTU towards the collector."
)
_ADVICE = {
    DecodeReason.TRUNCATED: _CUT,
    DecodeReason.ETHER_TYPE: _FRAME,
    DecodeReason.IP_HEADER: _FRAME,
    DecodeReason.IP_CHECKSUM: _FRAME,
    DecodeReason.NOT_UDP: _FRAME,
    DecodeReason.UDP_LENGTH: _FRAME,
    DecodeReason.UDP_CHECKSUM: _FRAME,
    DecodeReason.IP_FRAGMENT: "Reports are fragmented on the way: lower truncate_bytes in "
    "fabric.yaml or raise the MTU towards the collector.",
    DecodeReason.UDP_PORT: "Reports go to another port than fabric.yaml says: set the collector's "
    "udp_port there to the one that the devices use, or deploy again.",
    DecodeReason.UNKNOWN_NODE: "Devices report under node ids that fabric.yaml does not have: add "
    "the switches, or correct their node_id.",
    DecodeReason.INNER_PROTOCOL: "The watchlist matches packets that are neither RoCEv2 nor PTP "
    "event messages: narrow it (watchlists in fabric.yaml).",
    DecodeReason.PTP_VERSION: "Hosts send PTP version 1: only version 2 can be used.",
    DecodeReason.NO_PACKET: "Reports hold no packet: have the devices include the packet's first "
    "bytes (truncate_bytes).",
}
NEXT_STEPS: Mapping[DecodeReason, str] = MappingProxyType(
    {reason: _ADVICE.get(reason, _FORMAT) for reason in DecodeReason}
)
"""For every reason."""
