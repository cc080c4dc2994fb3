# SPDX-License-Identifier: Apache-2.0
"""Cross-stamps make loops through machines, so that access links are estimated."""

from dataclasses import replace

import numpy as np
import pytest

from controller.clock_pairs import (
    ClockPairsError,
    CrossStamp,
    read_clock_pairs,
    write_clock_pairs,
)
from correction.certificate_check import check_certificate
from correction.cross_stamps import (
    CROSS_STAMP_DTYPE,
    CrossStamps,
    free_running_stamps,
    with_cross_stamps,
)
from correction.engine import solve
from correction.link_windows import LinkWindowing
from correction.mesh.solve import Standing
from correction.servo import ADJUSTMENT_DTYPE, ServoLog
from correction.sources import gather
from correction.stream.tracker import track
from correction.table import Status
from tests.support.rail_fabric import rail_stamps, true_error_ns
from tests.support.synthetic_fabric import Setup, draw

RAILS = Setup(leaves=8, spines=2, hosts_per_leaf=2, windows=3, window_gap_s=1.0, bad_share=0.0)
MACHINES = [list(range(0, 16, 2)), list(range(1, 16, 2))]
ACCESS_NS = 150.0


@pytest.fixture(scope="module")
def run():
    """Eight rails, two machines; the cable of h6 is 150 ns slower towards its leaf."""
    return draw(3, RAILS, a_ns={"h6-leaf3": ACCESS_NS})


def link_of(model, name: str) -> int:
    """Index of a link by its name."""
    return next(i for i, link in enumerate(model.links) if link.name == name)


def test_an_access_links_asymmetry_is_found_through_the_machine(run) -> None:
    """150 ns on one access cable: invisible without cross-stamps; with limits of 20 ns each (an
    sd of 11.5 ns) it is found, with an sd near that, and its host's bound covers the truth."""
    stamps = rail_stamps(run, MACHINES)
    without = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    assert not without.links.observable[link_of(run.model, "h6-leaf3")]
    h6 = 5
    assert abs(true_error_ns(run, without, 1, h6)) > 100.0

    found = solve(run.packets, run.hops, run.exchanges, run.model, run.windows, cross_stamps=stamps)
    at = link_of(found.model, "h6-leaf3")
    assert found.links.observable[at]
    assert found.links.rejected[at]
    assert found.links.a_ns[at] == pytest.approx(ACCESS_NS, abs=30.0)
    assert 11.0 < found.links.sd_ns[at] < 16.0
    proved = check_certificate(found.certificate)
    assert proved["determined"] == len(found.model.clocks) - 1  # all but the ground
    for window in (0, 1, 2):
        for clock in range(16):
            error = abs(true_error_ns(run, found, window, clock))
            assert found.windows[window].status[clock] == Status.OK
            assert error <= found.windows[window].bound_hard_ns[clock]
            assert error <= found.windows[window].bound_conditional_ns[clock]


def test_the_cross_stamps_error_sets_the_bound(run) -> None:
    """Limits three times as wide: the sd of the bad access link grows almost as much."""
    sds = []
    for limit_ns in (20, 60):
        stamps = rail_stamps(run, MACHINES, limit_ns=limit_ns)
        found = solve(
            run.packets, run.hops, run.exchanges, run.model, run.windows, cross_stamps=stamps
        )
        sds.append(found.links.sd_ns[link_of(found.model, "h6-leaf3")])
    assert 2.0 < sds[1] / sds[0] < 3.2


def test_hard_bounds_hold_when_a_tie_is_off_by_all_it_may_be(run) -> None:
    """A constant error of 18 of 20 ns on two ties, in opposite directions, stays inside."""
    stamps = rail_stamps(run, MACHINES, constant_ns={2: 18.0, 4: -18.0})
    found = solve(run.packets, run.hops, run.exchanges, run.model, run.windows, cross_stamps=stamps)
    for clock in range(16):
        assert abs(true_error_ns(run, found, 1, clock)) <= found.windows[1].bound_hard_ns[clock]
    assert not found.findings


def test_cross_stamps_narrow_the_hard_bound(run) -> None:
    """A NIC of the reference's machine is as near as two ties of 20 ns, whatever its cables."""
    without = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    stamps = rail_stamps(run, MACHINES)
    found = solve(run.packets, run.hops, run.exchanges, run.model, run.windows, cross_stamps=stamps)
    with_ties, alone = found.windows[1].bound_hard_ns, without.windows[1].bound_hard_ns
    assert with_ties[2] < 60.0 < alone[2]


