# SPDX-License-Identifier: Apache-2.0
"""Generated fabrics: the address plan, the file round trip, and refusals of impossible sizes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_check import check_fabric
from controller.fabric_defaults import device_models
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine


def test_demo_fabric_has_the_constants_of_the_lab() -> None:
    """8 leaves, 4 spines, 16 hosts, with the node ids, ports and addresses of the plan."""
    fabric = leaf_spine()
    assert [s.node_id for s in fabric.switches] == [*range(1, 9), *range(101, 105)]
    assert [h.name for h in fabric.hosts] == [f"h{n}" for n in range(1, 17)]
    ends = cabling(fabric)
    assert ends[LinkEnd(node="leaf3", port=2)] == LinkEnd(node="spine2", port=3)
    assert ends[LinkEnd(node="leaf8", port=12)] == LinkEnd(node="h16", port=1)
    assert fabric.host("h16").ip == 0x0A000802
    assert fabric.host("h16").mac == 0x020000000802
    assert [h.tenant for h in fabric.hosts[:4]] == ["alpha", "beta", "alpha", "beta"]
    assert {s.report_port for s in fabric.switches} == {60}
    assert len(fabric.links) == 8 * 4 + 8 * 2


def test_same_arguments_give_the_same_text() -> None:
    """Generator and writer are deterministic."""
    lengths_m = [3.0 + n / 7 for n in range(48)]
    assert dump_fabric(leaf_spine(lengths_m=lengths_m)) == dump_fabric(
        leaf_spine(lengths_m=lengths_m)
    )


@pytest.mark.parametrize(
    "fabric",
    [
        leaf_spine(),
        leaf_spine(lengths_m=[0.5 + n / 7 for n in range(48)]),
        leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["no"]),
        leaf_spine(leaves=64, spines=12, hosts_per_leaf=3, tenants=["a", "b", "c"]),
        leaf_spine(models=device_models(switch_uncertainty_ns=9, stamp_unit_ns=1000)),
    ],
    ids=["demo", "lengths", "smallest", "large", "other models"],
)
def test_written_fabric_reads_back_equal(fabric: Fabric) -> None:
    """parse_fabric(dump_fabric(f)) == f."""
    assert parse_fabric(dump_fabric(fabric)) == fabric


@settings(max_examples=12, deadline=None)
@given(
    leaves=st.integers(1, 4),
    spines=st.integers(1, 12),
    hosts_per_leaf=st.integers(1, 4),
    length_m=st.floats(0, 1e5, exclude_min=True, allow_nan=False),
)
def test_every_size_is_sound_and_reads_back(
    leaves: int, spines: int, hosts_per_leaf: int, length_m: float
) -> None:
    """Fabrics of any size pass their own checks and survive the file."""
    count = leaves * (spines + hosts_per_leaf)
    fabric = leaf_spine(
        leaves=leaves,
        spines=spines,
        hosts_per_leaf=hosts_per_leaf,
        lengths_m=[length_m] * count,
        tenants=["t"],
    )
    assert check_fabric(fabric) == []
    assert parse_fabric(dump_fabric(fabric)) == fabric


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"leaves": 0}, "leaves is 0"),
        ({"leaves": 64_001}, "expected 1 to 64000"),
        ({"leaves": 508}, "a switch would have 508 ports; expected at most 507"),
        ({"spines": 506}, "a switch would have 508 ports"),
        ({"hosts_per_leaf": 255}, "hosts_per_leaf is 255; expected 1 to 254"),
        ({"tenants": ["a", "b", "c"]}, "tenants is 3; expected 1 to 2"),
        ({"lengths_m": [1.0]}, "1 lengths for 48 links"),
        ({"speed_gbps": 400, "models": device_models()}, "no stamp point at 400"),
        ({"tenants": ["same", "same"]}, "the name same is used"),
    ],
)
def test_impossible_sizes_are_refused(arguments: dict[str, object], message: str) -> None:
    """A generator's bad argument is a ValueError that names it."""
    with pytest.raises(ValueError, match=message):
        leaf_spine(**arguments)  # type: ignore[arg-type]  # a table of cases
