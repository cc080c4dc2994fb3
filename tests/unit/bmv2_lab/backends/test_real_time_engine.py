# SPDX-License-Identifier: Apache-2.0
"""The engine on the kernel's clock, run for some milliseconds."""

import socket

from bmv2_lab.backends.real_time_engine import RealTimeEngine
from bmv2_lab.backends.time_base import TimeBase

MS = 1_000_000


def test_actions_run_when_due_and_past_ones_at_once() -> None:
    """In the order of their times, never early; what is scheduled for the past still runs."""
    base = TimeBase.now()
    engine = RealTimeEngine(base)
    ran: list[tuple[str, int]] = []
    engine.at(2 * MS, lambda: ran.append(("second", base.true_now())))
    engine.at(1 * MS, lambda: ran.append(("first", base.true_now())))
    engine.at(2 * MS, lambda: engine.at(0, lambda: ran.append(("late", base.true_now()))))
    engine.at(3_600_000 * MS, lambda: ran.append(("never", 0)))
    engine.run(4 * MS)
    assert [name for name, _ in ran] == ["first", "second", "late"]
    assert ran[0][1] >= 1 * MS
    assert ran[1][1] >= 2 * MS
    assert base.true_now() >= 4 * MS


def test_sockets_are_read_while_it_waits() -> None:
    """A datagram wakes it; progress is reported at the start."""
    engine = RealTimeEngine(TimeBase.now())
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        got: list[bytes] = []
        seen: list[int] = []
        engine.add_reader(ours, lambda: got.append(ours.recv(10)))

        def send() -> None:
            theirs.send(b"x")

        engine.at(MS, send)
        for turn in range(1, 100):  # on a busy machine the first may be over before it began
            engine.run(turn * 20 * MS, seen.append)
            if got:
                break
    assert got == [b"x"]
    assert seen


def test_a_clock_that_nobody_sets_has_not_stepped() -> None:
    """The two clocks keep their distance to within what reading them takes."""
    assert abs(TimeBase.now().stepped_ns()) < MS
