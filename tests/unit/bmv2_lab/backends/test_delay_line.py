# SPDX-License-Identifier: Apache-2.0
"""Frames on their way."""

import pytest

from bmv2_lab.backends import delay_line
from bmv2_lab.backends.delay_line import DelayLine


def take_all(line: DelayLine[str], now_ns: int) -> list[tuple[int, str]]:
    """Everything that is due."""
    found = []
    while (due := line.take(now_ns)) is not None:
        found.append(due)
    return found


def test_frames_come_out_when_due_in_the_order_of_their_times() -> None:
    """Lanes do not hold each other up; equal times keep the order of arrival."""
    line: DelayLine[str] = DelayLine()
    line.put(0, 30, "late")
    line.put(1, 10, "early")
    line.put(2, 10, "early too")
    assert line.due_ns() == 10
    assert line.take(9) is None
    assert take_all(line, 29) == [(10, "early"), (10, "early too")]
    assert take_all(line, 30) == [(30, "late")]
    assert line.due_ns() is None


def test_a_frame_does_not_overtake_on_its_cable() -> None:
    """One that is due before its predecessor waits for it."""
    line: DelayLine[str] = DelayLine()
    line.put(0, 30, "first")
    line.put(0, 20, "second")
    assert take_all(line, 29) == []
    assert take_all(line, 30) == [(30, "first"), (30, "second")]


def test_frames_beyond_the_limit_are_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that nobody drains does not grow for ever."""
    monkeypatch.setattr(delay_line, "FRAMES_MAX", 2)
    line: DelayLine[str] = DelayLine()
    for number in range(3):
        line.put(0, number, str(number))
    assert line.lost == 1
    assert [frame for _, frame in take_all(line, 9)] == ["0", "1"]