def test_the_stream_takes_ties_like_cables(run) -> None:
    """The tracker finds the same access link, and never calls a tie bad."""
    stamps = rail_stamps(run, MACHINES)
    all_of = gather(run.packets, run.hops, run.exchanges, run.model, cross_stamps=stamps)
    windowing = LinkWindowing(all_of.model, window_ns=1_000_000_000, late_ns=0)
    windowing.add(all_of.samples)
    rows = windowing.rest()
    starts = np.unique(rows["window_start_collector_ns"])
    windows = track(
        all_of.model, [rows[rows["window_start_collector_ns"] == start] for start in starts]
    )
    solution = windows[-2].solution  # the last holds cross-stamps alone
    cables = len(run.model.links)
    assert set(np.flatnonzero(solution.bad)) == {link_of(all_of.model, "h6-leaf3")}
    assert not solution.bad_probability[cables:].any()
    assert (windows[-2].standing[:16] == Standing.DETERMINED).all()


def test_a_delayed_stamp_is_left_out_and_widens_nothing(run) -> None:
    """One stamp with an uncertainty of 10 us is counted and ignored."""
    stamps = rail_stamps(run, MACHINES)
    rows = stamps.rows.copy()
    rows["uncertainty_ns"][3] = 10_000
    rows["counter_local_ns"][3] += 9_000
    stamps = replace(stamps, rows=rows)
    all_of = gather(run.packets, run.hops, run.exchanges, run.model, cross_stamps=stamps)
    assert all_of.counters.rejected["cross_stamp_wide"] == 1
    tie = all_of.model.links[link_of(all_of.model, "h1-m1/counter")]
    assert tie.min_delay_ns == -20


def test_declared_indices_stay() -> None:
    """Counters and ties come after the declared clocks and links."""
    run = draw(1, replace(RAILS, leaves=2, windows=1))
    rows = np.array([(0, 0, 5, 7, 20), (1, 0, 6, 8, 20)], CROSS_STAMP_DTYPE)
    model = with_cross_stamps(run.model, CrossStamps(rows=rows, machines=("m",)))
    assert model.links[: len(run.model.links)] == run.model.links
    assert model.clocks[: len(run.model.clocks)] == run.model.clocks
    assert [clock.name for clock in model.clocks[len(run.model.clocks) :]] == ["m/counter"]


def test_stamps_of_a_steered_nic_are_taken_on_its_free_running_counter() -> None:
    """After an adjustment at 1000 to a rate of 1 + 1/2, a PHC of 1300 is 200 later."""
    adjustments = np.array([(1_000, 0, 500_000_000.0)], ADJUSTMENT_DTYPE)
    rows = np.array([(4, 0, 1_300, 0, 20)], CROSS_STAMP_DTYPE)
    stamps = CrossStamps(rows=rows, machines=("m",))
    free = free_running_stamps(stamps, {4: ServoLog.from_adjustments(adjustments)})
    assert free.rows["phc_local_ns"].tolist() == [200]


def test_the_file_is_read_as_it_was_written(tmp_path) -> None:
    """Readings beyond 2^53 survive; machines are numbered in the order of the file."""
    path = tmp_path / "clock_pairs.jsonl"
    big = 1_800_000_000_000_000_001
    write_clock_pairs(
        path,
        [
            CrossStamp(
                machine=machine,
                clock=clock,
                phc_local_ns=big,
                system_local_ns=-5,
                uncertainty_ns=20,
            )
            for machine, clock in (("b", "h2"), ("a", "h1"))
        ],
    )
    found = read_clock_pairs(path, {"h1": 0, "h2": 1}).stamps
    assert found.machines == ("b", "a")
    assert found.rows.tolist() == [(1, 0, big, -5, 20), (0, 1, big, -5, 20)]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("[]", "-"),
        ("{", "-"),
        ('{"record":"other"}', "record"),
        ('{"record":"cross_stamp","machine":"m","clock":"h1"}', "phc_local_ns"),
        (
            '{"record":"cross_stamp","machine":"m","clock":"x","phc_local_ns":"1",'
            '"system_local_ns":"1","uncertainty_ns":1}',
            "clock",
        ),
        (
            '{"record":"cross_stamp","machine":"m","clock":"h1","phc_local_ns":1,'
            '"system_local_ns":"1","uncertainty_ns":1}',
            "phc_local_ns",
        ),
        (
            '{"record":"cross_stamp","machine":"m","clock":"h1","phc_local_ns":"1",'
            '"system_local_ns":"1","uncertainty_ns":-1}',
            "uncertainty_ns",
        ),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path, line: str, key: str) -> None:
    """File, line and key."""
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"record":"header","version":1}\n' + line + "\n")
    with pytest.raises(ClockPairsError, match=rf"pairs\.jsonl:2: {key}: "):
        read_clock_pairs(path, {"h1": 0})
