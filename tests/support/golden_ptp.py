# SPDX-License-Identifier: Apache-2.0
"""A recording whose every number is known: a Sync takes 10 us, its Delay_Req 4 us.

Two leaves, four spines, grandmaster h1 on leaf 1, clients h2 (on leaf 1) and h3 (on leaf 2). No
jitter, no drift; stamps are on the wire. Clocks have epochs of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, permutations
from pathlib import Path

import numpy as np

from controller.fabric import DeviceModel, Fabric, PtpRole
from controller.fabric_defaults import device_models
from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.path_prediction import Header, PathPredictor
from controller.ptp_log import exchange_line, write_ptp_log
from controller.telemetry.frames import PtpAddresses, ptp_delay_req, ptp_sync, roce_frame
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.pcap import write_pcap
from controller.telemetry.report_encode import ReportSpec
from correction.exchange import estimate_offset
from correction.model import StampPoint
from correction.records import EXCHANGE_DTYPE
from tests.support.telemetry_reports import ETHERNET_BYTES, FLOW, POSTCARD_BITS, ReportSender, hop

D_MS_NS, D_SM_NS = 10_000, 4_000
"""One-way delays grandmaster -> h3 and h3 -> grandmaster, NIC to NIC, residence aside."""
A_NS = 3_000
"""Half of their difference."""
THERE, BACK = 1, 2
"""Spines that Syncs to h3 and its Delay_Reqs hash onto."""
RESIDENCE_NS = {"there": (1_000, 2_000, 3_000), "back": (400, 500, 600)}
"""In the three switches of each way; together 6 us and 1.5 us."""
ACCESS_NS = 50
CABLE_NS = {1: 4_950, 2: 1_950, 3: 500, 4: 700}
"""By spine, of both its cables and both directions: 50 + 2 x 4950 + 50 = 10 us, 50 + 2 x 1950 + 50
= 4 us."""
EPOCH_NS = 1_790_000_000_000_000_000
START_NS = 5_000_000_000
"""True time of the first packet."""
WINDOWS = 2
PER_S = 8
"""Exchanges; RoCE packets are 20 a second, way and direction."""


@dataclass(frozen=True, kw_only=True)
class Golden:
    """What may differ; delays stay."""

    theta_ns: int = 0
    """h3's clock less the grandmaster's."""
    transparent: bool = True
    """Switches add their residence to correctionField."""
    cable_ns: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(leaf, spine): towards the spine and away from it, where it is not CABLE_NS."""
    back: int = BACK
    """Spine that Delay_Reqs hash onto."""
    there_later: int = THERE
    """Spine that Syncs hash onto in the second window."""
    delay_by_port: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """(switch, ingress port): what its transparent clock adds to PTP besides residence."""
    silent: tuple[str, ...] = ()
    """Clients whose PTP packets no switch reports."""
    hashed: bool = False
    """The fabric's ECMP seed is one by which everything hashes onto the way that it takes here, and
    there are enough packets to show it."""
    leaves: int = 2
    """With two, a spine has two cables, and which of them is asymmetric cannot be told."""

    def cable(self, leaf: int, spine: int) -> tuple[int, int]:
        """(towards the spine, away from it)."""
        return self.cable_ns.get((leaf, spine), (CABLE_NS[spine], CABLE_NS[spine]))


def golden_fabric(golden: Golden) -> Fabric:
    """As its operator declares it: cables by length, stamp points on the wire."""
    spines = len(CABLE_NS)
    leaves = range(1, golden.leaves + 1)
    lengths = [min(golden.cable(leaf, spine)) / 5.0 for leaf in leaves for spine in CABLE_NS]
    lengths += [ACCESS_NS / 5.0] * (2 * golden.leaves)
    role = PtpRole.TRANSPARENT_CLOCK if golden.transparent else PtpRole.NONE
    models = [_on_the_wire(one) for one in device_models()]
    models[0] = replace(models[0], ptp_role=role)
    fabric = leaf_spine(
        leaves=golden.leaves,
        spines=spines,
        hosts_per_leaf=2,
        lengths_m=lengths,
        models=models,
        name="golden",
    )
    return _seeded(fabric, golden) if golden.hashed else fabric


