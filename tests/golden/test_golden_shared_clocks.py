# SPDX-License-Identifier: Apache-2.0
"""Recorded logs of PTP daemons, explained: what was printed, and what the true error was.

The recordings are not part of this repository; their folder is named by TEMPOTRACE_SHARED_DATA or
stands next to the repository as shared/data. Their formats are covered without them in
tests/unit/controller/test_daemon_log.py.
"""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from controller.telemetry.codec import decode
from controller.telemetry.datagram import unwrap_udp
from controller.telemetry.frames import PtpMessageType
from controller.telemetry.layout import PTP
from controller.telemetry.pcap import read_pcap
from correction.exchange import estimate_offset
from tempotrace.cli import app

_REPO = Path(__file__).parents[2]
_DATA = Path(os.environ.get("TEMPOTRACE_SHARED_DATA", _REPO.parent / "shared" / "data"))
_FOLDER = _DATA / "clocks"

pytestmark = pytest.mark.skipif(
    not _FOLDER.is_dir(), reason=f"no recorded clock logs in {_FOLDER} (TEMPOTRACE_SHARED_DATA)"
)

# one-way delays without what transparent clocks corrected, delayAsymmetry, and the true error's
# mean and deviation over the second half (clocks.md sections 1.1 and 2.1)
_SIMULATED = {
    "asym0": (10_000, 4_000, 0, -3_001.2, 5.4),
    "asym3000": (10_000, 4_000, 3_000, 1.7, 7.0),
    "q_tc": (5_000, 3_500, 0, -748.9, 6.3),
}


def _explained(*arguments: str) -> dict[str, Any]:
    got = CliRunner().invoke(app, ["correct", "explain", *arguments, "--json"])
    assert got.exit_code == 0, got.output
    document: dict[str, Any] = json.loads(got.stdout)
    return document


def _true_errors_ns(name: str) -> np.ndarray:
    """Of the second half."""
    with gzip.open(_FOLDER / "clknetsim" / f"{name}.offset.gz", "rt") as lines:
        error = np.array([float(line.split()[1]) for line in lines]) * 1e9
    return error[len(error) // 2 :]


@pytest.mark.parametrize("name", _SIMULATED)
def test_a_simulated_client_is_explained_to_some_nanoseconds(name: str) -> None:
    """Unmodified ptp4l in clknetsim: it prints an offset near zero in all three runs; with the
    delays of both ways known, the true error follows, and the recorded one agrees."""
    d_ms, d_sm, configured, mean, sd = _SIMULATED[name]
    true = _true_errors_ns(name)
    assert true.mean() == pytest.approx(mean, abs=0.1)
    assert true.std() == pytest.approx(sd, abs=0.1)
    log = str(_FOLDER / "clknetsim" / f"{name}.ptp4l.log.gz")
    known = ["--there", str(d_ms), "--back", str(d_sm), "--configured", str(configured)]
    document = _explained(log, *known)
    (story,) = document["clocks"]
    assert document["lines"]["repeated"] == story["samples"]
    assert abs(story["printed_offset_ns"]["mean"]) < 5.0
    assert story["true_error_ns"] == pytest.approx(true.mean(), abs=5.0)
    assert np.mean(np.abs(true - story["true_error_ns"]) <= story["true_error_bound_ns"]) > 0.6
    (unknown,) = _explained(log, "--configured", str(configured))["clocks"]
    assert unknown["true_error_ns"] is None
    printed = unknown["printed_offset_ns"]["mean"] + configured
    assert np.abs(true - printed).max() <= unknown["true_error_bound_ns"]


def _findings(name: str) -> tuple[dict[str, Any], str]:
    (story,) = _explained(str(_FOLDER / "real_issue_excerpts" / name))["clocks"]
    return story, "\n".join(story["findings"])


def test_jumps_of_multiples_of_2_32_are_named() -> None:
    """A card whose clock jumped by up to 4 x 2^32 - 4 ns."""
    _, findings = _findings("exanic-software_99.log")
    assert "4 x 2^32 ns" in findings
    assert "jumped" in findings


def test_negative_path_delays_are_named_and_no_mean_is_made_of_them() -> None:
    """-11 to -20 ms at a frequency of +1000000."""
    story, findings = _findings("openil_linuxptp_1_negative_delay.log")
    assert story["left_out"] == {"negative-path-delay": 4}
    assert story["printed_offset_ns"] is None
    assert "negative path delays" in findings


def test_a_phc_that_another_program_set_is_told() -> None:
    """1039.7 s forward; phc2sys goes on as if locked, with the frequency at its stop."""
    story, findings = _findings("pf_ring_966.log")
    assert (story["program"], story["clock"]) == ("phc2sys", "enps0f0")
    assert story["left_out"] == {"not-locked": 1, "jump": 1, "frequency-saturated": 1}
    assert "set by another program" in findings


def test_an_sptp_client_without_its_spike() -> None:
    """54 of 56 samples: sd 16.3 ns at 4.49 us; the spike that the client filtered, and the echo
    that it followed, are left out. The last line has another prefix."""
    log = _FOLDER / "meta_sptp" / "sptp_offsets_from_pi_test.log"
    (story,) = _explained(str(log))["clocks"]
    assert story["left_out"] == {"filtered": 1, "spike": 1}
    assert (story["samples"], story["used"]) == (56, 54)
    assert story["printed_offset_ns"]["sd"] == pytest.approx(16.3, abs=0.1)
    assert story["true_error_bound_ns"] == pytest.approx(4_495, abs=2)


def test_corrections_of_a_real_transparent_clock() -> None:
    """36 035 ns on the Delay_Resp, 105 045 ns on the Sync: who ignores them is off by half of their
    difference, 34 505 ns."""
    # captured at the sender, before the card had filled the UDP checksums in
    frames = [frame for _, frame in read_pcap(_FOLDER / "tcpdump" / "ptp_corrections.pcap")]
    starts = [unwrap_udp(frame, verify_checksums=False).payload_start for frame in frames]
    headers = [decode(PTP, frame, start) for frame, start in zip(frames, starts, strict=True)]
    corrections = {one.message_type: one.correction_field >> 16 for one in headers}
    c1, c2 = corrections[PtpMessageType.SYNC], corrections[PtpMessageType.DELAY_RESP]
    assert (c1, c2) == (105_045, 36_035)
    stamps = {"t1_reference_ns": 0, "t2_local_ns": c1 + 1_000}
    stamps |= {"t3_local_ns": 10**6, "t4_reference_ns": 10**6 + c2 + 1_000}
    assert estimate_offset(**stamps, c1_ns=c1, c2_ns=c2).offset_ns == 0.0
    assert estimate_offset(**stamps).offset_ns == 34_505.0
