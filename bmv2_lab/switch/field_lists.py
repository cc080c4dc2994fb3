# SPDX-License-Identifier: Apache-2.0
"""Field lists: what a packet keeps of its metadata and headers when it starts anew or is cloned."""

from dataclasses import dataclass

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.layout import PhvLayout


@dataclass(frozen=True, slots=True)
class FieldList:
    """The fields that a packet keeps when it starts anew or is cloned.

    Whole slots as ranges begin..end (exclusive), and bits of slots that other fields share.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    bits: tuple[tuple[int, int], ...] = ()


def read_field_lists(items: list[JsonObject], layout: PhvLayout) -> dict[int, FieldList]:
    """The field lists of a document, by their numbers."""
    lists: dict[int, FieldList] = {}
    for item in items:
        where = f"field_lists[{item.get('name', item['id'])}]"
        numbers: set[int] = set()
        bits: dict[int, int] = {}
        for element in item["elements"]:
            if element["type"] == "hexstr":
                continue  # a constant is not copied between packets
            if element["type"] != "field":
                raise ProgramError(where, f"unsupported element of type {element['type']}")
            header, field = layout.field(element["value"], where)
            for piece in field.pieces:
                number = header.base + piece.slot
                if piece.bits == piece.container_bits:
                    numbers.add(number)
                else:
                    mask = ((1 << piece.bits) - 1) << piece.shift
                    bits[number] = bits.get(number, 0) | mask
        ranges: list[tuple[int, int]] = []
        for number in sorted(numbers):
            if ranges and ranges[-1][1] == number:
                ranges[-1] = (ranges[-1][0], number + 1)
            else:
                ranges.append((number, number + 1))
        lists[int(item["id"])] = FieldList(tuple(ranges), tuple(bits.items()))
    return lists
