# SPDX-License-Identifier: Apache-2.0
"""Sign and factor of asymmetry wherever one is told: 10 us there and 4 us back are +3 us.

IEEE 1588-2019 section 7.4.2 and clocks.md 1.1: half the one-way difference, positive where
reference -> client is slower. A servo drives its own offset to zero and so stands at
theta = configured - true.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from bmv2_lab.truth import TrueLink, Truth
from controller.fabric_file import load_fabric
from controller.transparent_clock import plan_link_delays
from controller.written_delays import WrittenDelays, write_link_delays
from correction.baselines.compare import RAW_PTP, RESIDENCE_ONLY, baseline_offsets
from correction.exchange import half_difference_ns, servo_error_ns
from correction.links import Reject
from tempotrace.analysis import Analysis, analyse, correction_rows, link_estimates
from tempotrace.cli import app
from tests.support.golden_ptp import (
    A_NS,
    BACK,
    D_MS_NS,
    D_SM_NS,
    RESIDENCE_NS,
    THERE,
    Golden,
    printed_offset_ns,
    write_golden,
)

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "corrections.schema.json"
RESIDENCE_A_NS = (sum(RESIDENCE_NS["there"]) - sum(RESIDENCE_NS["back"])) / 2
EXACT_NS = 1.0
"""Nothing in the recording is random: rounding of stamps and anchors."""
SLOW_UP = {(1, 1): (6_950, 950), (2, 1): (2_950, 2_950)}
"""leaf1 -> spine1 takes 6 us longer than spine1 -> leaf1; again 10 us there and 4 us back."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """One recording and what is said of it."""

    folder: Path
    analysis: Analysis

    def command(self, *arguments: str) -> dict[str, Any]:
        """The JSON of `correct run` or `correct paths`."""
        files = ["-f", str(self.folder / "fabric.yaml")]
        files += ["--reports", str(self.folder / "reports.pcap")]
        files += ["--exchanges", str(self.folder / "exchanges.jsonl")]
        got = CliRunner().invoke(app, ["correct", arguments[0], *files, *arguments[1:], "--json"])
        assert got.exit_code == 0, got.output
        document: dict[str, Any] = json.loads(got.stdout)
        if arguments[0] == "run":
            jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
        return document

    def span(self) -> dict[str, Any]:
        """The one span of h3's association."""
        (association,) = self.command("paths", "--ptp", "h3")["associations"]
        (span,) = association["spans"]
        found: dict[str, Any] = span
        return found

    def exchange(self) -> np.void:
        """One of h3."""
        of_h3 = self.analysis.ptp_log.exchanges["c1_ns"] != RESIDENCE_NS["there"][0]
        row: np.void = self.analysis.ptp_log.exchanges[of_h3][-1]
        return row


def told(folder: Path, golden: Golden, rejected: Mapping[Reject, int] | None = None) -> Told:
    """Through the files."""
    folder.mkdir(exist_ok=True)
    write_golden(folder, golden)
    names = ("reports.pcap", "exchanges.jsonl")
    analysis = analyse(load_fabric(folder / "fabric.yaml"), *(folder / name for name in names))
    assert analysis.solution.counters.rejected == (rejected or {})
    return Told(folder=folder, analysis=analysis)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """h3's servo has done its work, with delayAsymmetry 0: h3 is 3 us behind."""
    theta = servo_error_ns(configured_asymmetry_ns=0, true_asymmetry_ns=A_NS)
    return told(tmp_path_factory.mktemp("locked"), Golden(theta_ns=round(theta)))


def test_the_arithmetic() -> None:
    """The definition, in the one place that others call."""
    assert half_difference_ns(D_MS_NS, D_SM_NS) == A_NS


def test_a_locked_client_prints_zero_and_is_three_microseconds_behind(locked: Told) -> None:
    """Its own offset says nothing; the correction of its clock is -3 us, within both bounds."""
    assert printed_offset_ns(locked.exchange()) == 0.0
    rows = [one for one in locked.command("run")["corrections"] if one["clock"] == "h3"]
    assert rows
    for row in rows:
        assert int(row["offset_ns"]) == pytest.approx(-A_NS, abs=EXACT_NS)
        assert EXACT_NS < row["bound_conditional_ns"] <= row["bound_hard_ns"] < A_NS
    for one in correction_rows(locked.analysis):
        if one.clock == "h3":
            assert one.ptp_offset_ns == 0


