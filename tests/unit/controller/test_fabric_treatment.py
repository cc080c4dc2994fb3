# SPDX-License-Identifier: Apache-2.0
"""Marked and unmarked packets are treated alike, or the file is refused before a deployment."""

from dataclasses import replace
from pathlib import Path

import pytest

from controller.fabric import Fabric, FabricError
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_qos import EcnProfile, QosMaps
from controller.fabric_telemetry import WatchMode
from controller.fabric_topologies import three_tier
from controller.fabric_treatment import (
    hop_words,
    longest_path_switch_count,
    unequal_treatment,
)
from tests.support.fabric_faults import checked

SMALL = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
ALIKE = QosMaps(
    queues=(((26, 27), 3), ((46,), 6)),
    priorities=(((26, 27), 3),),
    pfc_priorities=(3,),
    ecn=(EcnProfile(queue=3, min_bytes=150_000, max_bytes=1_500_000),),
)
PACKET_BYTES = 4_160
"""An IPv4 packet of 4,096 bytes of RDMA payload with its headers."""


def with_maps(maps: QosMaps) -> Fabric:
    """The maps for all switches."""
    return replace(SMALL, models=(replace(SMALL.models[0], qos_maps=maps), SMALL.models[1]))


def problems(fabric: Fabric) -> list[tuple[str, str]]:
    """Key and message of what a deployment refuses, from the fabric's own file."""
    try:
        parse_fabric(dump_fabric(fabric), check=unequal_treatment)
    except FabricError as error:
        return [(fault.key, fault.message) for fault in checked(error)]
    return []


@pytest.mark.parametrize("maps", [ALIKE, QosMaps(), QosMaps(default_queue=5, default_priority=2)])
def test_equal_maps_are_fine(maps: QosMaps) -> None:
    """Both DSCPs in one row of every map, or in none."""
    assert problems(with_maps(maps)) == []


@pytest.mark.parametrize(
    ("maps", "key", "message"),
    [
        (
            replace(ALIKE, queues=(((26,), 3), ((46,), 6)), ecn=()),
            "models[0].qos_maps.queues",
            "would give marked packets another queue: class roce (DSCP 26: queue 3, marked "
            "DSCP 27: queue 0); expected a marked DSCP in the queue of its class",
        ),
        (
            replace(ALIKE, priorities=(((26,), 3),)),
            "models[0].qos_maps.priorities",
            "another PFC priority: class roce (DSCP 26: 3, paused, marked DSCP 27: 0, not paused)",
        ),
        (
            replace(ALIKE, ecn=(EcnProfile(dscps=(26,), min_bytes=1, max_bytes=2),)),
            "models[0].qos_maps.ecn",
            "another ECN: class roce (DSCP 26: 1 to 2 bytes, 100 %, marked DSCP 27: none)",
        ),
    ],
)
def test_a_map_that_tells_them_apart_is_refused(maps: QosMaps, key: str, message: str) -> None:
    """The line names the switches, the map, the class and both DSCPs."""
    ((found_key, found),) = problems(with_maps(maps))
    assert found_key == key
    assert found.startswith("leaf1, leaf2, spine1, spine2 would give marked packets")
    assert message in found


def test_a_switch_with_maps_of_its_own_is_named_alone() -> None:
    """They take the place of its model's."""
    unequal = replace(ALIKE, queues=(((26,), 3),), ecn=())
    fabric = with_maps(ALIKE)
    odd = replace(fabric.switches[1], qos_maps=unequal)
    fabric = replace(fabric, switches=(fabric.switches[0], odd, *fabric.switches[2:]))
    ((key, message),) = problems(fabric)
    assert key == "switches[1].qos_maps.queues"
    assert message.startswith("leaf2 would give")


def test_ecn_by_queue_follows_the_queue() -> None:
    """Another queue is another ECN profile too, and both are told."""
    unequal = replace(ALIKE, queues=(((26,), 3),))
    assert [key.rpartition(".")[2] for key, _ in problems(with_maps(unequal))] == ["queues", "ecn"]


def with_mtu(fabric: Fabric, mtu_bytes: int, packet_bytes: int | None) -> Fabric:
    """All links of one MTU, and RoCE packets of at most that size."""
    classes = tuple(
        replace(one, packet_bytes_max=packet_bytes) if one.name == "roce" else one
        for one in fabric.qos.classes
    )
    return replace(
        fabric,
        links=tuple(replace(link, mtu_bytes=mtu_bytes) for link in fabric.links),
        qos=replace(fabric.qos, classes=classes),
    )


def test_int_md_grows_by_every_hop_but_the_sink() -> None:
    """Leaf, spine: two entries of eight words, 16 bytes of headers (INT v2.1 section 5.3)."""
    growth = 16 + 2 * 8 * 4
    assert problems(with_mtu(SMALL, PACKET_BYTES + growth, PACKET_BYTES)) == []
    ((key, message),) = problems(with_mtu(SMALL, PACKET_BYTES + growth - 1, PACKET_BYTES))
    assert key == "links[0].mtu_bytes"
    assert "packets of class roce (4160 bytes) fit the MTU of 4239 bytes of leaf1:1" in message
    assert "what watchlist roce adds (16 bytes + 2 hops of 8 words)" in message
    assert "expected an MTU of at least 4240 bytes" in message


