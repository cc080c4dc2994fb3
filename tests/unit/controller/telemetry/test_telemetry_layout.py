# SPDX-License-Identifier: Apache-2.0
"""The header tables: whole, documented, and the same as in the compiled P4 program."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from controller.telemetry.layout import ALL_LAYOUTS, INT_MD, INT_SHIM, REPORT_GROUP
from controller.telemetry.layout_docs import dialects_page, wire_format_page

_LAYOUTS = {layout.name: layout for layout in ALL_LAYOUTS}
_CONTROLLER_HEADERS = {"packet_in_t", "packet_out_t"}
_REPO = Path(__file__).parents[4]


def _p4_headers() -> dict[str, list[tuple[str, int]]]:
    """Fixed-width header types of the program that lie in packets."""
    program = json.loads(files("p4src").joinpath("artifacts/tempotrace.json").read_text())
    metadata = {h["header_type"] for h in program["headers"] if h["metadata"]}
    return {
        header["name"]: [(name, bits) for name, bits, *_signed in header["fields"]]
        for header in program["header_types"]
        if header["name"] not in metadata | _CONTROLLER_HEADERS
        and header["name"].endswith("_t")
        and all(isinstance(bits, int) for _name, bits, *_signed in header["fields"])
    }


def test_every_header_of_the_p4_program_has_the_same_fields_in_its_table():
    """Names, widths and order agree with `header_types` of the compiled JSON, none left out."""
    p4_headers = _p4_headers()
    assert len(p4_headers) >= 15
    for name, fields in p4_headers.items():
        assert [(row.name, row.bits) for row in _LAYOUTS[name].fields] == fields, name


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda layout: layout.name)
def test_every_field_is_documented_and_unique(layout):
    """A row without meaning, or two of one name, would make the page and the values ambiguous."""
    names = [row.name for row in layout.fields]
    assert len(set(names)) == len(names)
    assert all(row.doc and "|" not in row.doc for row in layout.fields)
    assert layout.doc


@pytest.mark.parametrize(
    ("name", "byte_count"),
    [
        ("ethernet_t", 14),
        ("ipv4_t", 20),
        ("udp_t", 8),
        ("bth_t", 12),
        ("ptp_t", 34),
        ("ptp_timestamp_t", 10),
        ("ptp_delay_resp_t", 20),
        ("int_shim_t", 4),
        ("int_md_t", 12),
        ("report_group_t", 8),
        ("report_individual_t", 4),
        ("report_main_t", 8),
        ("report_tlv_t", 4),
        ("report_v1_t", 16),
        ("report_v05_t", 12),
        ("report_v05_drop_t", 12),
        ("report_v05_local_t", 16),
        ("int_shim_v1_t", 4),
        ("int_hop_by_hop_v1_t", 8),
        ("int_shim_v05_t", 4),
        ("int_hop_by_hop_v05_t", 8),
        ("int_tail_v05_t", 4),
    ],
)
def test_header_sizes_are_those_of_the_standards(name, byte_count):
    """Sizes stated in the specifications, independent of the rows."""
    assert _LAYOUTS[name].byte_count == byte_count


def test_layout_names_and_value_types_are_unique():
    """A table is found by its name and by the type of its values."""
    assert len(_LAYOUTS) == len(ALL_LAYOUTS)
    assert len({layout.value_type for layout in ALL_LAYOUTS}) == len(ALL_LAYOUTS)
    assert {INT_SHIM, INT_MD, REPORT_GROUP} <= set(ALL_LAYOUTS)


@pytest.mark.parametrize(
    ("name", "make"), [("wire-format.md", wire_format_page), ("dialects.md", dialects_page)]
)
def test_the_page_is_up_to_date(name, make):
    """It is what the tables say; `make docs` rewrites it."""
    assert (_REPO / "docs" / name).read_text() == make()
