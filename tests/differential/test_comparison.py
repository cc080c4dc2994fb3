# SPDX-License-Identifier: Apache-2.0
"""The comparison itself: time may differ, nothing else may. Needs no BMv2."""

import random

import pytest

from bmv2_lab.switch import EmbeddedSwitch
from tests.differential.test_bmv2_random_frames import Configured
from tests.support.bmv2_mirror import assert_same, run_frame
from tests.support.frame_fields import dissect
from tests.support.random_frames import RandomFrames

FRAMES = 300


@pytest.fixture
def switches() -> tuple[EmbeddedSwitch, EmbeddedSwitch]:
    """Two alike, both with entries in all tables."""
    return Configured(mode="plain").switch, Configured(mode="plain").switch


def test_fields_cover_every_frame_without_gaps() -> None:
    """Whatever the bytes say, each belongs to exactly one field."""
    frames = RandomFrames(3)
    for _ in range(FRAMES):
        frame, port = frames.next()
        cut = dissect(frame, port)
        assert b"".join(frame[item.start : item.end] for item in cut.fields) == frame
        for item in (*cut.timing, *cut.segments):
            assert 0 <= item.start < item.end <= len(frame)


def test_stamps_are_the_only_difference_between_two_times(
    switches: tuple[EmbeddedSwitch, EmbeddedSwitch],
) -> None:
    """The same frames at other times: alike to the comparison, but not the same bytes."""
    frames, differing = RandomFrames(4), 0
    for number in range(FRAMES):
        frame, port = frames.next()
        first = run_frame(switches[0], frame, port, 1000 * number)
        second = run_frame(switches[1], frame, port, 987_654_321 + 1234 * number)
        assert_same(first, second)
        differing += first != second
    assert differing > FRAMES // 4


def test_every_other_byte_counts(switches: tuple[EmbeddedSwitch, EmbeddedSwitch]) -> None:
    """One byte changed outside of the timing fields is found and named."""
    frames, chance, checked = RandomFrames(5), random.Random(5), 0
    for _ in range(FRAMES):
        frame, port = frames.next()
        sent = run_frame(switches[0], frame, port, 5000)
        for place, (out_port, out) in enumerate(sent):
            cut = dissect(out, out_port)
            free = [
                index
                for index in range(len(out))
                if not any(item.start <= index < item.end for item in cut.timing)
            ]
            changed = bytearray(out)
            changed[chance.choice(free)] ^= 1 << chance.randrange(8)
            other = [*sent[:place], (out_port, bytes(changed)), *sent[place + 1 :]]
            with pytest.raises(AssertionError):
                assert_same(sent, other)
            checked += 1
    assert checked > FRAMES // 2


def test_lost_and_moved_frames_are_found(switches: tuple[EmbeddedSwitch, EmbeddedSwitch]) -> None:
    """A frame too few or on another port is a difference."""
    frames = RandomFrames(6)
    while not (sent := run_frame(switches[0], *frames.next(), 5000)):
        pass
    with pytest.raises(AssertionError, match="sent on ports"):
        assert_same(sent, sent[1:])
    with pytest.raises(AssertionError, match="sent on ports"):
        assert_same(sent, [(sent[0][0] + 1, sent[0][1]), *sent[1:]])
