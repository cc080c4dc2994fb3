# SPDX-License-Identifier: Apache-2.0
"""What readers of captures share: the error, and limits that tell damage from data."""

NS_PER_S = 1_000_000_000
CAPTURED_BYTES_MAX = 262_144
"""Longest frame accepted, libpcap's own limit: a larger length means a damaged file."""


class PcapError(ValueError):
    """A file that is not a readable capture: where, and what was expected there."""

    def __init__(self, name: str, offset: int, expected: str) -> None:
        super().__init__(f"{name}: byte {offset}: expected {expected}")
        self.name = name
        self.offset = offset
        self.expected = expected
