# SPDX-License-Identifier: Apache-2.0
"""The hosts and the collector of a fabric that runs in real time, and what the run leaves.

The same RoCEv2 endpoints and jobs as in the simulator, on raw sockets and the kernel's clock;
exchanges come from ptp4l; report frames are captured at the end of every switch's report port.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from bmv2_lab.backends.network import HOST_INTERFACE, Network
from bmv2_lab.backends.packet_port import PacketPort, open_ports
from bmv2_lab.backends.ptp4l import Ptp4l
from bmv2_lab.backends.ptp_events import ExchangePairing
from bmv2_lab.backends.real_time_engine import RealTimeEngine
from bmv2_lab.backends.real_time_host import RealTimeHost
from bmv2_lab.backends.software_faults import SoftwareFaults
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.backends.variant import MARGIN_NS
from bmv2_lab.draw import DrawnFabric, Stream, stream
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.lab_result import LabResult
from bmv2_lab.simulator.rdma import Transfer
from bmv2_lab.simulator.training_jobs import (
    rdma_hosts,
    ring_jobs,
    schedule_steps,
    transfers_planned,
)
from bmv2_lab.standing_events import standing_events
from bmv2_lab.truth import TrueClockReading, TrueWindow, Truth
from controller.ptp_log import exchange_line


class RealTimeFabric:
    """One run of one scenario on a network that exists."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        drawn: DrawnFabric,
        network: Network,
        time_base: TimeBase,
        *,
        software_scale: int,
    ) -> None:
        """software_scale: injected stalls are so many times the simulator's."""
        self.scenario = scenario
        self.result = LabResult()
        self.truth = Truth(
            scenario=scenario.name,
            seed=seed,
            links=drawn.links,
            events=[*standing_events(scenario, drawn.fabric)],
            rate_offset_ppb={
                **drawn.rate_offset_ppb,
                **{host.name: 0.0 for host in drawn.fabric.hosts},
                "collector": 0.0,
            },
        )
        self.engine = RealTimeEngine(time_base)
        self._seed = seed
        self._fabric = drawn.fabric
        self._time = time_base
        self._oscillators = drawn.oscillators
        self._software_scale = software_scale
        self.on_transmitter: Callable[[str, int], None] | None = None
        """Told of each time transmitter, and when, once its first exchange is complete."""
        self._transmitters: set[int] = set()
        self._loss_rng = stream(seed, Stream.REPORT_LOSS)
        self._ports: list[PacketPort] = []
        self._real_hosts = {
            host.name: self._host(host.name, network) for host in self._fabric.hosts
        }
        self.host_nodes: dict[str, HostNode] = {**self._real_hosts}
        self._capture(network)
        self.endpoints = rdma_hosts(self.engine, scenario, seed, self._fabric, self.host_nodes)
        self.jobs = ring_jobs(self.engine, scenario, seed, self._fabric, self.endpoints)
        self.injector = self._inject()
        schedule_steps(self.jobs, scenario, self.injector.on_transfer)
        for start_ns in scenario.window_starts_ns:
            self.engine.at(start_ns + scenario.window_ns // 2, self._observe_truth)

    def follow(self, daemons: Mapping[str, Ptp4l], transmitters: Sequence[str]) -> None:
        """Log the exchanges that these daemons tell of, with any of these time transmitters."""
        hosts = [self._fabric.host(name) for name in transmitters]
        for daemon in daemons.values():
            pairing = ExchangePairing(daemon.host, hosts, self._fabric.ptp)
            self.engine.add_reader(daemon, partial(self._events, daemon, pairing))

    def run(self, on_progress: Callable[[int], None] | None = None) -> None:
        """Run the scenario to its end."""
        self.engine.run(self.scenario.duration_ns, on_progress)
        self.truth.faults = [fault for fault, _, _, _ in self.injector.faults]
        self.result.reports.sort(key=lambda captured: captured[0])

    def host_nodes_of(self, tenant: str) -> list[HostNode]:
        """The tenant's hosts, in the order of the fabric."""
        return [self.host_nodes[host.name] for host in self._fabric.hosts if host.tenant == tenant]

    @property
    def transfers(self) -> list[Transfer]:
        """All messages of all jobs."""
        return [
            transfer
            for job in self.jobs
            for step in job.steps
            for rank in step.ranks
            for transfer in rank.transfers
        ]

    @property
    def transmit_stamps_lost(self) -> int:
        """Frames of hosts whose transmit stamp never came."""
        return sum(node.stamps_lost for node in self._real_hosts.values())

    def close(self) -> None:
        """Close the sockets."""
        for port in self._ports:
            port.close()

    def _host(self, name: str, network: Network) -> RealTimeHost:
        port = network.hosts[name].call(lambda: PacketPort(HOST_INTERFACE, transmit_stamps=True))
        self._ports.append(port)
        clock = Oscillator(
            np.random.default_rng(0),
            epoch_ns=self._time.start_realtime_ns,
            rate_offset_ppb=0.0,
            wander_ns_per_s_sqrt_s=0.0,
            duration_ns=self.scenario.duration_ns + MARGIN_NS,
        )
        return RealTimeHost(self.engine, name, SteeredClock(clock), self._time, port)

    def _capture(self, network: Network) -> None:
        names = [one.capture for one in network.interfaces.captures.values()]
        for port in open_ports(network.namespace, names).values():
            self._ports.append(port)
            self.engine.add_reader(port, partial(self._reports, port))

    def _reports(self, port: PacketPort) -> None:
        while (received := port.receive()) is not None:
            self.result.reports_sent += 1
            if self._loss_rng.random() < self.scenario.report_loss_share:
                self.result.reports_lost += 1
                continue
            self.result.reports.append((received.stamp_ns, received.frame))

    def _events(self, daemon: Ptp4l, pairing: ExchangePairing) -> None:
        for event in daemon.events():
            row = pairing.feed(event)
            if row is not None:
                self._tell_transmitter(int(row["time_transmitter_ip"]))
                self.result.ptp_lines.append(exchange_line(row, daemon.host.name))
                self.result.exchanges.append((daemon.host.name, row))

    def _tell_transmitter(self, ip: int) -> None:
        if ip in self._transmitters:
            return
        self._transmitters.add(ip)
        name = next(host.name for host in self._fabric.hosts if host.ip == ip)
        if self.on_transmitter is not None:
            self.on_transmitter(name, self.engine.now_ns)

    def _inject(self) -> SoftwareFaults:
        return SoftwareFaults(
            self.engine,
            self.scenario,
            self._fabric,
            self._software_scale,
            transfers_planned=transfers_planned(self.scenario, self._fabric),
            rng=stream(self._seed, Stream.FAULTS),
        )

    def _observe_truth(self) -> None:
        now_ns = self.engine.now_ns
        reference_ns = self._time.start_realtime_ns + now_ns
        readings = [
            TrueClockReading(clock=host.name, local_ns=reference_ns, offset_ns=0.0)
            for host in self._fabric.hosts
        ]
        for switch in self._fabric.switches:
            local_ns = self._oscillators[switch.name].read_ns(now_ns)
            readings.append(TrueClockReading(clock=switch.name, local_ns=local_ns, offset_ns=None))
        self.truth.windows.append(
            TrueWindow(centre_true_ns=now_ns, reference_ns=reference_ns, clocks=tuple(readings))
        )
