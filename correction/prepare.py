# SPDX-License-Identifier: Apache-2.0
"""Samples made comparable: windows, anchors, unwrapped stamps, serialisation and latencies removed.

After this step a value x is propagation + clock difference + one-sided noise, whatever the frame's
length, and small enough for a float.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.jumps import (
    JUMP_NS,
    RUNS_MAX,
    STRAY_COUNT,
    Jump,
    jump_kinds,
    most_of,
    runs,
)
from correction.links import JoinCounters, Reject
from correction.model import FabricModel, Link, link_ends
from correction.records import NO_TSTAMP_NS, LinkSamples
from correction.remembered import remembered
from correction.timebase import Anchors, Bools, Float64s, Int64s, has_stamp, unwrap

LENGTH_CLASS_BYTES = (256, 1500)
"""Upper ends of the length classes; the last class is open."""
STUCK_NS = 10_000_000
"""A clock whose stamps stay the same for longer stands still."""
STUCK_COUNT = 3
"""So many equal stamps make it sure."""
STRAY_SHARE = 0.02
"""Stamps of this share of a window's packets, or of STRAY_COUNT, may be damaged one by one; more
that are off by over JUMP_NS are a clock that jumped, unless sound ones lie between them (RUNS_MAX).
"""
REJECT_OF_JUMP = {
    Jump.OTHER: Reject.CLOCK_JUMP,
    Jump.WRAP_32: Reject.CLOCK_JUMP_2_32,
    Jump.UTC_TAI: Reject.CLOCK_JUMP_UTC_TAI,
    Jump.FROM_1970: Reject.STAMP_FROM_1970,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """Clocks whose stamps inside a window contradict each other; arrays [window, clock]."""

    total: NDArray[np.int64]
    """Stamps of the clock in the window."""
    jumped: NDArray[np.int64]
    """How many of them were off by more than JUMP_NS; 0 for stray ones."""
    stuck: NDArray[np.int64]
    """How many stood still; 0 for stray ones."""
    read_local_ns: Int64s
    """[window, clock, 2, 2]: first and last reading of the majority and of the stamps that
    jumped; NO_TSTAMP_NS where there are none."""

    @classmethod
    def none(cls, windows: int, clocks: int) -> "Disturbed":
        """No stamps, nothing disturbed."""
        shape = (windows, clocks)
        return cls(
            total=np.zeros(shape, np.int64),
            jumped=np.zeros(shape, np.int64),
            stuck=np.zeros(shape, np.int64),
            read_local_ns=np.full((*shape, 2, 2), NO_TSTAMP_NS),
        )


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
    local, bad, disturbed = _unwrapped(
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


def _unwrapped(
    clock: Int64s,
    local_ns: Int64s,
    capture_collector_ns: Int64s,
    window: NDArray[np.int64],
    *,
    model: FabricModel,
    window_count: int,
    counters: JoinCounters,
) -> tuple[Int64s, Bools, Disturbed]:
    """Stamps unwrapped by capture time, and which do not belong to their time.

    Judged per clock and window against the largest group of stamps that belong together, so that a
    clock that was set between windows is no fault, and the most are right inside one.
    """
    result = local_ns.copy()
    bad = np.zeros(len(local_ns), np.bool_)
    disturbed = Disturbed.none(window_count, len(model.clocks))
    number = window * len(model.clocks) + clock
    doubtful = _doubtful(number, local_ns, capture_collector_ns, model, disturbed)
    chosen = np.flatnonzero(doubtful[number])
    order = chosen[np.argsort(number[chosen], kind="stable")]
    starts = np.flatnonzero(np.diff(number[order]) != 0) + 1
    for rows in np.split(order, starts) if len(order) else []:
        where = (int(window[rows[0]]), int(clock[rows[0]]))
        one = model.clocks[where[1]]
        capture = capture_collector_ns[rows]
        stuck = _stuck(local_ns[rows], capture, one.stamp_unit_ns)
        lag = local_ns[rows] - capture
        middle = _middle(lag[~stuck] if not stuck.all() else lag)
        near = capture + middle
        if one.stamp_bits < 64:
            result[rows] = unwrap(local_ns[rows], near, bits=one.stamp_bits)
        jump = result[rows] - near
        far = np.abs(jump) > JUMP_NS
        # a clock that stands still shows what it read in this window; other repeated stamps are
        # damaged ones
        stuck &= np.abs(jump) <= JUMP_NS + np.ptp(capture)
        far &= ~stuck
        bad[rows] = stuck | far
        counters.reject(Reject.CLOCK_STUCK, np.count_nonzero(stuck))
        disturbed.total[where] = len(rows)
        if not _stray(stuck, capture):
            disturbed.stuck[where] = np.count_nonzero(stuck)
        disturbed.read_local_ns[*where, 0] = _span(result[rows[~(far | stuck)]])
        if not far.any():
            continue
        kinds = jump_kinds(jump[far], result[rows[far]])
        for kind, reason in REJECT_OF_JUMP.items():
            counters.reject(reason, np.count_nonzero(kinds == kind))
        moving = ~stuck
        if _is_jump(far[moving], jump[moving], capture[moving]):
            disturbed.jumped[where] = np.count_nonzero(far)
            same = np.abs(jump[far] - np.median(jump[far])) <= JUMP_NS
            disturbed.read_local_ns[*where, 1] = _span(result[rows[far]][same])
    return result, bad, disturbed


def _doubtful(
    number: NDArray[np.int64],
    local_ns: Int64s,
    capture_collector_ns: Int64s,
    model: FabricModel,
    disturbed: Disturbed,
) -> Bools:
    """[window x clocks + clock]: stamps that must be looked at one by one.

    The others keep so close to the collector's clock that none jumped, and none can have stood
    still: they are counted here.
    """
    count = disturbed.total.size
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    first, last = low.copy(), high.copy()
    lag = local_ns - capture_collector_ns
    np.minimum.at(low, number, lag)
    np.maximum.at(high, number, lag)
    np.minimum.at(first, number, local_ns)
    np.maximum.at(last, number, local_ns)
    seen = low <= high
    narrow = np.array([clock.stamp_bits < 64 for clock in model.clocks], np.bool_)
    spread = np.where(seen, high.astype(np.float64) - low, 0.0)
    doubtful: Bools = (spread > STUCK_NS) | np.tile(narrow, len(disturbed.total))
    clean = seen & ~doubtful
    disturbed.total.reshape(-1)[clean] = np.bincount(number, minlength=count)[clean]
    spans = disturbed.read_local_ns.reshape(count, 2, 2)
    spans[clean, 0, 0], spans[clean, 0, 1] = first[clean], last[clean]
    return doubtful


def _middle(lag_ns: Int64s) -> int:
    """Median of the largest group of values that lie together."""
    most = lag_ns[most_of(lag_ns, JUMP_NS)]
    return int(np.partition(most, len(most) // 2)[len(most) // 2])


def _stuck(local_ns: Int64s, capture_collector_ns: Int64s, unit_ns: int) -> Bools:
    """Stamps of one clock that show the same value again and again while time goes on."""
    _, which, count = np.unique(local_ns, return_inverse=True, return_counts=True)
    if count.max(initial=0) < STUCK_COUNT:
        return np.zeros(len(local_ns), np.bool_)
    first = np.full(len(count), np.iinfo(np.int64).max)
    last = np.full(len(count), np.iinfo(np.int64).min)
    np.minimum.at(first, which, capture_collector_ns)
    np.maximum.at(last, which, capture_collector_ns)
    still: Bools = (count >= STUCK_COUNT) & (last - first > max(STUCK_NS, 4 * unit_ns))
    result: Bools = still[which]
    return result


def _stray(wrong: Bools, capture_collector_ns: Int64s) -> bool:
    """Few enough of a clock's packets to be damaged one by one."""
    packets = len(np.unique(capture_collector_ns[wrong]))
    return packets <= max(STRAY_COUNT, STRAY_SHARE * len(np.unique(capture_collector_ns)))


