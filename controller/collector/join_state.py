# SPDX-License-Identifier: Apache-2.0
"""Reports that wait for others of their packet, and finished rows: tables for the compiled joiner.

Waiting reports, the hops of their stacks and the packets (groups) they belong to are rows with free
lists; groups are found by a hash table with chains and are linked in order of arrival. All tables
grow between calls of the compiled loop, which stops when one of them might not suffice.
"""

from controller.collector import columns as c
from controller.collector.decode_packet import same_key
from controller.collector.kernel import part, routine
from controller.collector.loads import get, put

# ---------------------------------------------------------------- groups
G_FIRST_COLLECTOR_NS = 0
G_HASH = 1
G_FIRST_REPORT = 2
G_LAST_REPORT = 3
G_REPORTS = 4
G_CHAIN = 5
"""Next of the same bucket, or of the free list."""
G_OLDER = 6
G_NEWER = 7
G_COLUMNS = 8
G_BYTES = 8 * G_COLUMNS

# ---------------------------------------------------------------- state of the joiner
J_GROUPS = 0
J_GROUP_FREE = 1
J_GROUP_ROOM = 2
J_REPORTS = 3
J_REPORT_FREE = 4
J_REPORT_ROOM = 5
J_HOPS = 6
J_HOP_FREE = 7
J_HOP_ROOM = 8
J_BUCKETS = 9
J_BUCKET_MASK = 10
J_OLDEST = 11
J_NEWEST = 12
J_PENDING = 13
"""Groups that wait."""
J_PENDING_MAX = 14
J_WINDOW_NS = 15
J_COMPLETE = 16
J_INCOMPLETE = 17
J_PACKETS = 18
"""Address of finished packets, rows of PACKET_DTYPE."""
J_PACKET_COUNT = 19
J_PACKET_ROOM = 20
J_PATH_HOPS = 21
"""Address of their hops, rows of HOP_DTYPE with raw stamps."""
J_PATH_HOP_NODES = 22
"""int32 per hop: row of its node."""
J_PATH_HOP_COUNT = 23
J_PATH_HOP_ROOM = 24
J_ADDRESSES = 25
"""int64[n, A_COLUMNS]: addresses of packets that are not IPv4."""
J_ADDRESS_COUNT = 26
J_ADDRESS_ROOM = 27
J_GROUP_AT_HAND = 28
"""The group that the reference joiner is asked to see to."""
J_PATH = 29
"""int64[64], scratch: reports of a path."""
J_ADDS = 30
"""Reports that can be added before the room is looked at again."""
J_REFERENCES = 31
"""Address of int64[ports, REFERENCE_COLUMNS]: per port, in the order of the far ends."""
J_STAMP_STATE = 32
"""Address of `StampTimelines.state`."""
J_EPOCHS = 33
"""Address of int64[EPOCHS_MAX, 3]: epochs that postcards showed, as `place_hops` has them."""
J_EPOCH_COUNT = 34
J_LEARNED = 35
"""int64[64], scratch: differences of a path."""
J_POSTCARDS = 36
"""int64[64], scratch: postcards of a group."""
J_CHAIN = 37
"""int64[64], scratch: postcards in order."""
J_FUNCTIONS = 38
"""int64[F_COLUMNS]: functions called by address."""
J_COLUMNS = 40

REFERENCE_KNOWN = 0
REFERENCE_DIFFERENCE_NS = 1
REFERENCE_COLLECTOR_NS = 2
REFERENCE_COLUMNS = 3

A_PACKET = 0
A_NETWORK = 1
A_SRC_HIGH = 2
A_SRC_LOW = 3
A_DST_HIGH = 4
A_DST_LOW = 5
A_COLUMNS = 6
A_BYTES = 8 * A_COLUMNS

NONE = -1


@part
def group_at(joiner: int, group: int) -> int:
    """Address of a group."""
    return get(joiner, J_GROUPS) + group * G_BYTES


@part
def report_at(joiner: int, report: int) -> int:
    """Address of a waiting report."""
    return get(joiner, J_REPORTS) + report * c.R_BYTES


@part
def report_number(joiner: int, at: int) -> int:
    """The row of a waiting report by its address."""
    return (at - get(joiner, J_REPORTS)) // c.R_BYTES


@part
def find_group(joiner: int, report: int) -> int:
    """The group that a report (at an address) belongs to; NONE if it is the first."""
    if get(joiner, J_PENDING) == 0:
        return NONE
    group = get(get(joiner, J_BUCKETS), get(report, c.R_HASH) & get(joiner, J_BUCKET_MASK))
    while group != NONE:
        at = group_at(joiner, group)
        if get(at, G_HASH) == get(report, c.R_HASH) and same_key(
            report_at(joiner, get(at, G_FIRST_REPORT)), report
        ):
            return group
        group = get(at, G_CHAIN)
    return NONE


