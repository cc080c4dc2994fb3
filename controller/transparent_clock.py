# SPDX-License-Identifier: Apache-2.0
"""Which delay each port's ingress adds to correctionField, so that unequal cables cancel.

A transparent clock takes queueing out of PTP, not the cables: the way there and the way back hash
onto different links, and a client is off by half the difference of their delays. The engine knows
each link's delay per direction; written to its ingress ports, the correction of a packet becomes
that of its own path, and a client that honours correctionField comes out right.

Per fabric port the value is the delay of its link towards it, d = half round trip + a_uv, less one
constant common to all fabric ports: every path crosses as many links there as back, so it cancels,
and with the smallest delay as the constant nothing is negative and nothing larger than needed.
A host-facing port gets no round trip: the access cables stay in both directions, where they cancel
by PTP's own assumption. What is known of their asymmetry goes in as d_in - d_out, twice a_uv, since
only one of the two directions enters there. docs/transparent-clock.md derives all of this.

Pure: estimates in, values with their validity out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique

import numpy as np

from controller.ptp_entries import EVENT_FRAME_BYTES, SCALED_PER_NS
from correction.model import ClockKind, FabricModel, Link
from correction.prepare import declared_delay_ns
from correction.solution import FabricSolution
from correction.timebase import Bools, Float64s

VALIDITY_NS = 30_000_000_000
"""A cable keeps its delay; a fabric that has not been measured for this long is not trusted."""
CHANGE_NS_MIN = 0.5
"""A smaller change is not worth a write: below it estimates only shift by their own noise."""

UNMEASURED = "no round trip was measured"
HEADROOM_NS = 4
"""The smallest fabric value, so that noise makes none negative and the constant can stay."""


@unique
class Basis(StrEnum):
    """What a value rests on."""

    MEASURED = "measured"
    """Round trip and difference of the directions."""
    ROUND_TRIP = "round-trip"
    """The difference is not determined: both directions are taken as alike, as PTP does."""
    ACCESS = "access"
    """A host's cable: only what is known of its asymmetry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortDelay:
    """What one ingress port adds."""

    switch: str
    ingress_port: int
    delay_scaled_ns: int
    """Less the constant, in 2^-16 ns."""
    basis: Basis
    valid_to_collector_ns: int
    """The link was last measured in a window that ended `validity_ns` before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """A fabric port that adds nothing, and why."""

    switch: str
    ingress_port: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDelayPlan:
    """All ports' values, each with the time on the collector's clock until which it holds."""

    delays: tuple[PortDelay, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    fabric_constant_scaled_ns: int = 0
    """Taken off at every fabric port."""
    access_constant_scaled_ns: int = 0
    """Taken off at every host-facing port: each path enters the fabric through one of them."""
    switches: tuple[str, ...] = field(default=())

    def in_force(self, now_collector_ns: int) -> dict[str, dict[int, int]]:
        """`Findings.link_delays`: by switch and ingress port, without what has expired."""
        result: dict[str, dict[int, int]] = {name: {} for name in self.switches}
        for one in self.delays:
            if now_collector_ns < one.valid_to_collector_ns:
                result[one.switch][one.ingress_port] = one.delay_scaled_ns
        return result


NO_DELAYS = LinkDelayPlan()
"""Before the first estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEstimates:
    """What a solve says of the links; arrays over the links of the model."""

    model: FabricModel
    half_round_trip_ns: Float64s
    """Mean one-way delay of both directions, latencies removed; NaN without data."""
    a_ns: Float64s
    """a_uv; 0 where nothing shows it."""
    shared_ns: Float64s
    """What shared stamp-point constants add to half the difference between the directions."""
    observable: Bools
    """a_ns shows in the data."""
    determined: Bools
    """The data determine it: in a loop, and across no cut that is half bad."""
    measured_to_ns: Sequence[int]
    """The end of the last window that saw both directions, by the collector's clock. An access
    link's value is a declaration: it holds as long as anything at all is measured."""


def estimates_of(solution: FabricSolution) -> LinkEstimates:
    """Those of a solve over a whole capture."""
    across = {link for cut in solution.cuts for link in (*cut.bad_links, *cut.kept_links)}
    observable = solution.links.observable
    numbers = np.arange(len(observable))
    return LinkEstimates(
        model=solution.model,
        half_round_trip_ns=solution.links.half_round_trip_ns,
        a_ns=solution.links.a_ns,
        shared_ns=solution.links.shared_ns,
        observable=observable,
        determined=observable & ~np.isin(numbers, list(across)),
        measured_to_ns=_measured_to_ns(solution),
    )


