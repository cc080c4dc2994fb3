# SPDX-License-Identifier: Apache-2.0
"""Compiled: postcards in the order of the cables (`telemetry.pieces`), and whether their stamps fit
(`telemetry.link_references`).

Lists are int64 arrays at an address: addresses of reports, at most PIECES_PER_PACKET_MAX of them.
"""

from collections.abc import Callable

from controller.collector import columns as c
from controller.collector.fabric_tables import AT_HOST, FabricTables, node_at
from controller.collector.join_state import (
    J_EPOCH_COUNT,
    J_EPOCHS,
    J_FUNCTIONS,
    J_LEARNED,
    J_REFERENCES,
    J_STAMP_STATE,
    REFERENCE_COLLECTOR_NS,
    REFERENCE_COLUMNS,
    REFERENCE_DIFFERENCE_NS,
    REFERENCE_KNOWN,
)
from controller.collector.kernel import Function, part, routine
from controller.collector.loads import call3, get, put, row_at
from controller.collector.path_output import egress_far_end, ingress_far_end
from controller.telemetry.link_references import (
    LATE_AGE_NS,
    RATE_OFFSET_MAX_PPM,
    REFERENCE_AGE_NS_MAX,
    TOLERANCE_UNITS,
)
from controller.telemetry.stamp_kernel import (
    EPOCHS,
    JUMP_UNITS,
    STATE_COLUMNS,
    UNIT_NS,
    StampFault,
    place_hop_inlined,
)
from correction.records import NO_TSTAMP_NS

EPOCHS_MAX = 1024
"""Rows for epochs that the comparisons find; emptied well before they are full."""
UNKNOWN, FITS, LATE, EARLY = range(4)
"""From LATE on, it does not fit."""
_NONE = int(StampFault.NONE)
_NO_TSTAMP_NS = NO_TSTAMP_NS
_DROPPED = c.FLAG_DROPPED
_UNKNOWN_PORT = 0xFFFF


# ---------------------------------------------------------------- order


@part
def _ingress_key(report: int) -> int:
    return get(report, c.R_NODE) << 16 | get(report, c.R_INGRESS_PORT)


@part
def _egress_key(report: int) -> int:
    port = get(report, c.R_EGRESS_PORT)
    if get(report, c.R_FLAGS) & _DROPPED:
        port = _UNKNOWN_PORT
    return get(report, c.R_NODE) << 16 | port


@routine
def is_repeated(postcards: int, count: int) -> bool:
    """Whether a node reports the packet twice: it was sent again, under the same key."""
    for index in range(count):
        for other in range(index):
            if get(get(postcards, index), c.R_NODE) == get(get(postcards, other), c.R_NODE):
                return True
    return False


@part
def _is_in(report: int, reports: int, count: int) -> bool:
    found = False
    for index in range(count):
        found |= get(reports, index) == report
    return found


@routine
def _follow(tables: FabricTables, start: int, postcards: int, count: int, chain: int) -> int:
    """Postcards in the order of the cables, from `start` as far as the next is there: how many."""
    put(chain, 0, start)
    length = 1
    while length < count:
        far = egress_far_end(tables, get(chain, length - 1))
        following = 0
        for index in range(count):
            if _ingress_key(get(postcards, index)) == far:
                following = get(postcards, index)
                break
        if following == 0 or _is_in(following, chain, length):
            break
        put(chain, length, following)
        length += 1
    return length


@routine
def whole_path(tables: FabricTables, postcards: int, count: int, path: int) -> int:
    """The path from host to host in `path`, if all of it is there: its length, else 0."""
    to_host = False
    for index in range(count):
        if egress_far_end(tables, get(postcards, index)) == AT_HOST:
            to_host = True
    if not to_host:
        return 0
    for index in range(count):
        report = get(postcards, index)
        if ingress_far_end(tables, report) == AT_HOST:
            length = _follow(tables, report, postcards, count, path)
            if egress_far_end(tables, get(path, length - 1)) == AT_HOST:
                return length
    return 0