@pytest.mark.parametrize(("configured_ns", "theta_ns"), [(0, -3_000), (3_000, 0), (6_000, 3_000)])
def test_delay_asymmetry_is_the_value_to_configure(tmp_path, configured_ns, theta_ns) -> None:
    """Half the difference puts the client right, the whole difference 3 us ahead: in each case its
    printed offset is zero, and the correction is what is true."""
    assert servo_error_ns(configured_asymmetry_ns=configured_ns, true_asymmetry_ns=A_NS) == theta_ns
    one = told(tmp_path, Golden(theta_ns=theta_ns))
    assert printed_offset_ns(one.exchange(), configured_ns) == 0.0
    offsets = {
        int(row["offset_ns"]) for row in one.command("run")["corrections"] if row["clock"] == "h3"
    }
    assert max(abs(offset - theta_ns) for offset in offsets) <= EXACT_NS
    assert one.span()["delay_asymmetry"]["value_ns"] == pytest.approx(A_NS, abs=EXACT_NS)


def test_the_path_service_tells_delays_and_half_their_difference(locked: Told) -> None:
    """Each way's links, their half difference, whose shares add up to it; and what a servo that
    trusts its correctionFields leaves the client behind by."""
    span = locked.span()
    assert span["forward"]["link_delay"]["value_ns"] == pytest.approx(D_MS_NS, abs=EXACT_NS)
    assert span["reverse"]["link_delay"]["value_ns"] == pytest.approx(D_SM_NS, abs=EXACT_NS)
    assert span["delay_asymmetry"]["value_ns"] == pytest.approx(A_NS, abs=EXACT_NS)
    assert span["left_ns"] == pytest.approx(A_NS, abs=EXACT_NS)
    assert (span["c1_beyond_residence_ns"], span["c2_beyond_residence_ns"]) == (0.0, 0.0)
    assert span["residence_asymmetry_ns"] == pytest.approx(RESIDENCE_A_NS, abs=EXACT_NS)
    assert span["with_residence_ns"] == pytest.approx(A_NS + RESIDENCE_A_NS, abs=EXACT_NS)
    links = sum(share["contribution_ns"] for share in span["shares"])
    assert links == pytest.approx(A_NS, abs=EXACT_NS)
    hops = sum(share["contribution_ns"] for share in span["hop_shares"])
    assert hops == pytest.approx(RESIDENCE_A_NS, abs=EXACT_NS)
    assert span["cause"]["contribution_ns"] > 0


def test_without_transparent_clocks_residence_comes_on_top(tmp_path: Path) -> None:
    """correctionFields are zero: the client sees links and queues, the links' asymmetry stays."""
    one = told(tmp_path, Golden(transparent=False))
    assert printed_offset_ns(one.exchange()) == A_NS + RESIDENCE_A_NS
    span = one.span()
    assert span["delay_asymmetry"]["value_ns"] == pytest.approx(A_NS, abs=EXACT_NS)
    assert span["left_ns"] == pytest.approx(A_NS + RESIDENCE_A_NS, abs=EXACT_NS)
    assert span["c1_beyond_residence_ns"] == pytest.approx(-6_000, abs=EXACT_NS)


@pytest.mark.parametrize("transparent", [True, False])
def test_baselines_are_wrong_by_what_they_do_not_see(tmp_path: Path, transparent: bool) -> None:
    """Raw PTP by links and residence, PTP over ideal transparent clocks by links alone; whether
    the switches wrote correctionFields or not, residence is taken from telemetry, once."""
    one = told(tmp_path, Golden(theta_ns=123, transparent=transparent)).analysis
    offsets = baseline_offsets(
        one.solution, one.collection.packets, one.collection.hops, one.ptp_log.exchanges
    )
    h3 = [clock.name for clock in one.model.clocks].index("h3")
    raw, residence = offsets[RAW_PTP][:, h3], offsets[RESIDENCE_ONLY][:, h3]
    assert np.abs(raw - (A_NS + RESIDENCE_A_NS)).max() <= EXACT_NS
    assert np.abs(residence - A_NS).max() <= EXACT_NS


