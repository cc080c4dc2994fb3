# SPDX-License-Identifier: Apache-2.0
"""`correct paths` from the command line: what a rehash changed, and which choice is symmetric."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import tempotrace.analysis
import tempotrace.commands.correct_paths
from tempotrace.cli import app
from tests.support.golden_ptp import CABLE_NS, START_NS, Golden, write_golden

ACCESS_WAYS_NS = 100
EXACT_NS = 1.0


def command(folder: Path, *arguments: str) -> Result:
    """`correct paths` on the files of a folder."""
    files = ["-f", str(folder / "fabric.yaml"), "--reports", str(folder / "reports.pcap")]
    files += ["--exchanges", str(folder / "exchanges.jsonl")]
    return CliRunner().invoke(app, ["correct", "paths", *files, *arguments])


def document(folder: Path, *arguments: str) -> dict[str, Any]:
    """Its JSON."""
    got = command(folder, *arguments, "--json")
    assert got.exit_code == 0, got.output
    found: dict[str, Any] = json.loads(got.stdout)
    return found


@pytest.fixture(scope="module")
def rehashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Syncs go over spine 1 in the first second, over spine 3 in the next."""
    folder = tmp_path_factory.mktemp("rehashed")
    write_golden(folder, Golden(there_later=3))
    return folder


@pytest.fixture(scope="module")
def hashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything goes where the hash says."""
    folder = tmp_path_factory.mktemp("hashed")
    write_golden(folder, Golden(hashed=True))
    return folder


def test_a_rehash_is_an_event_with_the_change_that_it_made(rehashed: Path) -> None:
    """From 4950 to 500 ns a cable: 8.9 us less one way, 4.45 us less asymmetry, known to a few ns
    although the asymmetries themselves are known to tens only."""
    later_ns = CABLE_NS[3] - CABLE_NS[2]
    change_ns = CABLE_NS[3] - CABLE_NS[1]
    found = document(rehashed)
    (h3,) = [one for one in found["associations"] if one["client"] == "h3"]
    before, after = h3["spans"]
    assert before["delay_asymmetry"]["value_ns"] == pytest.approx(3_000, abs=EXACT_NS)
    assert after["delay_asymmetry"]["value_ns"] == pytest.approx(later_ns, abs=EXACT_NS)
    (event,) = h3["changes"]
    assert event["change"]["value_ns"] == pytest.approx(change_ns, abs=EXACT_NS)
    assert event["change"]["bound_hard_ns"] < 20.0
    assert int(event["at_collector_ns"]) >= START_NS + 10**9
    flows = [one for one in found["changes"] if one["flow"].endswith("-10.0.2.1:319")]
    (flow,) = flows
    assert flow["delay_change"]["value_ns"] == pytest.approx(2 * change_ns, abs=2 * EXACT_NS)
    assert [hop["switch"] for hop in flow["before"]] == ["leaf1", "spine1", "leaf2"]
    assert [hop["switch"] for hop in flow["after"]] == ["leaf1", "spine3", "leaf2"]


def test_the_table_tells_it_too(rehashed: Path) -> None:
    """For people."""
    got = command(rehashed, "--ptp", "h3")
    assert got.exit_code == 0, got.output
    assert "changes of an association's paths" in got.stdout
    assert f"{CABLE_NS[3] - CABLE_NS[1]:.1f}" in got.stdout


def spines(choice: dict[str, Any]) -> tuple[int, int]:
    """There and back."""
    there, back = (int(choice[way][1]["switch"][-1]) for way in ("forward", "reverse"))
    return there, back


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ptp", "h3", *(f"--address=10.0.2.{n}" for n in range(50, 90))],
        ["--ptp", "h3", "--client-ports", "20000-20063"],
        ["--flow", "h1:50000-h3:4791"],
    ],
    ids=["addresses", "ports", "RoCEv2"],
)
def test_the_best_choice_is_a_symmetric_pair_of_paths(hashed: Path, arguments: list[str]) -> None:
    """Ranked by |A|: over one spine both ways nothing is left; each choice's asymmetry is the
    difference of its two spines' cables."""
    found = document(hashed, *arguments, "--choices")
    assert found["hash_model"]["trusted"]
    choices = found["choices"]
    assert len({spines(choice) for choice in choices}) == len(choices) >= 8
    for choice in choices:
        there, back = spines(choice)
        expected = CABLE_NS[there] - CABLE_NS[back]
        assert choice["delay_asymmetry"]["value_ns"] == pytest.approx(expected, abs=EXACT_NS)
        assert choice["same_links"] == (there == back)
    best, worst = choices[0], choices[-1]
    assert best["same_links"]
    sizes = [abs(choice["delay_asymmetry"]["value_ns"]) for choice in choices]
    assert sizes[-1] == max(sizes)
    assert spines(worst)[0] != spines(worst)[1]


