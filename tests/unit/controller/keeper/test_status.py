# SPDX-License-Identifier: Apache-2.0
"""The keeper's state as metrics and JSON: complete, with stable names."""

import re
from pathlib import Path

from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Phase, SwitchCounters
from controller.keeper.status import (
    EventCounts,
    KeeperState,
    SwitchState,
    metrics_text,
    status_json,
)
from controller.switch_stream import StreamCounters


def state_of(phase: Phase, error: str | None = None) -> KeeperState:
    """Two switches, one of them in that phase."""
    counts = EventCounts()
    counts(Event(kind=EventKind.LOST, switch="leaf1"))

    def switch(name: str, phase: Phase, error: str | None) -> SwitchState:
        return SwitchState(
            name=name,
            address="127.0.0.1:9559",
            phase=phase,
            phase_age_ns=1_500_000_000,
            error=error,
            entries=None if phase is Phase.WAITING else 127,
            counters=SwitchCounters(updates=5, losses=2),
            stream=StreamCounters(packets=7, packets_dropped=3),
        )

    return KeeperState(
        fabric="pod1",
        switches=(switch("leaf1", phase, error), switch("leaf2", Phase.IN_SYNC, None)),
        failed_links=("leaf1:1-spine1:1",),
        events=counts.counts,
    )


def test_every_phase_and_event_has_a_series() -> None:
    """A dashboard sees zeros rather than nothing."""
    text = metrics_text(state_of(Phase.REFUSED)).decode()
    for phase in Phase:
        count = {Phase.REFUSED: 1.0, Phase.IN_SYNC: 1.0}.get(phase, 0.0)
        assert f'tempotrace_controller_switches{{phase="{phase.value}"}} {count}' in text
    for kind in EventKind:
        assert f'tempotrace_controller_events_total{{event="{kind.value}"}}' in text
    assert 'tempotrace_controller_switch_in_sync{switch="leaf1"} 0.0' in text
    assert 'tempotrace_controller_switch_packet_ins_dropped_total{switch="leaf1"} 3.0' in text
    assert 'tempotrace_controller_switch_updates_total{switch="leaf2"} 5.0' in text
    assert "tempotrace_controller_failed_links 1.0" in text


def test_unknown_entries_are_no_zero() -> None:
    """A switch that is away has no series of entries, and null in the status."""
    away = state_of(Phase.WAITING, error="UNAVAILABLE")
    assert 'switch_entries{switch="leaf1"}' not in metrics_text(away).decode()
    status = status_json(away)
    assert status["in_sync"] is False
    switches = status["switches"]
    assert isinstance(switches, list)
    assert switches[0] == {
        "name": "leaf1",
        "address": "127.0.0.1:9559",
        "phase": "waiting",
        "phase_age_s": 1.5,
        "error": "UNAVAILABLE",
        "entries": None,
        "updates": 5,
    }


def test_all_in_sync() -> None:
    """Only when every switch is."""
    assert status_json(state_of(Phase.IN_SYNC))["in_sync"] is True


def test_every_word_of_log_and_metrics_is_documented() -> None:
    """Events, phases and metrics all stand in docs/deployment.md."""
    page = (Path(__file__).parents[4] / "docs/deployment.md").read_text(encoding="utf-8")
    metrics = re.findall(
        r"^# TYPE tempotrace_controller_(\w+)", metrics_text(state_of(Phase.IN_SYNC)).decode(), re.M
    )
    words = [*metrics, *(kind.value for kind in EventKind), *(phase.value for phase in Phase)]
    assert [word for word in words if f"`{word}`" not in page] == []
