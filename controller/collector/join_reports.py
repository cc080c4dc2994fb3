# SPDX-License-Identifier: Apache-2.0
"""Compiled: reports joined into paths (`telemetry.postcards`), as far as that is simple.

What is not - probes, packets sent more than once, multicast - is left to the reference joiner, at
the same point of the order. While a group waits, its reports are rows of `join_state`.
"""

from collections.abc import Callable

from controller.collector import columns as c
from controller.collector.fabric_tables import AT_HOST, FabricTables, tables_at
from controller.collector.join_state import (
    G_FIRST_COLLECTOR_NS,
    G_FIRST_REPORT,
    G_REPORTS,
    J_ADDRESS_COUNT,
    J_ADDRESS_ROOM,
    J_ADDS,
    J_CHAIN,
    J_EPOCH_COUNT,
    J_FUNCTIONS,
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
    J_POSTCARDS,
    J_REPORT_ROOM,
    NONE,
    append_report,
    drop_group,
    find_group,
    group_at,
    new_group,
    remove_found,
    report_at,
    report_number,
)
from controller.collector.kernel import Function, part, routine
from controller.collector.loads import call3, call4, get, put
from controller.collector.path_output import (
    egress_far_end,
    ingress_far_end,
    put_postcards,
    put_stack,
    sink_is_on_stack,
)
from controller.collector.postcard_paths import (
    EPOCHS_MAX,
    admit,
    fitting_length,
    in_order,
    is_possible,
    is_repeated,
    learn,
    remove_all,
    whole_path,
)
from controller.telemetry.packet import MAC_GROUP_BIT, NETWORK_ETHERNET
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


_HOPS_PER_REPORT = 256

ANY_TIME_NS = -(1 << 63)
"""Nothing came before."""
EPOCHS_MARGIN = 6 * PIECES_PER_PACKET_MAX
"""More epochs than the comparisons of one group find."""


@routine
def has_room(joiner: int) -> bool:
    """Whether the rows of one more group can be put and one more report can wait."""
    return (
        get(joiner, J_PACKET_COUNT) + PACKETS_MARGIN <= get(joiner, J_PACKET_ROOM)
        and get(joiner, J_PATH_HOP_COUNT) + HOPS_MARGIN <= get(joiner, J_PATH_HOP_ROOM)
        and get(joiner, J_ADDRESS_COUNT) + PACKETS_MARGIN <= get(joiner, J_ADDRESS_ROOM)
        and get(joiner, J_GROUP_ROOM) > 1
        and get(joiner, J_REPORT_ROOM) > 1
        and get(joiner, J_HOP_ROOM) > _HOPS_PER_REPORT
        and get(joiner, J_EPOCH_COUNT) + EPOCHS_MARGIN <= EPOCHS_MAX
    )


@part
def may_add(joiner: int) -> bool:
    """Whether a report can be added: looked at again when so many were that there might be none."""
    left = get(joiner, J_ADDS)
    if left > 0:
        put(joiner, J_ADDS, left - 1)
        return True
    return _may_add(joiner)


