# SPDX-License-Identifier: Apache-2.0
"""A client whose PTP packets nobody reports: a predicted path, or a wide bound."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve_samples
from correction.flow_paths import Flow, Path, PathHop
from correction.injected import Injected
from correction.link_delays import link_delays
from correction.records import TRAFFIC_PTP
from correction.solution import FabricSolution
from correction.sources import Gathered, gather
from correction.table import Status
from correction.unreported import unreported_exchanges, with_unreported
from tests.support.rail_fabric import true_error_ns
from tests.support.synthetic_fabric import Run, Setup, draw
from tests.support.transparent_clocks import corrected, transparent
from tests.unit.correction.test_injected import injected_at

CLIENT = 3
SETUP = Setup(leaves=3, spines=4, hosts_per_leaf=2, windows=2, bad_share=0.0)


def path_of(run: Run, packet: np.void) -> Path:
    first = int(packet["first_hop"])
    rows = run.hops[first : first + int(packet["hop_count"])]
    return tuple(PathHop(*(int(row[name]) for name in PathHop._fields)) for row in rows)


@pytest.fixture(scope="module")
def whole() -> Run:
    """Everything reported."""
    return draw(17, SETUP)


@pytest.fixture(scope="module")
def silent(whole: Run) -> Run:
    """The same without the client's PTP packets."""
    ip = whole.model.clocks[CLIENT].ip
    own = (whole.packets["src_ip"] == ip) | (whole.packets["dst_ip"] == ip)
    mine = own & (whole.packets["traffic"] == TRAFFIC_PTP)
    return replace(whole, packets=whole.packets[~mine])


def predictor(whole: Run):
    """What a hash model would say that is right."""
    ptp = whole.packets[whole.packets["traffic"] == TRAFFIC_PTP]

    def predict(flow: Flow) -> Path | None:
        mine = ptp[(ptp["src_ip"] == flow.src_ip) & (ptp["dst_ip"] == flow.dst_ip)]
        return path_of(whole, mine[0]) if len(mine) else None

    return predict


def solved(
    run: Run, exchanges, model, *, predict=None, injected=None
) -> tuple[FabricSolution, Gathered]:
    """With an edge for the client."""
    gathered = gather(run.packets, run.hops, exchanges, model)
    left = unreported_exchanges(gathered, run.packets, exchanges)
    delays = None
    if predict is not None:
        first = solve_samples(gathered.samples, gathered.model, run.windows)
        delays = link_delays(first)
    more = with_unreported(
        gathered, left, delays=delays, predict=predict, injected=injected or Injected()
    )
    return solve_samples(more.samples, more.model, run.windows), more


def checked(run: Run, found: FabricSolution) -> tuple[float, float, float]:
    """(largest error, conditional bound, hard bound) of the client; both bounds hold."""
    errors = []
    for window, one in enumerate(found.windows):
        error = abs(true_error_ns(run, found, window, CLIENT))
        assert one.status[CLIENT] == Status.OK
        assert error <= one.bound_conditional_ns[CLIENT] <= one.bound_hard_ns[CLIENT]
        errors.append(error)
    last = found.windows[-1]
    bounds = last.bound_conditional_ns[CLIENT], last.bound_hard_ns[CLIENT]
    return max(errors), float(bounds[0]), float(bounds[1])


def test_only_clients_without_any_sample_are_asked_for(whole: Run, silent: Run) -> None:
    """Where packets are reported, exchanges are measurements of cables, and of nothing else."""
    for run, expected in ((whole, set()), (silent, {CLIENT})):
        gathered = gather(run.packets, run.hops, run.exchanges, run.model)
        left = unreported_exchanges(gathered, run.packets, run.exchanges)
        assert set(left["client"].tolist()) == expected
        again = with_unreported(gathered, left)
        assert len(again.model.links) == len(gathered.model.links) + len(expected)


def test_without_a_path_the_bound_is_as_wide_as_causality(silent: Run) -> None:
    """Queues and all: half the least round trip, and nothing more is claimed."""
    found, _ = solved(silent, silent.exchanges, silent.model)
    _, conditional, hard = checked(silent, found)
    assert conditional > 0.9 * hard
    assert hard > 2_000.0  # three switches each way, 800 ns at least in each