def test_link_delays_of_transparent_clocks_make_the_client_right(tmp_path: Path) -> None:
    """Sums of what ports add along both ways differ by 6 us, so that half of it is +3 us; the
    client then prints its true offset, and the path's own asymmetry is told as before."""
    before = told(tmp_path / "before", Golden())
    delays = plan_link_delays(before.analysis.solution).in_force(0)
    scaled = {(switch, port): d for switch, ports in delays.items() for port, d in ports.items()}
    ports = {
        "there": [(f"spine{THERE}", 1), ("leaf2", THERE)],
        "back": [(f"spine{BACK}", 2), ("leaf1", BACK)],
    }
    there, back = (sum(scaled[port] for port in ports[way]) / 2**16 for way in ports)
    assert (there - back) / 2 == pytest.approx(A_NS, abs=EXACT_NS)
    added = {port: round(delay / 2**16) for port, delay in scaled.items()}
    after = told(tmp_path / "after", Golden(theta_ns=250, delay_by_port=added))
    assert printed_offset_ns(after.exchange()) == pytest.approx(250, abs=EXACT_NS)
    span = after.span()
    assert span["left_ns"] == pytest.approx(0.0, abs=EXACT_NS)
    assert span["delay_asymmetry"]["value_ns"] == pytest.approx(A_NS, abs=EXACT_NS)
    assert span["c1_beyond_residence_ns"] == pytest.approx(there, abs=EXACT_NS)
    # what was written is taken off again
    fabric = after.analysis.fabric
    written = WrittenDelays({switch.name: switch.node_id for switch in fabric.switches})
    in_force = {switch.name: dict[int, int]() for switch in fabric.switches}
    for (switch, port), delay in added.items():
        in_force[switch][port] = delay * 2**16
    written.record(in_force, 0)
    record = tmp_path / "link_delays.jsonl"
    write_link_delays(record, written)
    (association,) = after.command("paths", "--ptp", "h3", "--link-delays", str(record))[
        "associations"
    ]
    (known,) = association["spans"]
    assert known["c1_written_ns"] == pytest.approx(there, abs=EXACT_NS)
    assert known["c2_written_ns"] == pytest.approx(back, abs=EXACT_NS)
    for options, unexplained in ((["--link-delays", str(record)], 0.0), ([], there)):
        fields = after.command("run", *options)["correction_fields"]
        (h3,) = [one for one in fields if one["client"] == "h3"]
        assert h3["c1_unexplained_ns"] == pytest.approx(unexplained, abs=EXACT_NS)


@pytest.mark.parametrize("slow_up", [True, False])
def test_one_asymmetric_cable_on_a_path_that_both_ways_share(tmp_path, slow_up) -> None:
    """a_uv is positive where a -> b as the link is named is slower, in all that names links."""
    cables = SLOW_UP if slow_up else {key: pair[::-1] for key, pair in SLOW_UP.items()}
    sign = 1 if slow_up else -1
    one = told(tmp_path, Golden(cable_ns=cables, back=THERE, leaves=4))
    asymmetric = [link for link in one.command("run")["links"] if link["asymmetric"]]
    (link,) = asymmetric
    assert link["link"] == "leaf1:1-spine1:1"
    assert link["a_uv_ns"] == pytest.approx(sign * A_NS, abs=3.0)  # the prior's pull
    (estimate,) = [e for e in link_estimates(one.analysis) if e.link == link["link"]]
    up, down = cables[1, 1]
    assert estimate.delay_ab_ns == pytest.approx(up, abs=3.0)
    assert estimate.delay_ba_ns == pytest.approx(down, abs=3.0)
    paths = one.command("paths", "--ptp", "h3")
    by_ends = {(part["from"], part["to"]): part["value_ns"] for part in paths["links"]}
    assert by_ends["leaf1", "spine1"] == pytest.approx(up, abs=3.0)
    assert by_ends["spine1", "leaf1"] == pytest.approx(down, abs=3.0)
    span = paths["associations"][0]["spans"][0]
    assert span["same_links"]
    assert span["delay_asymmetry"]["value_ns"] == pytest.approx(sign * A_NS, abs=3.0)
    assert span["cause"]["subject"] == "leaf1:1-spine1:1"
    assert span["cause"]["asymmetry_ns"] == pytest.approx(sign * A_NS, abs=3.0)


