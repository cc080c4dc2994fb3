# SPDX-License-Identifier: Apache-2.0
"""What fabric.yaml says of a model's stamps reaches the collector."""

import pytest

from controller.fabric import FabricError, StampOrigin
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.telemetry.topology import telemetry_fabric

_WIDTH = "    stamp_width_bits: 48\n"


def _text(more):
    text = dump_fabric(leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, lengths_m=[10.0] * 8))
    assert _WIDTH in text
    return text.replace(_WIDTH, _WIDTH + more, 1)


def test_by_default_stamps_are_of_one_width_and_count_from_any_instant():
    """As every file without the keys says."""
    node = telemetry_fabric(parse_fabric(_text(""))).nodes[1]
    assert (node.egress_stamp_width_bits, node.stamp_origin_ns) == (None, None)


@pytest.mark.parametrize(("origin", "less_utc_ns"), [("ptp", 37 * 10**9), ("unix", 0)])
def test_width_and_origin_of_a_model_reach_the_collector(origin, less_utc_ns):
    """TAI is 37 s ahead of UTC since 2017; the file that is written reads the same."""
    more = f"    egress_stamp_width_bits: 18\n    stamp_origin: {origin}\n"
    fabric = parse_fabric(_text(more))
    assert fabric.models[0].stamp_origin is StampOrigin(origin)
    node = telemetry_fabric(fabric).nodes[1]
    assert (node.egress_stamp_width_bits, node.stamp_origin_ns) == (18, less_utc_ns)
    again = parse_fabric(dump_fabric(fabric))
    assert again == fabric


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("    egress_stamp_width_bits: 49\n", "models[0].egress_stamp_width_bits"),
        ("    stamp_origin: 1970\n", "models[0].stamp_origin"),
    ],
)
def test_impossible_widths_and_unknown_origins_are_refused(more, key):
    """One line with file, line and key."""
    with pytest.raises(FabricError) as caught:
        parse_fabric(_text(more))
    assert key in str(caught.value)
    assert "expected" in str(caught.value)
