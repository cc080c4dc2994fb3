# SPDX-License-Identifier: Apache-2.0
"""Ties of two clocks that are no cables, in the form of links: one form for the whole engine.

A tie says what clock b reads when clock a reads something, to within a hard limit. As a link it has
two samples, one per direction, of a delay that lies between minus the limit and the limit. So ties
get envelopes, rates, constants and causality limits like any cable, in both engines.
"""

from collections.abc import Iterable

import numpy as np

from correction.model import FabricModel, Link, StampPoint, link_ends
from correction.records import LINK_SAMPLE_DTYPE, LinkSamples
from correction.timebase import NS_PER_S, Bools, Int64s

EXACT = StampPoint(latency_ns=0, uncertainty_ns=0)
"""A stamp point of a tie: what it may be wrong by is in the tie itself."""
TIE_RATE_BPS = 100_000_000_000
"""Of no meaning: nothing is sent."""
UNLIMITED_NS = 1 << 40
"""A limit that never binds: 18 minutes."""
NEAR_NS = 10 * NS_PER_S
"""A reading further from all stamps of its clock has no known capture time."""


def tie(*, name: str, a: int, b: int, sd_ns: float, hard_ns: float) -> Link:
    """Clocks a and b differ from what samples show by a constant of `sd_ns`, never by `hard_ns`."""
    return Link(
        name=name,
        a=a,
        a_port=0,
        b=b,
        b_port=0,
        rate_bps=TIE_RATE_BPS,
        a_egress=EXACT,
        a_ingress=EXACT,
        b_egress=EXACT,
        b_ingress=EXACT,
        min_delay_ns=-int(min(np.ceil(hard_ns), UNLIMITED_NS)),
        asymmetry_sd_ns=sd_ns,
        access=False,
        cable=False,
        firm=True,
    )


def tie_samples(
    link: Int64s, a_local_ns: Int64s, b_local_ns: Int64s, capture_collector_ns: Int64s
) -> LinkSamples:
    """Both directions of each pair of readings: a's as sent, b's as received, and the reverse."""
    both = np.zeros((2, len(link)), LINK_SAMPLE_DTYPE)
    both["link"], both["capture_collector_ns"] = link, capture_collector_ns
    both["egress_local_ns"][0], both["ingress_local_ns"][0] = a_local_ns, b_local_ns
    both["egress_local_ns"][1], both["ingress_local_ns"][1] = b_local_ns, a_local_ns
    both["reverse"][1] = True
    return both.reshape(-1)


def readings(samples: LinkSamples, model: FabricModel, clock: int) -> tuple[Int64s, Int64s]:
    """(stamps of one clock in order, capture times of their packets)."""
    ends = link_ends(model)
    receiver = np.where(samples["reverse"], ends[samples["link"], 0], ends[samples["link"], 1])
    sender = np.where(samples["reverse"], ends[samples["link"], 1], ends[samples["link"], 0])
    local = np.r_[
        samples["egress_local_ns"][sender == clock], samples["ingress_local_ns"][receiver == clock]
    ]
    capture = samples["capture_collector_ns"]
    capture = np.r_[capture[sender == clock], capture[receiver == clock]]
    order = np.argsort(local, kind="stable")
    return local[order], capture[order]


def capture_times(known: tuple[Int64s, Int64s], local_ns: Int64s) -> tuple[Int64s, Bools]:
    """(collector's time at each reading by the nearest known stamp, whether one is near)."""
    stamps, capture = known
    if not len(stamps):
        return np.zeros(len(local_ns), np.int64), np.zeros(len(local_ns), np.bool_)
    after = np.clip(np.searchsorted(stamps, local_ns), 0, len(stamps) - 1)
    before = np.maximum(after - 1, 0)
    closer = np.abs(stamps[before] - local_ns) < np.abs(stamps[after] - local_ns)
    nearest = np.where(closer, before, after)
    away = local_ns - stamps[nearest]
    return capture[nearest] + away, np.abs(away) < NEAR_NS


def joined(parts: Iterable[LinkSamples]) -> LinkSamples:
    """All of them."""
    return np.concatenate([np.zeros(0, LINK_SAMPLE_DTYPE), *parts])