@pytest.mark.parametrize("configured_ns", [0, 3_000])
def test_what_the_daemon_printed_is_explained(tmp_path: Path, configured_ns: int) -> None:
    """From its log and either the path's asymmetry or the clock's correction: printed zero, 7 us of
    path delay, and the true error."""
    theta = round(servo_error_ns(configured_asymmetry_ns=configured_ns, true_asymmetry_ns=A_NS))
    one = told(tmp_path, Golden(theta_ns=theta))
    offset = printed_offset_ns(one.exchange(), configured_ns)
    text = f"master offset {offset:10.0f} s2 freq     +12 path delay {(D_MS_NS + D_SM_NS) / 2:9.0f}"
    lines = (f"ptp4l[{number}.125]: {text}\n" for number in range(30))
    (tmp_path / "ptp4l.log").write_text("".join(lines))
    corrections = tmp_path / "corrections.json"
    one.command("run", "--out", str(corrections))
    for known in (
        ["--asymmetry", str(one.span()["delay_asymmetry"]["value_ns"])],
        ["--corrections", str(corrections), "--clock", "h3"],
        ["--there", str(D_MS_NS), "--back", str(D_SM_NS)],
    ):
        command = ["correct", "explain", str(tmp_path / "ptp4l.log"), *known, "--json"]
        got = CliRunner().invoke(app, [*command, "--configured", str(configured_ns)])
        assert got.exit_code == 0, got.output
        (story,) = json.loads(got.stdout)["clocks"]
        assert story["printed_offset_ns"]["mean"] == 0.0
        assert story["printed_delay_ns"]["mean"] == (D_MS_NS + D_SM_NS) / 2
        assert story["asymmetry_ns"] == pytest.approx(A_NS, abs=EXACT_NS)
        assert story["true_error_ns"] == pytest.approx(theta, abs=EXACT_NS)


UNREPORTED = {Reject.EXCHANGE_WITHOUT_PACKET: 2 * 16}
"""Both messages of h3's exchanges."""


def test_a_client_that_nobody_reports_has_a_bound_that_covers_the_asymmetry(tmp_path) -> None:
    """Which paths its messages take is not known: its own estimate is published, 3 us off, within
    half of its round trip of 14 us."""
    one = told(tmp_path, Golden(theta_ns=500, silent=("h3",)), UNREPORTED)
    rows = [row for row in one.command("run")["corrections"] if row["clock"] == "h3"]
    assert rows
    for row in rows:
        assert int(row["offset_ns"]) == pytest.approx(500 + A_NS, abs=EXACT_NS)
        assert (D_MS_NS + D_SM_NS) / 2 - 200 < row["bound_conditional_ns"] <= row["bound_hard_ns"]
    (association,) = one.command("paths", "--ptp", "h3")["associations"]
    assert association["spans"] == []
    assert association["predicted"] is None


def test_a_client_that_nobody_reports_is_right_on_a_path_that_the_hash_predicts(tmp_path) -> None:
    """Over 1,000 reported packets went where the hash said: so do h3's, 10 us there and 4 us back,
    and its clock is known to some tens of ns."""
    golden = Golden(theta_ns=500, silent=("h3",), hashed=True)
    one = told(tmp_path, golden, UNREPORTED)
    for row in one.command("run")["corrections"]:
        if row["clock"] == "h3" and row["bound_conditional_ns"] < 1_000:
            assert int(row["offset_ns"]) == pytest.approx(500, abs=2 * EXACT_NS)
    newest = one.analysis.solution.windows[-1]
    h3 = [clock.name for clock in one.analysis.model.clocks].index("h3")
    assert newest.bound_conditional_ns[h3] < 100.0
    document = one.command("paths", "--ptp", "h3")
    assert document["hash_model"]["trusted"]
    (association,) = document["associations"]
    assert association["predicted"]["forward"]["source"] == "predicted"


def test_the_labs_truth_uses_the_same_sign_and_factor(tmp_path: Path) -> None:
    """As truth.json states it."""
    link = TrueLink(name="u-v", a_to_b_ns=D_MS_NS, b_to_a_ns=D_SM_NS, bad=True)
    Truth(scenario="s", seed=1, links=(link,), rate_offset_ppb={}).write(tmp_path / "truth.json")
    (entry,) = json.loads((tmp_path / "truth.json").read_text())["links"]
    assert entry["asymmetry_ns"] == A_NS
