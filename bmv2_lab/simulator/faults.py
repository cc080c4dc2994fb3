# SPDX-License-Identifier: Apache-2.0
"""Injected slow transfers: each strikes one message at one place, and is written to the truth."""

from dataclasses import dataclass, field

import numpy as np

from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.collective import RankRun, StepRun
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.rdma import Transfer
from bmv2_lab.simulator.switch_node import SwitchNode
from bmv2_lab.truth import TrueFault
from controller.fabric import Fabric, LinkEnd, cabling

EXTRA_NS = (15_000, 60_000)
"""Size of an injected delay, uniform: several times a transfer's usual latency."""
LINK_FAULT_NS = 100_000
"""A link fault delays what is sent on the link for this long (a retransmitting link layer)."""
ROCE_QUEUE = 1
FLOW_BYTES = slice(26, 36)
"""Source and destination address and UDP source port: one queue pair's direction."""


@dataclass(slots=True)
class _Armed:
    fault: TrueFault
    hop: int
    """Place on the path, from 0, at which the message's first packet is struck."""
    passed: list[str] = field(default_factory=list)
    """Switches that it has come to, each once however many packets the message has."""


class FaultInjector:
    """Chooses transfers, and delays the chosen packet when it comes by."""

    def __init__(
        self,
        engine: Engine,
        scenario: Scenario,
        fabric: Fabric,
        switches: dict[str, SwitchNode],
        transfers_planned: int,
        rng: np.random.Generator,
    ) -> None:
        self.faults: list[tuple[TrueFault, StepRun, RankRun, Transfer]] = []
        self._engine = engine
        self._switches = switches
        self._rng = rng
        self._peers = cabling(fabric)
        self._armed: dict[bytes, _Armed] = {}
        kinds = (
            ["hop"] * scenario.faults_hop
            + ["link"] * scenario.faults_link
            + ["sender"] * scenario.faults_sender
            + ["receiver"] * scenario.faults_receiver
        )
        chosen = rng.choice(transfers_planned, size=len(kinds), replace=False)
        self._kinds = dict(zip(chosen.tolist(), rng.permutation(kinds).tolist(), strict=True))
        self._seen = 0
        for node in switches.values():
            node.before_enqueue = self._before_enqueue
            node.before_send = self._before_send

    def on_transfer(self, step: StepRun, rank: RankRun, transfer: Transfer) -> None:
        """A transfer was planned; strike it if it is a chosen one."""
        kind = self._kinds.get(self._seen)
        self._seen += 1
        if kind is None:
            return
        fault = TrueFault(kind=kind, entity="", extra_ns=int(self._rng.integers(*EXTRA_NS)))
        self.faults.append((fault, step, rank, transfer))
        if kind == "sender":
            fault.entity = transfer.qp.local.name
            fault.struck = True
            transfer.sender_stall_ns = fault.extra_ns
        elif kind == "receiver":
            fault.entity = transfer.qp.remote.name
            fault.struck = True
            transfer.receiver_stall_ns = fault.extra_ns
        else:
            hops = int(self._rng.integers(0, 3 if kind == "hop" else 2))
            transfer.on_post = lambda: self._arm(transfer, _Armed(fault, hops))

    def _arm(self, transfer: Transfer, armed: _Armed) -> None:
        qp = transfer.qp
        key = (
            qp.local.ip.to_bytes(4, "big")
            + qp.remote.ip.to_bytes(4, "big")
            + qp.udp_source_port.to_bytes(2, "big")
        )
        self._armed[key] = armed

    def _before_enqueue(self, switch: str, port: int, frame: bytes) -> None:
        fault = self._strikes("hop", switch, frame)
        if fault is not None:
            self._switches[switch].egress_port(port).inject(ROCE_QUEUE, float(fault.extra_ns))
            fault.entity = f"{switch}:{port}"

    def _before_send(self, switch: str, port: int, frame: bytes) -> None:
        fault = self._strikes("link", switch, frame)
        if fault is not None:
            end = LinkEnd(node=switch, port=port)
            until_ns = self._engine.now_ns + LINK_FAULT_NS
            self._switches[switch].wire(port).delay_more(fault.extra_ns, until_ns)
            fault.entity = f"{end}->{self._peers[end]}"

    def _strikes(self, kind: str, switch: str, frame: bytes) -> TrueFault | None:
        """The fault that strikes the frame here, if one of this kind waits for its flow."""
        if not self._armed:
            return None
        key = frame[FLOW_BYTES]
        armed = self._armed.get(key)
        if armed is None or armed.fault.kind != kind:
            return None
        if switch not in armed.passed:
            armed.passed.append(switch)
        if len(armed.passed) <= armed.hop:
            return None
        del self._armed[key]
        armed.fault.struck = True
        return armed.fault