@routine
def _fragment_start(tables: FabricTables, postcards: int, count: int) -> int:
    """The first hop of a path, else one whose predecessor is missing, else any."""
    for index in range(count):
        if ingress_far_end(tables, get(postcards, index)) == AT_HOST:
            return get(postcards, index)
    for index in range(count):
        far = ingress_far_end(tables, get(postcards, index))
        found = False
        for other in range(count):
            if _egress_key(get(postcards, other)) == far:
                found = True
        if not found:
            return get(postcards, index)
    return get(postcards, 0)


@routine
def remove_all(reports: int, count: int, gone: int, gone_count: int) -> int:
    """Take the reports of `gone` out of a list; how many are left."""
    left = 0
    for index in range(count):
        report = get(reports, index)
        if not _is_in(report, gone, gone_count):
            put(reports, left, report)
            left += 1
    return left


@routine
def in_order(tables: FabricTables, rest: int, count: int, chain: int) -> int:
    """Fragments of a path one after the other, the one that starts at a host first.

    Empties `rest`; `chain` has room for all.
    """
    length = 0
    while count != 0:
        start = _fragment_start(tables, rest, count)
        fragment = chain + 8 * length
        found = _follow(tables, start, rest, count, fragment)
        count = remove_all(rest, count, fragment, found)
        length += found
    return length


# ---------------------------------------------------------------- stamps across links


@part
def _instants(joiner: int, report: int) -> tuple[int, int]:
    """Local ns of a report's stamps (ingress, egress); NO_TSTAMP_NS for none."""
    node = get(report, c.R_NODE)
    row = row_at(get(joiner, J_STAMP_STATE) + node * (8 * STATE_COLUMNS), STATE_COLUMNS)
    before = row[EPOCHS]
    captured = get(report, c.R_CAPTURE)
    ingress_fault, ingress_ns, egress_fault, egress_ns = place_hop_inlined(
        row, get(report, c.R_INGRESS_TSTAMP), get(report, c.R_EGRESS_TSTAMP), captured
    )
    if row[EPOCHS] != before:
        count = get(joiner, J_EPOCH_COUNT)
        if count < EPOCHS_MAX:
            at = get(joiner, J_EPOCHS) + 24 * count
            put(at, 0, node)
            put(at, 1, captured)
            put(at, 2, row[JUMP_UNITS])
            put(joiner, J_EPOCH_COUNT, count + 1)
    return (
        ingress_ns if ingress_fault == _NONE else _NO_TSTAMP_NS,
        egress_ns if egress_fault == _NONE else _NO_TSTAMP_NS,
    )


@part
def _difference_ns(joiner: int, sender: int, receiver: int) -> int:
    """DIFFERENCE, by its address."""
    function = get(get(joiner, J_FUNCTIONS), c.F_DIFFERENCE)
    return call3(function, joiner, sender, receiver)


@part
def _find_difference_ns(joiner: int, sender: int, receiver: int) -> int:
    """Ingress stamp less egress stamp; NO_TSTAMP_NS where one is missing."""
    _, sent_ns = _instants(joiner, sender)
    received_ns, _ = _instants(joiner, receiver)
    if sent_ns == _NO_TSTAMP_NS or received_ns == _NO_TSTAMP_NS:
        return _NO_TSTAMP_NS
    return received_ns - sent_ns


def _difference_function(digest: int) -> Callable[..., int]:
    def difference_ns(joiner: int, sender: int, receiver: int) -> int:
        return _find_difference_ns(joiner, sender, receiver) if digest != 0 else 0

    return difference_ns


DIFFERENCE = Function(_difference_function, 3)


@part
def _reference(joiner: int, tables: FabricTables, sender: int, receiver: int) -> int:
    """Address of what the link from sender to receiver has shown; 0 where no cable joins them."""
    if egress_far_end(tables, sender) != _ingress_key(receiver):
        return 0
    node = node_at(tables, get(sender, c.R_NODE))
    place = get(node, c.N_FIRST_PORT) + get(sender, c.R_EGRESS_PORT)
    return get(joiner, J_REFERENCES) + place * (8 * REFERENCE_COLUMNS)


@part
def _unit_ns(joiner: int, report: int) -> int:
    row = get(joiner, J_STAMP_STATE) + get(report, c.R_NODE) * (8 * STATE_COLUMNS)
    return get(row, UNIT_NS)


