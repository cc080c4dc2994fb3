# SPDX-License-Identifier: Apache-2.0
"""Assembles a drawn fabric: switches, hosts, cables, PTP, jobs, faults; runs it; keeps the results.

The switches are handed in, programmed by the controller over P4Runtime. What the run leaves is what
a real fabric would: report frames with capture times, PTP logs, spans' stamps; plus the truth.
"""

from collections.abc import Callable

from bmv2_lab.draw import DrawnFabric, Stream, stream
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.background import BackgroundLoad
from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.egress_port import EgressPort
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.faults import FaultInjector
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.lab_result import HostClockReading, LabResult
from bmv2_lab.simulator.lossless_port import LosslessPort
from bmv2_lab.simulator.pfc import LOSSLESS_QUEUE, REACTION_NS, PfcAccount
from bmv2_lab.simulator.switch_node import INGRESS_PROCESSING_NS, SwitchNode
from bmv2_lab.simulator.timing import Timing
from bmv2_lab.simulator.training_jobs import (
    rdma_hosts,
    ring_jobs,
    schedule_steps,
    transfers_planned,
)
from bmv2_lab.simulator.wire import Receive, Wire
from bmv2_lab.standing_events import standing_events
from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.truth import TrueClockReading, TrueWindow, Truth
from controller.fabric import Link, LinkEnd, cabling
from controller.routing import collector_ports

OBSERVE_NS = 50_000_000
"""Between two looks at all clocks for scoring."""
BPS_PER_GBPS = 1_000_000_000


