# SPDX-License-Identifier: Apache-2.0
"""Plain data out of a pickle, without Python's unpickler.

`pickle.loads` runs whatever a file tells it to. This reader is a small stack machine that knows
only the opcodes of numbers, text, None, lists, tuples and dicts, and refuses the file at any other
one, so there is nothing that could be called. Sizes and nesting are limited: a container that
appears in several places costs as much as it would if it were written out each time.
"""

import pickletools
from collections.abc import Callable
from typing import Any

from tracing_core.importers.errors import ImportRefusedError

PICKLE_BYTES_MAX = 256 * 2**20
"""A dump of 2,000 entries with stack traces is a few MB."""
OPCODES_MAX = 20_000_000
VALUES_MAX = 5_000_000
"""Values of the whole result, those that appear twice counted twice."""
DEPTH_MAX = 24
MEMO_MAX = 5_000_000
INTEGER_BITS_MAX = 1024
"""Stamps have 64; text of very long integers takes quadratic time."""

PlainValue = Any
"""None, bool, int, float, str, or a list, tuple or dict of such."""

_CONSTANTS: dict[str, PlainValue] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IMMEDIATE = frozenset(
    ("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
     "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
)  # fmt: skip
_EMPTY: dict[str, Callable[[], PlainValue]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


def load_plain_pickle(data: bytes) -> PlainValue:
    """The value that the pickle describes; `ImportRefusedError` if it is more than plain data."""
    if len(data) > PICKLE_BYTES_MAX:
        raise ImportRefusedError(f"pickle longer than {PICKLE_BYTES_MAX} bytes")
    try:
        value = _Machine().run(data)
    except (IndexError, TypeError, ValueError, KeyError, UnicodeError, OverflowError) as error:
        if isinstance(error, ImportRefusedError):
            raise
        raise ImportRefusedError(f"damaged pickle: {error}") from error
    _check_size(value)
    return value


class _Machine:
    def __init__(self) -> None:
        self._stack: list[PlainValue] = []
        self._memo: dict[int, PlainValue] = {}

    def run(self, data: bytes) -> PlainValue:
        """Executes opcodes until STOP."""
        for count, (opcode, argument, position) in enumerate(pickletools.genops(data)):
            if count >= OPCODES_MAX:
                raise ImportRefusedError(f"pickle with more than {OPCODES_MAX} opcodes")
            if opcode.name == "STOP":
                return self._stack.pop()
            self._step(opcode.name, argument, position)
        raise ImportRefusedError("damaged pickle: it has no end")

    def _step(self, name: str, argument: PlainValue, position: int | None) -> None:
        stack = self._stack
        if name in _IMMEDIATE:
            if type(argument) is int and argument.bit_length() > INTEGER_BITS_MAX:
                raise ImportRefusedError(f"pickle with an integer beyond {INTEGER_BITS_MAX} bits")
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._remember(argument)
        elif name == "MEMOIZE":
            self._remember(len(self._memo))
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TUPLES:
            count = _TUPLES[name]
            if len(stack) < count or any(item is _MARK for item in stack[-count:]):
                raise IndexError("stack underflow")
            stack[-count:] = [tuple(stack[-count:])]
        elif name == "TUPLE":
            stack.append(tuple(self._to_mark()))
        elif name in ("LIST", "DICT"):
            items = self._to_mark()
            stack.append(items if name == "LIST" else _pairs(items))
        elif name in ("APPEND", "APPENDS"):
            items = self._to_mark() if name == "APPENDS" else [stack.pop()]
            _of(list, stack[-1]).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            if name == "SETITEMS":
                items = self._to_mark()
            else:
                value = stack.pop()
                items = [stack.pop(), value]
            _of(dict, stack[-1]).update(_pairs(items))
        elif name not in ("PROTO", "FRAME"):
            raise ImportRefusedError(
                f"the pickle holds more than plain data: {name} at byte {position}"
            )

    def _remember(self, index: int) -> None:
        if len(self._memo) >= MEMO_MAX:
            raise ImportRefusedError(f"pickle with more than {MEMO_MAX} remembered values")
        if self._stack[-1] is _MARK:
            raise ValueError("a mark is no value")
        self._memo[index] = self._stack[-1]

    def _to_mark(self) -> list[PlainValue]:
        stack = self._stack
        at = len(stack) - 1
        while stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise IndexError("no mark")
        items = stack[at + 1 :]
        del stack[at:]
        return items


def _of(kind: type, value: PlainValue) -> PlainValue:
    if type(value) is not kind:
        raise TypeError(f"expected a {kind.__name__}")
    return value


def _pairs(items: list[PlainValue]) -> dict[PlainValue, PlainValue]:
    if len(items) % 2:
        raise ValueError("a key without a value")
    keys = items[::2]
    if any(type(key) not in (str, int, bool, float, type(None)) for key in keys):
        raise TypeError("a key is neither text nor a number")
    return dict(zip(keys, items[1::2], strict=True))


def _check_size(value: PlainValue) -> None:
    """Refuses what is larger than a dump can be, once each occurrence is counted."""
    if _count(value, {}, 0) > VALUES_MAX:
        raise ImportRefusedError(f"the pickle describes more than {VALUES_MAX} values")


def _count(value: PlainValue, known: dict[int, int], depth: int) -> int:
    """Values in `value`; containers are looked at once, however often they appear."""
    if value is _MARK:
        raise ImportRefusedError("damaged pickle: a mark is left over")
    if not isinstance(value, list | tuple | dict):
        return 1
    if depth > DEPTH_MAX:  # a cycle, too
        raise ImportRefusedError(f"the pickle nests deeper than {DEPTH_MAX}")
    count = known.get(id(value))
    if count is None:
        items = value.values() if isinstance(value, dict) else value
        count = known[id(value)] = 1 + sum(_count(item, known, depth + 1) for item in items)
    return count
