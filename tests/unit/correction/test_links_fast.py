# SPDX-License-Identifier: Apache-2.0
"""The compiled link samples are those of `links.fabric_samples`, whatever the rows hold."""

from dataclasses import replace

import numpy as np
import pytest

from correction.links import JoinCounters, fabric_samples, port_index
from correction.links_fast import FabricSampler
from correction.model import ClockKind, FabricModel
from correction.records import NO_TSTAMP_NS, UNKNOWN_U32
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=1, samples=20, exchanges=3)


def _both(run: Run, model: FabricModel) -> tuple[JoinCounters, JoinCounters]:
    """Counters of both; the samples are compared here."""
    plain, fast = JoinCounters(), JoinCounters()
    expected = fabric_samples(run.packets, run.hops, model, port_index(model), plain)
    found = FabricSampler(model).samples(run.packets, run.hops, fast)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert fast.fabric_samples == len(expected)
    return plain, fast


def test_sound_rows_give_the_same_samples() -> None:
    """Every pair of hops is a sample, in the same order."""
    run = draw(7, SMALL)
    plain, fast = _both(run, run.model)
    assert plain.rejected == fast.rejected == {}
    assert fast.fabric_samples == (run.packets["hop_count"] - 1).sum()


@pytest.mark.parametrize("bits", [34, 48, 64])
@pytest.mark.parametrize("seed", range(3))
def test_damaged_rows_are_rejected_alike(seed: int, bits: int) -> None:
    """Ports, stamps, lengths and nodes that cannot be: same samples, same count of every reason."""
    run = draw(seed, SMALL)
    rng = np.random.Generator(np.random.PCG64(seed))
    clocks = tuple(
        replace(clock, stamp_bits=bits) if clock.kind is ClockKind.SWITCH else clock
        for clock in run.model.clocks
    )
    model = replace(run.model, clocks=clocks)
    hops = run.hops
    for name, values in (
        ("egress_port", (0, 2, 77, 0xFFFF)),
        ("ingress_port", (1, 3, 0xFFFF)),
        ("node_id", (1, 101, 9_999, 2**32 - 1)),
        ("egress_tstamp_local_ns", (NO_TSTAMP_NS, 0, 2**62 - 1, 2**62, -(2**62), 1_000)),
        ("ingress_tstamp_local_ns", (NO_TSTAMP_NS, 5, 2**62 - 1, 2**61)),
        ("egress_bytes", (0, 0, 64, UNKNOWN_U32)),
        ("ingress_bytes", (0, 0, 64, UNKNOWN_U32)),
    ):
        chosen = rng.random(len(hops)) < (0.25 if name.endswith("bytes") else 0.04)
        hops[name][chosen] = rng.choice(np.array(values, hops[name].dtype), chosen.sum())
    plain, fast = _both(run, model)
    assert plain.rejected == fast.rejected
    assert len(plain.rejected) == 6


def test_no_rows_give_no_samples() -> None:
    """Nothing in, nothing out."""
    run = draw(1, SMALL)
    counters = JoinCounters()
    found = FabricSampler(run.model).samples(run.packets[:0], run.hops[:0], counters)
    assert len(found) == counters.fabric_samples == 0