class VirtualFabric:
    """One run of one scenario."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        drawn: DrawnFabric,
        switches: dict[str, EmbeddedSwitch],
    ) -> None:
        self.scenario = scenario
        self.result = LabResult()
        self.truth = Truth(
            scenario=scenario.name,
            seed=seed,
            links=drawn.links,
            rate_offset_ppb=drawn.rate_offset_ppb,
            events=[*standing_events(scenario, drawn.fabric)],
        )
        self._seed = seed
        self._drawn = drawn
        self._fabric = drawn.fabric
        self.engine = Engine()
        self._report_rng = stream(seed, Stream.REPORTS)
        self._loss_rng = stream(seed, Stream.REPORT_LOSS)
        self.phcs = {
            host.name: SteeredClock(drawn.oscillators[host.name]) for host in self._fabric.hosts
        }
        self.switch_nodes = self._make_switches(switches)
        line_rate_bps = scenario.speed_gbps * BPS_PER_GBPS
        self.host_nodes = {
            host.name: HostNode(self.engine, host.name, self.phcs[host.name], line_rate_bps)
            for host in self._fabric.hosts
        }
        self.wires: dict[LinkEnd, Wire] = {}
        """By sending end."""
        self.lossless_ports: dict[LinkEnd, LosslessPort] = {}
        """By sending end, where RoCE is lossless."""
        self._cable()
        self._start_pfc()
        self.timing = Timing(
            self.engine,
            scenario,
            seed,
            drawn,
            self.phcs,
            self.host_nodes,
            self.switch_nodes,
            self.result,
        )
        self.endpoints = rdma_hosts(
            self.engine,
            scenario,
            seed,
            self._fabric,
            self.host_nodes,
            line_rate_bps=line_rate_bps if scenario.lossless is not None else None,
        )
        self.jobs = ring_jobs(self.engine, scenario, seed, self._fabric, self.endpoints)
        self.injector = self._inject()
        schedule_steps(self.jobs, scenario, self.injector.on_transfer)
        for start_ns in scenario.window_starts_ns:
            self.engine.at(start_ns + scenario.window_ns // 2, self._observe_centre)
        if scenario.estimate_limits:
            for at_ns in range(OBSERVE_NS, scenario.duration_ns, OBSERVE_NS):
                self.engine.at(at_ns, self._observe_clocks)

    def run(self, on_progress: Callable[[int], None] | None = None) -> None:
        """Run the scenario to its end, on from where `run_until` left it."""
        self.run_until(self.scenario.duration_ns, on_progress)
        self.truth.faults = [fault for fault, _, _, _ in self.injector.faults]

    def run_until(self, until_ns: int, on_progress: Callable[[int], None] | None = None) -> None:
        """Run up to a true instant; between two calls a controller may write to the switches."""
        self.engine.run(until_ns, on_progress)

    def packet_out(self, switch: str, frame: bytes, at_ns: int) -> None:
        """Have a frame, `packet_out` header first, enter a switch's CPU port at a true instant."""
        self.engine.at(at_ns, self.switch_nodes[switch].packet_out, frame)

    def set_cable(self, link: Link, up: bool) -> None:
        """A cable carries frames from now on, or loses them; both its ends notice at once."""
        for end in (link.a, link.b):
            self.wires[end].down = not up
            self.set_port(end, up)

    def set_port(self, end: LinkEnd, up: bool) -> None:
        """A port has a signal from now on, or has none; a switch tells what watches the port."""
        if end.node in self.switch_nodes:
            self.switch_nodes[end.node].switch.set_port(end.port, up=up)

    def collector_now_ns(self) -> int:
        """What the collector's own clock reads now."""
        return self._drawn.oscillators["collector"].read_ns(self.engine.now_ns)

    def host_nodes_of(self, tenant: str) -> list[HostNode]:
        """The tenant's hosts, in the order of the fabric."""
        return [self.host_nodes[host.name] for host in self._fabric.hosts if host.tenant == tenant]

    def _make_switches(self, switches: dict[str, EmbeddedSwitch]) -> dict[str, SwitchNode]:
        return {
            switch.name: SwitchNode(
                self.engine,
                switch.name,
                switches[switch.name],
                self._drawn.oscillators[switch.name],
                stamp_unit_ns=self._fabric.model(switch.model).stamp_unit_ns,
                report_ports=collector_ports(self._fabric, switch),
                on_report=self._report_sent,
                on_cpu=self._cpu_frame,
            )
            for switch in self._fabric.switches
        }

    def _cable(self) -> None:
        for index, (link, true_link) in enumerate(
            zip(self._fabric.links, self._drawn.links, strict=True)
        ):
            self._cable_direction(2 * index, link.a, link.b, true_link.a_to_b_ns, link.speed_gbps)
            self._cable_direction(
                2 * index + 1, link.b, link.a, true_link.b_to_a_ns, link.speed_gbps
            )

    def _cable_direction(
        self, index: int, sender: LinkEnd, receiver: LinkEnd, delay_ns: int, speed_gbps: int
    ) -> None:
        nuisance = self.scenario.nuisance
        rate_bps = speed_gbps * BPS_PER_GBPS
        receive, processing_ns, model_name = self._receiver(receiver)
        points = self._fabric.model(model_name).stamp_points_at(speed_gbps)
        assert points is not None, "the fabric file was checked"
        wire = Wire(
            self.engine,
            stream(self._seed, Stream.JITTER, index),
            delay_ns=delay_ns,
            egress_latency_ns=self._drawn.stamp_points[sender].egress_ns,
            ingress_latency_ns=self._drawn.stamp_points[receiver].ingress_ns,
            ingress_at_frame_end=points.ingress.at_frame_end,
            rate_bps=rate_bps,
            jitter_mean_ns=nuisance.egress_jitter_mean_ns,
            jitter_max_ns=nuisance.egress_jitter_max_ns,
            peer_port=receiver.port,
            peer_processing_ns=processing_ns,
            receive=receive,
        )
        self.wires[sender] = wire
        lossless = self.scenario.lossless is not None
        port = LosslessPort(self.engine, rate_bps) if lossless else None
        if port is not None:
            self.lossless_ports[sender] = port
        if sender.node in self.host_nodes:
            self.host_nodes[sender.node].attach(wire, port)
            return
        if port is not None:
            self.switch_nodes[sender.node].attach(sender.port, port, wire)
            return
        background = {
            queue_id: BackgroundLoad(
                stream(self._seed, Stream.BACKGROUND, 8 * index + queue_id), load, rate_bps
            )
            for queue_id, load in self._drawn.loads.get(sender, {}).items()
        }
        self.switch_nodes[sender.node].attach(
            sender.port, EgressPort(self.engine, rate_bps, background), wire
        )

    def _start_pfc(self) -> None:
        lossless = self.scenario.lossless
        if lossless is None:
            return
        peers = cabling(self._fabric)
        delays_ns = {}
        for link, true_link in zip(self._fabric.links, self._drawn.links, strict=True):
            delays_ns[link.a], delays_ns[link.b] = true_link.a_to_b_ns, true_link.b_to_a_ns
        for name, node in self.switch_nodes.items():

            def send_pause(port: int, paused: bool, name: str = name) -> None:
                near = LinkEnd(node=name, port=port)
                at_ns = self.engine.now_ns + delays_ns[near] + REACTION_NS
                self.engine.at(at_ns, self.pause, peers[near], paused)

            node.pfc = PfcAccount(
                xoff_bytes=lossless.xoff_bytes,
                xon_bytes=lossless.xon_bytes,
                send_pause=send_pause,
            )

    def pause(self, sender: LinkEnd, paused: bool) -> None:
        """The peer of a sending end says XOFF or XON for the RoCE class."""
        self.result.pauses.append((self.engine.now_ns, sender, paused))
        self.lossless_ports[sender].pause(LOSSLESS_QUEUE, paused)

    def _receiver(self, end: LinkEnd) -> tuple[Receive, int, str]:
        if end.node in self.host_nodes:
            return self.host_nodes[end.node].receive, 0, self._fabric.host(end.node).model
        node = self.switch_nodes[end.node]
        return node.receive, INGRESS_PROCESSING_NS, self._fabric.switch(end.node).model

    def _inject(self) -> FaultInjector:
        return FaultInjector(
            self.engine,
            self.scenario,
            self._fabric,
            self.switch_nodes,
            transfers_planned=transfers_planned(self.scenario, self._fabric),
            rng=stream(self._seed, Stream.FAULTS),
        )

    def _report_sent(self, frame: bytes) -> None:
        nuisance = self.scenario.nuisance
        jitter_ns = round(self._report_rng.exponential(nuisance.report_jitter_mean_ns))
        arrival_ns = self.engine.now_ns + nuisance.report_latency_ns + jitter_ns
        self.result.reports_sent += 1
        if self._loss_rng.random() < self.scenario.report_loss_share:
            self.result.reports_lost += 1
            return
        self.engine.at(arrival_ns, self._report_arrived, frame)

    def _report_arrived(self, frame: bytes) -> None:
        self.result.reports.append((self.collector_now_ns(), frame))

    def _cpu_frame(self, _frame: bytes) -> None:
        self.result.cpu_frames += 1

    def _observe_centre(self) -> None:
        self.truth.windows.append(self._all_clocks())

    def _observe_clocks(self) -> None:
        self.result.observed.append(self._all_clocks())
        reference_ns = self.result.observed[-1].reference_ns
        for reader in self.timing.host_clocks.values():
            for clock, local_ns in reader.readings():
                self.result.host_clocks_observed.append(
                    HostClockReading(clock=clock, local_ns=local_ns, reference_ns=reference_ns)
                )

    def _all_clocks(self) -> TrueWindow:
        now_ns = self.engine.now_ns
        reference = self.phcs[self._fabric.ptp.grandmaster]
        reference_ns = reference.read_ns(now_ns)
        readings = [
            TrueClockReading(
                clock=name,
                local_ns=phc.read_ns(now_ns),
                offset_ns=phc.offset_from_ns(reference, now_ns),
            )
            for name, phc in self.phcs.items()
        ]
        for name, node in self.switch_nodes.items():
            local_ns = node.oscillator.read_ns(now_ns)
            readings.append(TrueClockReading(clock=name, local_ns=local_ns, offset_ns=None))
        for name, clock in self.timing.boundary_clocks.items():
            local_ns = clock.read_ns(now_ns)
            readings.append(
                TrueClockReading(clock=f"{name}/ptp", local_ns=local_ns, offset_ns=None)
            )
        return TrueWindow(centre_true_ns=now_ns, reference_ns=reference_ns, clocks=tuple(readings))
