# SPDX-License-Identifier: Apache-2.0
"""Paths of PTP and RoCEv2 in the lab: delays and asymmetries are the true ones, and a rehash moves
them by what the cables differ."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bmv2_lab.lab_run import (
    EXCHANGES_FILE,
    FABRIC_FILE,
    REPORTS_FILE,
    LabRun,
    run_lab_here,
    write_lab_files,
)
from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.common import NS_PER_MS, SMALL
from bmv2_lab.scenarios.disturbances import Rehash
from controller.fabric_file import load_fabric
from controller.path_prediction import PathPredictor, check_hash
from controller.ptp_paths import rank_choices, roce_candidates
from correction.association_delays import Association, associations
from correction.flow_delays import FlowDelays
from correction.flow_paths import FlowPaths, PathChange
from correction.link_delays import LinkDelays, link_delays
from correction.path_delays import PathDelay
from correction.records import TRAFFIC_ROCE
from tempotrace.analysis import Analysis, analyse
from tempotrace.cli import app
from tests.support.grpc_loop import in_grpc_loop

REHASH_NS = 1_150 * NS_PER_MS
NEW_SEED = 7
WINDOW_NS = 1_000_000_000
SEED = 4
SCENARIO: Scenario = replace(
    SMALL,
    name="rehash-asymmetric",
    leaves=3,
    bad_link_share=1 / 12,
    bad_link_ns_min=300,
    events=(Rehash(at_ns=REHASH_NS, seed=NEW_SEED),),
)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run, what follows from its telemetry, and its truth."""

    run: LabRun
    folder: Path
    analysis: Analysis
    delays: LinkDelays
    paths: FlowPaths
    changes: list[PathChange]

    def truth_ns(self, path: PathDelay) -> float:
        """Stamp to stamp over the links of a path, as drawn."""
        total = 0.0
        for part in path.links:
            link = self.run.drawn.fabric.links[part.link]
            true = self.run.drawn.links[part.link]
            ends = (link.b, link.a) if part.reverse else (link.a, link.b)
            points = self.run.drawn.stamp_points
            total += true.b_to_a_ns if part.reverse else true.a_to_b_ns
            total += points[ends[0]].egress_ns + points[ends[1]].ingress_ns
            declared = self.analysis.model.links[part.link]
            ingress = declared.a_ingress if part.reverse else declared.b_ingress
            if ingress.at_frame_end:
                total += path.frame_bytes * 8 / link.speed_gbps
        return total

    def asymmetry_ns(self, forward: PathDelay, reverse: PathDelay) -> float:
        """True half difference."""
        return (self.truth_ns(forward) - self.truth_ns(reverse)) / 2

    def associations(self) -> tuple[Association, ...]:
        """Of all clients."""
        collection = self.analysis.collection
        return associations(
            collection.packets, collection.hops, self.analysis.ptp_log.exchanges, self.delays
        )


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """3 leaves, 4 spines, one fabric cable with 300 ns or more, ECMP seed changed half-way."""
    return observe(tmp_path_factory.mktemp("rehash"))


def observe(folder: Path) -> Seen:
    """One run through its files."""
    runs: list[LabRun] = []

    @in_grpc_loop
    async def run() -> None:
        runs.append(await run_lab_here(SCENARIO, SEED, lambda _stage, _share: None))

    run()
    write_lab_files(runs[0], folder)
    analysis = analyse(
        load_fabric(folder / FABRIC_FILE), folder / REPORTS_FILE, folder / EXCHANGES_FILE
    )
    paths = FlowPaths()
    changes = paths.add(analysis.collection.packets, analysis.collection.hops)
    return Seen(
        run=runs[0],
        folder=folder,
        analysis=analysis,
        delays=link_delays(analysis.solution),
        paths=paths,
        changes=changes,
    )


def test_one_way_delays_are_true(seen: Seen) -> None:
    """Every direction of every association lies within its bounds, the hard one at the least; with
    links that the data determine, the conditional one is some tens of ns."""
    paths = [
        path
        for one in seen.associations()
        for span in one.spans
        for path in (span.asymmetry.forward, span.asymmetry.reverse)
    ]
    assert len(paths) >= 10
    for path in paths:
        estimate, true_ns = path.link_delay, seen.truth_ns(path)
        assert estimate.hard_low_ns <= true_ns <= estimate.hard_high_ns
        assert abs(estimate.value_ns - true_ns) <= estimate.bound_conditional_ns
        if not estimate.reason:
            assert estimate.bound_conditional_ns < 35.0
            assert estimate.bound_conditional_ns < estimate.bound_hard_ns


def test_asymmetries_are_true_with_their_sign(seen: Seen) -> None:
    """Half the one-way difference of the two paths, positive where reference -> client is slower;
    some are hundreds of ns, so that a wrong sign or factor would not pass."""
    spans = [span for one in seen.associations() for span in one.spans]
    large = 0
    for span in spans:
        pair = span.asymmetry
        true_ns = seen.asymmetry_ns(pair.forward, pair.reverse)
        assert pair.asymmetry.hard_low_ns <= true_ns <= pair.asymmetry.hard_high_ns
        assert abs(pair.asymmetry.value_ns - true_ns) <= pair.asymmetry.bound_conditional_ns
        large += abs(true_ns) > 100.0
        assert sum(share.contribution_ns for share in pair.shares) == pytest.approx(
            pair.asymmetry.value_ns, abs=1e-6
        )
    assert large >= 3


