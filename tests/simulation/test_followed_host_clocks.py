# SPDX-License-Identifier: Apache-2.0
"""System clocks and GPU timers of the lab, followed window by window, against the truth."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from bmv2_lab.lab_run import CLOCK_PAIRS_FILE, EXCHANGES_FILE, FABRIC_FILE, REPORTS_FILE
from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.following.documents import corrections_of, window_record
from correction.stream.follow import Follower
from tempotrace.followed import follow_recording
from tests.support.short_lab import short_run
from tracing_core.corrections import CorrectionTable

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "followed.schema.json"


@pytest.mark.enable_socket
def test_clocks_of_hosts_are_followed_within_their_bounds(tmp_path: Path) -> None:
    """NICs steered by servos, system clocks free or steered by NTP, one set back: each window adds
    rows of its own version, none is off by more than its hard bound, 99.9 % of the synchronised
    ones are within the conditional bound, four in five readings have a correction, and lines fit
    their schema."""
    run = short_run(tmp_path, "host-clocks", windows=3)
    fabric = load_fabric(tmp_path / FABRIC_FILE)
    files = (tmp_path / name for name in (REPORTS_FILE, EXCHANGES_FILE, CLOCK_PAIRS_FILE))
    windows = list(follow_recording(Follower(fabric_model(fabric)), fabric, *files))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for window in windows:
        jsonschema.validate(json.loads(json.dumps(window_record(window))), schema)
    rows = [(window.version, row) for window in windows for row in corrections_of(window)]
    table = CorrectionTable(rows, version=windows[-1].version)
    looks = run.lab.result.host_clocks_observed
    outside = answered = 0
    within = []
    for look in looks:
        found = table.correct_one(look.clock, look.local_ns)
        if found.corrected_reference_ns is None or found.bound_hard_ns is None:
            continue
        answered += 1
        error_ns = abs(found.corrected_reference_ns - look.reference_ns)
        outside += error_ns > found.bound_hard_ns
        if found.status.value == "synchronised":
            assert found.bound_conditional_ns is not None
            within.append(error_ns <= found.bound_conditional_ns)
    assert outside == 0
    assert np.mean(within) >= 0.999
    assert answered >= 0.8 * len(looks)
