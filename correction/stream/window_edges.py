# SPDX-License-Identifier: Apache-2.0
"""One window's link statistics as one equation per link, at one instant on all clocks.

The instant is carried from the reference to every other clock along a tree of links, by the fitted
lines: each step is right to about a cable's delay, and a microsecond at 100 ppm is 0.0001 ns.
Readings and differences of readings are whole nanoseconds; what is left of a difference of two
directions is small and becomes a float.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from correction.bounds import Constraints
from correction.equations import MEASUREMENT_SD_NS_MIN, MIXED_CLASS_SD_NS
from correction.hard import moving_margin_ns, stamp_slack_ns
from correction.link_windows import LIMIT_NONE, LinkWindows, Moved
from correction.model import FabricModel, link_ends
from correction.records import NO_TSTAMP_NS
from correction.round_trips import largest_half_ns
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

USED_MIN = 2
"""An envelope of fewer samples has no line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEdges:
    """Arrays over links, or over clocks where it says so."""

    start_collector_ns: int
    end_collector_ns: int
    instant_collector_ns: int
    """The common instant by the collector's clock, later by what reports take; the window's middle
    where the reference is not reached."""
    moved: NDArray[np.uint8]
    """[clock]: a `link_windows.Moved` each; the links of those that moved are left out."""
    reading_ns: Int64s
    """[clock]: what it shows at the instant, to about a microsecond; NO_TSTAMP_NS: not reached."""
    known: Bools
    """Both directions, between clocks that are reached."""
    y_ns: Float64s
    """(x_ab - x_ba) / 2 less the difference of the readings b - a."""
    noise_sd_ns: Float64s
    half_round_trip_ns: Float64s
    """(x_ab + x_ba) / 2; NaN where not known."""
    forward_limit_ns: Float64s
    """theta_b - theta_a, relative to the readings, is at most this; infinite without a sample."""
    backward_limit_ns: Float64s
    slope: Float64s
    """d(b - a)/da, dimensionless; NaN without a line."""
    slope_sd: Float64s


