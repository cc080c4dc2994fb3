# SPDX-License-Identifier: Apache-2.0
"""Timers over a clock that the test moves."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch.alarm import Alarm
from bmv2_lab.switch.timers import CANCELLED_LIMIT, Timers


class Clock:
    """A clock, and what was called."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls: list[object] = []
        self.timers = Timers(lambda: self.now_ns)

    def run_at(self, now_ns: int) -> list[object]:
        """What a run at that instant calls."""
        self.now_ns = now_ns
        self.calls.clear()
        self.timers.run()
        return list(self.calls)


def test_timers_run_in_order_and_once() -> None:
    """Equal instants in the order of their making; nothing early."""
    clock = Clock()
    for name, when_ns in (("c", 30), ("a", 10), ("b", 10)):
        clock.timers.at(when_ns, lambda name=name: clock.calls.append(name))
    assert clock.run_at(9) == []
    assert clock.run_at(10) == ["a", "b"]
    assert clock.timers.next_ns == 30
    assert clock.run_at(100) == ["c"]
    assert clock.run_at(100) == []
    assert clock.timers.next_ns is None


def test_timer_made_by_a_timer_waits_for_the_next_run() -> None:
    """So that a run ends, however short a delay somebody asks for."""
    clock = Clock()

    def again() -> None:
        clock.calls.append("again")
        clock.timers.after(0, again)

    clock.timers.after(0, again)
    assert clock.run_at(5) == ["again"]
    assert clock.run_at(5) == ["again"]


def test_cancelled_timer_does_not_run() -> None:
    """Before its run, and by another timer in the same run."""
    clock = Clock()
    second = clock.timers.at(10, lambda: clock.calls.append("second"))
    first = clock.timers.at(5, second.cancel)
    assert first.active
    assert clock.run_at(10) == []
    assert not first.active
    third = clock.timers.at(20, lambda: clock.calls.append("third"))
    third.cancel()
    third.cancel()
    assert clock.timers.next_ns is None


def test_on_sooner_tells_of_earlier_instants_only() -> None:
    """What a real-time loop needs to know."""
    clock = Clock()
    clock.timers.on_sooner = lambda: clock.calls.append(clock.timers.next_ns)
    for when_ns in (50, 60, 40, 40):
        clock.timers.at(when_ns, lambda: None)
    assert clock.calls == [50, 40]


def test_after_run_is_called_at_the_end_of_each_run() -> None:
    """Once, whatever was due."""
    clock = Clock()
    clock.timers.after_run.append(lambda: clock.calls.append("end"))
    clock.timers.at(1, lambda: clock.calls.append("one"))
    clock.timers.at(1, lambda: clock.calls.append("two"))
    assert clock.run_at(1) == ["one", "two", "end"]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=300))
def test_cancelled_timers_do_not_pile_up(steps: list[tuple[int, bool]]) -> None:
    """The heap holds the active ones and some cancelled ones; each active one runs once."""
    clock = Clock()
    expected = []
    for number, (when_ns, keep) in enumerate(steps):
        timer = clock.timers.at(when_ns, lambda number=number: clock.calls.append(number))
        if keep:
            expected.append((when_ns, number))
        else:
            timer.cancel()
        active = len(expected)
        assert len(clock.timers._heap) <= max(2 * active, active + CANCELLED_LIMIT) + 1
    assert clock.run_at(20) == [number for _, number in sorted(expected)]


class Owner:
    """A clock that calls back."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls: list[tuple[int, Callable[[], None]]] = []

    def call_at(self, when_ns: int, action: Callable[[], None]) -> None:
        self.calls.append((when_ns, action))

    def run(self, until_ns: int) -> None:
        while due := [call for call in self.calls if call[0] <= until_ns]:
            call = min(due, key=lambda item: item[0])
            self.calls.remove(call)
            self.now_ns = call[0]
            call[1]()
        self.now_ns = until_ns


def test_alarm_runs_each_timer_at_its_instant_in_any_order_of_asking() -> None:
    """One call is asked for at a time; a cancelled timer and one from the past do no harm."""
    owner, ran = Owner(), []
    timers = Timers(lambda: owner.now_ns)
    alarm = Alarm(timers, owner.call_at)
    for when_ns in (50, 20, 70, 20):
        timers.at(when_ns, lambda: ran.append(owner.now_ns))
    timers.at(30, lambda: ran.append(-1)).cancel()
    assert len(owner.calls) == 2  # for 50, then for what comes sooner
    owner.run(60)
    assert ran == [20, 20, 50]
    timers.at(10, lambda: ran.append(owner.now_ns))
    owner.run(60)
    assert ran[3:] == [60]
    alarm.stop()
    owner.run(100)
    assert len(ran) == 4
