# SPDX-License-Identifier: Apache-2.0
"""Scores a run against its ground truth; the only reader of the truth besides the simulator.

A correction is scored as it is used: the true reading of a clock at a window's centre is converted
by the published table and compared with what the reference clock truly read at that instant.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.fabric_of import inner_links
from bmv2_lab.truth import TrueFault, Truth
from controller.fabric import Fabric, LinkEnd, cabling
from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, LinkEstimate
from tracing_core.ordering import CausalPairs, JudgedPairs

BAD_LINK_NS = 20.0
"""A link is bad when |a_uv| is at least this (design, Definitions)."""
CLEAR_LINK_NS = 30.0
"""A link beyond this is to be found."""
FAR_APART_RMS = 10.0
"""Pairs truly further apart than this many rms errors should be decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncScore:
    """Clock errors of the client hosts, ns; flagged hosts only in the raw error and the counts."""

    ptp_raw_error_ns_rms: float
    corrected_error_ns_rms: float
    corrected_error_ns_max: float
    oracle_error_ns_rms: float
    bound_hard_coverage: float
    bound_hard_median_ns: float
    bound_conditional_coverage: float
    bound_conditional_median_ns: float
    nodes_flagged: int
    nodes_flagged_share: float
    """Of all clocks, not counting those behind a leaf with half of its uplinks bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScore:
    """Asymmetric links between switches, and of hosts where these lie in loops: how many there are,
    were found, and were found falsely."""

    asymmetric_true: int
    asymmetric_found: int
    false_alarms: int
    clear_true: int
    """Of the links between unflagged nodes, those beyond CLEAR_LINK_NS."""
    clear_found: int
    reported: int
    """Of the links between unflagged nodes, those that are reported asymmetric."""
    reported_true: int
    """And truly are beyond BAD_LINK_NS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionScore:
    """Verdicts on the injected slow transfers."""

    cases: int
    correct: int
    wrong: int
    abstained: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionVerdict:
    """What the product answered for one transfer; an empty entity is an abstention."""

    kind: str
    entity: str


def score_sync(
    truth: Truth,
    fabric: Fabric,
    table: CorrectionTable,
    oracle_offset_errors_ns: Mapping[str, NDArray[np.float64]],
) -> SyncScore:
    """Scores hosts at the centres of all windows.

    oracle_offset_errors_ns: per host, the oracle's error in each window.
    """
    reference = fabric.ptp.grandmaster
    clients = [host.name for host in fabric.hosts if host.name != reference]
    # PTP clocks of switches and counters of machines are no nodes
    flagged = flagged_clocks(table) & {node.name for node in fabric.nodes}
    raw: list[float] = []
    errors: list[float] = []
    oracle: list[float] = []
    hard_ns: list[float] = []
    conditional_ns: list[float] = []
    hard_covered: list[bool] = []
    conditional_covered: list[bool] = []
    for host in clients:
        readings = [
            (window.reference_ns, clock.local_ns, clock.offset_ns)
            for window in truth.windows
            for clock in window.clocks
            if clock.clock == host and clock.offset_ns is not None
        ]
        raw += [offset_ns for _, _, offset_ns in readings]
        if host in flagged:
            continue
        local_ns = np.array([local for _, local, _ in readings], np.int64)
        # The true difference has a fraction, the two readings do not: keep the fraction.
        true_offset_ns = np.array([offset for _, _, offset in readings])
        corrected = table.correct_clock(host, local_ns)
        estimated_ns = (local_ns - corrected.corrected_reference_ns).astype(np.float64)
        error_ns = np.where(corrected.usable, np.abs(estimated_ns - true_offset_ns), np.inf)
        errors += error_ns.tolist()
        hard_ns += corrected.bound_hard_ns.tolist()
        conditional_ns += corrected.bound_conditional_ns.tolist()
        hard_covered.append(_covered(error_ns, corrected.bound_hard_ns))
        conditional_covered.append(_covered(error_ns, corrected.bound_conditional_ns))
        oracle += np.abs(oracle_offset_errors_ns[host]).tolist()
    return SyncScore(
        ptp_raw_error_ns_rms=_rms(raw),
        corrected_error_ns_rms=_rms(errors),
        corrected_error_ns_max=max(errors, default=float("nan")),
        oracle_error_ns_rms=_rms(oracle),
        bound_hard_coverage=_share(hard_covered),
        bound_hard_median_ns=float(np.median(hard_ns)) if hard_ns else float("nan"),
        bound_conditional_coverage=_share(conditional_covered),
        bound_conditional_median_ns=(
            float(np.median(conditional_ns)) if conditional_ns else float("nan")
        ),
        nodes_flagged=len(flagged),
        nodes_flagged_share=_unexplained_share(truth, fabric, flagged),
    )


def flagged_clocks(table: CorrectionTable) -> set[str]:
    """Clocks with a row that is not synchronised."""
    return {row.clock for row in table.rows if row.status is not ClockStatus.SYNCHRONISED}


