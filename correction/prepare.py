# SPDX-License-Identifier: Apache-2.0
"""Samples made comparable: windows, anchors, unwrapped stamps, serialisation and latencies removed.

After this step a value x is propagation + clock difference + one-sided noise, whatever the frame's
length, and small enough for a float.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.disturbed import Disturbed, judged_stamps
from correction.links import JoinCounters, Reject
from correction.model import FabricModel, Link, link_ends
from correction.records import LinkSamples
from correction.remembered import remembered
from correction.timebase import Anchors, Bools, Float64s, Int64s, has_stamp

LENGTH_CLASS_BYTES = (256, 1500)
"""Upper ends of the length classes; the last class is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Samples of all windows, one row each, on clocks a and b of their link."""

    window: NDArray[np.int64]
    link: NDArray[np.int64]
    reverse: Bools
    queue_id: NDArray[np.int64]
    length_class: NDArray[np.int64]
    a_rest_ns: Float64s
    """Stamp on clock a minus that clock's anchor."""
    x_ns: Float64s
    """(receiver's stamp - sender's stamp) - anchors - serialisation - declared latencies."""
    capture_collector_ns: Int64s
    sample: NDArray[np.int64]
    """Of the samples that it was made of."""
    anchors: Anchors
    """Per window and clock, at window x number of clocks + clock."""
    disturbed: Disturbed

    def __len__(self) -> int:
        return len(self.x_ns)


def declared_delay_ns(link: Link, *, reverse: bool, frame_bytes: Float64s) -> Float64s:
    """What calibration says lies between the two stamps besides propagation (8 bits a byte).

    A stamp at the frame's end moves the egress point later, the ingress stamp too: serialisation
    enters x where only the receiving end stamps there.
    """
    fixed_ns, byte_ns = _declared(link, reverse=reverse)
    delay: Float64s = fixed_ns + byte_ns * frame_bytes
    return delay


@remembered
def declared_delays(model: FabricModel) -> tuple[Float64s, Float64s]:
    """[link, reverse] twice: `declared_delay_ns` without the frame, and what each byte adds."""
    both = [[_declared(link, reverse=back) for back in (False, True)] for link in model.links]
    columns = np.array(both, np.float64).reshape(-1, 2, 2)
    return columns[:, :, 0], columns[:, :, 1]


def _declared(link: Link, *, reverse: bool) -> tuple[float, float]:
    egress = link.b_egress if reverse else link.a_egress
    ingress = link.a_ingress if reverse else link.b_ingress
    ends = int(ingress.at_frame_end) - int(egress.at_frame_end)
    known_ns = -link.asymmetry_ns if reverse else link.asymmetry_ns
    return egress.latency_ns + ingress.latency_ns + known_ns, ends * 8e9 / link.rate_bps


def prepare(
    samples: LinkSamples,
    model: FabricModel,
    windows: Int64s,
    counters: JoinCounters,
) -> Prepared:
    """Assign windows, drop impossible stamps with their reasons, remove what is declared."""
    window = _window_of(samples["capture_collector_ns"], windows)
    inside = window >= 0
    counters.reject(Reject.OUTSIDE_WINDOWS, np.count_nonzero(~inside))
    stamped = has_stamp(samples["egress_local_ns"]) & has_stamp(samples["ingress_local_ns"])
    counters.reject(Reject.NO_STAMP, np.count_nonzero(inside & ~stamped))
    number = np.flatnonzero(inside & stamped)
    samples, window = samples[number], window[number]

    ends = link_ends(model)
    link = samples["link"].astype(np.int64)
    reverse = samples["reverse"]
    a_stamp = np.where(reverse, samples["ingress_local_ns"], samples["egress_local_ns"])
    b_stamp = np.where(reverse, samples["egress_local_ns"], samples["ingress_local_ns"])
    capture = samples["capture_collector_ns"]
    clock = ends[link].T.ravel()
    local = np.concatenate([a_stamp, b_stamp])
    local, bad, disturbed = judged_stamps(
        clock,
        local,
        np.tile(capture, 2),
        np.tile(window, 2),
        model=model,
        window_count=len(windows),
        counters=counters,
    )
    keep = ~(bad[: len(link)] | bad[len(link) :])
    a_stamp, b_stamp = local[: len(link)][keep], local[len(link) :][keep]
    link, reverse, window, capture = link[keep], reverse[keep], window[keep], capture[keep]
    samples, number = samples[keep], number[keep]

    # an anchor per window: a clock may be set by years between two of them
    anchor = np.zeros(len(windows) * len(model.clocks), np.int64)
    kept = np.concatenate([a_stamp, b_stamp])
    slot = (window * len(model.clocks) + ends[link].T).ravel()
    anchor[slot[::-1]] = kept[::-1]  # of several the first one
    anchors = Anchors(anchor_local_ns=anchor)
    a_slot, b_slot = slot[: len(link)], slot[len(link) :]
    a_rest = anchors.rest_ns(a_slot, a_stamp)
    x = anchors.rest_ns(b_slot, b_stamp) - a_rest
    x[reverse] *= -1.0
    fixed, per_byte = declared_delays(model)
    back = reverse.astype(np.int64)
    x -= fixed[link, back] + per_byte[link, back] * samples["frame_bytes"]
    return Prepared(
        window=window,
        link=link,
        reverse=reverse,
        queue_id=samples["queue_id"].astype(np.int64),
        length_class=np.searchsorted(LENGTH_CLASS_BYTES, samples["frame_bytes"]),
        a_rest_ns=a_rest,
        x_ns=x,
        capture_collector_ns=capture,
        sample=number,
        anchors=anchors,
        disturbed=disturbed,
    )


def _window_of(capture_collector_ns: Int64s, windows: Int64s) -> NDArray[np.int64]:
    """Index of the window [start, end) that holds each capture time, else -1."""
    if not len(windows):
        return np.full(len(capture_collector_ns), -1, np.int64)
    order = np.argsort(windows[:, 0], kind="stable")
    slot = np.searchsorted(windows[order, 0], capture_collector_ns, side="right") - 1
    window = order[np.maximum(slot, 0)]
    inside = (slot >= 0) & (capture_collector_ns < windows[window, 1])
    return np.where(inside, window, -1).astype(np.int64)