def test_a_rehash_ends_a_span_and_its_change_is_known_without_a_prior(seen: Seen) -> None:
    """The change of asymmetry is right to a few ns, although the clocks are known to tens only."""
    shifts = [(one, shift) for one in seen.associations() for shift in one.shifts]
    assert shifts
    for one, shift in shifts:
        assert len(one.spans) == 2
        before = seen.asymmetry_ns(shift.before.forward, shift.before.reverse)
        after = seen.asymmetry_ns(shift.after.forward, shift.after.reverse)
        change = shift.asymmetry_change
        assert change.value_ns == pytest.approx(after - before, abs=5.0)
        assert change.hard_low_ns <= after - before <= change.hard_high_ns
        assert change.bound_hard_ns < 20.0
        assert shift.after is one.spans[1].asymmetry


def test_flows_that_a_rehash_moved_have_the_new_asymmetry(seen: Seen) -> None:
    """Once both directions have moved, the last event of a queue pair tells the asymmetry of the
    two new paths."""
    shifts = FlowDelays(seen.delays, seen.paths).shifts(seen.changes)
    roce = [one for one in shifts if one.change.flow.traffic == TRAFFIC_ROCE]
    assert len(roce) > 10
    last = {frozenset([one.change.flow, one.change.flow._replace(dest_qp=0)]): one for one in roce}
    checked = 0
    for one in last.values():
        assert one.delay_change is not None
        assert one.before is not None
        assert one.after is not None
        true_ns = seen.truth_ns(one.after) - seen.truth_ns(one.before)
        assert one.delay_change.hard_low_ns <= true_ns <= one.delay_change.hard_high_ns
        pair = one.asymmetry_after
        if pair is None:
            continue
        checked += 1
        true_ns = seen.asymmetry_ns(pair.forward, pair.reverse)
        assert pair.asymmetry.hard_low_ns <= true_ns <= pair.asymmetry.hard_high_ns
        assert abs(pair.asymmetry.value_ns - true_ns) <= pair.asymmetry.bound_conditional_ns
    assert checked > 5


def test_hash_predicts_the_paths_while_the_switches_hold_what_it_assumes(seen: Seen) -> None:
    """All packets before the rehash with the declared seed, all of later ones with the new seed;
    over both no seed is right, and the check says so."""
    packets, hops = seen.analysis.collection.packets, seen.analysis.collection.hops
    fabric = seen.run.drawn.fabric
    other = replace(fabric, ecmp=replace(fabric.ecmp, seed=NEW_SEED))
    windows = seen.analysis.windows
    assert len(windows) == 2
    middle = int(windows[:, 0].max())
    for predictor, chosen in (
        (
            PathPredictor(fabric),
            packets["capture_collector_ns"] < int(windows[0, 0]) + WINDOW_NS // 2,
        ),
        (PathPredictor(other), packets["capture_collector_ns"] >= middle),
    ):
        paths = FlowPaths()
        paths.add(packets[chosen], hops)
        check = check_hash(predictor, paths)
        assert check.packets > 100
        assert check.share == 1.0
        both = check_hash(predictor, seen.paths)
        assert both.share < 0.999
        assert not both.trusted


def test_best_choice_of_a_source_port_is_symmetric_in_truth(seen: Seen) -> None:
    """The first choice is truly no worse than its bound says, and far better than the last."""
    fabric = seen.run.drawn.fabric
    other = replace(fabric, ecmp=replace(fabric.ecmp, seed=NEW_SEED))
    ports = range(0xC000, 0xC000 + 256)
    choices = rank_choices(
        roce_candidates(other, "h1", "h3", ports), other, PathPredictor(other), seen.delays
    )
    assert len(choices) == 16
    assert sum(choice.alike for choice in choices) == len(ports)
    true = [
        abs(seen.asymmetry_ns(choice.asymmetry.forward, choice.asymmetry.reverse))
        for choice in choices
    ]
    assert true[0] <= choices[0].worst_ns
    assert true[-1] > 4 * true[0]


def test_command_tells_the_same_as_the_functions(seen: Seen) -> None:
    """`correct paths --json`: spans, changes and links of all clients."""
    files = [
        "-f", str(seen.folder / FABRIC_FILE),
        "--reports", str(seen.folder / REPORTS_FILE),
        "--exchanges", str(seen.folder / EXCHANGES_FILE),
    ]  # fmt: skip
    result = CliRunner().invoke(app, ["correct", "paths", *files, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    told = {
        one["client"]: [span["delay_asymmetry"]["value_ns"] for span in one["spans"]]
        for one in document["associations"]
    }
    clocks = seen.analysis.model.clocks
    assert told == {
        clocks[one.client].name: [
            pytest.approx(span.asymmetry.asymmetry.value_ns, abs=1e-3) for span in one.spans
        ]
        for one in seen.associations()
    }
    assert len(document["changes"]) == len(seen.changes)
    assert not document["hash_model"]["trusted"]
    assert len(document["links"]) == 2 * len(seen.run.drawn.fabric.links)
    client = document["associations"][-1]["client"]
    shown = CliRunner().invoke(app, ["correct", "paths", *files, "--ptp", client, "--choices"])
    assert shown.exit_code == 0, shown.output
    assert "delayAsymmetry" in shown.stdout
    assert "not to be trusted" in shown.stdout
