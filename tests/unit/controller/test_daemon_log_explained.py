# SPDX-License-Identifier: Apache-2.0
"""What a daemon's figures mean, and the true error of its clock, where it can be known."""

import numpy as np
import pytest

from controller.daemon_log import parse_daemon_log
from controller.daemon_log_explained import KnownError, LeftOut, explain

_D_MS, _D_SM = 10_000, 4_000


def _line(at_s, offset, *, state=2, freq=1_000, delay=7_000):
    return (
        f"ptp4l[{at_s}.000]: master offset {offset:10d} s{state} freq {freq:+7d} "
        f"path delay {delay:9d}"
    )


def _locked_lines():
    """Noise around zero, as a servo leaves it."""
    noise = np.random.default_rng(4).integers(-30, 31, 30)
    both = [int(sign * one) for one in noise for sign in (1, -1)]  # mean zero
    return [_line(100 + n, value) for n, value in enumerate(both)]


@pytest.mark.parametrize(("configured", "error"), [(0, -3_000), (3_000, 0), (6_000, 3_000)])
def test_known_delays_tell_the_true_error(configured, error):
    """clocks.md 1.1: the printed offset is zero in all three cases."""
    known = KnownError.of_delays(_D_MS, _D_SM, configured)
    (story,) = explain(parse_daemon_log(_locked_lines()), known)
    assert story.printed_offset_ns is not None
    assert story.printed_offset_ns.mean == 0.0
    assert story.asymmetry_ns == 3_000
    assert story.true_error_ns == error
    assert story.printed_delay_ns is not None
    assert story.printed_delay_ns.mean == (_D_MS + _D_SM) / 2


def test_a_correction_of_the_clock_tells_the_asymmetry():
    """theta is given; what the servo settled at then says what A must be."""
    known = KnownError(offset_ns=-3_000.0, offset_bound_ns=25.0)
    (story,) = explain(parse_daemon_log(_locked_lines()), known)
    assert (story.asymmetry_ns, story.true_error_ns) == (3_000.0, -3_000.0)
    assert story.true_error_bound_ns == 25.0


def test_without_outside_knowledge_only_the_path_delay_bounds_the_error():
    """|A| is at most (d_ms + d_sm) / 2, since neither is negative; -3 us is within 7 us."""
    (story,) = explain(parse_daemon_log(_locked_lines()))
    assert story.true_error_ns is None
    assert story.true_error_bound_ns == 7_000


def test_a_comparison_inside_a_machine_is_bounded_by_its_reading():
    """phc2sys: the delay is the duration of the reading, within which the offset lies."""
    lines = [
        f"phc2sys[{n}.000]: CLOCK_REALTIME phc offset {(-1) ** n * 8:9d} s2 freq   -4500 delay 1500"
        for n in range(20)
    ]
    (story,) = explain(parse_daemon_log(lines), KnownError(asymmetry_ns=3_000.0))
    assert (story.true_error_ns, story.true_error_bound_ns) == (0.0, 750.0)
    assert story.asymmetry_ns is None


_BAD = {
    "negative path delay": (
        _line(500, 121_269_846, delay=-15_896_999),
        LeftOut.NEGATIVE_DELAY,
        "negative path delays",
    ),
    "saturated": (_line(500, 90, freq=-31_000_000), LeftOut.FREQUENCY_SATURATED, "at its stop"),
    "2^32": (_line(500, 4 * 2**32 - 4), LeftOut.JUMP_2_32, "2^32"),
    "UTC for TAI": (_line(500, -37_000_000_012), LeftOut.JUMP_UTC_TAI, "UTC against TAI"),
    "17 minutes": (_line(500, 1_039_723_456_415), LeftOut.JUMP, "250 ms"),
    "unlocked": (_line(500, 55, state=0), LeftOut.NOT_LOCKED, None),
    "spike": (_line(500, 96_571), LeftOut.SPIKE, None),
}


@pytest.mark.parametrize("name", _BAD)
@pytest.mark.parametrize("count", [1, 7, 29])
def test_bad_figures_are_named_counted_and_move_no_mean(name, count):
    """Field reports of clocks.md section 7, in between good lines."""
    line, reason, finding = _BAD[name]
    good = _locked_lines()
    lines = list(good)
    for n in range(count):
        lines.insert(2 * n + 1, line.replace("500", str(500 + n), 1))
    known = KnownError.of_delays(_D_MS, _D_SM)
    (expected,) = explain(parse_daemon_log(good), known)
    (story,) = explain(parse_daemon_log(lines), known)
    assert story.left_out == {reason: count}
    assert story.true_error_ns == expected.true_error_ns
    assert story.printed_offset_ns == expected.printed_offset_ns
    assert story.printed_delay_ns == expected.printed_delay_ns
    if finding is not None:
        assert any(finding in text for text in story.findings)


def test_a_servo_that_has_to_converge_is_judged_by_its_second_half():
    """A log that begins unlocked."""
    start = [_line(n, 1_000_000 // (n + 1), state=0) for n in range(5)]
    drift = [_line(10 + n, 600 - 20 * n) for n in range(30)]
    (story,) = explain(parse_daemon_log([*start, *drift, *_locked_lines()[:40]]))
    assert story.left_out == {LeftOut.NOT_LOCKED: 5, LeftOut.CONVERGING: 35}
    assert story.used == 35


def test_an_offset_that_grows_while_locked_is_a_finding():
    """The state letter is no evidence (field report 5)."""
    lines = [_line(n, 500 * n) for n in range(30)]
    (story,) = explain(parse_daemon_log(lines))
    assert any("grows" in text for text in story.findings)


def test_a_summary_with_a_jump_in_it_is_named():
    """17179869180 ns are 4 x 2^32 less 4 (field report 6)."""
    line = "ptp4l[9.0]: rms 4801810734 max 17179869180 freq   -229 +/- 772040 delay   224 +/-   2"
    (story,) = explain(parse_daemon_log([line]))
    assert any("4 x 2^32" in text for text in story.findings)
    assert story.true_error_ns is None
