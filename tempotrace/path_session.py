# SPDX-License-Identifier: Apache-2.0
"""Answers about paths from one recording, as `tempotrace correct paths` asks for them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.fabric import PTP_EVENT_UDP_PORT, ROCE_UDP_PORT
from controller.path_prediction import HashCheck, PathPredictor, check_hash
from controller.ptp_paths import Choice, ptp_candidates, rank_choices, roce_candidates
from correction.association_delays import Association, associations
from correction.flow_delays import FlowDelay, FlowDelays, FlowShift
from correction.flow_paths import Flow, FlowPaths, Path, PathChange, PathHop
from correction.link_delays import LinkDelays, link_delays
from correction.path_delays import PTP_EVENT_BYTES, port_delays
from correction.records import Packets
from correction.residences import Residence, residences_of_packets
from correction.timebase import Bools
from tempotrace.analysis import Analysis
from tempotrace.errors import InputError
from tempotrace.left_out import rejected_document
from tempotrace.path_documents import PathDocuments, hash_document

PATHS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PtpFreedom:
    """What a PTP association may use instead of its declared addresses and port 319."""

    client_addresses: tuple[int, ...] = ()
    reference_addresses: tuple[int, ...] = ()
    client_ports: range | None = None
    flow_labels: range | None = None
    """With IPv6."""


class PathSession:
    """One recording with everything that questions about paths need."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._delays: LinkDelays = link_delays(analysis.solution)
        self.documents = PathDocuments(self._delays)
        self._paths = FlowPaths()
        packets, hops = analysis.collection.packets, analysis.collection.hops
        self.changes: list[PathChange] = self._paths.add(packets, hops)
        self._predictor = PathPredictor(analysis.fabric)
        self.check: HashCheck = check_hash(self._predictor, self._paths)
        self._predict = self._predictor.path_of if self.check.trusted else None

    def associations(self, client: str | None) -> tuple[Association, ...]:
        """Of all clients, or of one."""
        collection = self._analysis.collection
        found = associations(
            collection.packets,
            collection.hops,
            self._analysis.ptp_log.exchanges,
            self._delays,
            injected=self._analysis.injected,
            predict=self._predict,
        )
        if client is None:
            return found
        mine = tuple(one for one in found if self.documents.clock(one.client) == client)
        if not mine:
            raise InputError(f"correct paths: --ptp {client}: no exchange names this client")
        return mine

    def flow(self, wanted: Flow) -> FlowDelay:
        """The flow with these addresses and ports; of several queue pairs the most used."""
        same = [flow for flow in self._paths.flows() if flow[1:5] == wanted[1:5]]
        flow = max(same, key=self._packets_of, default=wanted)
        packets = self._analysis.collection.packets
        sizes = packets[_of_flow(packets, flow)]["wire_bytes"]
        service = FlowDelays(
            self._delays,
            self._paths,
            residences=self._residences,
            predict=self._predict,
            frame_bytes=float(np.median(sizes)) if len(sizes) else PTP_EVENT_BYTES,
        )
        return service.of(flow)

    def shifts(self, changes: list[PathChange]) -> tuple[FlowShift, ...]:
        """What changes of path did."""
        return FlowDelays(self._delays, self._paths, predict=self._predict).shifts(changes)

    def roce_choices(self, wanted: Flow) -> tuple[Choice, ...]:
        """Source ports."""
        if wanted.dst_port != ROCE_UDP_PORT:
            raise InputError("correct paths: --choices: only a RoCEv2 flow can choose its port")
        names = {host.ip: host.name for host in self._analysis.fabric.hosts}
        ends = [names.get(ip) for ip in (wanted.src_ip, wanted.dst_ip)]
        source, destination = ends
        if source is None or destination is None:
            raise InputError("correct paths: --choices: both ends must be declared hosts")
        fabric = self._analysis.fabric
        candidates = roce_candidates(fabric, source, destination)
        return rank_choices(candidates, fabric, self._predictor, self._delays)

    def ptp_choices(self, client: str, free: PtpFreedom) -> tuple[Choice, ...]:
        """What leads elsewhere; ports beside 319."""
        fabric = self._analysis.fabric
        for name in (fabric.ptp.grandmaster, client) if free.flow_labels is not None else ():
            if fabric.host(name).ipv6 is None:
                raise InputError(f"correct paths: --flow-labels: {name} has no IPv6 address")
        ports = (PTP_EVENT_UDP_PORT, *(free.client_ports or ()))
        candidates = ptp_candidates(
            fabric,
            client,
            client_addresses=free.client_addresses,
            reference_addresses=free.reference_addresses,
            client_ports=dict.fromkeys(ports),
            flow_labels=free.flow_labels,
        )
        return rank_choices(candidates, fabric, self._predictor, self._delays)

    def document(
        self,
        *,
        clients: tuple[Association, ...] = (),
        flows: list[dict[str, Any]] | None = None,
        shifts: tuple[FlowShift, ...] = (),
        ranked: tuple[Choice, ...] = (),
    ) -> dict[str, Any]:
        """Everything as JSON values."""
        return {
            "version": PATHS_VERSION,
            "prior": self._analysis.solution.prior,
            "hash_model": hash_document(self.check),
            "associations": [self.documents.association(one) for one in clients],
            "flows": flows or [],
            "changes": [self.documents.shift(one) for one in shifts],
            "choices": self.documents.choices(ranked),
            "links": [self.documents.link(part) for part in port_delays(self._delays)],
            "rejected": rejected_document(self._analysis),
        }

    def _packets_of(self, flow: Flow) -> int:
        return sum(use.packets for use in self._paths.paths_of(flow))

    def _residences(self, flow: Flow, path: Path) -> tuple[Residence, ...]:
        packets, hops = self._analysis.collection.packets, self._analysis.collection.hops
        mine = packets[
            _of_flow(packets, flow) & packets["complete"] & (packets["hop_count"] == len(path))
        ]
        if not len(mine):
            return ()
        index = mine["first_hop"][:, None] + np.arange(len(path))
        here = np.ones(len(mine), np.bool_)
        for name in PathHop._fields:
            expected = np.array([getattr(hop, name) for hop in path])
            here &= (hops[name][index] == expected).all(axis=1)
        return residences_of_packets(mine[here], hops, self._delays) if here.any() else ()


def _of_flow(packets: Packets, flow: Flow) -> Bools:
    mine = np.ones(len(packets), np.bool_)
    for name, value in flow._asdict().items():
        mine &= packets[name] == value
    return mine