def test_choices_that_make_no_sense_are_refused_in_one_line(hashed: Path) -> None:
    """Ranges out of order, labels of hosts without IPv6, addresses of nobody."""
    for arguments, needle in (
        (["--client-ports", "9-3"], "--client-ports 9-3"),
        (["--client-ports", "1-70000"], "--client-ports 1-70000"),
        (["--client-ports", "x"], "not FIRST-LAST"),
        (["--flow-labels", "1-4"], "no IPv6 address"),
        (["--reference-address", "nobody"], "nobody"),
    ):
        got = command(hashed, "--ptp", "h3", "--choices", *arguments)
        assert got.exit_code == 2
        assert needle in got.output
        assert got.output.count("\n") == 1


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve links are too many to be solved as a whole."""
    monkeypatch.setattr(tempotrace.analysis, "LINKS_MAX", 11)
    monkeypatch.setattr(tempotrace.commands.correct_paths, "LINKS_MAX", 11)


@pytest.mark.usefixtures("large")
def test_a_large_fabrics_associations_are_told_by_corrected_clocks(rehashed: Path) -> None:
    """The same delays, asymmetries and paths, window by window, and what the rehash changed."""
    found = document(rehashed)
    (h3,) = [one for one in found["associations"] if one["client"] == "h3"]
    before, after = h3["spans"]
    for span, there in ((before, 1), (after, 3)):
        ways_ns = ACCESS_WAYS_NS + 2 * CABLE_NS[there], ACCESS_WAYS_NS + 2 * CABLE_NS[2]
        assert span["forward"]["link_delay_ns"] == pytest.approx(ways_ns[0], abs=EXACT_NS)
        assert span["reverse"]["link_delay_ns"] == pytest.approx(ways_ns[1], abs=EXACT_NS)
        asymmetry = span["delay_asymmetry"]
        assert asymmetry["value_ns"] == pytest.approx(CABLE_NS[there] - CABLE_NS[2], abs=EXACT_NS)
        assert 10.0 < asymmetry["bound_conditional_ns"] <= asymmetry["bound_hard_ns"] < 200.0
        assert [hop["switch"] for hop in span["forward"]["hops"]][1] == f"spine{there}"
    assert h3["changes_ns"] == [pytest.approx(CABLE_NS[3] - CABLE_NS[1], abs=2 * EXACT_NS)]
    assert {link["link"] for link in found["links"]} >= {"leaf1:1-spine1:1", "leaf2:3-spine3:2"}
    shown = command(rehashed, "--ptp", "h3")
    assert shown.exit_code == 0, shown.output
    assert "-1450.0" in shown.stdout


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    "arguments",
    [["--ptp", "h3", "--choices"], ["--flow", "h1:50000-h3:4791"], ["--ptp", "h4"]],
    ids=["choices", "flow", "nobody"],
)
def test_what_a_large_fabric_cannot_tell_is_refused_in_one_line(
    hashed: Path, arguments: list[str]
) -> None:
    """Causes and choices need the solve as a whole."""
    got = command(hashed, *arguments)
    assert got.exit_code == 2
    told = [line for line in got.output.splitlines() if line.startswith(("error", "correct paths"))]
    assert len(told) == 1


@pytest.mark.usefixtures("large")
def test_other_answers_about_a_large_fabric_name_the_way_that_works(hashed: Path) -> None:
    """`correct plan` solves a recording as a whole."""
    files = ["-f", str(hashed / "fabric.yaml"), "--reports", str(hashed / "reports.pcap")]
    files += ["--exchanges", str(hashed / "exchanges.jsonl")]
    got = CliRunner().invoke(app, ["correct", "plan", *files])
    assert got.exit_code == 2
    assert "12 links" in got.output
    assert "correct follow" in got.output
    assert got.output.count("\n") == 1
