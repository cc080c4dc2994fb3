# SPDX-License-Identifier: Apache-2.0
"""What the engine answers in a run, held against its truth: what limits on estimates measure.

The answers are those of `correct run` on the run's own files; this view only compares. It asks the
published table for every clock at every instant at which the lab looked at all clocks (50 ms apart,
in windows and between them), so that an answer is judged as it is used.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.answers import Answers, all_answers
from bmv2_lab.fabric_of import inner_links
from bmv2_lab.host_clock_score import HostClockErrors, host_clock_errors
from bmv2_lab.lab_run import LabRun
from bmv2_lab.oracle_score import oracle_errors_ns, table_errors_ns
from controller.fabric import programmed_switches
from correction.derived.chain import NOTHING_DERIVED, DerivedClocks
from correction.link_bounds import link_bounds
from correction.servo import ServoLog
from correction.solution import FabricSolution
from correction.table import CorrectionTable, Status

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Estimates:
    """The answers of one run, as its scenario's limits look at them."""

    def __init__(
        self,
        run: LabRun,
        solution: FabricSolution,
        table: CorrectionTable,
        servos: Mapping[int, ServoLog],
        derived: DerivedClocks = NOTHING_DERIVED,
    ) -> None:
        """`solution`: in free-running time; `table`: on the clocks as they read; `derived`: hosts'
        other clocks."""
        self.run = run
        self.solution = solution
        self.table = table
        self._servos = servos
        self._derived = derived
        self._fabric = run.drawn.fabric
        self._truth = run.lab.truth

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts but the reference."""
        reference = self._fabric.ptp.grandmaster
        return tuple(host.name for host in self._fabric.hosts if host.name != reference)

    @property
    def switches(self) -> tuple[str, ...]:
        """All switches that report."""
        return tuple(switch.name for switch in programmed_switches(self._fabric))

    @property
    def nodes(self) -> tuple[str, ...]:
        """All hosts but the reference, and all switches."""
        return (*self.hosts, *self.switches)

    @cached_property
    def undecidable(self) -> frozenset[str]:
        """Nodes that the prior does not determine: switches with at least half of their links in
        loops truly asymmetric, and hosts of such leaves alone; where the reference's leaf is one,
        everybody but it and its hosts."""
        total: Counter[str] = Counter()
        bad: Counter[str] = Counter()
        for index in np.flatnonzero(self.solution.links.observable).tolist():
            if index < len(self._fabric.links):  # ties come after
                link = self._fabric.links[index]
                for end in {link.a.node, link.b.node} & set(self.switches):
                    total[end] += 1
                    bad[end] += self._truth.links[index].bad
        doubtful = {name for name in total if bad[name] and 2 * bad[name] >= total[name]}
        behind = {one for one in self.hosts if self._leaves_of(one) <= doubtful}
        leaves = self._leaves_of(self._fabric.ptp.grandmaster)
        if leaves <= doubtful:
            beside = {one for one in self.hosts if self._leaves_of(one) & leaves}
            return frozenset(self.nodes) - leaves - beside
        return frozenset(doubtful | behind)

    def _leaves_of(self, host: str) -> set[str]:
        ends = {(link.a.node, link.b.node) for link in self._fabric.links}
        return {b if a == host else a for a, b in ends if host in (a, b)}

    def behind(self, leaf: str) -> tuple[str, ...]:
        """A leaf and the hosts that have a cable to it."""
        return (leaf, *(name for name in self.hosts if leaf in self._leaves_of(name)))

    # Answers

    @cached_property
    def answers(self) -> Answers:
        """Every clock but the reference, whenever the lab looked."""
        return all_answers(self.run, self.solution, self.table)

    def of(self, clocks: Collection[str]) -> Bools:
        """[clock] of `answers`: which they are."""
        return np.array([clock in clocks for clock in self.answers.clocks], np.bool_)

    def outside_hard(self) -> float:
        """Answers with a finite hard bound that does not hold, of all clocks at all instants."""
        answers = self.answers
        wrong = np.isfinite(answers.hard_ns) & (answers.error_ns > answers.hard_ns)
        return float(np.count_nonzero(wrong))

    def covered_share(self, clocks: Collection[str] | None = None) -> float:
        """Share of the confident answers that are within their conditional bound."""
        answers = self.answers
        chosen = answers.confident & self.of(self.nodes if clocks is None else clocks)
        return float(np.mean(answers.covered[chosen])) if chosen.any() else float("nan")

    def median_conditional_ns(self, clocks: Collection[str], window: int | None = None) -> float:
        """Median conditional bound of the confident answers in all windows, or in one (negative:
        counted from the last)."""
        answers = self.answers
        if window is None:
            inside = answers.window >= 0
        else:
            inside = answers.window == window % len(self.solution.windows)
        chosen = answers.confident & inside[:, None] & self.of(clocks)
        bounds = answers.conditional_ns[chosen]
        return float(np.median(bounds)) if len(bounds) else float("nan")

    def host_clocks(self, clocks: Collection[str]) -> HostClockErrors:
        """Hosts' clocks that no packet carries, whenever the lab looked."""
        return host_clock_errors(self.run.lab.result.host_clocks_observed, self._derived, clocks)

    # Windows

    def status_of(self, window: int, clocks: Collection[str]) -> list[Status]:
        """What the engine says of clocks in one of its windows."""
        status = self.solution.windows[window].status
        names = self.table.clock_names
        return [Status(int(status[names.index(clock)])) for clock in clocks]

    def flagged(self, clocks: Collection[str]) -> float:
        """How many of these are flagged, or without an answer, in some window."""
        windows = range(len(self.solution.windows))
        by_window = [self.status_of(window, clocks) for window in windows]
        determined = [
            all(status is Status.OK for status in of_clock)
            for of_clock in zip(*by_window, strict=True)
        ]
        return float(determined.count(False))

    def windows_to_recover(self, event_true_ns: int, clocks: Collection[str]) -> float:
        """Windows from the one around (or after) an event until all these clocks are determined in
        every window to the end, and their conditional bounds hold wherever they are claimed: 0 if
        the event's own is such, NaN if none is.
        """
        answers, mine = self.answers, self.of(clocks)
        later = answers.window[(answers.true_ns >= event_true_ns) & (answers.window >= 0)]
        first, last = int(later.min()), len(self.solution.windows)
        good = []
        for window in range(first, last):
            inside = (answers.window == window)[:, None] & mine
            wrong = answers.confident & ~answers.covered
            known = all(s is Status.OK for s in self.status_of(window, clocks))
            good.append(known and not wrong[inside].any())
        if not good or not good[-1]:
            return float("nan")
        bad = [number for number, one in enumerate(good) if not one]
        return float(bad[-1] + 1 if bad else 0)

    # Against the oracle

    def rms_over_oracle(self, clocks: Collection[str] | None = None) -> float:
        """Rms error over determined hosts at the windows' centres, against least squares that is
        told which links are bad."""
        chosen = self.hosts if clocks is None else clocks
        determined = [name for name in chosen if not self.flagged((name,))]
        mine = table_errors_ns(self._truth, self.table)
        oracle = oracle_errors_ns(
            self._truth,
            self.solution.measured,
            self._servos,
            asymmetry_sd_ns=self.run.scenario.nuisance.link_asymmetry_sd_ns,
        )
        if not determined:
            return float("nan")
        return _rms([mine[name] for name in determined]) / _rms(
            [oracle[name] for name in determined]
        )

    # Links

    @property
    def true_bad(self) -> set[str]:
        """Links that were drawn asymmetric."""
        return {link.name for link in self._truth.links if link.bad}

    @property
    def reported_bad(self) -> set[str]:
        """Links that are reported asymmetric."""
        asymmetric = self.solution.links.asymmetric
        return {link.name for i, link in enumerate(self._fabric.links) if asymmetric[i]}

    def missed_links(self) -> float:
        """Links between nodes that the prior determines which are asymmetric and not reported."""
        sure = {
            link.name
            for link in self._fabric.links
            if not {link.a.node, link.b.node} & self.undecidable
        }
        return float(len((self.true_bad & sure) - self.reported_bad))

    def false_links(self) -> float:
        """Links that are reported and were not drawn asymmetric."""
        return float(len(self.reported_bad - self.true_bad))

    def hidden_access_links(self) -> float:
        """Cables of hosts that lie in no loop, so that their asymmetry does not show."""
        return float(np.count_nonzero(~self.solution.links.observable[self._access]))

    def access_links_outside(self) -> float:
        """Cables of hosts whose asymmetry is estimated, and truly lies outside either bound."""
        links, access = self.solution.links, self._access
        access = access[links.observable[access]]
        bounds = link_bounds(self.solution)
        limit_ns = np.minimum(bounds.conditional_ns, bounds.hard_ns)[access]
        true_ns = np.array([self._truth.links[i].asymmetry_ns for i in access.tolist()])
        return float(np.count_nonzero(np.abs(links.a_ns[access] - true_ns) > limit_ns))

    @property
    def _access(self) -> NDArray[np.int64]:
        """Indices of the cables of hosts."""
        every = np.arange(len(self._fabric.links))
        return np.setdiff1d(every, inner_links(self._fabric))

    def findings(self, kind: str) -> list[str]:
        """Subjects of all findings of a kind."""
        return [one.subject for one in self.solution.findings if one.kind == kind]


def _rms(values: list[Floats]) -> float:
    every = np.concatenate(values)
    return float(np.sqrt(np.mean(every**2)))
