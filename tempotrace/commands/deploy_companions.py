# SPDX-License-Identifier: Apache-2.0
"""What `tempotrace deploy run` does beside keeping the switches, as its options ask for."""

from dataclasses import dataclass

from controller.cabling.watch import CablingWatch
from controller.int_policy.sampling_watch import SamplingWatch
from controller.keeper.companion_status import CompanionState
from controller.keeper.events import OnEvent
from controller.keeper.keeper import Companion
from controller.switch_stream import PacketIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """The options."""

    topology_interval_s: float
    """Between checks of the cabling; 0: none."""
    report_budget_rps: float | None
    """Reports a second and collector; None: as many as the file asks for."""

    def make(self, on_event: OnEvent) -> "RunningCompanions":
        """The companions, for one keeper."""
        cabling = sampling = None
        if self.topology_interval_s:
            cabling = CablingWatch(on_event, interval_s=self.topology_interval_s)
        if self.report_budget_rps is not None:
            sampling = SamplingWatch(self.report_budget_rps, on_event)
        return RunningCompanions(cabling, sampling)


class RunningCompanions:
    """Those of one keeper."""

    def __init__(self, cabling: CablingWatch | None, sampling: SamplingWatch | None) -> None:
        self._cabling = cabling
        self._sampling = sampling

    @property
    def all(self) -> list[Companion]:
        """Those that there are."""
        return [one for one in (self._cabling, self._sampling) if one is not None]

    def take(self, switch: str, packet: PacketIn) -> None:
        """A frame that a switch sent to the controller."""
        if self._cabling is not None:
            self._cabling.take(switch, packet)

    @property
    def state(self) -> CompanionState:
        """What they know, for metrics and status."""
        return CompanionState(
            cabling=None if self._cabling is None else self._cabling.state,
            sampling=None if self._sampling is None else self._sampling.state,
        )