@routine
def _fit(joiner: int, reference: int, difference_ns: int, sender: int, receiver: int) -> int:
    """How a difference compares with what its link has shown."""
    if difference_ns == _NO_TSTAMP_NS or reference == 0 or get(reference, REFERENCE_KNOWN) == 0:
        return UNKNOWN
    age_ns = abs(get(receiver, c.R_CAPTURE) - get(reference, REFERENCE_COLLECTOR_NS))
    if age_ns > REFERENCE_AGE_NS_MAX:
        return UNKNOWN
    unit_ns = max(_unit_ns(joiner, sender), _unit_ns(joiner, receiver))
    tolerance_ns = TOLERANCE_UNITS * unit_ns + age_ns * RATE_OFFSET_MAX_PPM // 1_000_000
    deviation_ns = difference_ns - get(reference, REFERENCE_DIFFERENCE_NS)
    if abs(deviation_ns) <= tolerance_ns:
        return FITS
    return LATE if deviation_ns > 0 else EARLY


@routine
def _compare(joiner: int, tables: FabricTables, sender: int, receiver: int) -> int:
    """How the stamps of two postcards fit together."""
    difference_ns = _difference_ns(joiner, sender, receiver)
    reference = _reference(joiner, tables, sender, receiver)
    return _fit(joiner, reference, difference_ns, sender, receiver)


@part
def _note(reference: int, difference_ns: int, collector_ns: int) -> None:
    put(reference, REFERENCE_KNOWN, 1)
    put(reference, REFERENCE_DIFFERENCE_NS, difference_ns)
    put(reference, REFERENCE_COLLECTOR_NS, collector_ns)


@routine
def admit(joiner: int, tables: FabricTables, path: int, count: int) -> bool:
    """Whether nothing speaks against the path; then its differences are the newest."""
    learned = get(joiner, J_LEARNED)
    for index in range(count - 1):
        sender, receiver = get(path, index), get(path, index + 1)
        difference_ns = _difference_ns(joiner, sender, receiver)
        put(learned, index, difference_ns)
        if difference_ns == _NO_TSTAMP_NS:
            continue
        reference = _reference(joiner, tables, sender, receiver)
        fit = _fit(joiner, reference, difference_ns, sender, receiver)
        if fit >= LATE:
            return False
    for index in range(count - 1):
        sender, receiver = get(path, index), get(path, index + 1)
        if get(learned, index) != _NO_TSTAMP_NS:
            reference = _reference(joiner, tables, sender, receiver)
            _note(reference, get(learned, index), get(receiver, c.R_CAPTURE))
    return True


@routine
def is_possible(joiner: int, tables: FabricTables, path: int, count: int) -> bool:
    """Whether a whole path that does not fit may be one all the same."""
    for index in range(count - 1):
        sender, receiver = get(path, index), get(path, index + 1)
        if _compare(joiner, tables, sender, receiver) == EARLY:
            reference = _reference(joiner, tables, sender, receiver)
            if get(reference, REFERENCE_COLLECTOR_NS) > get(receiver, c.R_CAPTURE):
                return False
    return True


@routine
def learn(joiner: int, tables: FabricTables, path: int, count: int) -> None:
    """Take the differences of a path that did not fit, unless they are late for now."""
    for index in range(count - 1):
        sender, receiver = get(path, index), get(path, index + 1)
        difference_ns = _difference_ns(joiner, sender, receiver)
        if difference_ns == _NO_TSTAMP_NS:
            continue
        reference = _reference(joiner, tables, sender, receiver)
        now_ns = get(receiver, c.R_CAPTURE)
        late = (
            get(reference, REFERENCE_KNOWN) != 0
            and now_ns - get(reference, REFERENCE_COLLECTOR_NS) < LATE_AGE_NS
            and _fit(joiner, reference, difference_ns, sender, receiver) == LATE
        )
        if not late:
            _note(reference, difference_ns, now_ns)


@routine
def fitting_length(joiner: int, tables: FabricTables, path: int, count: int) -> int:
    """How many reports from the first of `path` on fit together: where it has to be cut."""
    for index in range(count - 1):
        fit = _compare(joiner, tables, get(path, index), get(path, index + 1))
        if fit >= LATE:
            return index + 1
    return count
