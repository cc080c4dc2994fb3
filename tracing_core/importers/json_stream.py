# SPDX-License-Identifier: Apache-2.0
"""JSON of any length, one value at a time, in memory that does not grow with the file.

The standard library's scanner decodes each value whole; only the containers that a caller walks
through (`members`, `items`, `documents`) are read piece by piece. Decimals stay exact: near
1.7e15 microseconds a float resolves a quarter of one.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation

from tracing_core.importers.errors import ImportRefusedError

VALUE_CHARS_MAX = 64 * 2**20
"""One value decoded whole: an event, a request, a trace. Beyond it the file is refused."""
VALUES_MAX = 4_000_000
"""Values inside of one: small ones take thirty times their text in memory."""
_CROWDED_CHARS = 2**21
"""Shorter text cannot hold as many."""
_SPACE = re.compile(r"[ \t\r\n]*")
_OPEN_SCALAR = frozenset("-0123456789tfnNI")
"""First characters of values that may go on in the next chunk although they parse."""


def _decimal(text: str) -> Decimal | None:
    """The number exactly; null if its exponent is beyond what decimals can have."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


DECODER = json.JSONDecoder(
    parse_float=_decimal,
    parse_constant=lambda _: None,  # NaN and infinities, which some profilers write
    strict=False,  # control characters inside strings
)


class JsonReader:
    """Pulls values out of chunks of UTF-8 text."""

    def __init__(self, chunks: Iterable[bytes], *, value_chars_max: int = VALUE_CHARS_MAX) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._text = ""
        self._at = 0
        self._ended = False
        self._value_chars_max = value_chars_max
        self._line = 1
        self._counted = 0  # lines are counted up to here in the text that is held
        self._dropped_chars = 0

    @property
    def line(self) -> int:
        """Line of the next character, from 1."""
        return self._counted_line()

    def peek(self) -> str:
        """The next character that is no white space, not consumed; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            assert space is not None  # it matches no space, too
            self._at = space.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill(1):
                return ""

    def value(self) -> object:
        """The next value, whole."""
        return self._next_value()[0]

    def value_text(self) -> str:
        """The next value as it stands in the file, checked to be JSON."""
        begin, end = self._next_value()[1]
        return self._text[begin:end]

    def members(self) -> Iterator[str]:
        """Keys of the object that comes next; values that are not consumed are skipped."""
        yield from self._container("{", "}", self._key)

    def items(self) -> Iterator[None]:
        """One step per item of the array that comes next; the caller may consume the item."""
        for _ in self._container("[", "]", lambda: ""):
            yield None

    def documents(self) -> Iterator[int]:
        """The line of each value of a file that holds several: JSON lines, or values in a row."""
        while self.peek():
            at = self._position
            yield self.line
            if self._position == at:
                self.value()

    def _container(self, opening: str, closing: str, key: Callable[[], str]) -> Iterator[str]:
        if self.peek() != opening:
            raise self._error(f"expected {opening}")
        self._at += 1
        while True:
            following = self.peek()
            if following == closing:
                self._at += 1
                return
            if following == "" and closing == "]":  # Trace Event Format: it need not be closed
                return
            name = key()
            self.peek()
            at = self._position
            yield name
            if self._position == at:
                self.value()
            separator = self.peek()
            if separator == ",":
                self._at += 1
            elif separator != closing and (separator or closing != "]"):
                raise self._error(f"expected , or {closing}")

    def _key(self) -> str:
        name = self.value()
        if not isinstance(name, str):
            raise self._error("expected a key")
        if self.peek() != ":":
            raise self._error("expected :")
        self._at += 1
        return name

    def _next_value(self) -> tuple[object, tuple[int, int]]:
        """The value and where it stands in the text that is held."""
        if not self.peek():
            raise self._error("the file ends where a value is expected")
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                problem = error.msg
            except RecursionError:
                raise self._error("values nest too deep") from None
            except ValueError as error:  # an integer of thousands of digits
                raise self._error(str(error)) from None
            else:
                if end < len(self._text) or self._ended or self._text[self._at] not in _OPEN_SCALAR:
                    place = (self._at, end)
                    self._at = end
                    return value, place
                self._fill(1)
                continue
            held_chars = len(self._text) - self._at
            if held_chars > self._value_chars_max:
                raise self._error(f"a value is longer than {self._value_chars_max} characters")
            if not self._fill(held_chars):
                raise self._error(problem)
            if len(self._text) > _CROWDED_CHARS and self._held_values() > VALUES_MAX:
                raise self._error(f"a value holds more than {VALUES_MAX} others")

    def _held_values(self) -> int:
        """At least as many as the text that is held has values."""
        return sum(self._text.count(mark) for mark in ",[{")

    def _counted_line(self) -> int:
        """Counts the lines since the last call, so that many calls cost one pass over the text."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    @property
    def _position(self) -> int:
        return self._dropped_chars + self._at

    def _fill(self, wanted_chars: int) -> bool:
        """Reads that much more, or what is left; drops what is consumed. False at the end."""
        if self._ended:
            return False
        self._counted_line()  # what is dropped counts
        self._dropped_chars += self._at
        parts = [self._text[self._at :]]
        self._at = self._counted = 0
        got_chars = 0
        while got_chars < wanted_chars and not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            part = self._decode(chunk or b"", self._ended)
            parts.append(part)
            got_chars += len(part)
        self._text = "".join(parts)
        return got_chars > 0

    def _error(self, message: str) -> ImportRefusedError:
        return ImportRefusedError(f"line {self.line}: not the JSON that was expected: {message}")
