# SPDX-License-Identifier: Apache-2.0
"""Compiled: `telemetry.loss.SequenceTracker`, one row of int64 per sender.

The rules and their reasons are there; this counts the same. The set of numbers taken is a ring of
bits by number, so that nothing is shifted; numbers held are sorted in the row itself, whose
untouched part costs no memory.
"""

from collections.abc import Callable
from typing import Any

from controller.collector.kernel import SOURCES_DIGEST, Function, entry, part, routine
from controller.collector.loads import call3, count_up, get, put
from controller.telemetry.dialect import SEQUENCE_BITS
from controller.telemetry.loss import CONFIRMING_REPORTS, NEAR, REORDER_WINDOW

S_NEWEST = 0
"""Highest number so far, unwrapped; -1 before the first."""
S_RUN_START = 1
S_RUN_RECEIVED = 2
S_RECEIVED = 3
S_LOST = 4
S_REORDERED = 5
S_DUPLICATE = 6
S_RESTART = 7
S_UNCONFIRMED = 8
S_HELD_COUNT = 9
S_ROW_COUNT = 10
"""The last reports, where all of them were held."""
S_ROW = 11
S_STRAY_COUNT = 14
S_STRAY = 15
S_NEAR = 18
"""Scratch for numbers near each other."""
S_NEAR_MAX = 14
S_BITS = 32
_WORDS = REORDER_WINDOW // 64
S_HELD = S_BITS + _WORDS
HELD_MAX = 2048
"""No three held numbers are within NEAR, and all are within three windows of each other."""
S_COLUMNS = S_HELD + HELD_MAX

_PERIOD = 1 << SEQUENCE_BITS
_MASK = _PERIOD - 1
_WINDOW = REORDER_WINDOW
_RESTART_GAP_MIN = 1 << 16
_RESTART_NUMBER_MAX = 1 << 10
_RESTART_STEP_MAX = 4
assert CONFIRMING_REPORTS == 3


@part
def observe(function: int, sender: int, sequence_number: int, repeated: bool) -> None:
    """Account for one report; `repeated`: the same content has arrived before.

    function: the address of OBSERVE.
    """
    number = get(sender, S_NEWEST) + 1
    waiting = get(sender, S_HELD_COUNT) | get(sender, S_STRAY_COUNT) | get(sender, S_ROW_COUNT)
    if number > 0 and number & _MASK == sequence_number and not repeated and waiting == 0:
        # what happens nearly always: the next number, and nothing that is held
        word = sender + 8 * _word(number)
        bit = 1 << (number & 63)
        put(word, 0, get(word, 0) | bit)
        put(sender, S_NEWEST, number)
        count_up(sender, S_RECEIVED)
        count_up(sender, S_RUN_RECEIVED)
        return
    call3(function, sender, sequence_number, 1 if repeated else 0)


@routine
def _observe(sender: int, sequence_number: int, repeated: bool) -> None:
    newest = get(sender, S_NEWEST)
    if newest < 0:
        number = sequence_number + _PERIOD
    else:
        distance = (sequence_number - newest) & _MASK
        number = newest + distance - ((distance >> (SEQUENCE_BITS - 1)) << SEQUENCE_BITS)
    if repeated:
        count_up(sender, S_DUPLICATE)
        if not _is_stray(sender, number):
            put(sender, S_STRAY_COUNT, 0)
        return
    if newest < 0:
        _begin_run(sender, number)
        return
    ahead = number - newest
    if ahead >= _WINDOW or -ahead >= _WINDOW or _is_taken(sender, number):
        _stray(sender, number)
        return
    put(sender, S_STRAY_COUNT, 0)
    if number < get(sender, S_RUN_START) - NEAR or ahead > NEAR:
        _hold(sender, number)
        return
    put(sender, S_ROW_COUNT, 0)
    _accept(sender, number)
    if get(sender, S_HELD_COUNT) != 0:
        _accept_held(sender)


@part
def _word(number: int) -> int:
    return S_BITS + (number >> 6 & (_WORDS - 1))


@routine
def _is_stray(sender: int, number: int) -> bool:
    for index in range(get(sender, S_STRAY_COUNT)):
        if get(sender, S_STRAY + index) == number:
            return True
    return False


@part
def _is_taken(sender: int, number: int) -> bool:
    behind = get(sender, S_NEWEST) - number
    if behind < 0 or behind >= _WINDOW:
        return False
    return get(sender, _word(number)) >> (number & 63) & 1 != 0


