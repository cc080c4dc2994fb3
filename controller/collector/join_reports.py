# SPDX-License-Identifier: Apache-2.0
"""Compiled: reports joined into paths (`telemetry.postcards`), as far as that is simple.

What is not - postcards of a path whose hops must be compared with what their links have shown,
probes, packets sent again, fragments - is left to the reference joiner, at the same point of the
order. While a group waits, its reports are rows of `join_state`.
"""

from controller.collector import columns as c
from controller.collector.fabric_tables import AT_HOST, FabricTables
from controller.collector.join_state import (
    G_FIRST_COLLECTOR_NS,
    G_FIRST_REPORT,
    G_REPORTS,
    J_ADDRESS_COUNT,
    J_ADDRESS_ROOM,
    J_GROUP_AT_HAND,
    J_GROUP_ROOM,
    J_HOP_ROOM,
    J_OLDEST,
    J_PACKET_COUNT,
    J_PACKET_ROOM,
    J_PATH,
    J_PATH_HOP_COUNT,
    J_PATH_HOP_ROOM,
    J_PENDING,
    J_REPORT_ROOM,
    J_WINDOW_NS,
    NONE,
    append_report,
    drop_group,
    find_group,
    group_at,
    new_group,
    remove_found,
    report_at,
)
from controller.collector.kernel import part
from controller.collector.loads import get, put
from controller.collector.path_output import (
    egress_far_end,
    ingress_far_end,
    put_postcards,
    put_stack,
    sink_is_on_stack,
)
from controller.telemetry.postcards import PIECES_PER_PACKET_MAX
from correction.records import TRAFFIC_PROBE

NOTHING = 0
"""No path yet."""
DONE = 1
"""A path was finished."""
ASK_JOIN = 2
"""The reference joiner has to see to the group at hand, whose newest report came now."""
ASK_CLOSE = 3
"""The reference joiner has to close the group at hand."""
ASK_ROOM = 4
"""A table has to grow first."""

PACKETS_MARGIN = 2 * PIECES_PER_PACKET_MAX
"""More packets than one group gives."""
HOPS_MARGIN = PIECES_PER_PACKET_MAX * 256
"""More hops than one group gives: a stack has 252 at most."""


@part
def has_room(joiner: int) -> bool:
    """Whether the rows of one more group can be put and one more report can wait."""
    return (
        get(joiner, J_PACKET_COUNT) + PACKETS_MARGIN <= get(joiner, J_PACKET_ROOM)
        and get(joiner, J_PATH_HOP_COUNT) + HOPS_MARGIN <= get(joiner, J_PATH_HOP_ROOM)
        and get(joiner, J_ADDRESS_COUNT) + PACKETS_MARGIN <= get(joiner, J_ADDRESS_ROOM)
        and get(joiner, J_GROUP_ROOM) > 1
        and get(joiner, J_REPORT_ROOM) > 1
        and get(joiner, J_HOP_ROOM) > 256
    )


@part
def expire(joiner: int, tables: FabricTables, now_ns: int) -> int:
    """Close what has waited longer than the window; DONE or what to ask."""
    oldest_ns = now_ns - get(joiner, J_WINDOW_NS)
    while get(joiner, J_PENDING) != 0:
        group = get(joiner, J_OLDEST)
        if get(group_at(joiner, group), G_FIRST_COLLECTOR_NS) >= oldest_ns:
            break
        if not has_room(joiner):
            return ASK_ROOM
        if _close(joiner, tables, group) == ASK_CLOSE:
            return ASK_CLOSE
    return DONE


@part
def close_overflow(joiner: int, tables: FabricTables, pending_max: int) -> int:
    """Close the oldest groups while there are more than `pending_max`; DONE or what to ask."""
    while get(joiner, J_PENDING) > pending_max:
        if not has_room(joiner):
            return ASK_ROOM
        if _close(joiner, tables, get(joiner, J_OLDEST)) == ASK_CLOSE:
            return ASK_CLOSE
    return DONE


@part
def add(joiner: int, tables: FabricTables, report: int, hops: int) -> int:
    """Take a report (at an address) and the hops of its stack; DONE, NOTHING or what to ask."""
    now_ns = get(report, c.R_CAPTURE)
    group = find_group(joiner, report)
    if group == NONE:
        if _is_whole(joiner, tables, report, hops):
            return DONE
        group = new_group(joiner, get(report, c.R_HASH), now_ns)
        append_report(joiner, group, report, hops)
        return NOTHING
    append_report(joiner, group, report, hops)
    result = _join(joiner, tables, group)
    if result == ASK_JOIN:
        put(joiner, J_GROUP_AT_HAND, group)
        return ASK_JOIN
    at = group_at(joiner, group)
    if result == DONE:
        if get(at, G_REPORTS) == 0:
            drop_group(joiner, group)
        return DONE
    if get(at, G_REPORTS) >= PIECES_PER_PACKET_MAX:
        return _close(joiner, tables, group)
    return NOTHING


