# SPDX-License-Identifier: Apache-2.0
"""A run in which the engine feeds the switches' transparent clocks: measure, solve, write, go on.

The loop knows what a controller on a real fabric would: report frames with their capture times, the
hosts' PTP logs, the collector's clock. It writes over P4Runtime while the fabric stands still
between two steps of virtual time. Truth is recorded beside it (`ErrorWatch`) and read by
`closed_loop_score` alone.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from controller.fabric import Fabric, PtpRole
from controller.fabric_model import fabric_model
from controller.probes import ProbePlanner, pairs_per_link
from controller.ptp_entries import residence_offset_scaled
from controller.telemetry.collector import Collector
from controller.transparent_clock import NO_DELAYS, LinkDelayPlan, plan_link_delays
from controller.written_delays import WrittenDelays
from correction.engine import solve
from correction.injected import account
from correction.records import EXCHANGE_DTYPE, Exchanges, Hops, Packets
from correction.servo import (
    ADJUSTMENT_DTYPE,
    ServoLog,
    free_running_exchanges,
    steered_table,
)
from correction.table import CorrectionTable

REPORT_WAIT_NS = 100_000_000
"""From a window's end to its evaluation: reports and Delay_Resps are in by then."""
WATCH_INTERVAL_NS = 500_000_000
"""Between two recordings of the clients' true errors."""
SERVO_MARGIN_NS = 2_000_000_000
"""Adjustments kept from before the oldest window: several servo updates."""

Write = Callable[[Fabric, Mapping[str, Mapping[int, int]]], Awaitable[object]]
"""`await write(fabric, link_delays)`: have all switches hold that; raises if one does not."""
Progress = Callable[[int], None]


@dataclass(slots=True, kw_only=True)
class LoopWindow:
    """What one turn of the loop saw and did."""

    start_ns: int
    """True time; for scoring."""
    table: CorrectionTable
    """Corrections of this window, on the clocks as they read."""
    plan: LinkDelayPlan
    written_ns: int | None
    """True time at which the switches held this plan; None before delays are written at all."""
    ports_changed: int
    """Ports whose value was written anew."""
    pairs: dict[str, int]
    """Per link, samples in both directions from traffic."""
    probes: int
    unexplained_ns_max: float
    """Largest |correctionField - residence - injected delays| of the exchanges solved; 0 where no
    switch has corrected anything."""
    injected_ns_max: float
    """Largest sum of link delays that a packet collected."""


@dataclass(slots=True, kw_only=True)
class ClientErrors:
    """True errors of the clients' PHCs; for scoring alone."""

    hosts: tuple[str, ...]
    true_ns: list[int] = field(default_factory=list)
    error_ns: list[tuple[float, ...]] = field(default_factory=list)
    """Per instant, client minus reference in the order of `hosts`."""


@dataclass(slots=True, kw_only=True)
class LoopRecord:
    """Everything that a closed-loop run leaves besides the files."""

    windows: list[LoopWindow] = field(default_factory=list)
    errors: ClientErrors
    written: WrittenDelays
    """Which link delays were in force when."""


class ErrorWatch:
    """Records the true error of every client at a steady pace."""

    def __init__(self, lab: VirtualFabric, reference: str) -> None:
        self._lab = lab
        self._reference = lab.phcs[reference]
        self.errors = ClientErrors(hosts=tuple(name for name in lab.phcs if name != reference))
        lab.engine.at(WATCH_INTERVAL_NS, self._record)

    def _record(self) -> None:
        now_ns = self._lab.engine.now_ns
        self.errors.true_ns.append(now_ns)
        self.errors.error_ns.append(
            tuple(
                self._lab.phcs[host].offset_from_ns(self._reference, now_ns)
                for host in self.errors.hosts
            )
        )
        if now_ns + WATCH_INTERVAL_NS <= self._lab.scenario.duration_ns:
            self._lab.engine.at(now_ns + WATCH_INTERVAL_NS, self._record)