def ambiguous_leaves(truth: Truth, fabric: Fabric) -> set[str]:
    """Leaves with half of their uplinks truly bad: not determined under the prior."""
    hosts = {host.name for host in fabric.hosts}
    leaves = {link.a.node for link in fabric.links if link.b.node in hosts}
    leaves |= {link.b.node for link in fabric.links if link.a.node in hosts}
    bad_uplinks = dict.fromkeys(sorted(leaves), 0)
    uplinks = dict.fromkeys(bad_uplinks, 0)
    for link, true_link in zip(fabric.links, truth.links, strict=True):
        if {link.a.node, link.b.node} & hosts:
            continue
        bad = abs(true_link.asymmetry_ns) >= BAD_LINK_NS
        for end in (link.a, link.b):
            if end.node in uplinks:
                uplinks[end.node] += 1
                bad_uplinks[end.node] += bad
    return {leaf for leaf, count in bad_uplinks.items() if count and 2 * count >= uplinks[leaf]}


def _unexplained_share(truth: Truth, fabric: Fabric, flagged: set[str]) -> float:
    excused = ambiguous_leaves(truth, fabric)
    peers = cabling(fabric)
    reference_leaf = peers[LinkEnd(node=fabric.ptp.grandmaster, port=1)].node
    if reference_leaf in excused:
        return 0.0
    for host in fabric.hosts:
        if peers[LinkEnd(node=host.name, port=1)].node in excused:
            excused = excused | {host.name}
    count = len(fabric.hosts) + len(fabric.switches)
    return len(flagged - excused) / count


def score_links(
    truth: Truth,
    fabric: Fabric,
    estimates: Mapping[str, LinkEstimate],
    flagged: Collection[str] = (),
) -> LinkScore:
    """Scores the asymmetric links that could show; `flagged` are clocks."""
    true_bad: set[str] = set()
    found: set[str] = set()
    clear: set[str] = set()
    sure: set[str] = set()
    inner = set(inner_links(fabric))
    for index, (link, true_link) in enumerate(zip(fabric.links, truth.links, strict=True)):
        estimate = estimates.get(link.name)
        in_loop = estimate is not None and math.isfinite(estimate.a_uv_ns)
        if index not in inner and not in_loop:
            continue
        if abs(true_link.asymmetry_ns) >= BAD_LINK_NS:
            true_bad.add(link.name)
        if abs(true_link.asymmetry_ns) > CLEAR_LINK_NS:
            clear.add(link.name)
        if link.a.node not in flagged and link.b.node not in flagged:
            sure.add(link.name)
        if estimate is not None and estimate.bad:
            found.add(link.name)
    return LinkScore(
        asymmetric_true=len(true_bad),
        asymmetric_found=len(found & true_bad),
        false_alarms=len(found - true_bad),
        clear_true=len(clear & sure),
        clear_found=len(clear & sure & found),
        reported=len(found & sure),
        reported_true=len(found & sure & true_bad),
    )


def undecided_far_share(
    pairs: CausalPairs,
    judged: JudgedPairs,
    true_of_stamp: Mapping[str, Mapping[int, int]],
    error_ns_rms: float,
) -> float:
    """Share of undecided pairs among those truly more than 10 rms errors apart."""
    first = _true_ns(pairs.clocks, pairs.first_clock, pairs.first_local_ns, true_of_stamp)
    second = _true_ns(pairs.clocks, pairs.second_clock, pairs.second_local_ns, true_of_stamp)
    far = (np.abs(second - first) > FAR_APART_RMS * error_ns_rms) & ~judged.left_out
    if not far.any():
        return 0.0
    return float(judged.undecided[far].mean())


def score_attribution(
    faults: Sequence[TrueFault], verdicts: Mapping[str, AttributionVerdict]
) -> AttributionScore:
    """Compares each struck fault with the verdict on its transfer (by send span id)."""
    correct = wrong = abstained = 0
    cases = [fault for fault in faults if fault.struck and fault.span_id]
    for fault in cases:
        verdict = verdicts.get(fault.span_id)
        if verdict is None or not verdict.entity:
            abstained += 1
        elif (verdict.kind, verdict.entity) == (fault.kind, fault.entity):
            correct += 1
        else:
            wrong += 1
    return AttributionScore(cases=len(cases), correct=correct, wrong=wrong, abstained=abstained)


def _true_ns(
    clocks: Sequence[str],
    clock_index: NDArray[np.int64],
    local_ns: NDArray[np.int64],
    true_of_stamp: Mapping[str, Mapping[int, int]],
) -> NDArray[np.int64]:
    return np.array(
        [
            true_of_stamp[clocks[clock]][stamp]
            for clock, stamp in zip(clock_index.tolist(), local_ns.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def _covered(error_ns: NDArray[np.float64], bound_ns: NDArray[np.float64]) -> bool:
    """Within its bound in every window; an infinite bound counts as uncovered."""
    return bool(np.all((error_ns <= bound_ns) & np.isfinite(bound_ns)))


def _rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values else float("nan")


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else float("nan")