@part
def _is_whole(joiner: int, tables: FabricTables, report: int, hops: int) -> bool:
    """Put the path of a report that needs no other; False if it has to wait."""
    flags = get(report, c.R_FLAGS)
    if flags & c.FLAG_STACK == 0:
        if get(report, c.R_KEY) >> 56 == TRAFFIC_PROBE:
            return False
        if egress_far_end(tables, report) != AT_HOST or ingress_far_end(tables, report) != AT_HOST:
            return False
        path = get(joiner, J_PATH)
        put(path, 0, report)
        put_postcards(joiner, tables, path, 1, True)
        return True
    on_stack = sink_is_on_stack(joiner, report, hops)
    has_own = flags & c.FLAG_METADATA != 0
    if flags & c.FLAG_DROPPED:
        put_stack(joiner, tables, report, hops, report if has_own and not on_stack else 0, False)
        return True
    if on_stack:
        put_stack(joiner, tables, report, hops, 0, True)
        return True
    if has_own and get(report, c.R_EGRESS_TSTAMP) != 0:
        put_stack(joiner, tables, report, hops, report, True)
        return True
    return False


@part
def _join(joiner: int, tables: FabricTables, group: int) -> int:
    """See whether the newest of several reports completes a path."""
    at = group_at(joiner, group)
    first = get(at, G_FIRST_REPORT)
    if get(report_at(joiner, first), c.R_KEY) >> 56 == TRAFFIC_PROBE:
        return ASK_JOIN if get(at, G_REPORTS) >= 3 else NOTHING
    number = first
    postcards = 0
    to_host = False
    while number != NONE:
        report = report_at(joiner, number)
        if get(report, c.R_FLAGS) & c.FLAG_STACK:
            if _is_whole(joiner, tables, report, 0):
                remove_found(joiner, group, number)
                return DONE
            sink = _sink_postcard(joiner, first, number)
            if sink != NONE:
                put_stack(joiner, tables, report, 0, report_at(joiner, sink), True)
                remove_found(joiner, group, number)
                remove_found(joiner, group, sink)
                return DONE
        else:
            postcards += 1
            if egress_far_end(tables, report) == AT_HOST:
                to_host = True
        number = get(report, c.R_NEXT)
    if not to_host:
        return NOTHING
    return ASK_JOIN


@part
def _sink_postcard(joiner: int, first: int, stack: int) -> int:
    """The report with the sink's own hop: of the same node and ingress stamp; NONE if missing."""
    report = report_at(joiner, stack)
    stamp = get(report, c.R_INGRESS_TSTAMP)
    if stamp == 0 or get(report, c.R_FLAGS) & c.FLAG_METADATA == 0:
        return NONE
    number = first
    while number != NONE:
        other = report_at(joiner, number)
        if (
            number != stack
            and get(other, c.R_NODE) == get(report, c.R_NODE)
            and get(other, c.R_FLAGS) & c.FLAG_METADATA != 0
            and get(other, c.R_INGRESS_TSTAMP) == stamp
        ):
            return number
        number = get(other, c.R_NEXT)
    return NONE


@part
def _close(joiner: int, tables: FabricTables, group: int) -> int:
    """Put the reports of a packet that will not become whole, and forget it."""
    put(joiner, J_GROUP_AT_HAND, group)
    first = get(group_at(joiner, group), G_FIRST_REPORT)
    if get(report_at(joiner, first), c.R_KEY) >> 56 == TRAFFIC_PROBE:
        return ASK_CLOSE
    postcard = NONE
    number = first
    while number != NONE:
        report = report_at(joiner, number)
        if get(report, c.R_FLAGS) & c.FLAG_STACK == 0:
            if postcard != NONE:
                return ASK_CLOSE
            postcard = number
        number = get(report, c.R_NEXT)
    number = first
    while number != NONE:
        report = report_at(joiner, number)
        flags = get(report, c.R_FLAGS)
        if flags & c.FLAG_STACK:
            alone = flags & c.FLAG_METADATA == 0 or sink_is_on_stack(joiner, report, 0)
            put_stack(joiner, tables, report, 0, 0 if alone else report, False)
        number = get(report, c.R_NEXT)
    if postcard != NONE:
        report = report_at(joiner, postcard)
        complete = (
            ingress_far_end(tables, report) == AT_HOST and egress_far_end(tables, report) == AT_HOST
        )
        path = get(joiner, J_PATH)
        put(path, 0, report)
        put_postcards(joiner, tables, path, 1, complete)
    drop_group(joiner, group)
    return DONE
