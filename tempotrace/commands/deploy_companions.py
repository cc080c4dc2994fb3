# SPDX-License-Identifier: Apache-2.0
"""What `tempotrace deploy run` does beside keeping the switches, as its options ask for."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from controller.access import Access
from controller.cabling.watch import INTERVAL_S, CablingWatch
from controller.int_policy.delay_watch import DelayWatch
from controller.int_policy.link_samples_file import QuietLinksFile
from controller.int_policy.probe_sender import ProbeSender
from controller.int_policy.sampling_watch import SamplingWatch
from controller.keeper.companion_status import CompanionState
from controller.keeper.events import OnEvent
from controller.keeper.keeper import Companion
from controller.link_events.gnmi_ports import GnmiPorts
from controller.link_events.link_watch import LinkWatch
from controller.switch_stream import PacketIn
from tempotrace.commands.options import DAY_S
from tempotrace.errors import InputError

DEFAULT_TOPOLOGY_INTERVAL_S = INTERVAL_S
TOPOLOGY_INTERVAL_S_MIN = 0.2
"""Two rounds must pass before silence counts, and frames need some of that time for their way."""

TopologyIntervalS = Annotated[
    float,
    typer.Option(
        "--topology-interval-s",
        min=0,
        max=DAY_S,
        help="Between checks of the cabling by LLDP, 0.2 and more; 0: none.",
    ),
]
ReportBudget = Annotated[
    float | None,
    typer.Option(
        "--report-budget",
        min=0,
        help="Reports a second that each collector gets at most; beyond, fewer packets are "
        "sampled. Default: the fabric file's; 0: no limit.",
    ),
]
LinkDelayPlanFile = Annotated[
    Path | None,
    typer.Option(
        "--link-delays",
        help="link_delay_plan.jsonl of the engine: what transparent clocks add, followed.",
    ),
]
LinkSamplesFile = Annotated[
    Path | None,
    typer.Option(
        "--link-samples",
        help="link_samples.json of the engine: links with samples of their own get no probes.",
    ),
]
LinkDelaysLog = Annotated[
    Path | None,
    typer.Option("--link-delays-log", help="Record what was in force when: link_delays.jsonl."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """The options."""

    topology_interval_s: float
    """Between checks of the cabling; 0: none."""
    report_budget_rps: float | None
    """Reports a second and collector; None or 0: as many as the watchlists ask for."""
    link_delays: Path | None
    """What the engine publishes; None: whatever switches hold stays."""
    link_delays_log: Path | None
    link_samples: Path | None
    """How many samples traffic gives; None: nobody tells, and all links are probed."""

    def make(self, on_event: OnEvent, access: Access) -> "RunningCompanions":
        """The companions, for one keeper; access: how it reaches switches."""
        links = LinkWatch()
        running = RunningCompanions(links=links, ports=GnmiPorts(links, access, on_event))
        if self.topology_interval_s:
            running.cabling = CablingWatch(
                on_event, interval_s=self.topology_interval_s, links=links
            )
        if self.report_budget_rps:
            running.sampling = SamplingWatch(self.report_budget_rps, on_event)
        if self.link_samples is not None:
            running.quiet = QuietLinksFile(
                self.link_samples, on_event, now_collector_ns=_now_collector_ns
            )
            running.probes = ProbeSender(running.quiet)
        if self.link_delays is not None:
            running.delays = DelayWatch(
                self.link_delays,
                self.link_delays_log,
                on_event,
                now_collector_ns=_now_collector_ns,
            )
        return running


def make_companions(
    *,
    topology_interval_s: float,
    report_budget_rps: float | None,
    link_delays: Path | None,
    link_delays_log: Path | None,
    link_samples: Path | None,
) -> Companions:
    """The options, if they go together."""
    if link_delays_log is not None and link_delays is None:
        raise InputError("--link-delays-log needs --link-delays")
    if 0 < topology_interval_s < TOPOLOGY_INTERVAL_S_MIN:
        raise InputError(f"--topology-interval-s: expected 0, or {TOPOLOGY_INTERVAL_S_MIN} or more")
    return Companions(
        topology_interval_s=topology_interval_s,
        report_budget_rps=report_budget_rps,
        link_delays=link_delays,
        link_delays_log=link_delays_log,
        link_samples=link_samples,
    )


@dataclass(slots=True)
class RunningCompanions:
    """Those of one keeper."""

    links: LinkWatch
    ports: GnmiPorts
    cabling: CablingWatch | None = None
    sampling: SamplingWatch | None = None
    delays: DelayWatch | None = None
    quiet: QuietLinksFile | None = None
    probes: ProbeSender = field(default_factory=ProbeSender)

    @property
    def all(self) -> list[Companion]:
        """Those that there are, whoever others tell something first."""
        found = (
            self.links,
            self.ports,
            self.cabling,
            self.sampling,
            self.delays,
            self.probes,
        )
        return [one for one in found if one is not None]

    def take(self, switch: str, packet: PacketIn) -> None:
        """A frame that a switch sent to the controller."""
        if self.cabling is not None:
            self.cabling.take(switch, packet)

    @property
    def state(self) -> CompanionState:
        """What they know, for metrics and status."""
        return CompanionState(
            links=self.links.state,
            ports=self.ports.state,
            cabling=None if self.cabling is None else self.cabling.state,
            sampling=None if self.sampling is None else self.sampling.state,
            delays=None if self.delays is None else self.delays.state,
            probes=self.probes.counters,
            busy_links=None if self.quiet is None else self.quiet.busy_count,
        )


def _now_collector_ns() -> int:
    """This machine's clock, which must agree with the collector's to within a second or so."""
    return time.time_ns()
