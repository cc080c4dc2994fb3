# SPDX-License-Identifier: Apache-2.0
"""Figures of a finished run's telemetry, held against its truth: what scenarios' limits measure.
Those of the engine's answers are in `estimates`.

Stamps of switches are put on true time by the drawn oscillators, which no estimator can do. What is
left of a link sample then is the link itself.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.estimates import Estimates
from bmv2_lab.fabric_of import inner_links
from bmv2_lab.lab_run import LabRun
from bmv2_lab.simulator.lab_result import LabResult
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from bmv2_lab.truth import TrueEvent, Truth
from controller.fabric import Fabric, LinkEnd
from controller.fabric_model import fabric_model
from controller.ptp_entries import SCALED_PER_NS, residence_offset_scaled
from controller.telemetry.collector import Collection, collect
from controller.telemetry.frames import BthOpcode
from correction.links import link_samples
from correction.model import FabricModel
from correction.prepare import declared_delay_ns
from correction.records import (
    EXCHANGE_DTYPE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
    Hops,
    LinkSamples,
    Packets,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

STAMP_PERIOD_NS = 1 << 48
"""Switch stamps are 48 bits. The collector unwraps them; a clock that starts anew may look to it as
if it had wrapped."""


class Flow(NamedTuple):
    """One direction of a queue pair, whatever its UDP source ports."""

    src_ip: int
    dst_ip: int
    dest_qp: int
    is_data: bool


class FoundCorrection(NamedTuple):
    """One message's correctionField, less what its reported hops and declared offsets explain."""

    switches: tuple[str, ...]
    unexplained_ns: float