@routine
def _may_add(joiner: int) -> bool:
    packets = get(joiner, J_PACKET_ROOM) - get(joiner, J_PACKET_COUNT) - PACKETS_MARGIN
    hops = get(joiner, J_PATH_HOP_ROOM) - get(joiner, J_PATH_HOP_COUNT) - HOPS_MARGIN
    addresses = get(joiner, J_ADDRESS_ROOM) - get(joiner, J_ADDRESS_COUNT) - PACKETS_MARGIN
    waiting = min(get(joiner, J_GROUP_ROOM), get(joiner, J_REPORT_ROOM)) - 1
    waiting_hops = get(joiner, J_HOP_ROOM) // _HOPS_PER_REPORT
    epochs = EPOCHS_MAX - get(joiner, J_EPOCH_COUNT) - EPOCHS_MARGIN
    left = min(packets, addresses, waiting, hops // _HOPS_PER_REPORT, waiting_hops)
    left = min(left, epochs // PIECES_PER_PACKET_MAX)
    put(joiner, J_ADDS, left - 1)
    return left > 0


@part
def close_waiting(joiner: int, tables: FabricTables, oldest_ns: int, pending_max: int) -> int:
    """Close what came before `oldest_ns`, and the oldest while more than `pending_max` wait.

    DONE or what to ask.
    """
    pending = get(joiner, J_PENDING)
    if pending == 0:
        return DONE
    oldest = group_at(joiner, get(joiner, J_OLDEST))
    if pending <= pending_max and get(oldest, G_FIRST_COLLECTOR_NS) >= oldest_ns:
        return DONE
    return _close_waiting(joiner, tables, oldest_ns, pending_max)


@routine
def _close_waiting(joiner: int, tables: FabricTables, oldest_ns: int, pending_max: int) -> int:
    while get(joiner, J_PENDING) != 0:
        group = get(joiner, J_OLDEST)
        if (
            get(joiner, J_PENDING) <= pending_max
            and get(group_at(joiner, group), G_FIRST_COLLECTOR_NS) >= oldest_ns
        ):
            break
        put(joiner, J_ADDS, 0)
        if not has_room(joiner):
            return ASK_ROOM
        if _close(joiner, tables, group) == ASK_CLOSE:
            return ASK_CLOSE
    return DONE


@part
def add(joiner: int, tables: FabricTables, report: int, hops: int) -> int:
    """ADD, by its address."""
    return call4(get(get(joiner, J_FUNCTIONS), c.F_ADD), joiner, tables.at, report, hops)


@part
def _close(joiner: int, tables: FabricTables, group: int) -> int:
    """CLOSE, by its address."""
    return call3(get(get(joiner, J_FUNCTIONS), c.F_CLOSE), joiner, tables.at, group)


@part
def _add(joiner: int, tables: FabricTables, report: int, hops: int) -> int:
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
        put(joiner, J_ADDS, 0)
        return _close(joiner, tables, group)
    return NOTHING


@routine
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
def _is_multicast(report: int) -> bool:
    """As `PacketKey.is_multicast`."""
    network = get(report, c.R_KEY) >> 48 & 0xFF
    return network == NETWORK_ETHERNET and get(report, c.R_DST_LOW) >> MAC_GROUP_BIT & 1 != 0


@routine
def _join(joiner: int, tables: FabricTables, group: int) -> int:
    """See whether the newest of several reports completes a path."""
    at = group_at(joiner, group)
    first = get(at, G_FIRST_REPORT)
    if get(report_at(joiner, first), c.R_KEY) >> 56 == TRAFFIC_PROBE:
        return ASK_JOIN if get(at, G_REPORTS) >= 3 else NOTHING
    if _is_multicast(report_at(joiner, first)):
        return NOTHING
    number = first
    postcards = get(joiner, J_POSTCARDS)
    count = 0
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
            put(postcards, count, report)
            count += 1
        number = get(report, c.R_NEXT)
    path = get(joiner, J_PATH)
    length = whole_path(tables, postcards, count, path)
    if length == 0 or is_repeated(postcards, count) or not admit(joiner, tables, path, length):
        return NOTHING  # which postcard is of which attempt shows when all have come
    put_postcards(joiner, tables, path, length, True)
    for index in range(length):
        remove_found(joiner, group, report_number(joiner, get(path, index)))
    return DONE


@routine
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
def _close_group(joiner: int, tables: FabricTables, group: int) -> int:
    """Put the reports of a packet that will not become whole, and forget it."""
    put(joiner, J_GROUP_AT_HAND, group)
    first = get(group_at(joiner, group), G_FIRST_REPORT)
    if get(report_at(joiner, first), c.R_KEY) >> 56 == TRAFFIC_PROBE:
        return ASK_CLOSE
    if _is_multicast(report_at(joiner, first)):
        return ASK_CLOSE
    postcards = get(joiner, J_POSTCARDS)
    count = 0
    number = first
    while number != NONE:
        report = report_at(joiner, number)
        if get(report, c.R_FLAGS) & c.FLAG_STACK == 0:
            put(postcards, count, report)
            count += 1
        number = get(report, c.R_NEXT)
    if is_repeated(postcards, count):
        return ASK_CLOSE
    number = first
    while number != NONE:
        report = report_at(joiner, number)
        flags = get(report, c.R_FLAGS)
        if flags & c.FLAG_STACK:
            alone = flags & c.FLAG_METADATA == 0 or sink_is_on_stack(joiner, report, 0)
            put_stack(joiner, tables, report, 0, 0 if alone else report, False)
        number = get(report, c.R_NEXT)
    if count != 0:
        _close_postcards(joiner, tables, postcards, count)
    drop_group(joiner, group)
    return DONE


@routine
def _close_postcards(joiner: int, tables: FabricTables, postcards: int, count: int) -> None:
    """Put the postcards of a packet that was sent once: a path that did not fit, and fragments."""
    path = get(joiner, J_PATH)
    length = whole_path(tables, postcards, count, path)
    if length != 0 and is_possible(joiner, tables, path, length):
        learn(joiner, tables, path, length)
        put_postcards(joiner, tables, path, length, True)
        count = remove_all(postcards, count, path, length)
    if count == 0:
        return
    chain = get(joiner, J_CHAIN)
    left = in_order(tables, postcards, count, chain)
    # all hops are compared before the first part is put, as the reference does
    parts = postcards
    part_count = 0
    at = chain
    while left != 0:
        length = fitting_length(joiner, tables, at, left)
        put(parts, part_count, length)
        part_count += 1
        at += 8 * length
        left -= length
    at = chain
    for index in range(part_count):
        length = get(parts, index)
        complete = whole_path(tables, at, length, path) != 0
        put_postcards(joiner, tables, at, length, complete)
        at += 8 * length


def _add_function(digest: int) -> Callable[..., int]:
    def add(joiner: int, tables: int, report: int, hops: int) -> int:
        return _add(joiner, tables_at(tables), report, hops) if digest != 0 else DONE

    return add


def _close_function(digest: int) -> Callable[..., int]:
    def close(joiner: int, tables: int, group: int) -> int:
        return _close_group(joiner, tables_at(tables), group) if digest != 0 else DONE

    return close


ADD = Function(_add_function, 4)
CLOSE = Function(_close_function, 3)
"""As `_add` and `_close_group`, the tables by the address of their row."""