def test_remaining_hop_count_limits_the_growth() -> None:
    """With one hop, one entry."""
    roce = replace(SMALL.watchlists[0], remaining_hop_count=1)
    fabric = replace(SMALL, watchlists=(roce, SMALL.watchlists[1]))
    assert problems(with_mtu(fabric, PACKET_BYTES + 16 + 32, PACKET_BYTES)) == []
    assert problems(with_mtu(fabric, PACKET_BYTES + 16 + 31, PACKET_BYTES))


@pytest.mark.parametrize(
    ("mode", "growth"), [(WatchMode.MX, 16), (WatchMode.XD, 0), (WatchMode.EXEMPT, 0)]
)
def test_other_modes_grow_once_or_not_at_all(mode: WatchMode, growth: int) -> None:
    """MX adds its headers, XD and exemption nothing."""
    bitmap = 0 if mode is WatchMode.EXEMPT else 0x7C00
    roce = replace(
        SMALL.watchlists[0], mode=mode, instruction_bitmap=bitmap, remaining_hop_count=None
    )
    fabric = replace(SMALL, watchlists=(roce,))
    assert problems(with_mtu(fabric, PACKET_BYTES + growth, PACKET_BYTES)) == []
    if growth:
        assert problems(with_mtu(fabric, PACKET_BYTES + growth - 1, PACKET_BYTES))


def test_hosts_links_say_how_large_packets_are_where_the_class_does_not() -> None:
    """What the fabric's edge lets in must leave it again with INT in it."""
    assert problems(with_mtu(SMALL, 4_200, None))
    uplinks = tuple(replace(link, mtu_bytes=9_216) for link in SMALL.links[:4])
    access = tuple(replace(link, mtu_bytes=4_200) for link in SMALL.links[4:])
    assert problems(replace(SMALL, links=uplinks + access)) == []
    assert problems(replace(SMALL, links=tuple(uplinks) + SMALL.links[4:])) == []


def test_packets_that_do_not_fit_unmarked_either_are_no_difference() -> None:
    """They are dropped whether they are marked or not."""
    assert problems(with_mtu(SMALL, 1_500, PACKET_BYTES)) == []


def test_mtus_of_ports_switches_and_models_count_likewise() -> None:
    """The closest declaration to a port holds, and the smaller one of both ends."""
    limit = PACKET_BYTES + 10
    base = with_mtu(SMALL, 9_216, PACKET_BYTES)
    leaf, *others = base.switches
    for switch, models, key in (
        (replace(leaf, mtu_bytes=limit), base.models, "switches[0].mtu_bytes"),
        (
            replace(leaf, mtu_bytes=9_216, port_mtus=((2, limit),)),
            base.models,
            "switches[0].port_mtus[0].mtu_bytes",
        ),
        (leaf, (replace(base.models[0], mtu_bytes=limit), base.models[1]), "models[0].mtu_bytes"),
    ):
        fabric = replace(base, switches=(switch, *others), models=models)
        assert [found for found, _ in problems(fabric)] == [key]


def test_longest_paths_of_generated_fabrics() -> None:
    """Leaf, spine, leaf; with a core tier five switches."""
    assert longest_path_switch_count(leaf_spine(leaves=1, spines=1, hosts_per_leaf=2)) == 1
    assert longest_path_switch_count(SMALL) == 3
    assert longest_path_switch_count(three_tier(pods=3)) == 5
    assert longest_path_switch_count(three_tier(pods=1)) == 3


def test_words_of_a_hop() -> None:
    """Stamps and level 2 interfaces have two (INT v2.1 section 5.4)."""
    watchlist = SMALL.watchlists[0]
    assert hop_words(watchlist) == 8
    assert hop_words(replace(watchlist, instruction_bitmap=0xFF80)) == 12
    assert hop_words(replace(watchlist, instruction_bitmap=0x8000)) == 1


def test_example_of_the_documentation_is_refused_as_it_says() -> None:
    """The maps in docs/fabric.md are fine in its first example, and with one DSCP less they give
    the line that stands there."""
    page = (Path(__file__).parents[3] / "docs" / "fabric.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    head = "  - name: leaf-switch\n"
    maps = page.split(f"```\nmodels:\n{head}")[1].split("```")[0]
    whole = example.replace(head, head + maps, 1)
    assert parse_fabric(whole, check=unequal_treatment).models[0].qos_maps is not None
    wrong = whole.replace("[26, 27]", "[26]", 1)
    shown = next(line for line in page.splitlines() if ".qos_maps.queues: " in line)
    with pytest.raises(FabricError) as raised:
        parse_fabric(wrong, check=unequal_treatment)
    first, second = checked(raised.value)
    assert str(first).split(": ", 1)[1] == shown.split(": ", 1)[1]
    assert second.key == "models[0].qos_maps.ecn"
