# SPDX-License-Identifier: Apache-2.0
"""The JSON reader: any split of the bytes gives the same values, in bounded memory."""

import json
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.json_stream import JsonReader

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[first : first + size] for first in range(0, len(data), size)]


@given(st.lists(json_values, max_size=5), st.integers(1, 7), st.booleans())
def test_items_are_the_same_however_the_bytes_are_split(items, size, indented):
    """Walking an array yields what json.loads yields, for every size of the pieces."""
    text = json.dumps(items, indent=2 if indented else None, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    reader = JsonReader(pieces(data, size))
    found = [reader.value() for _ in reader.items()]
    assert found == json.loads(data)
    assert reader.peek() == ""


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=5), st.integers(1, 7))
def test_members_that_are_not_consumed_are_skipped(members, size):
    """Keys come in order whether their values are read or not."""
    data = json.dumps(members).encode()
    reader = JsonReader(pieces(data, size))
    read = {}
    for index, key in enumerate(reader.members()):
        if index % 2:
            read[key] = reader.value()
    assert read == {key: members[key] for key in list(members)[1::2]}


def test_decimals_stay_exact():
    """1719853884000000.123 us is no float: a double would move it by up to 0.125 us."""
    assert JsonReader([b"[1719853884000000.123]"]).value() == [Decimal("1719853884000000.123")]


def test_a_number_at_the_end_of_a_piece_is_not_cut():
    """12|34 is 1234, not 12."""
    reader = JsonReader([b"[12", b"34]"])
    assert [reader.value() for _ in reader.items()] == [1234]


def test_documents_in_a_row_name_their_lines():
    """JSON lines and documents over several lines are told apart by line numbers."""
    reader = JsonReader([b'{"a":1}\n\n{"b":\n2}\n'])
    assert [(line, reader.value()) for line in reader.documents()] == [
        (1, {"a": 1}),
        (3, {"b": 2}),
    ]


def walked(data: bytes) -> list[object]:
    """Every value of the outermost container."""
    reader = JsonReader([data])
    if reader.peek() == "[":
        return [reader.value() for _ in reader.items()]
    return [reader.value() for _ in reader.members()]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"[1,\n2,\n}", 3),
        (b'{"a" 1}', 1),
        (b'{"a":\n"b', 2),
        (b'\n\n{"a":1,', 3),
        (b"[" * 90_000, 1),
    ],
)
def test_what_is_no_json_names_the_line(data, line):
    """Malformed, truncated and absurdly nested input is refused with the place."""
    with pytest.raises(ImportRefusedError, match=f"line {line}: "):
        walked(data)


def test_an_integer_of_many_digits_is_refused():
    """Python limits such conversions, since they take quadratic time."""
    with pytest.raises(ImportRefusedError):
        JsonReader([b"9" * 10_000]).value()


def test_memory_does_not_grow_with_the_number_of_items():
    """20 MB of items are walked while less than 8 MB are held."""
    item = json.dumps({"name": "x" * 400, "ts": 1.5}).encode() + b","
    tracemalloc.start()
    reader = JsonReader(b"[" * (not i) + item * 2000 for i in range(25))
    count = sum(1 for _ in reader.items())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 50_000
    assert peak_bytes < 8 * 2**20


def test_a_single_value_beyond_the_limit_is_refused():
    """The limit applies to one value, not to the file."""
    reader = JsonReader(pieces(b'["' + b"x" * 5000 + b'"]', 100), value_chars_max=1000)
    items = reader.items()
    next(items)
    with pytest.raises(ImportRefusedError, match="longer than 1000"):
        reader.value()
