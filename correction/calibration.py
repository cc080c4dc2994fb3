# SPDX-License-Identifier: Apache-2.0
"""Stamp-point constants from loopback cables, and what a fibre swap tells of a link.

A loopback cable brings a packet back to the switch that sent it, so that both stamps are of one
clock and no offset is in their difference:

    x = ingress - egress = egress latency + fibre + ingress latency        (one model and speed)

So the sum of both latencies is known as well as the fibre's length is. Neither latency is below
zero, so each is at most the sum: that narrows both, and more so where one is declared. How the sum
is divided is not seen by any network measurement: moving a device's clock and dividing it otherwise
look alike (clocks.md 2.3).

Swapping the two fibres of a link turns the sign of their part f of its asymmetry and of nothing
else in the fabric; s, of transceivers and ports, stays:

    a_before = s + f,  a_after = s - f:   f = (a_before - a_after) / 2,   s = a_before - f

The limits of loops are hard ones, the sds of swaps are of the measurement.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from correction.measure import Measured
from correction.records import Hops, Packets
from correction.selection import Selection
from correction.stream.motion import motion
from correction.timebase import Bools, Float64s, has_stamp
from correction.verdicts import averaged_edges

RARE_NATS = 14.0
"""The smallest of n delays with exponential noise of mean m is within m x this / n of none, but for
one time in a million."""
SAMPLES_MIN = 3
"""A loop with fewer packets shows nothing."""


class CalibrationError(ValueError):
    """Measurements that no constants explain; the text names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loopback cable: both ends on one switch, or on one port of it."""

    name: str
    node_id: int
    ports: tuple[int, int]
    model: str
    """Device model and speed: what shares its constants, as `MODEL/100G`."""
    fibre_low_ns: float
    """Least and largest delay of the fibre, by its length."""
    fibre_high_ns: float
    quantum_ns: int
    jitter_ns: float
    """Declared one-sided noise after the egress stamp."""
    serialisation_ns_per_byte: float = 0.0
    """Between both stamps: where only the ingress stamp is taken at the frame's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A constant lies in it, ends included."""

    low_ns: float
    high_ns: float

    @property
    def middle_ns(self) -> float:
        """What to declare."""
        return 0.5 * (self.low_ns + self.high_ns)

    @property
    def half_ns(self) -> float:
        """Its uncertainty."""
        return 0.5 * (self.high_ns - self.low_ns)

    def meets(self, other: "Interval", what: str) -> "Interval":
        """What lies in both; `CalibrationError` if nothing does."""
        low, high = max(self.low_ns, other.low_ns), min(self.high_ns, other.high_ns)
        if low > high:
            raise CalibrationError(
                f"{what}: {self.low_ns:.1f} to {self.high_ns:.1f} ns and "
                f"{other.low_ns:.1f} to {other.high_ns:.1f} ns exclude each other"
            )
        return Interval(low_ns=low, high_ns=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Latencies of one device model at one speed."""

    egress: Interval
    ingress: Interval
    sum_of_both: Interval
    loops: int = 0


def loop_values(packets: Packets, hops: Hops, loops: Iterable[Loop]) -> dict[str, Float64s]:
    """x = ingress - egress of every packet that came back over each loop, by the loop's name;
    serialisation taken off."""
    first = np.flatnonzero(_has_next(packets, len(hops)))
    sender, receiver = hops[first], hops[first + 1]
    stamped = has_stamp(sender["egress_tstamp_local_ns"])
    stamped &= has_stamp(receiver["ingress_tstamp_local_ns"])
    found = {}
    for loop in loops:
        mine = stamped & (sender["node_id"] == loop.node_id)
        mine &= receiver["node_id"] == loop.node_id
        there = (sender["egress_port"] == loop.ports[0]) & (
            receiver["ingress_port"] == loop.ports[1]
        )
        back = (sender["egress_port"] == loop.ports[1]) & (
            receiver["ingress_port"] == loop.ports[0]
        )
        mine &= there | back
        x = receiver["ingress_tstamp_local_ns"] - sender["egress_tstamp_local_ns"]
        serial = loop.serialisation_ns_per_byte * sender["egress_bytes"][mine]
        found[loop.name] = x[mine].astype(np.float64) - serial
    return found


def _has_next(packets: Packets, hop_count: int) -> Bools:
    """[hop]: the packet has another one after it."""
    following = np.zeros(hop_count, np.bool_)
    starts, counts = packets["first_hop"].tolist(), packets["hop_count"].tolist()
    for start, count in zip(starts, counts, strict=True):
        following[start : start + max(count - 1, 0)] = True
    return following


def loop_sum(loop: Loop, x_ns: Float64s) -> Interval:
    """Limits of egress + ingress latency from one loop.

    Noise only delays, so the smallest x is the constant at most, by the quantum of two stamps.

    >>> loop = Loop(name="l", node_id=1, ports=(1, 1), model="m/100G", fibre_low_ns=9.0,
    ...             fibre_high_ns=11.0, quantum_ns=1, jitter_ns=0.0)
    >>> loop_sum(loop, np.array([410.0, 412.0, 411.0]))
    Interval(low_ns=398.0, high_ns=402.0)
    """
    if len(x_ns) < SAMPLES_MIN:
        raise CalibrationError(f"{loop.name}: {len(x_ns)} packets; needs {SAMPLES_MIN}")
    least = float(np.min(x_ns))
    late = loop.jitter_ns * RARE_NATS / len(x_ns)
    return Interval(
        low_ns=least - loop.quantum_ns - late - loop.fibre_high_ns,
        high_ns=least + loop.quantum_ns - loop.fibre_low_ns,
    )


def calibrate(
    declared: dict[str, tuple[Interval, Interval]], sums: Iterable[tuple[Loop, Interval]]
) -> dict[str, Constants]:
    """Constants per model and speed: what is declared of (egress, ingress), narrowed by the loops.

    Ports of one model differ a little: their loops' limits are joined, not intersected.
    """
    of_model: dict[str, list[Interval]] = defaultdict(list)
    for loop, found in sums:
        of_model[loop.model].append(found)
    result = {}
    for model, intervals in of_model.items():
        total = Interval(
            low_ns=max(0.0, min(one.low_ns for one in intervals)),
            high_ns=max(one.high_ns for one in intervals),
        )
        causal = Interval(low_ns=0.0, high_ns=total.high_ns)
        egress, ingress = (
            point.meets(causal, f"{model}: {name} and the loops' sum")
            for point, name in zip(declared[model], ("egress", "ingress"), strict=True)
        )
        narrower = (
            one.meets(
                Interval(low_ns=total.low_ns - other.high_ns, high_ns=total.high_ns - other.low_ns),
                f"{model}: {name} and the loops' sum less the other",
            )
            for one, other, name in ((egress, ingress, "egress"), (ingress, egress, "ingress"))
        )
        egress, ingress = narrower
        result[model] = Constants(
            egress=egress, ingress=ingress, sum_of_both=total, loops=len(intervals)
        )
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapResult:
    """Parts of one link's asymmetry (half the one-way difference, positive if a -> b is slower)."""

    link: str
    fibre_ns: float
    """Of the fibres as they lay before the swap; now it has the other sign."""
    fibre_sd_ns: float
    """Of the measurement: no prior is in it."""
    ports_ns: float
    """Of transceivers, ports and stamp points, against the rest of the fabric."""
    ports_sd_ns: float


def swapped_parts(
    before: tuple[Measured, Selection], after: tuple[Measured, Selection], swapped: tuple[int, ...]
) -> tuple[SwapResult, ...]:
    """Fibre and port part of the links that were swapped between two recordings of one fabric.

    All other links have the asymmetry that they had, so that they tell how the clocks moved
    (`stream.motion`), whatever it is: which link is bad need not be known. `CalibrationError` for a
    link whose clocks nothing else ties together.
    """
    model = before[0].model
    (edges, links), (later, later_links) = (averaged_edges(*one) for one in (before, after))
    count = len(model.links)
    y, noise = np.full((2, count), np.nan), np.full((2, count), np.inf)
    for row, (of, numbers) in enumerate(((edges, links), (later, later_links))):
        y[row, numbers], noise[row, numbers] = of.y_ns, of.noise_sd_ns
    departure, sd = y[1] - y[0], np.hypot(noise[0], noise[1])
    known = np.isfinite(departure)
    others = known.copy()
    others[list(swapped)] = False
    ends = before[0].ends
    moved = motion(
        ends[:, 0],
        ends[:, 1],
        np.where(known, departure, 0.0),
        np.where(known, sd, 1.0),
        others,
        len(model.clocks),
        model.reference,
    )
    own = before[1].averaged
    # the whole of a before, stamp constants of the group included
    design = before[0].unknowns.design
    a_before = design @ own.q_ns
    a_sd = np.sqrt(np.maximum(np.einsum("ek,kl,el->e", design, own.covariance, design), 0.0))
    results = []
    for e in swapped:
        u, v = ends[e]
        change = departure[e] - (moved.moved_ns[v] - moved.moved_ns[u])
        if not np.isfinite(change):
            raise CalibrationError(
                f"{model.links[e].name}: no other link ties its ends together in both recordings"
            )
        change_sd = float(np.sqrt(sd[e] ** 2 + moved.sd_ns[u] ** 2 + moved.sd_ns[v] ** 2))
        fibre_ns = -0.5 * float(change)
        results.append(
            SwapResult(
                link=model.links[e].name,
                fibre_ns=fibre_ns,
                fibre_sd_ns=0.5 * change_sd,
                ports_ns=float(a_before[e]) - fibre_ns,
                ports_sd_ns=float(np.hypot(a_sd[e], 0.5 * change_sd)),
            )
        )
    return tuple(results)
