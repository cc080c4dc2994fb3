# SPDX-License-Identifier: Apache-2.0
"""What a finished run leaves for export and scoring, whichever backend ran it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from bmv2_lab.simulator.collective import RingJob
from bmv2_lab.simulator.faults import FaultInjector
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.lab_result import LabResult
from bmv2_lab.simulator.rdma import RdmaHost
from bmv2_lab.truth import Truth


class RanFabric(Protocol):
    """`VirtualFabric` and `RealTimeFabric` are such."""

    @property
    def result(self) -> LabResult:
        """Reports and PTP logs."""

    @property
    def truth(self) -> Truth:
        """What is true of the run."""

    @property
    def jobs(self) -> Sequence[RingJob]:
        """The tenants' jobs."""

    @property
    def injector(self) -> FaultInjector:
        """The faults that were injected."""

    @property
    def host_nodes(self) -> Mapping[str, HostNode]:
        """By name."""

    @property
    def endpoints(self) -> Mapping[str, RdmaHost]:
        """By host."""

    def host_nodes_of(self, tenant: str) -> list[HostNode]:
        """The tenant's hosts, in the order of the fabric."""
