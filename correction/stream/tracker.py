# SPDX-License-Identifier: Apache-2.0
"""Windows in, corrections out: what stays is averaged and solved, what moves is followed.

    y[w, e] = (theta_b - theta_a)[w] + a[e] + noise[w, e]

The clocks' motion between windows is measured without the cables (`motion`). What is left of y,
a link's average z, has less noise with every window; its solve says which links are bad, where the
clocks stood, and what the data determine (`correction.mesh`). So a window costs one solve that
starts from the last one. Offsets are clock - reference.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import numpy as np

from correction.contradictions import find_contradictions
from correction.equations import SLOPE_MIN
from correction.hard import SLOPE_WANDER
from correction.link_windows import LinkWindows
from correction.mesh.edges import Edges
from correction.mesh.solve import MeshSolution, solve_mesh
from correction.model import FabricModel
from correction.priors import Priors, priors
from correction.stream.answer import Solved, TrackedWindow, answer
from correction.stream.clock_filter import ClockStates
from correction.stream.motion import Motion, motion
from correction.stream.window_edges import WindowEdges, WindowReader
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

WINDOWS_AVERAGED = 64
"""Older windows fade: a cable's asymmetry moves with temperature over minutes."""
CHANGES_BELIEVED = 2
"""A link that departs in so many windows in a row has changed; its average begins anew."""


@dataclass(slots=True, kw_only=True)
class LinkStates:
    """Arrays over links; the state that is saved."""

    z_ns: Float64s
    """Average of y less the clocks' motion."""
    count: Float64s
    """Windows in it, at most WINDOWS_AVERAGED; 0: never measured."""
    noise_sd_ns: Float64s
    """Of one window's y, averaged."""
    departed: Int64s
    """Windows in a row in which it departed from all others."""
    silent: Int64s
    """Windows since it was measured."""

    @classmethod
    def new(cls, count: int) -> "LinkStates":
        """Nothing measured."""
        return cls(
            z_ns=np.zeros(count),
            count=np.zeros(count),
            noise_sd_ns=np.zeros(count),
            departed=np.zeros(count, np.int64),
            silent=np.zeros(count, np.int64),
        )

    def copy(self) -> "LinkStates":
        """Another one that knows the same."""
        return LinkStates(**{one.name: getattr(self, one.name).copy() for one in fields(self)})


