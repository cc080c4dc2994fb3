# SPDX-License-Identifier: Apache-2.0
"""What transparent clocks should add, published anew with every window of a follower.

A link that a window does not measure keeps its value until that expires; so does one that a
follower before this one has measured.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from controller.int_policy.delay_plan_file import (
    delay_plan_text,
    following_plan,
    plan_before,
    replace_file,
)
from controller.transparent_clock import Basis, LinkDelayPlan, LinkEstimates
from correction.mesh.solve import Standing
from correction.model import FabricModel
from correction.stream.answer import TrackedWindow
from correction.stream.follow import FollowedWindow


class LinkDelayOutput:
    """A `CorrectionOutput` that replaces link_delay_plan.jsonl."""

    def __init__(
        self, path: Path, declared: FabricModel, residence_offset_scaled_ns: Mapping[str, int]
    ) -> None:
        """declared: what the description says; offsets as in `plan_link_delays`."""
        self._path = path
        self._declared = declared
        self._offsets = residence_offset_scaled_ns
        self._plan = plan_before(path, declared)
        count = len(declared.links)
        self._half_ns = np.full(count, np.nan)
        self._a_ns, self._shared_ns = np.zeros(count), np.zeros(count)
        self._observable = np.zeros(count, np.bool_)
        self._determined = np.zeros(count, np.bool_)
        self._measured_to_ns = [0] * count

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """The plan after this window; empty where it says nothing of links."""
        tracked = window.tracked
        if tracked is None or tracked.solution.cycle is not None:
            return b""
        self._take(window, tracked)
        found = LinkEstimates(
            model=self._declared,
            half_round_trip_ns=self._half_ns,
            a_ns=self._a_ns,
            shared_ns=self._shared_ns,
            observable=self._observable,
            determined=self._determined,
            measured_to_ns=self._measured_to_ns,
        )
        plan = following_plan(found, self._plan, self._offsets)
        self._plan = _with_unexpired(plan, self._plan, window.end_collector_ns)
        return delay_plan_text(self._plan)

    def write(self, encoded: bytes) -> None:
        """Replace the file."""
        if encoded:
            replace_file(self._path, encoded)

    def close(self) -> None:
        """The values end by themselves."""

    def _take(self, window: FollowedWindow, tracked: TrackedWindow) -> None:
        """What the window says of the declared links."""
        number = {link.name: index for index, link in enumerate(self._declared.links)}
        in_loop = np.zeros(len(tracked.links), np.bool_)
        in_loop[tracked.solution.core.edges] = True
        for edge, place in enumerate(tracked.links.tolist()):
            link = window.model.links[place]
            index = number.get(link.name)
            if index is None:
                continue
            standing = (tracked.standing[link.a], tracked.standing[link.b])
            self._observable[index] = in_loop[edge]
            self._determined[index] = in_loop[edge] and max(standing) <= Standing.SINGLE_HOMED
            self._a_ns[index] = tracked.solution.a_ns[edge]
            self._shared_ns[index] = tracked.solution.shared_ns[edge]
            half_ns = float(tracked.half_round_trip_ns[place])
            if np.isfinite(half_ns):
                self._half_ns[index] = half_ns
                self._measured_to_ns[index] = window.end_collector_ns
        newest_ns = max(self._measured_to_ns, default=0)
        for index, link in enumerate(self._declared.links):
            if link.access:
                self._measured_to_ns[index] = newest_ns


def _with_unexpired(plan: LinkDelayPlan, before: LinkDelayPlan, now_ns: int) -> LinkDelayPlan:
    """The plan, and of the one before what it has no value for and still holds."""
    known = {(one.switch, one.ingress_port) for one in plan.delays}
    moved = before.fabric_constant_scaled_ns - plan.fabric_constant_scaled_ns
    kept = tuple(
        replace(one, delay_scaled_ns=one.delay_scaled_ns + moved)
        for one in before.delays
        if (one.switch, one.ingress_port) not in known
        and one.basis is not Basis.ACCESS
        and now_ns < one.valid_to_collector_ns
    )
    return replace(plan, delays=plan.delays + kept)