@routine
def _begin_run(sender: int, number: int) -> None:
    put(sender, S_NEWEST, number)
    put(sender, S_RUN_START, number)
    for index in range(_WORDS):
        put(sender, S_BITS + index, 0)
    put(sender, _word(number), 1 << (number & 63))
    put(sender, S_HELD_COUNT, 0)
    put(sender, S_ROW_COUNT, 0)
    put(sender, S_STRAY_COUNT, 0)
    count_up(sender, S_RECEIVED)
    put(sender, S_RUN_RECEIVED, 1)


@routine
def _accept(sender: int, number: int) -> None:
    """Take a number that has not been taken."""
    newest = get(sender, S_NEWEST)
    ahead = number - newest
    count_up(sender, S_RECEIVED)
    count_up(sender, S_RUN_RECEIVED)
    word = _word(number)
    bit = 1 << (number & 63)
    if ahead > 0:
        if ahead >= _WINDOW:
            for index in range(_WORDS):
                put(sender, S_BITS + index, 0)
        else:
            for between in range(newest + 1, number):
                at = _word(between)
                put(sender, at, get(sender, at) & ~(1 << (between & 63)))
        put(sender, word, get(sender, word) | bit)
        put(sender, S_NEWEST, number)
        put(sender, S_LOST, get(sender, S_LOST) + ahead - 1)
        return
    if -ahead < _WINDOW:
        put(sender, word, get(sender, word) | bit)
    count_up(sender, S_REORDERED)
    run_start = get(sender, S_RUN_START)
    if number >= run_start:
        put(sender, S_LOST, get(sender, S_LOST) - 1)
    else:
        put(sender, S_LOST, get(sender, S_LOST) + run_start - number - 1)
        put(sender, S_RUN_START, number)


@routine
def _first_held(sender: int, number: int) -> int:
    """How many held numbers are smaller."""
    low = 0
    high = get(sender, S_HELD_COUNT)
    while low < high:
        middle = (low + high) >> 1
        if get(sender, S_HELD + middle) < number:
            low = middle + 1
        else:
            high = middle
    return low


@routine
def _insert_held(sender: int, number: int) -> None:
    count = get(sender, S_HELD_COUNT)
    if count >= HELD_MAX:
        return
    at = _first_held(sender, number)
    for index in range(count, at, -1):
        put(sender, S_HELD + index, get(sender, S_HELD + index - 1))
    put(sender, S_HELD + at, number)
    put(sender, S_HELD_COUNT, count + 1)


@routine
def _remove_held(sender: int, first: int, count: int) -> None:
    left = get(sender, S_HELD_COUNT) - count
    for index in range(first, left):
        put(sender, S_HELD + index, get(sender, S_HELD + index + count))
    put(sender, S_HELD_COUNT, left)


@routine
def _hold(sender: int, number: int) -> None:
    """A number of the window far from the run; others near it bear it out."""
    count_up(sender, S_UNCONFIRMED)
    row = get(sender, S_ROW_COUNT)
    if row == CONFIRMING_REPORTS:
        put(sender, S_ROW, get(sender, S_ROW + 1))
        put(sender, S_ROW + 1, get(sender, S_ROW + 2))
        row -= 1
    put(sender, S_ROW + row, number)
    put(sender, S_ROW_COUNT, row + 1)
    first = _first_held(sender, number - NEAR)
    near = min(_first_held(sender, number + NEAR + 1) - first, S_NEAR_MAX - 1)
    at = near
    for index in range(near):
        held = get(sender, S_HELD + first + index)
        if held == number:
            return
        put(sender, S_NEAR + index, held)
        if held > number and at == near:
            at = index
    for index in range(near, at, -1):
        put(sender, S_NEAR + index, get(sender, S_NEAR + index - 1))
    put(sender, S_NEAR + at, number)
    near += 1
    if near < CONFIRMING_REPORTS:
        _insert_held(sender, number)
        return
    _remove_held(sender, first, near - 1)
    put(sender, S_UNCONFIRMED, get(sender, S_UNCONFIRMED) - near)
    alone = get(sender, S_RUN_RECEIVED) == 1
    restarted = not alone and _row_restarts(sender)
    smallest = get(sender, S_NEAR)
    begin = 0
    if alone:
        _begin_run_after_stray(sender, smallest)
        begin = 1
    elif restarted:
        count_up(sender, S_RESTART)
        _begin_run(sender, smallest)
        begin = 1
    for index in range(begin, near):
        _accept(sender, get(sender, S_NEAR + index))
    _accept_held(sender)