def _is_jump(far: Bools, jump_ns: Int64s, capture_collector_ns: Int64s) -> bool:
    """The clock was set inside the window: stamps that are off are more than stray ones, and no
    sound ones lie between them again and again; or a few that all lie at one end, off alike."""
    if _one_sided(far, jump_ns, capture_collector_ns):
        return True
    if _stray(far, capture_collector_ns):
        return False
    order = np.argsort(capture_collector_ns, kind="stable")
    return len(runs(far[order])) <= RUNS_MAX or 2 * int(np.count_nonzero(far)) > len(far)


def _one_sided(far: Bools, jump_ns: Int64s, capture_collector_ns: Int64s) -> bool:
    """A few stamps that all lie at one end of the window, off by the same: a late or early jump."""
    if not far.any() or far.all() or np.ptp(jump_ns[far]) > JUMP_NS:
        return False
    off, kept = capture_collector_ns[far], capture_collector_ns[~far]
    several = off.min() != off.max()
    return bool(several and (off.min() > kept.max() or off.max() < kept.min()))


def _span(readings_ns: Int64s) -> tuple[int, int]:
    """First and last reading."""
    if not len(readings_ns):
        return NO_TSTAMP_NS, NO_TSTAMP_NS
    return int(readings_ns.min()), int(readings_ns.max())
