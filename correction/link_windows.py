# SPDX-License-Identifier: Apache-2.0
"""One-way differences of each directed link, window by window: what a collector hands on.

Per window, link, direction, queue and length class: the robust lower envelope that the estimator
itself fits (`envelope`), and how the samples lie above it. Raw differences hold two clocks' epochs
and drift by microseconds in a second, so that quantiles of theirs would say nothing; those of the
height above the envelope are the noise of the path.
"""

from collections.abc import Iterable
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from correction.change_points import find_change_points
from correction.envelope import Fit, model_envelopes
from correction.hard import moving_margin_ns
from correction.links import JoinCounters
from correction.model import FabricModel, link_ends
from correction.prepare import LENGTH_CLASS_BYTES, Prepared, prepare
from correction.records import LinkSamples
from correction.steps import find_misfits
from correction.timebase import NS_PER_S, Int64s
from correction.windowed_rows import ClosedWindow, WindowedRows

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Of the height above the envelope."""
SAMPLES_PER_GROUP_MAX = 1_024
"""Kept of each group and window: more hardly narrow an edge of nanoseconds, and 1,000 directed
links then need at most 45 MB a window."""

LINK_WINDOW_DTYPE = np.dtype(
    [
        ("window_start_collector_ns", np.int64),
        ("window_end_collector_ns", np.int64),
        ("link", np.int32),  # index of the link in the fabric model
        ("reverse", np.bool_),  # False: a -> b as the model lists it
        ("queue_id", np.uint8),
        ("length_class", np.uint8),  # index into LENGTH_CLASS_BYTES; the last class is open
        ("count", np.int64),  # samples that arrived
        ("used", np.int64),  # samples that the fit saw
        ("rejected", np.int64),  # too far below the envelope, or of a clock that jumped
        # smallest ingress - egress stamp of the kept samples whose stamps are of their time, two
        # clocks; LIMIT_NONE without one
        ("difference_ns_min", np.int64),
        ("at_a_local_ns", np.int64),  # clock of end a: the instant that the envelope refers to
        # lower envelope of ingress - egress there; serialisation and declared latencies removed
        ("envelope_ns", np.int64),
        ("envelope_sd_ns", np.float32),
        # what causality leaves of it there: no sample allows more, wander and slope provided for;
        # LIMIT_NONE without a usable sample
        ("limit_ns", np.int64),
        ("spread_ns", np.float32),  # width of the lower half: the size of the jitter
        ("slope_ppb", np.float64),  # rate of clock b against clock a; both directions together
        ("slope_sd_ppb", np.float64),
        ("capture_collector_ns", np.int64),  # collector's time at `at_a_local_ns`
        ("a_moved", np.uint8),  # a `Moved` each: what the clocks of the link's ends did inside the
        ("b_moved", np.uint8),  # window, as all links that are seen together tell
        ("above_ns", np.float32, (len(QUANTILES),)),  # QUANTILES of the height above the envelope
    ]
)

LIMIT_NONE = np.iinfo(np.int64).max


@unique
class Moved(IntEnum):
    """What a clock did inside a window; its links say nothing of it then."""

    NO = 0
    STEPPED = 1
    """Stepped, changed its rate, or ran at an impossible one."""
    JUMPED = 2
    """By more than stamps can be late."""
    STUCK = 3
    """Stood still."""


LinkWindows = NDArray[np.void]
"""Array of `LINK_WINDOW_DTYPE`."""


class LinkWindowing:
    """Gathers link samples and gives the envelopes of the windows that have ended."""

    def __init__(
        self,
        model: FabricModel,
        *,
        window_ns: int,
        late_ns: int,
        samples_max: int = SAMPLES_PER_GROUP_MAX,
    ) -> None:
        self._model = model
        self._rows = WindowedRows(
            window_ns=window_ns, late_ns=late_ns, rows_per_group_max=samples_max
        )
        self.counters = JoinCounters()
        """What was left out of the fits, by reason."""

    @property
    def late_count(self) -> int:
        """Samples that came after their window had been closed."""
        return self._rows.late_count

    def add(self, samples: LinkSamples) -> None:
        """Take samples in any order."""
        self._rows.add(samples, _keys(samples), samples["capture_collector_ns"])

    def closed(self, now_collector_ns: int) -> LinkWindows:
        """Rows of the windows that have ended, in order."""
        return self._fitted(self._rows.closed(now_collector_ns))

    def rest(self) -> LinkWindows:
        """Rows of all windows that are open: nothing more will come."""
        return self._fitted(self._rows.rest())

    def open_windows(self) -> list[int]:
        """Numbers of the windows that hold samples, in order; each begins at number x length."""
        return self._rows.open_windows()

    def moved_to(self, model: FabricModel, place: Int64s) -> None:
        """Go on with another model; `place` gives each link's new number, -1 for none."""
        self._model = model

        def renumbered(samples: LinkSamples) -> tuple[LinkSamples, Int64s]:
            link = place[samples["link"]]
            kept = samples[link >= 0]
            kept["link"] = link[link >= 0]
            return kept, _keys(kept)

        self._rows.regroup(renumbered, "capture_collector_ns")

    def _fitted(self, windows: Iterable[ClosedWindow]) -> LinkWindows:
        rows = [fit_window(window, self._model, self.counters) for window in windows]
        return np.concatenate([np.zeros(0, LINK_WINDOW_DTYPE), *rows])