@routine
def new_group(joiner: int, key_hash: int, now_ns: int) -> int:
    """An empty group, the newest."""
    group = get(joiner, J_GROUP_FREE)
    at = group_at(joiner, group)
    put(joiner, J_GROUP_FREE, get(at, G_CHAIN))
    put(joiner, J_GROUP_ROOM, get(joiner, J_GROUP_ROOM) - 1)
    bucket = key_hash & get(joiner, J_BUCKET_MASK)
    put(at, G_FIRST_COLLECTOR_NS, now_ns)
    put(at, G_HASH, key_hash)
    put(at, G_FIRST_REPORT, NONE)
    put(at, G_LAST_REPORT, NONE)
    put(at, G_REPORTS, 0)
    put(at, G_CHAIN, get(get(joiner, J_BUCKETS), bucket))
    put(get(joiner, J_BUCKETS), bucket, group)
    newest = get(joiner, J_NEWEST)
    put(at, G_OLDER, newest)
    put(at, G_NEWER, NONE)
    if newest == NONE:
        put(joiner, J_OLDEST, group)
    else:
        put(group_at(joiner, newest), G_NEWER, group)
    put(joiner, J_NEWEST, group)
    put(joiner, J_PENDING, get(joiner, J_PENDING) + 1)
    return group


@routine
def drop_group(joiner: int, group: int) -> None:
    """Forget a group and its reports."""
    at = group_at(joiner, group)
    while get(at, G_FIRST_REPORT) != NONE:
        remove_report(joiner, group, get(at, G_FIRST_REPORT), NONE)
    buckets = get(joiner, J_BUCKETS)
    bucket = get(at, G_HASH) & get(joiner, J_BUCKET_MASK)
    if get(buckets, bucket) == group:
        put(buckets, bucket, get(at, G_CHAIN))
    else:
        before = group_at(joiner, get(buckets, bucket))
        while get(before, G_CHAIN) != group:
            before = group_at(joiner, get(before, G_CHAIN))
        put(before, G_CHAIN, get(at, G_CHAIN))
    older, newer = get(at, G_OLDER), get(at, G_NEWER)
    if older == NONE:
        put(joiner, J_OLDEST, newer)
    else:
        put(group_at(joiner, older), G_NEWER, newer)
    if newer == NONE:
        put(joiner, J_NEWEST, older)
    else:
        put(group_at(joiner, newer), G_OLDER, older)
    put(at, G_CHAIN, get(joiner, J_GROUP_FREE))
    put(joiner, J_GROUP_FREE, group)
    put(joiner, J_GROUP_ROOM, get(joiner, J_GROUP_ROOM) + 1)
    put(joiner, J_PENDING, get(joiner, J_PENDING) - 1)


@routine
def append_report(joiner: int, group: int, source: int, hops: int) -> int:
    """Copy a report (at an address) and the hops of its stack to the end of a group."""
    report = get(joiner, J_REPORT_FREE)
    to = report_at(joiner, report)
    put(joiner, J_REPORT_FREE, get(to, c.R_NEXT))
    put(joiner, J_REPORT_ROOM, get(joiner, J_REPORT_ROOM) - 1)
    for column in range(c.R_COLUMNS):
        put(to, column, get(source, column))
    put(to, c.R_NEXT, NONE)
    hop_count = get(source, c.R_HOPS)
    if hop_count != 0:
        table = get(joiner, J_HOPS)
        hop = get(joiner, J_HOP_FREE)
        put(to, c.R_FIRST_HOP, hop)
        at = hop
        for index in range(hop_count):
            hop = at
            place = table + hop * c.H_BYTES
            for column in range(c.H_COLUMNS - 1):
                put(place, column, get(hops + index * c.H_BYTES, column))
            at = get(place, c.H_NEXT)
        put(joiner, J_HOP_FREE, at)
        put(joiner, J_HOP_ROOM, get(joiner, J_HOP_ROOM) - hop_count)
    place = group_at(joiner, group)
    last = get(place, G_LAST_REPORT)
    if last == NONE:
        put(place, G_FIRST_REPORT, report)
    else:
        put(report_at(joiner, last), c.R_NEXT, report)
    put(place, G_LAST_REPORT, report)
    put(place, G_REPORTS, get(place, G_REPORTS) + 1)
    return report


@routine
def remove_report(joiner: int, group: int, report: int, before: int) -> None:
    """Take a report out of its group; `before` is the one in front of it, NONE for the first."""
    place = group_at(joiner, group)
    at = report_at(joiner, report)
    following = get(at, c.R_NEXT)
    if before == NONE:
        put(place, G_FIRST_REPORT, following)
    else:
        put(report_at(joiner, before), c.R_NEXT, following)
    if following == NONE:
        put(place, G_LAST_REPORT, before)
    put(place, G_REPORTS, get(place, G_REPORTS) - 1)
    hop_count = get(at, c.R_HOPS)
    if hop_count != 0:
        first = get(at, c.R_FIRST_HOP)
        hop = first
        for _ in range(hop_count - 1):
            hop = get(get(joiner, J_HOPS) + hop * c.H_BYTES, c.H_NEXT)
        put(get(joiner, J_HOPS) + hop * c.H_BYTES, c.H_NEXT, get(joiner, J_HOP_FREE))
        put(joiner, J_HOP_FREE, first)
        put(joiner, J_HOP_ROOM, get(joiner, J_HOP_ROOM) + hop_count)
    put(at, c.R_NEXT, get(joiner, J_REPORT_FREE))
    put(joiner, J_REPORT_FREE, report)
    put(joiner, J_REPORT_ROOM, get(joiner, J_REPORT_ROOM) + 1)


@routine
def remove_found(joiner: int, group: int, report: int) -> None:
    """Take a report out of its group, wherever it stands there."""
    before = NONE
    at = get(group_at(joiner, group), G_FIRST_REPORT)
    while at != report:
        before = at
        at = get(report_at(joiner, at), c.R_NEXT)
    remove_report(joiner, group, report, before)
