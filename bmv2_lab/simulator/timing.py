# SPDX-License-Identifier: Apache-2.0
"""Who takes the time from whom in a virtual fabric: PTP, boundary clocks, PTM; and their logs."""

from collections.abc import Mapping

import numpy as np

from bmv2_lab.draw import CLIENT_OFFSET_NS_MAX, TAI_EPOCH_NS, DrawnFabric, Stream, stream
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.boundary_clock import (
    BoundaryClockNode,
    as_host,
    neighbour_ports,
    parents,
)
from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_clocks import HostClockReader
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.lab_result import LabResult
from bmv2_lab.simulator.ptm import PtmReader
from bmv2_lab.simulator.ptp import PtpClient, PtpNode, PtpTransmitter
from bmv2_lab.simulator.switch_node import SwitchNode
from controller.fabric import Host
from controller.ptp_log import exchange_line, servo_line
from correction.boundary_clocks import PTP_SUFFIX

PTM_INTERVAL_NS = 100_000_000
BOUNDARY_CLOCK_SETTLES_NS = 500_000_000
"""A boundary clock serves others this long after those above it began to serve it."""


class Timing:
    """All clients, transmitters and readers of one run, started at its beginning."""

    def __init__(
        self,
        engine: Engine,
        scenario: Scenario,
        seed: int,
        drawn: DrawnFabric,
        phcs: Mapping[str, SteeredClock],
        host_nodes: Mapping[str, HostNode],
        switch_nodes: Mapping[str, SwitchNode],
        result: LabResult,
    ) -> None:
        self.clients: dict[str, PtpClient] = {}
        self.transmitter: PtpTransmitter | None = None
        """The grandmaster's, where it serves all clients itself."""
        self.boundary_clocks: dict[str, SteeredClock] = {}
        """PTP clocks of switches that are boundary clocks."""
        self._engine = engine
        self._scenario = scenario
        self._seed = seed
        self._drawn = drawn
        self._phcs = phcs
        self._host_nodes = host_nodes
        self._switch_nodes = switch_nodes
        self._result = result
        self._start_ptp()
        self._start_ptm()
        self.host_clocks: dict[str, HostClockReader] = {}
        """Clocks of hosts that no packet carries, where the scenario has them."""
        self._start_host_clocks()

    def _start_ptp(self) -> None:
        if self._scenario.boundary_clocks:
            self._start_boundary_clocks()
            return
        scenario, ptp = self._scenario, self._drawn.fabric.ptp
        transmitter = self._drawn.fabric.host(ptp.grandmaster)
        clients = tuple(host for host in self._drawn.fabric.hosts if host.name != ptp.grandmaster)
        self.transmitter = self.make_transmitter(
            transmitter, clients, stream(self._seed, Stream.PTP)
        )
        for index, host in enumerate(clients):
            self.clients[host.name] = PtpClient(
                self._engine,
                self._host_nodes[host.name],
                host,
                transmitter,
                ptp,
                dscp=scenario.ptp_dscp,
                interval_ns=scenario.ptp_interval_ns,
                rng=stream(self._seed, Stream.PTP, 1 + index),
                on_exchange=self._exchange_done,
                on_adjust=self.phc_adjusted,
            )

    def _start_ptm(self) -> None:
        for index, host in enumerate(self._drawn.fabric.hosts):
            if host.machine is not None:
                PtmReader(
                    self._engine,
                    host,
                    self._phcs[host.name],
                    self._drawn.oscillators[host.machine],
                    interval_ns=PTM_INTERVAL_NS,
                    nuisance=self._scenario.nuisance,
                    rng=stream(self._seed, Stream.PTM, index),
                    on_stamp=lambda *stamp: self._result.cross_stamps.append(stamp),
                )

    def _start_host_clocks(self) -> None:
        settings = self._scenario.host_clocks
        if settings is None:
            return
        for number, host in enumerate(self._drawn.fabric.hosts):
            self.host_clocks[host.name] = HostClockReader(
                self._engine,
                host,
                self._scenario,
                self._drawn,
                self._phcs,
                seed=self._seed,
                number=number,
                lines=self._result.clock_pair_lines,
            )
        if settings.step_host:
            reader = self.host_clocks[settings.step_host]
            self._engine.at(settings.step_at_ns, reader.set_by, settings.step_ns)

    def _start_boundary_clocks(self) -> None:
        """Each node follows its parent on the grandmaster's tree; a switch serves its children once
        it has had the time to settle."""
        fabric, scenario = self._drawn.fabric, self._scenario
        parent_of = parents(fabric)
        nodes: dict[str, PtpNode] = {**self._host_nodes}
        hosts = {host.name: host for host in fabric.hosts}
        hosts |= {switch.name: as_host(switch) for switch in fabric.switches}
        for switch in fabric.switches:
            points = fabric.model(switch.model).stamp_points_at(scenario.speed_gbps)
            assert points is not None, "the fabric file was checked"
            self.boundary_clocks[switch.name] = phc = SteeredClock(
                self._drawn.oscillators[switch.name]
            )
            rng = stream(self._seed, Stream.PTP, 1_000 + switch.node_id)
            off_ns = int(rng.integers(-CLIENT_OFFSET_NS_MAX, CLIENT_OFFSET_NS_MAX))
            phc.adjust(0, frequency_ppb=0.0, step_ns=TAI_EPOCH_NS + off_ns - phc.read_ns(0))
            nodes[switch.name] = BoundaryClockNode(
                self._engine,
                self._switch_nodes[switch.name],
                switch,
                phc,
                points,
                neighbour_ports(fabric, switch.name),
            )
        for index, (child, parent) in enumerate(parent_of.items()):
            is_host = child in self._host_nodes
            self.clients[child] = PtpClient(
                self._engine,
                nodes[child],
                hosts[child],
                hosts[parent],
                fabric.ptp,
                dscp=scenario.ptp_dscp,
                interval_ns=scenario.ptp_interval_ns,
                rng=stream(self._seed, Stream.PTP, 1 + index),
                on_exchange=self._exchange_done if is_host else self._switch_exchange_done,
                on_adjust=self.phc_adjusted if is_host else self._switch_clock_adjusted,
            )
        for parent in dict.fromkeys(parent_of.values()):
            depth = 0
            above = parent
            while above in parent_of:
                above, depth = parent_of[above], depth + 1
            children = tuple(hosts[name] for name, one in parent_of.items() if one == parent)
            self._engine.at(
                depth * BOUNDARY_CLOCK_SETTLES_NS,
                self._serve_time,
                nodes[parent],
                hosts[parent],
                children,
            )

    def _serve_time(self, node: PtpNode, host: Host, children: tuple[Host, ...]) -> None:
        rng = stream(self._seed, Stream.PTP, 2_000 + host.ip % 1_000)
        self._transmitter_on(node, host, children, rng)

    def make_transmitter(
        self, host: Host, clients: tuple[Host, ...], rng: np.random.Generator
    ) -> PtpTransmitter:
        """A time transmitter on a host, which starts now."""
        return self._transmitter_on(self._host_nodes[host.name], host, clients, rng)

    def _transmitter_on(
        self, node: PtpNode, host: Host, clients: tuple[Host, ...], rng: np.random.Generator
    ) -> PtpTransmitter:
        scenario = self._scenario
        return PtpTransmitter(
            self._engine,
            node,
            host,
            clients,
            self._drawn.fabric.ptp,
            dscp=scenario.ptp_dscp,
            interval_ns=scenario.ptp_interval_ns,
            until_ns=scenario.duration_ns - 100_000_000,
            rng=rng,
        )

    def _exchange_done(self, client: str, row: np.void) -> None:
        self._result.ptp_lines.append(exchange_line(row, client))
        self._result.exchanges.append((client, row))

    def _switch_exchange_done(self, switch: str, row: np.void) -> None:
        self._result.ptp_lines.append(exchange_line(row, switch + PTP_SUFFIX))
        self._result.switch_exchanges.append((switch, row))

    def _switch_clock_adjusted(
        self, switch: str, phc_local_ns: int, step_ns: int, frequency_ppb: float
    ) -> None:
        self.phc_adjusted(switch + PTP_SUFFIX, phc_local_ns, step_ns, frequency_ppb)

    def phc_adjusted(
        self, clock: str, phc_local_ns: int, step_ns: int, frequency_ppb: float
    ) -> None:
        """A clock was adjusted that read `phc_local_ns` just before."""
        self._result.ptp_lines.append(servo_line(clock, phc_local_ns, step_ns, frequency_ppb))
        adjustments = self._result.adjustments.setdefault(clock, [])
        adjustments.append((phc_local_ns, step_ns, frequency_ppb))