class WindowReader:
    """Reads windows of one fabric."""

    def __init__(self, model: FabricModel) -> None:
        self._model = model
        ends = link_ends(model)
        self.a, self.b = ends[:, 0], ends[:, 1]
        self.least_ns = np.array([link.min_delay_ns for link in model.links], np.float64)
        self.largest_half_ns = np.array(
            [largest_half_ns(link, model) for link in model.links], np.float64
        )
        """[link]: half of the longest round trip that its declared cable explains."""
        slack = [
            [stamp_slack_ns(link, model, reverse=back) for back in (False, True)]
            for link in model.links
        ]
        self._slack_ns = np.array(slack, np.float64).reshape(-1, 2)

    def read(self, rows: LinkWindows, left_out: Bools | None = None) -> WindowEdges:
        """The rows of one window (`LinkWindowing.closed` gives several, one after the other).

        left_out: clocks whose links are not used.
        """
        start_ns, end_ns = _span(rows)
        moved = np.zeros(len(self._model.clocks), np.uint8)
        ends = self.a[rows["link"]], self.b[rows["link"]]
        for end, field in zip(ends, ("a_moved", "b_moved"), strict=True):
            np.maximum.at(moved, end, rows[field])
        out = moved != Moved.NO
        if left_out is not None:
            out |= left_out
        still = ~(out[ends[0]] | out[ends[1]])
        fitted = (rows["used"] >= USED_MIN) & np.isfinite(rows["slope_sd_ppb"])
        rows = rows[fitted & still]
        line = self._lines(rows)
        reading = self._readings(line)
        return self._equations(rows, line, reading, moved, start_ns, end_ns)

    def constraints(self, window: WindowEdges) -> Constraints:
        """What causality allows between the clocks that are reached."""
        there = np.flatnonzero(np.isfinite(window.forward_limit_ns))
        back = np.flatnonzero(np.isfinite(window.backward_limit_ns))
        return Constraints(
            u=np.r_[self.a[there], self.b[back]],
            v=np.r_[self.b[there], self.a[back]],
            limit_ns=np.r_[window.forward_limit_ns[there], window.backward_limit_ns[back]],
            clock_count=len(self._model.clocks),
        )

    def _lines(self, rows: LinkWindows) -> "_Lines":
        """b - a of each link as a line in a's time: the mean of what both directions say."""
        count = len(self._model.links)
        link = rows["link"].astype(np.int64)
        sign = np.where(rows["reverse"], -1, 1)
        at, base, capture = (np.zeros(count, np.int64) for _ in range(3))
        at[link[::-1]] = rows["at_a_local_ns"][::-1]  # of a link's first row
        capture[link[::-1]] = rows["capture_collector_ns"][::-1]
        base[link[::-1]] = (sign * rows["envelope_ns"])[::-1]
        slope, slope_sd = np.full(count, np.nan), np.full(count, np.nan)
        slope[link], slope_sd[link] = rows["slope_ppb"] / 1e9, rows["slope_sd_ppb"] / 1e9
        away = (at[link] - rows["at_a_local_ns"]).astype(np.float64)
        rest = (sign * rows["envelope_ns"] - base[link]).astype(np.float64) + slope[link] * away
        direction = rows["reverse"].astype(np.int64)
        weight = np.bincount(direction * count + link, rows["used"], 2 * count).reshape(2, -1)
        total = np.bincount(direction * count + link, rows["used"] * rest, 2 * count)
        with np.errstate(invalid="ignore", divide="ignore"):
            there, back = total.reshape(2, -1) / weight
        # one direction alone: less the least delay
        there_only, back_only = there - self.least_ns, back + self.least_ns
        middle = np.where(np.isnan(back), there_only, 0.5 * (there + back))
        middle = np.where(np.isnan(there), back_only, middle)
        known = ~np.isnan(middle)
        difference = base + np.rint(np.where(known, middle, 0.0)).astype(np.int64)
        return _Lines(
            known=known,
            at_a_ns=at,
            capture_collector_ns=capture,
            difference_ns=difference,
            slope=slope,
            slope_sd=slope_sd,
        )

    def _instant(self, line: "_Lines", reading: Int64s, middle_ns: int) -> int:
        reference = self._model.reference
        links = np.flatnonzero(line.known & ((self.a == reference) | (self.b == reference)))
        if reading[reference] == NO_TSTAMP_NS or not len(links):
            return middle_ns
        first = int(links[0])  # the instant is where its line is
        return int(line.capture_collector_ns[first])

    def _readings(self, line: "_Lines") -> Int64s:
        """[clock]: at the instant when the reference's first link was in its middle."""
        n, reference = len(self._model.clocks), self._model.reference
        reading = np.full(n, NO_TSTAMP_NS)
        links = np.flatnonzero(line.known)
        at_reference = links[(self.a[links] == reference) | (self.b[links] == reference)]
        if not len(at_reference):
            return reading
        first = int(at_reference[0])
        reading[reference] = line.at_a_ns[first]
        if self.b[first] == reference:
            reading[reference] += line.difference_ns[first]
        low, high = np.minimum(self.a, self.b), np.maximum(self.a, self.b)
        _, one_of_each = np.unique(low[links] * n + high[links], return_index=True)
        links = links[one_of_each]  # of parallel links
        shape = (n, n)
        graph = coo_array((links + 1, (low[links], high[links])), shape=shape).tocsr()
        order, parent = breadth_first_order(graph, reference, directed=False)
        link_of = _link_of(graph, parent, order)
        depth = np.full(n, -1)
        depth[reference] = 0
        for node in order[1:].tolist():
            depth[node] = depth[parent[node]] + 1
        for level in range(1, int(depth.max(initial=0)) + 1):
            nodes = np.flatnonzero(depth == level)
            self._step(line, reading, nodes, parent[nodes].astype(np.int64), link_of[nodes])
        return reading

    def _step(
        self, line: "_Lines", reading: Int64s, nodes: Int64s, parent: Int64s, links: Int64s
    ) -> None:
        """Carry the instant from parents to nodes over links; in place."""
        forward = self.b[links] == nodes
        at, difference, slope = line.at_a_ns[links], line.difference_ns[links], line.slope[links]
        from_a = reading[parent]
        ahead = (from_a - at).astype(np.float64)
        to_b = from_a + difference + np.rint(slope * ahead).astype(np.int64)
        # backwards: b = a + difference + slope (a - at), for a
        rest = (reading[parent] - at - difference).astype(np.float64)
        to_a = at + np.rint(rest / (1.0 + slope)).astype(np.int64)
        reading[nodes] = np.where(forward, to_b, to_a)

    def _equations(
        self,
        rows: LinkWindows,
        line: "_Lines",
        reading: Int64s,
        moved: NDArray[np.uint8],
        start_ns: int,
        end_ns: int,
    ) -> WindowEdges:
        count = len(self._model.links)
        reached = reading != NO_TSTAMP_NS
        link = rows["link"].astype(np.int64)
        ok = reached[self.a[link]] & reached[self.b[link]]
        rows, link = rows[ok], link[ok]
        sign = np.where(rows["reverse"], -1, 1)
        a, b = reading[self.a[link]], reading[self.b[link]]
        ahead_ns = (a - rows["at_a_local_ns"]).astype(np.float64)
        slope, slope_sd = rows["slope_ppb"] / 1e9, rows["slope_sd_ppb"] / 1e9
        along = sign * slope * ahead_ns
        edge = (rows["envelope_ns"] - sign * (b - a)).astype(np.float64) + along
        variance = rows["envelope_sd_ns"].astype(np.float64) ** 2 + (slope_sd * ahead_ns) ** 2
        y, noise, half = _halves(rows, link, edge, variance, count)

        margin = moving_margin_ns(
            ahead_ns / NS_PER_S, slope_sd, np.full(len(rows), (end_ns - start_ns) / NS_PER_S),
            self._model,
        )  # fmt: skip
        limited = rows["limit_ns"] != LIMIT_NONE
        allowed = np.full(len(rows), np.inf)
        difference = (rows["limit_ns"] - sign * (b - a))[limited]
        allowed[limited] = difference.astype(np.float64) + (along + margin)[limited]
        direction = rows["reverse"].astype(np.int64)
        limit = np.full((count, 2), np.inf)
        np.minimum.at(limit, (link, direction), allowed)
        limit += self._slack_ns - self.least_ns[:, None]
        known = np.isfinite(y)
        return WindowEdges(
            start_collector_ns=start_ns,
            end_collector_ns=end_ns,
            instant_collector_ns=self._instant(line, reading, (start_ns + end_ns) // 2),
            moved=moved,
            reading_ns=reading,
            known=known,
            y_ns=np.where(known, y, 0.0),
            noise_sd_ns=np.where(known, np.maximum(noise, MEASUREMENT_SD_NS_MIN), np.inf),
            half_round_trip_ns=half,
            forward_limit_ns=limit[:, 0],
            backward_limit_ns=limit[:, 1],
            slope=line.slope,
            slope_sd=line.slope_sd,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    known: Bools
    at_a_ns: Int64s
    capture_collector_ns: Int64s
    difference_ns: Int64s
    slope: Float64s
    slope_sd: Float64s


def _span(rows: LinkWindows) -> tuple[int, int]:
    if not len(rows):
        return 0, 0
    start_ns = int(rows["window_start_collector_ns"][0])
    if (rows["window_start_collector_ns"] != start_ns).any():
        raise ValueError("rows of more than one window")
    return start_ns, int(rows["window_end_collector_ns"][0])


def _link_of(graph: Any, parent: NDArray[np.int32], order: NDArray[np.int32]) -> Int64s:  # noqa: ANN401
    """[node]: the link between it and its parent; -1 for the root and nodes out of reach."""
    link = np.full(graph.shape[0], -1, np.int64)
    nodes = order[1:]
    if len(nodes):
        low, high = np.minimum(nodes, parent[nodes]), np.maximum(nodes, parent[nodes])
        link[nodes] = np.asarray(graph[low, high]).ravel() - 1
    return link


def _halves(
    rows: LinkWindows, link: Int64s, edge: Float64s, variance: Float64s, count: int
) -> tuple[Float64s, Float64s, Float64s]:
    """(half difference, its sd, half sum) per link, of equal queues and length classes.

    Where both directions have none in common, the best of each with a wide variance.
    """
    key = link << 16 | rows["queue_id"].astype(np.int64) << 8 | rows["length_class"]
    keys, match = np.unique(key, return_inverse=True)
    value, var = np.full((2, len(keys)), np.nan), np.full((2, len(keys)), np.nan)
    direction = rows["reverse"].astype(np.int64)
    value[direction, match], var[direction, match] = edge, variance
    both = np.isfinite(value).all(axis=0) & np.isfinite(var).all(axis=0)
    y_of, half_of = 0.5 * (value[0] - value[1])[both], 0.5 * (value[0] + value[1])[both]
    weight = 4.0 / np.maximum(var[:, both].sum(axis=0), 4.0 * MEASUREMENT_SD_NS_MIN**2)
    at = keys[both] >> 16
    total = np.bincount(at, weight, count)
    y, half = np.bincount(at, weight * y_of, count), np.bincount(at, weight * half_of, count)
    best = np.full((2, count), np.inf)
    np.minimum.at(best, (direction, link), variance)
    lonely = np.flatnonzero((total == 0.0) & np.isfinite(best).all(axis=0))
    if len(lonely):
        chosen = np.zeros((2, count))
        is_best = variance == best[direction, link]
        chosen[direction[is_best], link[is_best]] = edge[is_best]
        alone = 1.0 / (best[:, lonely].sum(axis=0) / 4.0 + MIXED_CLASS_SD_NS**2)
        total[lonely] = alone
        y[lonely] = alone * 0.5 * (chosen[0] - chosen[1])[lonely]
        half[lonely] = alone * 0.5 * (chosen[0] + chosen[1])[lonely]
    with np.errstate(invalid="ignore", divide="ignore"):
        return y / total, np.sqrt(1.0 / total), half / total
