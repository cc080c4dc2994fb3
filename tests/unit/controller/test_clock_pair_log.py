# SPDX-License-Identifier: Apache-2.0
"""`clock_pairs.jsonl` with clocks that no packet carries: read as written, errors named."""

import json
from pathlib import Path

import jsonschema
import pytest

from controller.clock_pairs import (
    ClockPair,
    ClockPairsError,
    CrossStamp,
    PairKind,
    clock_pair_line,
    derived_clock_line,
    read_clock_pairs,
    write_clock_pairs,
)
from controller.host_clocks import default_behaviour
from correction.derived.readings import Behaviour

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs" / "schemas" / "clock-pairs.schema.json").read_text("utf-8")
)
BIG = 1_800_000_000_000_000_001
BEHAVIOUR = Behaviour(
    steering_ppb=0.0, wander_ns_per_s_sqrt_s=20.0, rate_ppb_max=1e5, settable=True
)
PAIR = ClockPair(
    kind=PairKind.PTP_EXTENDED,
    clock="h1/system",
    parent="h1",
    clock_local_ns=BIG,
    parent_local_ns=BIG + 37_000_000_000,
    uncertainty_ns=450,
)
STAMP = CrossStamp(machine="m", clock="h1", phc_local_ns=BIG, system_local_ns=-5, uncertainty_ns=20)


def test_both_kinds_of_pairs_share_one_file(tmp_path: Path) -> None:
    """Cross-stamps and pairs of derived clocks come back as they were written, readings beyond 2^53
    included; every line fits the schema."""
    path = tmp_path / "clock_pairs.jsonl"
    lines = [derived_clock_line("h1/system", "h1", BEHAVIOUR), clock_pair_line(PAIR)]
    write_clock_pairs(path, [STAMP], lines)
    for line in path.read_text().splitlines():
        jsonschema.validate(json.loads(line), SCHEMA)
    found = read_clock_pairs(path, {"h1": 0})
    assert found.stamps.rows.tolist() == [(0, 0, BIG, -5, 20)]
    (pairs,) = found.pairs
    assert (pairs.clock, pairs.parent, pairs.behaviour) == ("h1/system", "h1", BEHAVIOUR)
    assert pairs.rows.tolist() == [(BIG, BIG + 37_000_000_000, 450)]


def test_limits_that_are_not_declared_are_those_of_kernel_and_quartz(tmp_path: Path) -> None:
    """Without a `derived_clock` line: 500 ppm of steering; a monotonic clock against the system
    clock of its host is one number, and cannot be set."""
    path = tmp_path / "clock_pairs.jsonl"
    write_clock_pairs(path, [], [clock_pair_line(PAIR)])
    (pairs,) = read_clock_pairs(path, {}).pairs
    assert pairs.behaviour.steering_ppb == 500_000.0
    assert pairs.behaviour.settable
    monotonic = default_behaviour("h1/monotonic/b1", "h1/system")
    assert (monotonic.rate_ppb_max, monotonic.settable) == (0.0, False)
    raw = default_behaviour("h1/monotonic_raw/b1", "h1/system")
    assert (raw.rate_ppb_max, raw.settable) == (700_000.0, False)
    assert default_behaviour("h1/gpu0", "h1/system").settable is False


def changed(**values: object) -> str:
    """The line of PAIR with other values; None takes a key out."""
    record = json.loads(clock_pair_line(PAIR)) | values
    return json.dumps({key: value for key, value in record.items() if value is not None})


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (changed(kind="guess"), "kind"),
        (changed(kind=None), "kind"),
        (changed(clock=""), "clock"),
        (changed(parent="h1/system"), "parent"),
        (changed(clock_local_ns=5), "clock_local_ns"),
        (changed(parent_local_ns="1e9"), "parent_local_ns"),
        (changed(uncertainty_ns=-1), "uncertainty_ns"),
        (changed(uncertainty_ns=True), "uncertainty_ns"),
        (changed(record="derived_clock"), "steering_ppb"),
        (
            changed(
                record="derived_clock",
                steering_ppb=-1,
                wander_ns_per_s_sqrt_s=0,
                rate_ppb_max=0,
                settable=True,
            ),
            "steering_ppb",
        ),
        (
            changed(
                record="derived_clock",
                steering_ppb=1,
                wander_ns_per_s_sqrt_s=0,
                rate_ppb_max=0,
                settable="yes",
            ),
            "settable",
        ),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path: Path, line: str, key: str) -> None:
    """File, line and key."""
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"record":"header","version":1}\n' + line + "\n")
    with pytest.raises(ClockPairsError, match=rf"pairs\.jsonl:2: {key}: "):
        read_clock_pairs(path, {"h1": 0})