def _seeded(fabric: Fabric, golden: Golden) -> Fabric:
    """With the first seed that leads both messages of h3 where they go here."""
    h1, h3 = fabric.host("h1").ip, fabric.host("h3").ip
    for seed in range(1_000):
        seeded = replace(fabric, ecmp=replace(fabric.ecmp, seed=seed))
        predictor = PathPredictor(seeded)
        ways = (h1, h3, THERE), (h3, h1, golden.back)
        if all(_spine_of(predictor, src, dst, 319, 319) == spine for src, dst, spine in ways):
            return seeded
    raise AssertionError("no seed leads there")


def _spine_of(
    predictor: PathPredictor, src_ip: int, dst_ip: int, src_port: int, dst_port: int
) -> int:
    path = predictor.path(
        Header(src_ip=src_ip, dst_ip=dst_ip, src_port=src_port, dst_port=dst_port)
    )
    assert path is not None
    return path[1].node_id - 100


def _on_the_wire(model: DeviceModel) -> DeviceModel:
    exact = StampPoint(latency_ns=0, uncertainty_ns=1)
    points = [replace(one, ingress=exact, egress=exact) for one in model.stamp_points]
    return replace(model, stamp_points=tuple(points), stamp_jitter_ns=1)


def write_golden(folder: Path, golden: Golden) -> Fabric:
    """fabric.yaml, reports.pcap and exchanges.jsonl; returns the fabric."""
    fabric = golden_fabric(golden)
    world = _World(fabric, golden)
    for second in range(WINDOWS):
        start = START_NS + second * 10**9
        packets = 65 if golden.hashed else 20
        for number in range(packets):
            world.traffic(start + number * (960_000_000 // packets))
        for number in range(PER_S):
            for client in ("h2", "h3"):
                world.exchange(client, start + number * 120_000_000 + 3_000_000)
    (folder / "fabric.yaml").write_text(dump_fabric(fabric), encoding="utf-8")
    write_pcap(folder / "reports.pcap", sorted(world.frames, key=lambda one: one[0]))
    write_ptp_log(
        folder / "exchanges.jsonl", [exchange_line(row, name) for name, row in world.exchanges]
    )
    return fabric


class _World:
    """Sends packets and keeps what switches and hosts saw of them."""

    def __init__(self, fabric: Fabric, golden: Golden) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.exchanges: list[tuple[str, np.void]] = []
        self._fabric, self._golden = fabric, golden
        self._hosts = {host.name: host for host in fabric.hosts}
        self._sender = ReportSender()
        self._psn = 0
        self._predictor = PathPredictor(fabric)
        self._found_ports: dict[tuple[int, int, int], list[int]] = {}
        self._sequence: dict[str, int] = {}
        # switches have been on for hours, NICs read TAI
        self._epoch = {
            one.node_id: 7_200 * 10**9 * number for number, one in enumerate(fabric.switches, 1)
        }

    def nic_ns(self, host: str, true_ns: int) -> int:
        """What a NIC reads."""
        return EPOCH_NS + true_ns + (self._golden.theta_ns if host == "h3" else 0)

    def traffic(self, true_ns: int) -> None:
        """One RoCE packet over every spine and direction, reported by postcards."""
        for spine in CABLE_NS:
            for src, dst in permutations(range(1, self._golden.leaves + 1), 2):
                ends = self._hosts[f"h{2 * src}"].ip, self._hosts[f"h{2 * dst}"].ip
                for port in self._ports(*ends, spine):
                    self._psn += 1
                    flow = replace(FLOW, src_ip=ends[0], dst_ip=ends[1], src_port=port)
                    packet = roce_frame(flow, psn=self._psn, payload=bytes(64))[ETHERNET_BYTES:]
                    self._walk(packet, true_ns, src, dst, spine, 12, 12, (700, 800, 900))

    def _ports(self, src_ip: int, dst_ip: int, spine: int) -> list[int]:
        """Source ports of the flows over a spine: by the hash, where it decides."""
        if not self._golden.hashed:
            return [50_000 + spine]
        key = src_ip, dst_ip, spine
        if key not in self._found_ports:
            found = (
                port
                for port in range(49_152, 65_536)
                if _spine_of(self._predictor, src_ip, dst_ip, port, 4791) == spine
            )
            self._found_ports[key] = list(islice(found, 2))
        return self._found_ports[key]

    def exchange(self, client: str, true_ns: int) -> None:
        """Sync, Delay_Req, and what the client makes a row of."""
        number = self._sequence[client] = self._sequence.get(client, 0) + 1
        master, host = self._hosts["h1"], self._hosts[client]
        down, up = (
            PtpAddresses(src_mac=one.mac, dst_mac=other.mac, src_ip=one.ip, dst_ip=other.ip)
            for one, other in ((master, host), (host, master))
        )
        sync = ptp_sync(down, domain=0, clock_identity=master.mac, sequence_id=number)
        request = ptp_delay_req(up, domain=0, clock_identity=host.mac, sequence_id=number)
        leaf, port = (1, 12) if client == "h2" else (2, 11)
        there, back = RESIDENCE_NS["there"], RESIDENCE_NS["back"]
        reported = client not in self._golden.silent
        arrived, c1 = self._walk(
            sync[ETHERNET_BYTES:],
            true_ns + ACCESS_NS,
            1,
            leaf,
            THERE if true_ns < START_NS + 10**9 else self._golden.there_later,
            11,
            port,
            there,
            reported=reported,
        )
        sent = true_ns + 500_000
        received, c2 = self._walk(
            request[ETHERNET_BYTES:],
            sent + ACCESS_NS,
            leaf,
            1,
            self._golden.back,
            port,
            11,
            back,
            reported=reported,
        )
        row = np.zeros(1, EXCHANGE_DTYPE)[0]
        row["time_transmitter_ip"], row["client_ip"] = master.ip, host.ip
        row["sync_clock_identity"], row["delay_req_clock_identity"] = master.mac, host.mac
        row["sync_port_number"] = row["delay_req_port_number"] = 1
        row["sync_sequence_id"] = row["delay_req_sequence_id"] = number
        row["t1_reference_ns"] = self.nic_ns("h1", true_ns)
        row["t2_local_ns"] = self.nic_ns(client, arrived + ACCESS_NS)
        row["t3_local_ns"] = self.nic_ns(client, sent)
        row["t4_reference_ns"] = self.nic_ns("h1", received + ACCESS_NS)
        row["c1_ns"], row["c2_ns"] = c1, c2
        self.exchanges.append((client, row))

    def _walk(
        self,
        packet: bytes,
        true_ns: int,
        src_leaf: int,
        dst_leaf: int,
        spine: int,
        in_port: int,
        out_port: int,
        residence_ns: tuple[int, int, int],
        *,
        reported: bool = True,
    ) -> tuple[int, int]:
        """(when the last switch let it go, its correctionField); each switch reports it."""
        if src_leaf == dst_leaf:
            steps = [(src_leaf, in_port, out_port, 0)]
        else:
            steps = [
                (src_leaf, in_port, spine, 0),
                (100 + spine, src_leaf, dst_leaf, self._golden.cable(src_leaf, spine)[0]),
                (dst_leaf, spine, out_port, self._golden.cable(dst_leaf, spine)[1]),
            ]
        correction, reports = 0, []
        for (node_id, into, out, cable_ns), stay_ns in zip(steps, residence_ns, strict=False):
            arrives = true_ns + cable_ns
            true_ns = arrives + stay_ns
            epoch = self._epoch[node_id]
            values = hop(None, into, out, epoch + arrives, epoch + true_ns)
            reports.append((node_id, values))
            if self._golden.transparent:
                correction += stay_ns + self._golden.delay_by_port.get((_name(node_id), into), 0)
        for node_id, values in reports if reported else ():
            self.frames.append((true_ns + 20_000, self._report(node_id, packet, values)))
        return true_ns, correction

    def _report(self, node_id: int, packet: bytes, values: HopMetadata) -> bytes:
        spec = ReportSpec(inner=packet, metadata_bits=POSTCARD_BITS, metadata=values)
        return self._sender.frame(node_id, 1, spec)


def _name(node_id: int) -> str:
    return f"spine{node_id - 100}" if node_id > 100 else f"leaf{node_id}"


def printed_offset_ns(row: np.void, delay_asymmetry_ns: float = 0.0) -> float:
    """What a client prints whose port is configured with `delayAsymmetry`."""
    return estimate_offset(
        t1_reference_ns=int(row["t1_reference_ns"]),
        t2_local_ns=int(row["t2_local_ns"]),
        t3_local_ns=int(row["t3_local_ns"]),
        t4_reference_ns=int(row["t4_reference_ns"]),
        c1_ns=int(row["c1_ns"]),
        c2_ns=int(row["c2_ns"]),
        delay_asymmetry_ns=delay_asymmetry_ns,
    ).offset_ns
