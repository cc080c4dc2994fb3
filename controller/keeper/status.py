# SPDX-License-Identifier: Apache-2.0
"""A keeper's state as values, as Prometheus metrics and as JSON.

Names and labels are a contract with dashboards; docs/deployment.md lists them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector as MetricsSource

from controller.keeper.companion_status import (
    NO_COMPANIONS,
    PREFIX,
    CompanionState,
    companion_families,
    companions_json,
)
from controller.keeper.events import Event, EventKind
from controller.keeper.keeper import Keeper
from controller.keeper.kept_switch import KeptSwitch
from controller.keeper.phases import Phase, SwitchCounters
from controller.session import StreamCounters

VERSION = 1
_SWITCH_METRICS: dict[str, tuple[Callable[["SwitchState"], float], str]] = {
    "connects": (lambda one: one.counters.connects, "Sessions opened."),
    "losses": (lambda one: one.counters.losses, "Sessions lost."),
    "takeovers": (lambda one: one.counters.takeovers, "Times taken over as a backup."),
    "pipeline_pushes": (lambda one: one.counters.pushes, "Pipelines pushed."),
    "updates": (lambda one: one.counters.updates, "Entries written."),
    "refusals": (lambda one: one.counters.refusals, "Times that it refused what was asked for."),
    "drifts": (lambda one: one.counters.drifts, "Reads that found what nobody had written."),
    "packet_ins": (lambda one: one.stream.packets, "Frames sent to the controller."),
    "packet_ins_dropped": (
        lambda one: one.stream.packets_dropped,
        "Frames that found the controller's queue full.",
    ),
    "stream_errors": (lambda one: one.stream.errors, "Stream errors: packet-outs refused."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchState:
    """One switch at one moment."""

    name: str
    address: str
    phase: Phase
    phase_age_ns: int
    error: str | None
    entries: int | None
    """Entries that it holds; None: unknown."""
    counters: SwitchCounters
    stream: StreamCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperState:
    """The fabric at one moment."""

    fabric: str
    switches: tuple[SwitchState, ...]
    failed_links: tuple[str, ...]
    events: Mapping[EventKind, int]
    """Events since the start."""
    companions: CompanionState = NO_COMPANIONS

    @property
    def in_sync(self) -> bool:
        """Every switch holds what it should."""
        return all(switch.phase is Phase.IN_SYNC for switch in self.switches)


class EventCounts:
    """Counts events; pass it on as `on_event`."""

    def __init__(self) -> None:
        self.counts: Counter[EventKind] = Counter()

    def __call__(self, event: Event) -> None:
        self.counts[event.kind] += 1


def keeper_state(
    keeper: Keeper,
    events: Mapping[EventKind, int],
    companions: CompanionState = NO_COMPANIONS,
) -> KeeperState:
    """The state now; call it in the keeper's loop."""
    now_ns = keeper.now_ns()
    return KeeperState(
        fabric=keeper.fabric.name,
        switches=tuple(_switch_state(one, now_ns) for one in keeper.switches.values()),
        failed_links=tuple(sorted(keeper.failed_links)),
        events=dict(events),
        companions=companions,
    )


def _switch_state(kept: KeptSwitch, now_ns: int) -> SwitchState:
    machine = kept.machine
    entries = None if kept.held is None or kept.held.entries is None else len(kept.held.entries)
    return SwitchState(
        name=kept.name,
        address=kept.address,
        phase=machine.phase,
        phase_age_ns=now_ns - machine.since_ns,
        error=None if machine.error is None else str(machine.error),
        entries=entries,
        counters=machine.counters,
        stream=kept.stream,
    )


def status_json(state: KeeperState) -> dict[str, object]:
    """What `/status` serves."""
    return {
        "version": VERSION,
        "fabric": state.fabric,
        "in_sync": state.in_sync,
        "failed_links": list(state.failed_links),
        **companions_json(state.companions),
        "switches": [
            {
                "name": one.name,
                "address": one.address,
                "phase": one.phase.value,
                "phase_age_s": round(one.phase_age_ns / 1e9, 3),
                "error": one.error,
                "entries": one.entries,
                "updates": one.counters.updates,
            }
            for one in state.switches
        ],
    }


class _Source(MetricsSource):
    def __init__(self, state: KeeperState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """All metrics of one picture."""
        return metric_families(self._state)


def metrics_text(state: KeeperState) -> bytes:
    """The Prometheus text format of one picture."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Source(state))
    return generate_latest(registry)


def metric_families(state: KeeperState) -> Iterator[Metric]:
    """Every metric of the keeper."""
    phases = Counter(one.phase for one in state.switches)
    by_phase = GaugeMetricFamily(
        f"{PREFIX}switches", "Switches, by where they stand.", labels=["phase"]
    )
    for phase in Phase:
        by_phase.add_metric([phase.value], phases[phase])
    yield by_phase
    events = CounterMetricFamily(f"{PREFIX}events", "Events of the log.", labels=["event"])
    for kind in EventKind:
        events.add_metric([kind.value], state.events.get(kind, 0))
    yield events
    yield GaugeMetricFamily(
        f"{PREFIX}failed_links", "Links that are down.", value=len(state.failed_links)
    )
    in_sync = GaugeMetricFamily(
        f"{PREFIX}switch_in_sync",
        "1 where a switch holds what it should.",
        labels=["switch"],
    )
    entries = GaugeMetricFamily(
        f"{PREFIX}switch_entries", "Entries held, as far as known.", labels=["switch"]
    )
    for one in state.switches:
        in_sync.add_metric([one.name], one.phase is Phase.IN_SYNC)
        if one.entries is not None:
            entries.add_metric([one.name], one.entries)
    yield in_sync
    yield entries
    for name, (value, doc) in _SWITCH_METRICS.items():
        family = CounterMetricFamily(f"{PREFIX}switch_{name}", doc, labels=["switch"])
        for one in state.switches:
            family.add_metric([one.name], value(one))
        yield family
    yield from companion_families(state.companions)