class Evidence:
    """One run, as its scenario's limits look at it."""

    def __init__(self, run: LabRun, estimates: Estimates | None = None) -> None:
        """`estimates`: what the engine made of the run's files, for limits on that."""
        self.run = run
        self._estimates = estimates
        self.fabric: Fabric = run.drawn.fabric
        self.truth: Truth = run.lab.truth
        self.result: LabResult = run.lab.result
        self.model: FabricModel = fabric_model(self.fabric)

    @property
    def estimates(self) -> Estimates:
        """What the engine made of the run's files."""
        assert self._estimates is not None, "looked at without estimates"
        return self._estimates

    @property
    def lab(self) -> VirtualFabric:
        """The fabric of a run in virtual time."""
        assert isinstance(self.run.lab, VirtualFabric), "only virtual time has these figures"
        return self.run.lab

    @cached_property
    def collection(self) -> Collection:
        """What the collector makes of the reports."""
        return collect(self.result.reports, self.fabric)

    @property
    def packets(self) -> Packets:
        """Joined packets."""
        return self.collection.packets

    @property
    def hops(self) -> Hops:
        """All hops, packet by packet."""
        return self.collection.hops

    @cached_property
    def packet_of_hop(self) -> NDArray[np.int64]:
        """Row of `packets` for every row of `hops`."""
        rows = np.full(len(self.hops), -1, np.int64)
        for index, packet in enumerate(self.packets):
            first = int(packet["first_hop"])
            rows[first : first + int(packet["hop_count"])] = index
        return rows

    @cached_property
    def samples(self) -> LinkSamples:
        """Link samples between switches."""
        none = np.zeros(0, EXCHANGE_DTYPE)
        return link_samples(self.packets, self.hops, none, self.model)[0]

    def events(self, kind: str) -> list[TrueEvent]:
        """True events of a kind."""
        return [event for event in self.truth.events if event.kind == kind]

    # Clocks and links

    def true_ns(self, clock: str, local_ns: NDArray[np.int64]) -> Floats:
        """True instants of a free-running clock's readings."""
        return self.run.drawn.oscillators[clock].true_of_ns(local_ns % STAMP_PERIOD_NS)

    @cached_property
    def hop_ingress_true_ns(self) -> Floats:
        """True instant of every hop's ingress stamp."""
        found = np.full(len(self.hops), np.nan)
        for switch in self.fabric.switches:
            mine = self.hops["node_id"] == switch.node_id
            found[mine] = self.true_ns(switch.name, self.hops["ingress_tstamp_local_ns"][mine])
        return found

    def one_way_ns(self, link: int, *, reverse: bool) -> Floats:
        """Delays of one directed link between switches, less what its stamp points declare."""
        samples = self.samples
        mine = samples[(samples["link"] == link) & (samples["reverse"] == reverse)]
        model_link = self.model.links[link]
        ends = (model_link.b, model_link.a) if reverse else (model_link.a, model_link.b)
        sender, receiver = (self.model.clocks[end].name for end in ends)
        sent_ns = self.true_ns(sender, mine["egress_local_ns"])
        arrived_ns = self.true_ns(receiver, mine["ingress_local_ns"])
        frame_bytes = mine["frame_bytes"].astype(np.float64)
        declared_ns = declared_delay_ns(model_link, reverse=reverse, frame_bytes=frame_bytes)
        delays: Floats = arrived_ns - sent_ns - declared_ns
        return delays

    @cached_property
    def measured_a_ns(self) -> Mapping[str, float]:
        """By name of link between switches, half its one-way difference on true clocks."""
        found = {}
        for index in inner_links(self.fabric):
            there = self.one_way_ns(index, reverse=False)
            back = self.one_way_ns(index, reverse=True)
            if len(there) and len(back):
                found[self.fabric.links[index].name] = float(
                    (np.median(there) - np.median(back)) / 2
                )
        return found

    def true_a_ns(self, name: str) -> float:
        """a_uv of a link by the truth, stamp points included."""
        index = next(i for i, link in enumerate(self.fabric.links) if link.name == name)
        link, true_link = self.fabric.links[index], self.truth.links[index]
        a, b = (self._stamp_error_ns(end, link.speed_gbps) for end in (link.a, link.b))
        # a -> b passes the egress point of a and the ingress point of b
        return true_link.asymmetry_ns + ((a[1] + b[0]) - (b[1] + a[0])) / 2

    def _stamp_error_ns(self, end: LinkEnd, speed_gbps: int) -> tuple[float, float]:
        """True less declared latencies of a port: ingress, egress."""
        nodes = {node.name: node for node in self.fabric.nodes}
        points = self.fabric.model(nodes[end.node].model).stamp_points_at(speed_gbps)
        assert points is not None, "the fabric file was checked"
        true_point = self.run.drawn.stamp_points[end]
        return (
            float(true_point.ingress_ns - points.ingress.latency_ns),
            float(true_point.egress_ns - points.egress.latency_ns),
        )

    def stamp_jumps_ns(self, switch: str) -> tuple[Floats, Floats]:
        """Of samples that arrive at a switch: when they were sent, and by how much more than before
        everything its clock had advanced, link delay included."""
        oscillator = self.run.drawn.oscillators[switch]
        samples = self.samples
        times: list[Floats] = []
        ahead: list[Floats] = []
        for index in inner_links(self.fabric):
            link = self.model.links[index]
            for reverse, (sender, receiver) in (
                (False, (link.a, link.b)),
                (True, (link.b, link.a)),
            ):
                if self.model.clocks[receiver].name != switch:
                    continue
                mine = samples[(samples["link"] == index) & (samples["reverse"] == reverse)]
                sent_ns = self.true_ns(self.model.clocks[sender].name, mine["egress_local_ns"])
                stamps = mine["ingress_local_ns"] % STAMP_PERIOD_NS
                times.append(sent_ns)
                ahead.append(stamps - oscillator.epoch_ns - oscillator.elapsed_of_ns(sent_ns))
        return np.concatenate(times), np.concatenate(ahead)

    # Hops

    def at(self, end: LinkEnd | None = None, *, node: str = "", traffic: int = 0) -> Bools:
        """Hops that leave by a port, or pass a switch, of one kind of traffic or all."""
        hops = self.hops
        chosen: Bools = np.ones(len(hops), bool)
        name = node if end is None else end.node
        if name:
            chosen &= hops["node_id"] == self.fabric.switch(name).node_id
        if end is not None:
            chosen &= hops["egress_port"] == end.port
        if traffic:
            chosen &= self.packets["traffic"][self.packet_of_hop] == traffic
        return chosen

    @cached_property
    def residence_ns(self) -> Floats:
        """Egress less ingress stamp of every hop."""
        hops = self.hops
        unit_ns: Floats = (hops["egress_tstamp_local_ns"] - hops["ingress_tstamp_local_ns"]).astype(
            np.float64
        )
        return unit_ns

    def ports_to(self, host: str) -> tuple[LinkEnd, ...]:
        """Switch ports that lead to a host."""
        ends = [(link.a, link.b) for link in self.fabric.links]
        ends += [(b, a) for a, b in ends]
        return tuple(near for near, far in ends if far.node == host)

    def spine_of(self, chosen: Bools | None = None) -> NDArray[np.int64]:
        """Node id of the second hop of every RoCE packet of three hops (with `chosen`, of some)."""
        packets = self.packets
        mine = (packets["traffic"] == TRAFFIC_ROCE) & (packets["hop_count"] == 3)
        if chosen is not None:
            mine &= chosen
        nodes: NDArray[np.int64] = self.hops["node_id"][packets["first_hop"][mine] + 1].astype(
            np.int64
        )
        return nodes

    def spines_of_flows(
        self, from_true_ns: float = 0.0, to_true_ns: float = np.inf
    ) -> dict[Flow, frozenset[int]]:
        """Node ids of the second of three hops that each flow used in a span of true time."""
        packets = self.packets
        sent_ns = self.hop_ingress_true_ns[packets["first_hop"]]
        chosen = (packets["traffic"] == TRAFFIC_ROCE) & (packets["hop_count"] == 3)
        chosen &= (sent_ns >= from_true_ns) & (sent_ns < to_true_ns)
        found: dict[Flow, set[int]] = {}
        for packet in packets[chosen]:
            flow = Flow(
                src_ip=int(packet["src_ip"]),
                dst_ip=int(packet["dst_ip"]),
                dest_qp=int(packet["dest_qp"]),
                is_data=int(packet["bth_opcode"]) != BthOpcode.ACKNOWLEDGE,
            )
            spine = int(self.hops["node_id"][packet["first_hop"] + 1])
            found.setdefault(flow, set()).add(spine)
        return {flow: frozenset(spines) for flow, spines in found.items()}

    # PTP

    @cached_property
    def corrections(self) -> tuple[FoundCorrection, ...]:
        """The correctionFields of all exchanges whose packets every switch reported."""
        packets = self.packets[self.packets["traffic"] == TRAFFIC_PTP]
        by_key = {
            (
                int(packet["ptp_message_type"]),
                int(packet["ptp_clock_identity"]),
                int(packet["ptp_sequence_id"]),
                int(packet["dst_ip"]),
            ): packet
            for packet in packets
        }
        names = {switch.node_id: switch.name for switch in self.fabric.switches}
        offsets_ns = {
            switch.node_id: residence_offset_scaled(self.fabric, switch) / SCALED_PER_NS
            for switch in self.fabric.switches
        }
        found = []
        for _, row in self.result.exchanges:
            for kind, message, to, correction in (
                (0, "sync", "client_ip", "c1_ns"),
                (1, "delay_req", "time_transmitter_ip", "c2_ns"),
            ):
                packet = by_key.get(
                    (
                        kind,
                        int(row[f"{message}_clock_identity"]),
                        int(row[f"{message}_sequence_id"]),
                        int(row[to]),
                    )
                )
                if packet is None or not packet["complete"]:
                    continue
                first, count = int(packet["first_hop"]), int(packet["hop_count"])
                nodes = self.hops["node_id"][first : first + count].tolist()
                explained_ns = float(self.residence_ns[first : first + count].sum())
                explained_ns += sum(offsets_ns[node] for node in nodes)
                found.append(
                    FoundCorrection(
                        switches=tuple(names[node] for node in nodes),
                        unexplained_ns=int(row[correction]) - explained_ns,
                    )
                )
        return tuple(found)

    def access_ends(self, message_type: int) -> dict[str, frozenset[LinkEnd]]:
        """By client, the ports of last switches that its PTP messages of a type passed: on their
        way to it (0, Sync) or from it (1, Delay_Req)."""
        packets, hops = self.packets, self.hops
        names = {switch.node_id: switch.name for switch in self.fabric.switches}
        found: dict[str, set[LinkEnd]] = {}
        chosen = (packets["traffic"] == TRAFFIC_PTP) & (packets["ptp_message_type"] == message_type)
        to_client = message_type == 0
        for packet in packets[chosen]:
            ip = int(packet["dst_ip" if to_client else "src_ip"])
            host = next((host.name for host in self.fabric.hosts if host.ip == ip), None)
            if host is None:
                continue
            first = int(packet["first_hop"])
            hop = hops[first + int(packet["hop_count"]) - 1] if to_client else hops[first]
            port = int(hop["egress_port" if to_client else "ingress_port"])
            end = LinkEnd(node=names[int(hop["node_id"])], port=port)
            found.setdefault(host, set()).add(end)
        return {host: frozenset(ends) for host, ends in found.items()}

    def ptp_residence_ns(self, chosen: Bools) -> Floats:
        """Residence of PTP packets at the chosen hops."""
        ptp = self.packets["traffic"][self.packet_of_hop] == TRAFFIC_PTP
        found: Floats = self.residence_ns[chosen & ptp]
        return found


Measure = Callable[[Evidence], float]
