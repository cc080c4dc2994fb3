# SPDX-License-Identifier: Apache-2.0
"""Slow transfers whose cause is a host's software: the simulator's, large enough for real time."""

import numpy as np

from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.collective import RankRun, StepRun
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.faults import FaultInjector
from bmv2_lab.simulator.rdma import Transfer
from controller.fabric import Fabric


class SoftwareFaults(FaultInjector):
    """Stalls of senders and receivers; there are no switches here whose packets could be struck."""

    def __init__(
        self,
        engine: Engine,
        scenario: Scenario,
        fabric: Fabric,
        scale: int,
        *,
        transfers_planned: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(engine, scenario, fabric, {}, transfers_planned, rng)
        self._scale = scale

    def on_transfer(self, step: StepRun, rank: RankRun, transfer: Transfer) -> None:
        """A transfer was planned; stall its sender or receiver if it is a chosen one."""
        struck = len(self.faults)
        super().on_transfer(step, rank, transfer)
        for fault, _, _, _ in self.faults[struck:]:
            fault.extra_ns *= self._scale
            if fault.kind == "sender":
                transfer.sender_stall_ns = fault.extra_ns
            else:
                transfer.receiver_stall_ns = fault.extra_ns