class LoopEstimator:
    """Windows of reports and exchanges in, corrections and link delays out; sees no truth."""

    def __init__(self, fabric: Fabric, windows_kept: int) -> None:
        self.model = fabric_model(fabric)
        self._collector = Collector(fabric)
        self._clock = {clock.name: index for index, clock in enumerate(self.model.clocks)}
        self._kept: list[tuple[Packets, Hops, Exchanges, NDArray[np.int64]]] = []
        self._windows_kept = windows_kept
        self._residence_offset_scaled_ns = {
            switch.name: residence_offset_scaled(fabric, switch) for switch in fabric.switches
        }
        self.written = WrittenDelays(
            {switch.name: switch.node_id for switch in fabric.switches},
            self._residence_offset_scaled_ns,
        )
        self.plan = NO_DELAYS
        self.pairs: dict[str, int] = {}

    def feed(self, frames: list[tuple[int, bytes]]) -> None:
        """Report frames with their capture times, all of them, in order."""
        for capture_collector_ns, frame in frames:
            self._collector.feed(frame, capture_collector_ns)

    def close_window(
        self, start_collector_ns: int, end_collector_ns: int, rows: list[tuple[str, np.void]]
    ) -> None:
        """A window is over; `rows` are the exchanges that ended in it."""
        collected = self._collector.drain()
        at_ns = collected.packets["capture_collector_ns"]
        inside = (at_ns >= start_collector_ns) & (at_ns < end_collector_ns)
        packets = collected.packets[inside]
        exchanges = np.zeros(len(rows), EXCHANGE_DTYPE)
        for index, (client, row) in enumerate(rows):
            exchanges[index] = row
            exchanges["client"][index] = self._clock[client]
        window = np.array([start_collector_ns, end_collector_ns], np.int64)
        self._kept.append((packets, collected.hops, exchanges, window))
        del self._kept[: -self._windows_kept]
        self.pairs = pairs_per_link(packets, collected.hops, self.model)

    def solve(
        self, adjustments: Mapping[str, list[tuple[int, int, float]]]
    ) -> tuple[CorrectionTable, float, float]:
        """Corrections of the newest window; how well its correctionFields add up."""
        packets, hops, exchanges, windows = _joined(self._kept)
        servos = {
            self._clock[host]: _servo_log(rows, exchanges[exchanges["client"] == self._clock[host]])
            for host, rows in adjustments.items()
        }
        accounted = account(
            packets, hops, exchanges, self.model, self.written.injected(int(windows[0, 0]))
        )
        solution = solve(
            packets,
            hops,
            free_running_exchanges(accounted.exchanges, servos),
            self.model,
            windows,
        )
        self.plan = plan_link_delays(
            solution,
            previous=self.plan,
            residence_offset_scaled_ns=self._residence_offset_scaled_ns,
        )
        rows = solution.table.rows
        newest = replace(solution.table, rows=rows[rows["window"] == len(windows) - 1])
        corrected = np.stack([accounted.exchanges["c1_ns"], accounted.exchanges["c2_ns"]], axis=1)
        told = accounted.known & (np.abs(corrected + accounted.injected_ns) > 1.0)
        unexplained, injected = accounted.unexplained_ns[told], accounted.injected_ns[told]
        return (
            steered_table(newest, servos),
            float(np.max(np.abs(unexplained), initial=0.0)),
            float(np.max(injected, initial=0.0)),
        )


def _joined(
    kept: list[tuple[Packets, Hops, Exchanges, NDArray[np.int64]]],
) -> tuple[Packets, Hops, Exchanges, NDArray[np.int64]]:
    """The kept windows as one recording."""
    parts, before = [], 0
    for packets, hops, _, _ in kept:
        moved = packets.copy()
        moved["first_hop"] += before
        before += len(hops)
        parts.append(moved)
    return (
        np.concatenate(parts),
        np.concatenate([hops for _, hops, _, _ in kept]),
        np.concatenate([exchanges for _, _, exchanges, _ in kept]),
        np.stack([window for _, _, _, window in kept]),
    )