def _keys(samples: LinkSamples) -> Int64s:
    """link, direction, queue, length class in one number."""
    key = samples["link"].astype(np.int64) << 1 | samples["reverse"]
    key = key << 8 | samples["queue_id"]
    length_class = np.searchsorted(LENGTH_CLASS_BYTES, samples["frame_bytes"])
    packed: Int64s = key << 8 | length_class
    return packed


def fit_window(window: ClosedWindow, model: FabricModel, counters: JoinCounters) -> LinkWindows:
    """The rows of one window; a group whose samples were all rejected has `used` 0."""
    start_ns, end_ns = window.start_collector_ns, window.end_collector_ns
    prepared = prepare(window.rows, model, np.array([[start_ns, end_ns]], np.int64), counters)
    fit = model_envelopes(prepared, model)
    ends = link_ends(model)

    result = np.zeros(len(window.keys), LINK_WINDOW_DTYPE)
    result["window_start_collector_ns"], result["window_end_collector_ns"] = start_ns, end_ns
    result["link"] = window.keys >> 17
    result["reverse"] = window.keys >> 16 & 1
    result["queue_id"] = window.keys >> 8 & 0xFF
    result["length_class"] = window.keys & 0xFF
    result["count"] = window.count
    kept = np.bincount(window.group, minlength=len(window.keys))
    sound = window.rows[prepared.sample]
    smallest = np.full(len(window.keys), LIMIT_NONE)
    difference = sound["ingress_local_ns"] - sound["egress_local_ns"]
    np.minimum.at(smallest, window.group[prepared.sample], difference)
    result["difference_ns_min"] = smallest

    rows = fit.envelopes
    key = (rows.link << 1 | rows.reverse) << 16 | rows.queue_id << 8 | rows.length_class
    place = np.searchsorted(window.keys, key)
    used = np.bincount(fit.group, weights=~fit.below, minlength=len(key)).astype(np.int64)
    result["used"][place] = used
    result["rejected"] = kept - result["used"]
    a, b = ends[rows.link].T
    at_ns = np.rint(rows.at_a_rest_ns).astype(np.int64)
    anchors = prepared.anchors.anchor_local_ns
    sign = np.where(rows.reverse, -1, 1)
    result["at_a_local_ns"][place] = anchors[a] + at_ns
    result["envelope_ns"][place] = np.rint(rows.edge_ns).astype(np.int64) + sign * (
        anchors[b] - anchors[a]
    )
    result["envelope_sd_ns"][place] = rows.sd_ns
    window_s = np.full(len(prepared), (end_ns - start_ns) / NS_PER_S)
    margin = moving_margin_ns(
        (prepared.a_rest_ns - rows.at_a_rest_ns[fit.group]) / NS_PER_S,
        fit.slopes.sd[rows.pair[fit.group]],
        window_s,
        model,
    )
    allowed = rows.edge_ns[fit.group] + fit.above_ns + margin
    allowed[fit.below | ~np.isfinite(allowed)] = np.inf
    least = np.full(len(key), np.inf)
    np.minimum.at(least, fit.group, allowed)
    limited = np.isfinite(least)
    limit = np.full(len(window.keys), LIMIT_NONE)
    limit[place[limited]] = np.ceil(least[limited]).astype(np.int64)
    limit[place[limited]] += (sign * (anchors[b] - anchors[a]))[limited]
    result["limit_ns"] = limit
    result["capture_collector_ns"] = start_ns
    lag = (prepared.capture_collector_ns - start_ns).astype(np.float64) - prepared.a_rest_ns
    total = np.bincount(fit.group, lag, len(key)) / np.maximum(rows.count, 1)
    result["capture_collector_ns"][place] += np.rint(total + rows.at_a_rest_ns).astype(np.int64)
    moved = _moved(prepared, fit, model, (end_ns - start_ns) / NS_PER_S)
    result["a_moved"], result["b_moved"] = moved[ends[result["link"]]].T
    result["spread_ns"][place] = rows.spread_ns
    result["slope_ppb"][place] = 1e9 * fit.slopes.slope[rows.pair]
    result["slope_sd_ppb"][place] = 1e9 * fit.slopes.sd[rows.pair]
    result["above_ns"][place] = fit.quantiles(fit.above_ns, QUANTILES)
    return result


def _moved(prepared: Prepared, fit: Fit, model: FabricModel, window_s: float) -> NDArray[np.uint8]:
    """[clock]: a `Moved` each."""
    length = np.array([window_s])
    changes = find_change_points(prepared, fit, model, length)
    misfits = find_misfits(fit, prepared.disturbed, changes, model, length)
    moved = np.zeros(len(model.clocks), np.uint8)
    moved[misfits.stepped[0]] = Moved.STEPPED
    moved[misfits.jumped[0]] = Moved.JUMPED
    moved[misfits.stuck[0]] = Moved.STUCK
    return moved
