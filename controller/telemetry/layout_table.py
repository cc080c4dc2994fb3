# SPDX-License-Identifier: Apache-2.0
"""Header tables: an ordered run of (field, bits, meaning), and the type of a header's values.

A header is a `NamedTuple` whose annotations are the rows of its table, so the type that mypy
checks and the layout on the wire cannot drift apart. From these tables come the decoder and the
encoder (`codec`), docs/wire-format.md (`layout_docs`) and the conformance test against the
`header_types` of the compiled P4 program; names are those of p4src/include/headers.p4.
Values are NamedTuples rather than frozen dataclasses because millions are built per run and a
frozen dataclass costs about six times as much to build.

All fields are unsigned and big-endian; the first row holds the most significant bits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar, get_type_hints


@dataclass(frozen=True, slots=True)
class Wire:
    """Annotation of one header field: its width and its meaning."""

    bits: int
    doc: str


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a header table."""

    name: str
    bits: int
    doc: str

    @property
    def value_max(self) -> int:
        """The largest value the field holds: all ones."""
        return (1 << self.bits) - 1


HeaderT_co = TypeVar("HeaderT_co", bound=NamedTuple, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeaderLayout(Generic[HeaderT_co]):
    """A header: its P4 type name, its rows in wire order and the type of its values.

    Compared by identity: each table exists once, and its compiled codec is looked up by it.
    """

    name: str
    fields: tuple[Field, ...]
    doc: str
    value_type: type[HeaderT_co]
    make: Callable[[Iterable[int]], HeaderT_co] = field(repr=False)
    byte_count: int
    """Width of the header; every header is a whole number of bytes."""


def header_layout(name: str, value_type: type[HeaderT_co]) -> HeaderLayout[HeaderT_co]:
    """The table of a header, read from the annotations of its value type."""
    rows = []
    for field_name, hint in get_type_hints(value_type, include_extras=True).items():
        (wire,) = hint.__metadata__
        assert isinstance(wire, Wire), f"{name}.{field_name} has no width"
        rows.append(Field(field_name, wire.bits, wire.doc))
    bit_count = sum(row.bits for row in rows)
    assert bit_count % 8 == 0, f"{name} is not a whole number of bytes"
    return HeaderLayout(
        name=name,
        fields=tuple(rows),
        doc=(value_type.__doc__ or "").strip(),
        value_type=value_type,
        make=value_type._make,
        byte_count=bit_count // 8,
    )
