# SPDX-License-Identifier: Apache-2.0
"""A scenario as a real-time backend runs it."""

from pathlib import Path

import pytest

from bmv2_lab.backends.needs import BackendError
from bmv2_lab.backends.variant import (
    SCALES,
    TAIL_NS,
    WARM_UP_NS,
    draw_real_time,
    real_time_variant,
)
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.scenarios.disturbances import ClockStep, LinkFlap
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric

BACKENDS = tuple(SCALES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_variant_keeps_fabric_and_schedule(backend: str) -> None:
    """Same size, same windows, same PTP interval; no fault that only the simulator can inject."""
    scenario = SCENARIOS["small-4x4"]
    variant = real_time_variant(scenario, backend)
    for name in ("leaves", "spines", "hosts_per_leaf", "window_starts_ns", "ptp_interval_ns"):
        assert getattr(variant, name) == getattr(scenario, name)
    assert variant.faults_hop == variant.faults_link == 0


def test_windows_wait_for_the_daemons() -> None:
    """A scenario whose first window comes at once is shifted as a whole, with time to end in."""
    scenario = SCENARIOS["nothing-wrong"]
    variant = real_time_variant(scenario, "veth")
    shift_ns = variant.window_starts_ns[0] - scenario.window_starts_ns[0]
    assert variant.window_starts_ns[0] == WARM_UP_NS
    assert variant.duration_ns == scenario.duration_ns + shift_ns + TAIL_NS


@pytest.mark.parametrize(
    ("name", "backend", "qps"),
    [("tiny-2x2", "veth", 4), ("tiny-2x2", "bmv2", 4), ("allreduce-8x4", "bmv2", 2)],
)
def test_traffic_is_what_the_switches_carry(name: str, backend: str, qps: int) -> None:
    """A small scenario keeps its queue pairs; a large one has as many as two cores carry."""
    assert real_time_variant(SCENARIOS[name], backend).qps_per_peer == qps


def test_stalls_grow_with_the_noise() -> None:
    """A straggler must stand out from what scheduling does to everybody."""
    scenario = SCENARIOS["straggler-host"]
    straggler = real_time_variant(scenario, "bmv2").straggler
    assert scenario.straggler is not None
    assert straggler is not None
    assert straggler.stall_ns == SCALES["bmv2"].software_scale * scenario.straggler.stall_ns


@pytest.mark.parametrize(
    ("name", "backend", "what"),
    [
        ("transparent-clock-4x4", "veth", "closed_loop (what feeds the transparent clocks"),
        ("clock-step", "bmv2", "ClockStep (BMv2 stamps with the kernel's one clock)"),
        ("ntp-fallback", "veth", "NtpFallback (daemons steer no clock here"),
        ("pfc-storm", "bmv2", "PfcStorm (veth ports have no pause frames)"),
        ("correlated-bias-spine", "veth", "stamp_biases (the kernel stamps at one point"),
        ("three-tiers", "veth", "topology three-tier (only leaf and spine"),
        ("boundary-clocks", "bmv2", "boundary_clocks (switches run no ptp4l here)"),
        ("ptp-over-ethernet", "bmv2", "ptp_over_ethernet (ptp4l runs unicast"),
        ("only-leaves", "veth", "plain_spines (all switches run the program here)"),
    ],
)
def test_what_real_time_cannot_have_is_refused(name: str, backend: str, what: str) -> None:
    """One line names it, why not, and what to do instead."""
    with pytest.raises(BackendError) as error:
        real_time_variant(SCENARIOS[name], backend)
    text = str(error.value)
    assert text.startswith(f"scenario {name}: the {backend} backend has no {what}")
    assert text.endswith("; run it with --backend virtual")
    assert "\n" not in text


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name",
    [
        "link-flap",
        "switch-restart",
        "ecmp-rehash",
        "grandmaster-failover",
        "wrong-correction-field",
        "report-loss-10",
        "straggler-host",
        "packet-spraying",
        "tier-gradient",
    ],
)
def test_disturbances_that_real_time_has(name: str, backend: str) -> None:
    """They are taken over, inside of the run, after the first window has begun."""
    scenario = SCENARIOS[name]
    variant = real_time_variant(scenario, backend)
    assert [type(one) for one in variant.events] == [type(one) for one in scenario.events]
    for event in variant.events:
        at_ns = getattr(event, "at_ns", None) or getattr(event, "down_ns", None)
        assert at_ns is not None
        assert variant.window_starts_ns[0] < at_ns < variant.duration_ns