def _servo_log(rows: list[tuple[int, int, float]], exchanges: Exchanges) -> ServoLog:
    """The adjustments that matter to these exchanges of one client."""
    log = np.array(rows, ADJUSTMENT_DTYPE)
    if len(exchanges):
        oldest_ns = int(exchanges["t2_local_ns"].min()) - SERVO_MARGIN_NS
        first = int(np.searchsorted(log["phc_local_ns"], oldest_ns)) - 1
        log = log[max(first, 0) :]
    return ServoLog.from_adjustments(log)


class ClosedLoop:
    """Drives one run."""

    def __init__(
        self,
        scenario: Scenario,
        fabric: Fabric,
        lab: VirtualFabric,
        write: Write,
        on_progress: Progress,
    ) -> None:
        assert scenario.closed_loop is not None
        self._loop = scenario.closed_loop
        self._scenario = scenario
        self._fabric = fabric
        self._lab = lab
        self._write = write
        self._on_progress = on_progress
        self._estimator = LoopEstimator(fabric, self._loop.windows_kept)
        self._probes = ProbePlanner(fabric)
        self._reports_fed = 0
        self.record = LoopRecord(
            errors=ErrorWatch(lab, fabric.ptp.grandmaster).errors, written=self._estimator.written
        )

    async def run(self) -> LoopRecord:
        """The whole scenario; the switches hold `without_transparent_clocks` when it starts."""
        started = False
        for start_ns in self._scenario.window_starts_ns:
            if not started and start_ns >= self._loop.residence_from_ns:
                self._lab.run_until(self._loop.residence_from_ns, self._on_progress)
                await self._write(self._fabric, {})
                started = True
            self._lab.run_until(start_ns, self._on_progress)
            self.record.windows.append(await self._window(start_ns))
        self._lab.run(self._on_progress)
        return self.record

    async def _window(self, start_ns: int) -> LoopWindow:
        lab, estimator = self._lab, self._estimator
        end_ns = start_ns + self._scenario.window_ns
        start_collector_ns = lab.collector_now_ns()
        first_exchange = len(lab.result.exchanges)
        probes = self._probes.plan(
            estimator.pairs, start_ns=start_ns, window_ns=self._scenario.window_ns
        )
        for probe in probes:
            lab.packet_out(probe.switch, probe.packet_out, probe.at_ns)
        lab.run_until(end_ns, self._on_progress)
        end_collector_ns = lab.collector_now_ns()
        lab.run_until(end_ns + REPORT_WAIT_NS, self._on_progress)
        estimator.feed(lab.result.reports[self._reports_fed :])
        self._reports_fed = len(lab.result.reports)
        estimator.close_window(
            start_collector_ns, end_collector_ns, lab.result.exchanges[first_exchange:]
        )
        table, unexplained_ns, injected_ns = estimator.solve(lab.result.adjustments)
        changed, written_ns = 0, None
        if end_ns >= self._loop.delays_from_ns:
            now_ns = lab.collector_now_ns()
            delays = estimator.plan.in_force(now_ns)
            await self._write(self._fabric, delays)
            changed = estimator.written.record(delays, now_ns)
            written_ns = lab.engine.now_ns
        return LoopWindow(
            start_ns=start_ns,
            table=table,
            plan=estimator.plan,
            written_ns=written_ns,
            ports_changed=changed,
            pairs=estimator.pairs,
            probes=len(probes),
            unexplained_ns_max=unexplained_ns,
            injected_ns_max=injected_ns,
        )


def without_transparent_clocks(fabric: Fabric) -> Fabric:
    """The same fabric whose switches leave PTP alone."""
    return replace(
        fabric,
        models=tuple(
            replace(model, ptp_role=PtpRole.NONE)
            if model.ptp_role is PtpRole.TRANSPARENT_CLOCK
            else model
            for model in fabric.models
        ),
    )
