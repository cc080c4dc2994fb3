# SPDX-License-Identifier: Apache-2.0
"""One common instant per window on all clocks, found through the link graph itself.

Capture times shift by microseconds to milliseconds with each report's way, and a relative rate of
10 ppm turns 1 ms into 10 ns; so they only choose the instant, on one clock. From there a spanning
tree of the fitted lines carries it to every other clock: each step is right to about a cable's
delay (below 1 us), and 1 us at 100 ppm is 0.0001 ns.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.envelope import Fit
from correction.model import FabricModel
from correction.prepare import Prepared
from correction.timebase import Bools, Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """Coarse readings of every clock at each window's instant."""

    rest_ns: Float64s
    """[window, clock]: reading minus anchor, good to about 1 us; NaN where not reached."""
    component: NDArray[np.int64]
    """[window, clock]: label of the connected part, -1 without any link; 0 holds the reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Per (window, link) the difference b - a as a line in clock a's time."""

    known: Bools
    slope: Float64s
    at_a_rest_ns: Float64s
    difference_ns: Float64s
    """Anchor-free b - a at `at_a_rest_ns`, good to about a cable's delay."""


def coarse_lines(fit: Fit, model: FabricModel, windows: int) -> Lines:
    """b - a per (window, link): mean of both directions' edges, or one minus the least delay."""
    shape = (windows, len(model.links))
    total, weight = np.zeros((2, *shape)), np.zeros((2, *shape))
    at, slope = np.full(shape, np.nan), np.zeros(shape)
    rows = fit.envelopes
    slope[fit.slopes.window, fit.slopes.link] = fit.slopes.slope
    first = np.unique(rows.pair, return_index=True)[1]
    at[rows.window[first], rows.link[first]] = rows.at_a_rest_ns[first]
    sign = np.where(rows.reverse, -1.0, 1.0)
    moved = rows.edge_ns + sign * slope[rows.window, rows.link] * (
        at[rows.window, rows.link] - rows.at_a_rest_ns
    )
    where = (rows.reverse.astype(np.int64), rows.window, rows.link)
    np.add.at(total, where, moved * rows.count)
    np.add.at(weight, where, rows.count.astype(np.float64))
    forward = np.divide(total[0], weight[0], out=np.full(shape, np.nan), where=weight[0] > 0)
    backward = np.divide(total[1], weight[1], out=np.full(shape, np.nan), where=weight[1] > 0)
    least = np.array([link.min_delay_ns for link in model.links], np.float64)
    difference = 0.5 * (forward - backward)
    difference = np.where(np.isnan(difference), forward - least, difference)
    difference = np.where(np.isnan(difference), least - backward, difference)
    return Lines(
        known=~np.isnan(difference), slope=slope, at_a_rest_ns=at, difference_ns=difference
    )


def common_instants(
    lines: Lines, prepared: Prepared, model: FabricModel, windows: Int64s, usable: Bools
) -> Instants:
    """Walk the tree of usable links in each window, from the reference or from any clock."""
    shape = (len(windows), len(model.clocks))
    rest, component = np.full(shape, np.nan), np.full(shape, -1, np.int64)
    ends = [(link.a, link.b) for link in model.links]
    for w in range(len(windows)):
        links = np.flatnonzero(lines.known[w] & usable[w])
        neighbours: dict[int, list[int]] = {}
        for e in links.tolist():
            for end in ends[e]:
                neighbours.setdefault(end, []).append(e)
        centre_ns = int(windows[w, 0]) + (int(windows[w, 1]) - int(windows[w, 0])) // 2
        roots = [model.reference, *sorted(neighbours)]
        label = 0
        for root in roots:
            if root not in neighbours or component[w, root] >= 0:
                continue
            rest[w, root] = _root_rest_ns(prepared, w, root, neighbours[root], ends, centre_ns)
            # label 0 is kept for the reference's part, even where that part is empty
            label = 0 if root == model.reference else label + 1
            component[w, root] = label
            _walk(rest[w], component[w], root, neighbours, ends, lines, w)
    return Instants(rest_ns=rest, component=component)


def _root_rest_ns(
    prepared: Prepared,
    window: int,
    root: int,
    links: list[int],
    ends: list[tuple[int, int]],
    centre_ns: int,
) -> float:
    """Reading of `root` when the collector's clock shows the window's centre (median)."""
    mine = (prepared.window == window) & np.isin(prepared.link, links)
    at_a = np.array([ends[e][0] == root for e in prepared.link[mine]], np.bool_)
    sign = np.where(prepared.reverse[mine], -1.0, 1.0)
    own = prepared.a_rest_ns[mine] + np.where(at_a, 0.0, sign * prepared.x_ns[mine])
    lag = (prepared.capture_collector_ns[mine] - centre_ns).astype(np.float64)
    return float(round(float(np.median(own - lag))))


def _walk(
    rest: Float64s,
    component: NDArray[np.int64],
    root: int,
    neighbours: dict[int, list[int]],
    ends: list[tuple[int, int]],
    lines: Lines,
    window: int,
) -> None:
    queue = deque([root])
    while queue:
        here = queue.popleft()
        for e in neighbours[here]:
            a, b = ends[e]
            there = b if here == a else a
            if component[there] >= 0:
                continue
            slope, at = lines.slope[window, e], lines.at_a_rest_ns[window, e]
            difference = lines.difference_ns[window, e]
            if here == a:
                rest[there] = rest[a] + difference + slope * (rest[a] - at)
            else:  # b = a + difference + slope * (a - at), solved for a
                rest[there] = (rest[b] - difference + slope * at) / (1.0 + slope)
            component[there] = component[here]
            queue.append(there)