def test_transparent_clocks_on_every_way_take_the_queues_out(whole: Run, silent: Run) -> None:
    """Even on an unknown path: cables alone are left between the two NICs."""
    model = transparent(silent.model)
    exchanges = corrected(silent, model, packets=whole.packets)
    found, _ = solved(silent, exchanges, model)
    _, conditional, hard = checked(silent, found)
    assert 300.0 < conditional <= hard < 2_500.0


def test_on_a_predicted_path_the_links_asymmetry_is_taken_off(whole: Run, silent: Run) -> None:
    """With transparent clocks the client is nearly as good as one whose packets are reported."""
    model = transparent(silent.model)
    exchanges = corrected(silent, model, packets=whole.packets)
    found, more = solved(silent, exchanges, model, predict=predictor(whole))
    error, conditional, hard = checked(silent, found)
    assert error < 30.0
    assert conditional < 60.0
    assert hard > 200.0
    assert abs(more.model.links[-1].asymmetry_ns) > 20.0  # there was something to take off


def test_switches_that_correct_nothing_widen_a_predicted_path(whole: Run, silent: Run) -> None:
    """Their queues are in the samples; both bounds hold."""
    found, more = solved(silent, silent.exchanges, silent.model, predict=predictor(whole))
    _, conditional, _ = checked(silent, found)
    assert conditional > 1_000.0
    assert more.model.links[-1].asymmetry_sd_ns > 1_000.0


def test_some_transparent_clocks_on_a_predicted_path_are_taken_at_their_word(
    whole: Run, silent: Run
) -> None:
    """Residence of a mixed path: that of the declared ones from correctionField, once."""
    path = predictor(whole)(
        Flow(TRAFFIC_PTP, silent.model.clocks[0].ip, silent.model.clocks[CLIENT].ip, 319, 319, 0)
    )
    assert path is not None
    name = {c.node_id: c.name for c in silent.model.clocks}
    some = transparent(silent.model, [name[hop.node_id] for hop in path[:2]])
    exchanges = corrected(silent, some, packets=whole.packets)
    found, more = solved(silent, exchanges, some, predict=predictor(whole))
    checked(silent, found)
    nothing, other = solved(silent, silent.exchanges, silent.model, predict=predictor(whole))
    checked(silent, nothing)
    assert more.model.links[-1].asymmetry_sd_ns < other.model.links[-1].asymmetry_sd_ns
    sd, plain = (one.windows[0].sd_ns[CLIENT] for one in (found, nothing))
    assert sd < plain


def test_link_delays_that_were_written_do_not_come_back(whole: Run, silent: Run) -> None:
    """What transparent clocks add on top of residence is taken off along the predicted path."""
    model = transparent(silent.model)
    injected = injected_at(model, [clock.name for clock in model.clocks])
    plain = corrected(silent, model, packets=whole.packets)
    added = corrected(silent, model, injected, packets=whole.packets)
    assert (added["c1_ns"] > plain["c1_ns"]).any()
    one, _ = solved(silent, plain, model, predict=predictor(whole))
    other, _ = solved(silent, added, model, predict=predictor(whole), injected=injected)
    for window in range(2):
        move = one.windows[window].offset_ns[CLIENT] - other.windows[window].offset_ns[CLIENT]
        assert abs(int(move)) <= 1


def test_everything_else_is_as_without_the_client(silent: Run) -> None:
    """A bridge to one more clock moves no other."""
    plain = gather(silent.packets, silent.hops, silent.exchanges, silent.model)
    expected = solve_samples(plain.samples, plain.model, silent.windows)
    found, _ = solved(silent, silent.exchanges, silent.model)
    for one, other in zip(found.windows, expected.windows, strict=True):
        rest = np.arange(len(silent.model.clocks)) != CLIENT
        assert (np.abs(one.offset_ns - other.offset_ns)[rest] <= 1).all()
        assert one.status[rest].tolist() == other.status[rest].tolist()
