# SPDX-License-Identifier: Apache-2.0
"""Injected faults of a large run: slow transfers by cause, and straggler hosts.

As in `bmv2_lab.simulator.faults`, each slow transfer strikes one message at one place and is
written to the truth; a straggler host's software is slow at every post and completion.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.flows import Flows
from bmv2_lab.scale.messages import ChosenFault, Messages
from bmv2_lab.scale.paths import Paths
from bmv2_lab.scale.settings import ScaleSettings
from bmv2_lab.scale.topology import Topology
from bmv2_lab.simulator.faults import EXTRA_NS
from bmv2_lab.truth import TrueFault

STRAGGLER_NS = (5_000, 20_000)
"""Extra software time of a straggler host, uniform, at every post and completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StruckMessage(ChosenFault):
    """A fault and the message of a chunk that it strikes."""

    truth: TrueFault

    @property
    def on_the_way(self) -> bool:
        """It strikes a packet; else a host's software."""
        return self.truth.kind in ("hop", "link")

    def name_place(self, topology: Topology, paths: Paths, row: int) -> None:
        """Write where it met its packet into the truth, if the path was that long."""
        if self.hop >= paths.count[row]:
            return
        link = int(paths.link[row, self.hop])
        self.truth.struck = True
        if self.on_link:
            self.truth.entity = topology.directed_name(link)
        else:
            self.truth.entity = topology.end_name(
                int(topology.sender[link]), int(topology.sender_port[link])
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What was drawn for a run."""

    truth: list[TrueFault]
    straggler: NDArray[np.bool_]
    """[nic]: it belongs to a straggler host."""
    planned: dict[tuple[int, int], list[tuple[TrueFault, int]]]
    """By step and flow: fault, and the hop where one matters."""

    def slow_down(self, messages: Messages, flows: Flows, rng: np.random.Generator) -> None:
        """Add the software time of straggler hosts."""
        if not self.straggler.any():
            return
        at_sender = self.straggler[flows.src_nic[messages.flow]]
        at_receiver = self.straggler[flows.dst_nic[messages.flow]]
        extra_ns = rng.integers(*STRAGGLER_NS, (3, len(at_sender)))
        messages.post_stall_ns += np.where(at_sender, extra_ns[0], 0)
        messages.completion_stall_ns += np.where(at_receiver, extra_ns[1], 0)
        messages.acknowledge_stall_ns += np.where(at_sender, extra_ns[2], 0)

    def strike(self, messages: Messages) -> list[StruckMessage]:
        """The faults of these messages; those of hosts take effect here."""
        struck = []
        flows = [flow for step, flow in self.planned if step == messages.step]
        for place in np.flatnonzero(np.isin(messages.flow, flows)).tolist():
            for fault, hop in self.planned[messages.step, int(messages.flow[place])]:
                if fault.kind == "sender":
                    messages.post_stall_ns[place] += fault.extra_ns
                elif fault.kind == "receiver":
                    messages.completion_stall_ns[place] += fault.extra_ns
                struck.append(
                    StruckMessage(
                        message=place,
                        hop=hop,
                        extra_ns=fault.extra_ns,
                        on_link=fault.kind == "link",
                        truth=fault,
                    )
                )
        return struck


def draw_faults(
    settings: ScaleSettings, topology: Topology, flows: Flows, rng: np.random.Generator
) -> Faults:
    """Choose transfers and hosts; where a packet is struck on its way is known once it is sent."""
    hosts = int(topology.nic_host.max()) + 1
    slow = rng.choice(hosts, size=settings.straggler_hosts, replace=False)
    straggler = np.isin(topology.nic_host, slow)
    truth = [
        TrueFault(kind="host", entity=topology.nic_names[nic], extra_ns=0, struck=True)
        for nic in np.flatnonzero(straggler).tolist()
    ]
    kinds = (
        ["hop"] * settings.faults_hop
        + ["link"] * settings.faults_link
        + ["sender"] * settings.faults_sender
        + ["receiver"] * settings.faults_receiver
    )
    steps = settings.window_count * settings.steps_per_window
    chosen = rng.choice(len(flows) * steps, size=len(kinds), replace=False)
    planned: dict[tuple[int, int], list[tuple[TrueFault, int]]] = {}
    for transfer, kind in zip(chosen.tolist(), kinds, strict=True):
        step, flow = divmod(transfer, len(flows))
        fault = TrueFault(kind=kind, entity="", extra_ns=int(rng.integers(*EXTRA_NS)))
        hop = int(rng.integers(0, 2 * topology.tier_count - 1 - int(kind == "link")))
        if kind in ("sender", "receiver"):
            nic = (flows.src_nic if kind == "sender" else flows.dst_nic)[flow]
            fault.entity, fault.struck = topology.nic_names[int(nic)], True
        truth.append(fault)
        planned.setdefault((step, flow), []).append((fault, hop))
    return Faults(truth=truth, straggler=straggler, planned=planned)
