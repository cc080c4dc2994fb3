# SPDX-License-Identifier: Apache-2.0
"""Delay and asymmetry of flows on the paths that their packets took, and how changes move them.

Which way a flow goes is what its packets reported (`flow_paths`). A hash model is asked only
where nothing was reported, and only if its owner passes one: it must have been right for the
reported paths (`controller.path_prediction`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum, unique

import numpy as np

from correction.delay_sum import DelayEstimate
from correction.flow_paths import Flow, FlowPaths, Path, PathChange, PathHop, PathUse
from correction.link_delays import LinkDelays
from correction.links import port_index
from correction.path_asymmetry import PathAsymmetry, change_of, path_asymmetry
from correction.path_delays import (
    PTP_EVENT_BYTES,
    PathDelay,
    PathError,
    PathSource,
    path_delay,
)
from correction.records import PACKET_DTYPE, Hops
from correction.residences import Residence, residences_of_packets

Predict = Callable[[Flow], Path | None]
ResidencesOf = Callable[[Flow, Path], tuple[Residence, ...]]

NOT_REPORTED = "no complete packet of the flow was reported, and no hash model is trusted"
NO_WAY_BACK = "no packet was reported the other way"
PATHS_KEPT_MAX = 65_536
"""Delays of paths are kept between calls; beyond this all are computed anew."""


@unique
class WayBack(StrEnum):
    """How the flow in the other direction was found."""

    MIRRORED = "mirrored"
    """Addresses and ports exchanged."""
    SAME_PORTS = "same-ports"
    """RoCEv2: both directions of a queue pair use the same source and destination port."""
    SAME_HOSTS = "same-hosts"
    """The most used of several flows between the two hosts."""
    NAMED = "named"
    """The caller said so."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDelay:
    """One flow and the way back."""

    flow: Flow
    uses: tuple[PathUse, ...]
    """All paths that were seen, the most used first; the newest is the one that counts."""
    forward: PathDelay | None
    back: Flow | None
    way_back: WayBack
    asymmetry: PathAsymmetry | None
    reason: str = ""
    """Why a part is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowShift:
    """What a change of path does: later less earlier."""

    change: PathChange
    before: PathDelay | None
    after: PathDelay | None
    delay_change: DelayEstimate | None
    """Of the links together. Clocks cancel in it."""
    asymmetry_before: PathAsymmetry | None
    asymmetry_after: PathAsymmetry | None
    """With the way back at that time."""
    reason: str = ""


def packet_delay(packet: np.void, hops: Hops, delays: LinkDelays) -> PathDelay:
    """One reported packet's own path, with what it spent in each switch, exactly.

    PathError where its hops are not all there, or cables do not explain them.
    """
    if not packet["complete"]:
        raise PathError("the packet was not reported whole")
    first, count = int(packet["first_hop"]), int(packet["hop_count"])
    path = tuple(
        PathHop(*(int(row[name]) for name in PathHop._fields))
        for row in hops[first : first + count]
    )
    own = np.array([packet], PACKET_DTYPE)
    return path_delay(
        path,
        delays,
        port_index(delays.model),
        residences=residences_of_packets(own, hops, delays),
        frame_bytes=float(packet["wire_bytes"]),
    )


class FlowDelays:
    """Answers for flows of one recording, or of what a running collector has seen."""

    def __init__(
        self,
        delays: LinkDelays,
        paths: FlowPaths,
        *,
        residences: ResidencesOf = lambda _flow, _path: (),
        predict: Predict | None = None,
        frame_bytes: float = PTP_EVENT_BYTES,
    ) -> None:
        """frame_bytes counts only on links that stamp the frame's end at one end alone."""
        self._delays = delays
        self._paths = paths
        self._ports = port_index(delays.model)
        self._residences = residences
        self._predict = predict
        self._frame_bytes = frame_bytes
        self._kept: dict[tuple[Path, PathSource], PathDelay] = {}

    def of(self, flow: Flow, back: Flow | None = None) -> FlowDelay:
        """Both directions of a flow on the paths they took last."""
        way_back = WayBack.NAMED
        if back is None:
            back, way_back = self.way_back(flow)
        uses = self._paths.paths_of(flow)
        try:
            forward = self._newest(flow)
        except PathError as error:
            return self._without(flow, uses, back, way_back, str(error))
        if back is None:
            return FlowDelay(
                flow=flow,
                uses=uses,
                forward=forward,
                back=None,
                way_back=WayBack.NONE,
                asymmetry=None,
                reason=NO_WAY_BACK,
            )
        asymmetry, reason = None, ""
        try:
            asymmetry = path_asymmetry(forward, self._newest(back), self._delays)
        except ValueError as error:
            reason = f"the way back: {error}"
        return FlowDelay(
            flow=flow,
            uses=uses,
            forward=forward,
            back=back,
            way_back=way_back,
            asymmetry=asymmetry,
            reason=reason,
        )

    def way_back(self, flow: Flow) -> tuple[Flow | None, WayBack]:
        """The flow in the other direction whose packets answer this one's."""
        others = [
            other
            for other in self._paths.flows()
            if (other.traffic, other.src_ip, other.dst_ip)
            == (flow.traffic, flow.dst_ip, flow.src_ip)
        ]
        found: list[Flow] = []
        for ports, how in (
            ((flow.dst_port, flow.src_port), WayBack.MIRRORED),
            ((flow.src_port, flow.dst_port), WayBack.SAME_PORTS),
        ):
            found = [other for other in others if (other.src_port, other.dst_port) == ports]
            if found:
                return self._most_used(found), how
        if others:
            return self._most_used(others), WayBack.SAME_HOSTS
        if self._predict is None:
            return None, WayBack.NONE
        same = flow.src_port != flow.dst_port
        back = flow._replace(src_ip=flow.dst_ip, dst_ip=flow.src_ip)
        return back, WayBack.SAME_PORTS if same else WayBack.MIRRORED

    def shifts(self, changes: Iterable[PathChange]) -> tuple[FlowShift, ...]:
        """What each change of path did, in order of time; the way back is that of the time."""
        in_time = sorted(changes, key=lambda change: change.capture_collector_ns)
        current: dict[Flow, Path] = {}
        for change in reversed(in_time):
            current[change.flow] = change.before
        result = []
        for change in in_time:
            current[change.flow] = change.after
            back, _ = self.way_back(change.flow)
            result.append(self._shift(change, back, current.get(back) if back else None))
        return tuple(result)

    def _shift(self, change: PathChange, back: Flow | None, way_back: Path | None) -> FlowShift:
        try:
            before = self._delay(change.flow, change.before)
            after = self._delay(change.flow, change.after)
            delay_change = change_of(before.terms, after.terms, self._delays)
        except ValueError as error:
            return FlowShift(
                change=change,
                before=None,
                after=None,
                delay_change=None,
                asymmetry_before=None,
                asymmetry_after=None,
                reason=str(error),
            )
        asymmetries: list[PathAsymmetry | None] = [None, None]
        reason = "" if back else NO_WAY_BACK
        if back is not None:
            try:
                reverse = self._delay(back, way_back) if way_back else self._newest(back)
                asymmetries = [
                    path_asymmetry(one, reverse, self._delays) for one in (before, after)
                ]
            except ValueError as error:
                reason = f"the way back: {error}"
        return FlowShift(
            change=change,
            before=before,
            after=after,
            delay_change=delay_change,
            asymmetry_before=asymmetries[0],
            asymmetry_after=asymmetries[1],
            reason=reason,
        )

    def _newest(self, flow: Flow) -> PathDelay:
        """The delay of the path that its newest packet took, else of the predicted one."""
        uses = self._paths.paths_of(flow)
        if uses:
            newest = max(uses, key=lambda use: use.last_collector_ns)
            return self._delay(flow, newest.path)
        path = self._predict(flow) if self._predict is not None else None
        if path is None:
            raise PathError(NOT_REPORTED)
        return self._delay(flow, path, PathSource.PREDICTED)

    def _delay(self, flow: Flow, path: Path, source: PathSource = PathSource.REPORTED) -> PathDelay:
        kept = self._kept.get((path, source))
        if kept is None:
            if len(self._kept) >= PATHS_KEPT_MAX:
                self._kept.clear()
            kept = self._kept[path, source] = path_delay(
                path, self._delays, self._ports, source=source, frame_bytes=self._frame_bytes
            )
        return replace(kept, residences=self._residences(flow, path))

    def _most_used(self, flows: list[Flow]) -> Flow:
        return max(flows, key=lambda one: sum(use.packets for use in self._paths.paths_of(one)))

    @staticmethod
    def _without(
        flow: Flow, uses: tuple[PathUse, ...], back: Flow | None, way_back: WayBack, reason: str
    ) -> FlowDelay:
        return FlowDelay(
            flow=flow,
            uses=uses,
            forward=None,
            back=back,
            way_back=way_back,
            asymmetry=None,
            reason=reason,
        )