def test_what_happens_is_stretched() -> None:
    """A flap keeps its place between the windows; everything takes three times as long."""
    scenario = SCENARIOS["link-flap"]
    (flap,), (slow,) = scenario.events, real_time_variant(scenario, "veth").events
    assert isinstance(flap, LinkFlap)
    assert isinstance(slow, LinkFlap)
    assert slow.up_ns - slow.down_ns == 3 * (flap.up_ns - flap.down_ns)
    assert slow.detect_ns == 3 * flap.detect_ns
    first_ns = scenario.window_starts_ns[0]
    assert slow.down_ns - WARM_UP_NS == 3 * (flap.down_ns - first_ns)


def test_sizes_of_what_is_wrong_grow_with_the_noise() -> None:
    """Steps and wrong corrections as stalls do, a gradient as the asymmetries of bad links."""
    steps = real_time_variant(SCENARIOS["clock-step"], "veth").events
    sizes_ns = [step.step_ns for step in steps if isinstance(step, ClockStep)]
    assert sizes_ns == [200 * 40_000, 200 * 1_000]
    wrong = real_time_variant(SCENARIOS["wrong-correction-field"], "bmv2").wrong_correction
    assert wrong is not None
    assert wrong.error_ns == 400 * 700
    gradient = real_time_variant(SCENARIOS["tier-gradient"], "bmv2").tier_gradient_ns
    assert gradient == 2_000_000.0


def test_asymmetries_of_bmv2_are_a_millisecond_or_more() -> None:
    """Its stamps are microseconds of a busy machine; healthy links are made symmetric."""
    variant = real_time_variant(SCENARIOS["allreduce-8x4"], "bmv2")
    drawn = draw_real_time(variant, "bmv2", seed=1)
    sizes = [abs(link.asymmetry_ns) for link in drawn.links]
    assert all(size == 0 or size >= 1_000_000 for size in sizes)
    assert sum(link.bad for link in drawn.links) == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_fabric_file_can_be_read_back(backend: str, tmp_path: Path) -> None:
    """What is declared passes the checks of every fabric file."""
    drawn = draw_real_time(real_time_variant(SCENARIOS["small-4x4"], backend), backend, seed=1)
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(drawn.fabric), encoding="utf-8")
    assert load_fabric(path) == drawn.fabric


@pytest.mark.parametrize(("backend", "unit_ns"), [("veth", 1), ("bmv2", 1_000)])
def test_stamps_are_declared_in_the_backends_unit(backend: str, unit_ns: int) -> None:
    """BMv2 counts microseconds, the embedded switch nanoseconds."""
    variant = real_time_variant(SCENARIOS["small-4x4"], backend)
    fabric = draw_real_time(variant, backend, seed=1).fabric
    assert fabric.model(fabric.switches[0].model).stamp_unit_ns == unit_ns


def test_clocks_of_bmv2_are_the_machines() -> None:
    """No switch has a rate of its own there; embedded ones do."""
    scenario = SCENARIOS["small-4x4"]
    rates = {
        backend: draw_real_time(
            real_time_variant(scenario, backend), backend, seed=1
        ).rate_offset_ppb["leaf1"]
        for backend in BACKENDS
    }
    assert rates["bmv2"] == 0.0
    assert rates["veth"] != 0.0
