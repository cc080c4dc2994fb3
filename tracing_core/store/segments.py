# SPDX-License-Identifier: Apache-2.0
"""Numbers of segments: what one insert brings, in the order of arrival.

A number is microseconds since 1970 followed by 12 bits of the writer, so that two services may
write into one store; its day is the partition that the segment's rows are in.
"""

WRITER_BITS = 12
NS_PER_US = 1000


def segment_number(now_ns: int, writer: int, previous: int = 0) -> int:
    """The number of a segment begun now by `writer`; always above the writer's `previous` one."""
    number = (now_ns // NS_PER_US) << WRITER_BITS | writer % (1 << WRITER_BITS)
    return max(number, previous + (1 << WRITER_BITS))


def segment_time_ns(segment: int) -> int:
    """When the segment was begun, by its writer's clock."""
    return (segment >> WRITER_BITS) * NS_PER_US
