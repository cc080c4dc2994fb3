# SPDX-License-Identifier: Apache-2.0
"""Compiled: 64 bits that stand for a report's content."""

from controller.collector.kernel import part
from controller.collector.loads import be64, mix, u8


@part
def content_hash(start: int, end: int, seed: int) -> int:
    """64 bits that stand for a payload."""
    a = seed ^ (end - start)
    b = seed ^ 0x1E3779B97F4A7C15
    at = start
    while at + 32 <= end:
        a = mix(be64(at) ^ 0x2545F4914F6CDD1D, be64(at + 8) ^ a)
        b = mix(be64(at + 16) ^ 0x5851F42D4C957F2D, be64(at + 24) ^ b)
        at += 32
    while at + 8 <= end:
        a = mix(be64(at) ^ 0x369DEA0F31A53F85, a ^ 0x14057B7EF767814F)
        at += 8
    if at < end:
        rest = 0
        while at < end:
            rest = rest << 8 | u8(at)
            at += 1
        b = mix(rest ^ 0x14D049BB133111EB, b ^ 0x3F58476D1CE4E5B9)
    return mix(a ^ 0x2545F4914F6CDD1D, b ^ 0x5851F42D4C957F2D)