def plan_link_delays(
    solution: FabricSolution | LinkEstimates,
    *,
    previous: LinkDelayPlan = NO_DELAYS,
    residence_offset_scaled_ns: Mapping[str, int] | None = None,
    validity_ns: int = VALIDITY_NS,
    event_bytes: int = EVENT_FRAME_BYTES,
    equal_hop_counts: bool = True,
) -> LinkDelayPlan:
    """The values that follow from a solve.

    previous: its constants are kept while they leave nothing negative, and values that hardly
    moved are kept, so that a steady fabric is not written to.
    residence_offset_scaled_ns: by switch, what its transparent clock adds to every residence for
    its stamp points (`residence_offset_scaled`); it is taken off again here, where each link's own
    stamp points are known. None: the transparent clocks add stamp differences only.
    equal_hop_counts: False where a path may have more links there than back (routes that are not
    shortest paths); then nothing may be taken off in common, and the constants are 0.
    """
    offset = residence_offset_scaled_ns or {}
    found = estimates_of(solution) if isinstance(solution, FabricSolution) else solution
    fabric, access, withdrawn = list[PortDelay](), list[PortDelay](), list[Withdrawn]()
    for index, link in enumerate(found.model.links):
        for into_b in (True, False):
            clock, port = (link.b, link.b_port) if into_b else (link.a, link.a_port)
            node = found.model.clocks[clock]
            if node.kind is not ClockKind.SWITCH:
                continue
            half_ns = float(found.half_round_trip_ns[index])
            if link.access:
                ns, basis = _access_ns(found, index, into_b, event_bytes), Basis.ACCESS
            elif not np.isfinite(half_ns):
                withdrawn.append(Withdrawn(switch=node.name, ingress_port=port, reason=UNMEASURED))
                continue
            else:
                basis = Basis.MEASURED if found.determined[index] else Basis.ROUND_TRIP
                ns = half_ns + _declared_ns(link, into_b, event_bytes)
                difference_ns = float(found.shared_ns[index])
                if found.determined[index]:
                    difference_ns += float(found.a_ns[index])
                ns += difference_ns if into_b else -difference_ns
            (access if link.access else fabric).append(
                PortDelay(
                    switch=node.name,
                    ingress_port=port,
                    delay_scaled_ns=round(ns * SCALED_PER_NS) - offset.get(node.name, 0),
                    basis=basis,
                    valid_to_collector_ns=found.measured_to_ns[index] + validity_ns,
                )
            )
    fabric_constant = access_constant = 0
    if equal_hop_counts:
        fabric_constant = _constant(fabric, previous.fabric_constant_scaled_ns)
        access_constant = min((one.delay_scaled_ns for one in access), default=0)
    before = {(one.switch, one.ingress_port): one for one in previous.delays}
    kept = [_settled(_less(one, fabric_constant), before) for one in fabric]
    kept += [_settled(_less(one, access_constant), before) for one in access]
    return LinkDelayPlan(
        delays=tuple(one for one in kept if one.delay_scaled_ns or one.basis is not Basis.ACCESS),
        withdrawn=tuple(withdrawn),
        fabric_constant_scaled_ns=fabric_constant,
        access_constant_scaled_ns=access_constant,
        switches=_switches(found.model),
    )


def _measured_to_ns(solution: FabricSolution) -> list[int]:
    """Per link, the end of the last window that saw both of its directions.

    An access link's value is a declaration: it holds as long as anything at all is measured.
    """
    seen = np.isfinite(solution.measured.equations.half_round_trip_ns)
    ends = [window.end_collector_ns for window in solution.windows]
    last = [
        max((end for end, here in zip(ends, column, strict=True) if here), default=0)
        for column in seen.T.tolist()
    ]
    newest = max(last, default=0)
    return [
        newest if link.access else one for link, one in zip(solution.model.links, last, strict=True)
    ]


def _access_ns(found: LinkEstimates, index: int, into_b: bool, event_bytes: int) -> float:
    """Delay in minus delay out: declared stamp points, and shared constants as estimated."""
    link = found.model.links[index]
    inwards_ns = _declared_ns(link, into_b, event_bytes)
    outwards_ns = _declared_ns(link, not into_b, event_bytes)
    half_difference_ns = float(found.shared_ns[index])
    if found.observable[index]:
        half_difference_ns += float(found.a_ns[index])
    return inwards_ns - outwards_ns + 2 * (half_difference_ns if into_b else -half_difference_ns)


def _declared_ns(link: Link, into_b: bool, event_bytes: int) -> float:
    """What lies between the two stamps besides the cable, for a PTP event message."""
    length = np.array([event_bytes], np.float64)
    return float(declared_delay_ns(link, reverse=not into_b, frame_bytes=length)[0])


def _constant(ports: list[PortDelay], before: int) -> int:
    """A little below the smallest value; the constant in force while it is near enough to that."""
    smallest = min((one.delay_scaled_ns for one in ports), default=0)
    if before and 0 <= smallest - before <= 2 * HEADROOM_NS * SCALED_PER_NS:
        return before
    return smallest - HEADROOM_NS * SCALED_PER_NS if ports else 0


def _less(one: PortDelay, constant: int) -> PortDelay:
    return replace(one, delay_scaled_ns=one.delay_scaled_ns - constant)


def _settled(one: PortDelay, before: Mapping[tuple[str, int], PortDelay]) -> PortDelay:
    """The value in force where the new one hardly differs."""
    old = before.get((one.switch, one.ingress_port))
    if old is None or old.basis is not one.basis:
        return one
    change_scaled = abs(one.delay_scaled_ns - old.delay_scaled_ns)
    if change_scaled >= CHANGE_NS_MIN * SCALED_PER_NS:
        return one
    return replace(one, delay_scaled_ns=old.delay_scaled_ns)


def _switches(model: FabricModel) -> tuple[str, ...]:
    return tuple(clock.name for clock in model.clocks if clock.kind is ClockKind.SWITCH)