@part
def _row_restarts(sender: int) -> bool:
    """Whether the reports held in a row count up from zero, below where the run began."""
    if get(sender, S_ROW_COUNT) != CONFIRMING_REPORTS:
        return False
    first, second = get(sender, S_ROW), get(sender, S_ROW + 1)
    third = get(sender, S_ROW + 2)
    return (
        third < get(sender, S_RUN_START)
        and first & _MASK < _RESTART_NUMBER_MAX
        and 0 < second - first <= _RESTART_STEP_MAX
        and 0 < third - second <= _RESTART_STEP_MAX
    )


@routine
def _begin_run_after_stray(sender: int, number: int) -> None:
    """Some reports bear each other out, the one before them stood alone: it is held instead."""
    count = get(sender, S_HELD_COUNT)
    newest = get(sender, S_NEWEST)
    _begin_run(sender, number)
    put(sender, S_HELD_COUNT, count)
    _insert_held(sender, newest)
    put(sender, S_RECEIVED, get(sender, S_RECEIVED) - 1)
    count_up(sender, S_UNCONFIRMED)


@routine
def _accept_held(sender: int) -> None:
    """Take what is no longer far from the run; forget what the window has left behind."""
    while get(sender, S_HELD_COUNT) != 0:
        first = _first_held(sender, get(sender, S_RUN_START) - NEAR)
        last = _first_held(sender, get(sender, S_NEWEST) + NEAR + 1)
        if first == last:
            return
        # what is taken may widen the run: the numbers at hand are those that fit it now
        for index in range(first, last):
            number = get(sender, S_HELD + index)
            if get(sender, S_NEWEST) - number < _WINDOW and not _is_taken(sender, number):
                _accept(sender, number)
                put(sender, S_UNCONFIRMED, get(sender, S_UNCONFIRMED) - 1)
        _remove_held(sender, first, last - first)


@routine
def _stray(sender: int, number: int) -> None:
    """A number outside the window, or one taken already that comes with other content."""
    count_up(sender, S_UNCONFIRMED)
    if _is_stray(sender, number):
        return
    count = get(sender, S_STRAY_COUNT)
    for index in range(count):
        if abs(number - get(sender, S_STRAY + index)) > NEAR:
            count = 0
            break
    put(sender, S_STRAY + count, number)
    count += 1
    put(sender, S_STRAY_COUNT, count)
    if count < CONFIRMING_REPORTS:
        return
    put(sender, S_STRAY_COUNT, 0)
    put(sender, S_UNCONFIRMED, get(sender, S_UNCONFIRMED) - count)
    a, b, d = get(sender, S_STRAY), get(sender, S_STRAY + 1), get(sender, S_STRAY + 2)
    low, high = min(a, b, d), max(a, b, d)
    middle = a + b + d - low - high
    ahead = low - get(sender, S_NEWEST)
    from_zero = low & _MASK < _RESTART_NUMBER_MAX and ahead >= _RESTART_GAP_MIN
    if ahead >= _WINDOW and not from_zero and get(sender, S_RUN_RECEIVED) > 1:
        put(sender, S_HELD_COUNT, 0)
        _accept(sender, low)
        _accept(sender, middle)
        _accept(sender, high)
        return
    if get(sender, S_RUN_RECEIVED) > 1:
        count_up(sender, S_RESTART)
    else:  # the one report before them was the stray
        put(sender, S_RECEIVED, get(sender, S_RECEIVED) - 1)
        count_up(sender, S_UNCONFIRMED)
    start = (low & _MASK) + _PERIOD
    _begin_run(sender, start)
    _accept(sender, middle - low + start)
    _accept(sender, high - low + start)


def _observe_function(digest: int) -> Callable[..., int]:
    def observe_any(sender: int, sequence_number: int, repeated: int) -> int:
        if digest != 0:
            _observe(sender, sequence_number, repeated != 0)
        return 0

    return observe_any


OBSERVE = Function(_observe_function, 3)
"""(sender, sequence number, repeated) -> 0."""


def _observe_many_entry(digest: int) -> Any:  # noqa: ANN401
    def observe_all(function: int, sender: int, numbers: int, repeated: int, count: int) -> None:
        if digest == 0:
            return
        for index in range(count):
            observe(function, sender, get(numbers, index), get(repeated, index) != 0)

    return entry(observe_all)


_observe_all = _observe_many_entry(SOURCES_DIGEST)


def observe_many(sender: int, numbers: int, repeated: int, count: int) -> None:
    """`observe` of `count` reports of one sender: addresses of int64 numbers and flags."""
    _observe_all(OBSERVE.address, sender, numbers, repeated, count)