@dataclass(slots=True)
class FabricTracker:
    """Follows one fabric. Feed windows in order of time; a late one is refused."""

    model: FabricModel
    links: LinkStates = field(init=False)
    clocks: ClockStates = field(init=False)
    newest_end_collector_ns: int = -(2**63)
    late_windows: int = 0
    """Windows that came after a newer one: skipped."""
    _reader: WindowReader = field(init=False, repr=False)
    _priors: Priors = field(init=False, repr=False)
    _may_be_bad: Bools = field(init=False, repr=False)
    _last: tuple[bytes, MeshSolution] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._reader = WindowReader(self.model)
        self._priors = priors(self.model)
        self._may_be_bad = np.array([not link.firm for link in self.model.links], np.bool_)
        self.links = LinkStates.new(len(self.model.links))
        self.clocks = ClockStates.new(len(self.model.clocks), self.model.wander_ns_per_s_sqrt_s)

    def push(self, rows: LinkWindows) -> list[TrackedWindow]:
        """Take the rows of one or more windows; those that lie before the newest are skipped."""
        starts = np.unique(rows["window_start_collector_ns"])
        mine = (rows[rows["window_start_collector_ns"] == start] for start in starts.tolist())
        return [one for one in map(self._window, mine) if one is not None]

    def _window(self, rows: LinkWindows) -> TrackedWindow | None:
        window = self._reader.read(rows)
        if window.start_collector_ns < self.newest_end_collector_ns:
            self.late_windows += 1
            return None
        self.newest_end_collector_ns = window.end_collector_ns
        nobody = np.zeros(len(self.model.clocks), np.bool_)
        before = self.links.copy()
        solved = self._solved(window, nobody)
        if solved is not None and solved.solution.cycle is not None:
            self.links = before
            found = find_contradictions(self._reader.constraints(window), self.model.reference)
            if found.rejected is None and found.blamed.any():
                before = self.links.copy()
                window = self._reader.read(rows, left_out=found.blamed)
                again = self._solved(window, found.blamed)
                if again is not None and again.solution.cycle is None:
                    solved = again
                else:
                    self.links = before
        if solved is None:
            return None
        return answer(solved, self._reader, self.model, self.clocks)

    def _solved(self, window: WindowEdges, contradicted: Bools) -> Solved | None:
        """The window's solution; its links are taken into the averages. None: nothing is known."""
        if not window.known.any():
            return None
        moved = self._motion(window)
        relative = _reached(self._reader, window, moved, self.model.reference)
        changed = self._average(window, moved, relative)
        edges, links = self._edges(window, relative)
        key = links.tobytes()
        start = self._last[1] if self._last is not None and self._last[0] == key else None
        solution = solve_mesh(edges, self.model.reference, start=start)
        self._last = key, solution
        rate, rate_sd = self._rates(window)
        return Solved(
            window=window,
            moved=moved,
            relative_ns=relative,
            links=links,
            solution=solution,
            contradicted=contradicted,
            rate_ppb=rate,
            rate_sd_ppb=rate_sd,
            changed_links=changed,
        )

    # ------------------------------------------------------------ what moves and what stays

    def _motion(self, window: WindowEdges) -> Motion:
        usable = window.known & (self.links.count > 0)
        before = self.links.noise_sd_ns / np.sqrt(np.maximum(self.links.count, 1.0))
        return motion(
            self._reader.a,
            self._reader.b,
            window.y_ns - self.links.z_ns,
            np.hypot(window.noise_sd_ns, before),
            usable,
            len(self.model.clocks),
            self.model.reference,
        )

    def _average(self, window: WindowEdges, moved: Motion, relative: Float64s) -> Int64s:
        """Take the window into the averages; the links that began anew."""
        links, a, b = self.links, self._reader.a, self._reader.b
        with np.errstate(invalid="ignore"):
            stays = window.y_ns - (relative[b] - relative[a])
        usable = window.known & np.isfinite(stays)
        links.silent += 1
        links.silent[usable] = 0
        links.departed[usable & moved.changed] += 1
        links.departed[usable & ~moved.changed] = 0
        changed = links.departed >= CHANGES_BELIEVED
        links.count[changed] = 0.0
        links.departed[changed] = 0
        taken = usable & (links.departed == 0)
        count = links.count[taken]
        share = 1.0 / (count + 1.0)
        links.z_ns[taken] += share * (stays[taken] - links.z_ns[taken])
        variance = links.noise_sd_ns[taken] ** 2
        variance += share * (window.noise_sd_ns[taken] ** 2 - variance)
        links.noise_sd_ns[taken] = np.sqrt(variance)
        links.count[taken] = np.minimum(count + 1.0, WINDOWS_AVERAGED)
        return np.flatnonzero(changed)

    def _edges(self, window: WindowEdges, relative: Float64s) -> tuple[Edges, Int64s]:
        """What stays, with what causality allows of the links measured now.

        A link that is not measured now still says what stayed when it was.
        """
        a, b = self._reader.a, self._reader.b
        recent = self.links.silent <= WINDOWS_AVERAGED
        rows = np.flatnonzero((self.links.count > 0) & recent)
        with np.errstate(invalid="ignore"):
            moves = (relative[b] - relative[a])[rows]
        now = window.known[rows] & np.isfinite(moves)
        moves = np.where(now, moves, 0.0)
        edges = Edges(
            node_count=len(self.model.clocks),
            u=a[rows],
            v=b[rows],
            y_ns=self.links.z_ns[rows],
            noise_sd_ns=self.links.noise_sd_ns[rows] / np.sqrt(self.links.count[rows]),
            healthy_sd_ns=self._priors.own_sd_ns[rows],
            may_be_bad=self._may_be_bad[rows],
            shared=self._priors.shared[rows],
            shared_sd_ns=self._priors.shared_sd_ns,
            forward_limit_ns=np.where(now, window.forward_limit_ns[rows] - moves, np.inf),
            backward_limit_ns=np.where(now, window.backward_limit_ns[rows] + moves, np.inf),
        )
        return edges, rows

    def _rates(self, window: WindowEdges) -> tuple[Float64s, Float64s]:
        """(rate against the reference in ppb of local time, its sd); NaN where not reached."""
        length_s = (window.end_collector_ns - window.start_collector_ns) / NS_PER_S
        wander = np.sqrt(2.0) * self.model.wander_ns_per_s_sqrt_s
        own = SLOPE_WANDER * wander * np.sqrt(length_s) / NS_PER_S
        sloped = np.isfinite(window.slope_sd)
        slope = np.log1p(np.maximum(window.slope, SLOPE_MIN))
        found = motion(
            self._reader.a,
            self._reader.b,
            np.where(np.isfinite(slope), slope, 0.0) * NS_PER_S,
            np.hypot(np.where(sloped, window.slope_sd, 1.0), own) * NS_PER_S,
            window.known & sloped,
            len(self.model.clocks),
            self.model.reference,
        )
        rate = -np.expm1(-found.moved_ns / NS_PER_S) * NS_PER_S
        unknown = 2.0 * self.model.rate_offset_max_ppb
        return rate, np.where(np.isfinite(found.sd_ns), found.sd_ns, unknown)


def _reached(reader: WindowReader, window: WindowEdges, moved: Motion, reference: int) -> Float64s:
    """The motion of every clock; one that is new starts where its first link puts it."""
    relative = moved.moved_ns.copy()
    relative[reference] = 0.0
    links = np.flatnonzero(window.known)
    while True:
        known = np.isfinite(relative)
        a, b = reader.a[links], reader.b[links]
        out = links[known[a] & ~known[b]]
        back = links[~known[a] & known[b]]
        if not len(out) and not len(back):
            return relative
        relative[reader.b[out]] = relative[reader.a[out]] + window.y_ns[out]
        back = back[~np.isfinite(relative[reader.a[back]])]
        relative[reader.a[back]] = relative[reader.b[back]] - window.y_ns[back]


def track(model: FabricModel, parts: Iterable[LinkWindows]) -> list[TrackedWindow]:
    """All windows of a recording."""
    tracker = FabricTracker(model)
    return [window for rows in parts for window in tracker.push(rows)]
