# SPDX-License-Identifier: Apache-2.0
"""Generated fabrics: sizes, ports, and routes that are those of the controller."""

from dataclasses import replace

import numpy as np
import pytest

from bmv2_lab.draw import Stream, stream
from bmv2_lab.scale.cabling import generate
from bmv2_lab.scale.describe import fabric_model_of, fabric_of
from bmv2_lab.scale.flows import jobs_of, place_jobs
from bmv2_lab.scale.paths import find_paths
from bmv2_lab.scale.settings import ScaleSettings, Shape
from bmv2_lab.scale.topology import Topology, topology_of
from bmv2_lab.scale.world import World, draw_world
from controller.fabric import Fabric
from controller.fabric_check import check_fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_model import fabric_model

SMALL = ScaleSettings(gpus=32, nics_per_host=2, radix=8, gpus_per_job=16)
SHAPES = [
    SMALL,
    replace(SMALL, shape=Shape.LEAF_SPINE),
    replace(SMALL, shape=Shape.THREE_TIER),
    replace(SMALL, gpus=96),  # rail-optimised, three tiers
]


def _paths(topology: Topology, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, topology.nic_count, (2, count))
    keep = src != dst
    src, dst = src[keep], dst[keep]
    port = rng.integers(49_152, 65_536, len(src))
    paths = find_paths(topology, src, dst, port, np.full(len(src), 4_791))
    return src, dst, np.where(paths.link >= 0, paths.link, -1)


@pytest.mark.parametrize(
    ("gpus", "leaves", "spines", "cores"),
    [(512, 16, 32, 0), (2_048, 64, 32, 0), (4_096, 128, 128, 64), (16_384, 512, 512, 256)],
)
def test_sizes_are_those_of_the_docs(gpus: int, leaves: int, spines: int, cores: int) -> None:
    """32 NICs on a leaf; two tiers up to 64 leaves, then pods of 32 leaves and full cores."""
    topology = generate(ScaleSettings(gpus=gpus))
    tiers = np.bincount(topology.tier, minlength=3).tolist()
    assert tiers == [leaves, spines, cores]
    assert np.bincount(topology.nic_leaf).tolist() == [32] * leaves
    assert topology.link_count == gpus + leaves * 32 + (spines * 32 if cores else 0)
    if cores:
        ends = np.concatenate([topology.link_a, topology.link_b])
        used = np.bincount(ends)[topology.nic_count :]
        assert set(used.tolist()) == {64}  # every switch uses all its ports


@pytest.mark.parametrize("settings", SHAPES)
def test_no_port_is_cabled_twice(settings: ScaleSettings) -> None:
    """Every (clock, port) occurs once, and every switch has at most `radix` cables."""
    topology = generate(settings)
    ends = np.concatenate([topology.link_a, topology.link_b])
    ports = np.concatenate([topology.link_a_port, topology.link_b_port])
    assert len(set(zip(ends.tolist(), ports.tolist(), strict=True))) == len(ends)
    assert np.bincount(ends)[topology.nic_count :].max() <= settings.radix


def test_a_rail_has_leaves_of_its_own() -> None:
    """NICs of different rails never share a leaf in a rail-optimised fabric."""
    topology = generate(ScaleSettings(gpus=1_024))
    rail = np.arange(topology.nic_count) % 8
    for leaf in range(int(topology.nic_leaf.max()) + 1):
        assert len(set(rail[topology.nic_leaf == leaf].tolist())) == 1


@pytest.mark.parametrize("settings", SHAPES)
def test_paths_lead_from_nic_to_nic(settings: ScaleSettings) -> None:
    """Links of a path join end to end, stages only rise, and the last one is the receiver's."""
    topology = generate(settings)
    src, dst, link = _paths(topology, 500)
    at = topology.nic_leaf[src] + topology.nic_count
    stage = np.zeros(len(src), np.int64)
    arrived = np.zeros(len(src), np.bool_)
    for hop in range(link.shape[1]):
        on = link[:, hop] >= 0
        assert topology.sender[link[on, hop]].tolist() == at[on].tolist()
        assert bool((topology.stage[link[on, hop]] > stage[on]).all())
        stage[on] = topology.stage[link[on, hop]]
        at[on] = topology.receiver[link[on, hop]]
        arrived |= at == dst
    assert bool(arrived.all())
    assert at.tolist() == dst.tolist()


def _declared(settings: ScaleSettings) -> tuple[World, Fabric]:
    world = draw_world(settings, 3)
    members = place_jobs(settings, stream(3, Stream.TRAFFIC))
    return world, fabric_of(world, jobs_of(settings, world.topology, members))


@pytest.mark.parametrize("settings", SHAPES)
def test_routes_are_those_that_the_controller_computes(settings: ScaleSettings) -> None:
    """Generated ECMP groups choose the same links as `compute_routes` on the fabric's file."""
    world, fabric = _declared(settings)
    mine, theirs = world.topology, topology_of(fabric)
    assert _paths(mine, 400)[2].tolist() == _paths(theirs, 400)[2].tolist()
    assert mine.access_link.tolist() == theirs.access_link.tolist()


@pytest.mark.parametrize("settings", SHAPES)
def test_the_fabric_file_is_sound_and_says_what_the_model_says(settings: ScaleSettings) -> None:
    """The file has no fault, comes back as it was written, and gives the solver's own model."""
    world, fabric = _declared(settings)
    assert not list(check_fabric(fabric))
    again = parse_fabric(dump_fabric(fabric))
    assert again == fabric
    assert fabric_model(again) == fabric_model_of(world)


DEFAULT = ScaleSettings()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(DEFAULT, gpus=500), "expected a multiple of 8"),
        (replace(DEFAULT, gpus=8), "at least 16"),
        (replace(DEFAULT, radix=6), "radix is 6"),
        (replace(DEFAULT, gpus=4_096, shape=Shape.LEAF_SPINE), "expected shape three-tier"),
        (replace(DEFAULT, gpus=262_144, radix=16), "pods"),
        (replace(DEFAULT, gpus_per_job=8), "gpus_per_job is 8"),
        (replace(DEFAULT, sample_psn_bits=13), "sample_psn_bits"),
        (replace(DEFAULT, steps_per_window=50), "a step of"),
        (replace(DEFAULT, ptp_dscp=8), "ptp_dscp"),
    ],
)
def test_impossible_sizes_are_one_line_errors(settings: ScaleSettings, message: str) -> None:
    """What cannot be built says what was expected."""
    with pytest.raises(ValueError, match=message):
        generate(settings)
