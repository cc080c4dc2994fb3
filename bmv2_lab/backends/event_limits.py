# SPDX-License-Identifier: Apache-2.0
"""What a disturbance must look like in telemetry and truth of a run on real packets."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.evidence import Evidence
from bmv2_lab.fabric_of import inner_links
from bmv2_lab.lab_run import LabRun
from bmv2_lab.scenarios.disturbances import (
    ClockStep,
    GrandmasterFailover,
    LinkFlap,
    NtpFallback,
    PfcStorm,
    Rehash,
    SwitchRestart,
)
from bmv2_lab.scenarios.limits import Limit, LimitResult, check_limits
from controller.fabric import LinkEnd

MARGIN_NS = 50_000_000
"""Telemetry is captured so long after its packet at most, on a machine that is busy."""
EXCHANGES_MIN = 2
"""Of each client with the new grandmaster."""
STEP_ERROR_NS_MAX = 1_000_000
"""A clock's step is seen through packets that software held up."""
STAMP_UNITS_OFF_MAX = 8.0
"""A correction is made of three differences of stamps in whole units, and ptp4l rounds."""


def event_limits(run: LabRun) -> tuple[LimitResult, ...]:
    """Every limit of the run's own disturbances; none where nothing is disturbed."""
    return check_limits(tuple(_limits(run)), Evidence(run))


def _limits(run: LabRun) -> Iterator[Limit]:
    for event in run.scenario.events:
        match event:
            case LinkFlap():
                yield from _of_flap(event)
            case SwitchRestart():
                yield from _of_restart(event)
            case Rehash():
                yield _of_rehash()
            case GrandmasterFailover():
                yield from _of_failover(event)
            case ClockStep():
                yield _of_step(event)
            case NtpFallback() | PfcStorm():
                raise AssertionError("refused before")
    if not run.scenario.events and (run.scenario.bad_link_share or run.scenario.tier_gradient_ns):
        yield _of_asymmetry(run.scenario.bad_link_ns_min / 4)
    if run.scenario.wrong_correction is not None:
        unit_ns = run.scenario.nuisance.stamp_unit_ns
        yield from _of_wrong_correction(
            run.scenario.wrong_correction.switch,
            run.scenario.wrong_correction.error_ns,
            STAMP_UNITS_OFF_MAX * unit_ns,
        )


def captured_true_ns(evidence: Evidence) -> NDArray[np.int64]:
    """True instant of every hop's capture; the collector's clock is the kernel's."""
    window = evidence.truth.windows[0]
    start_ns = window.reference_ns - window.centre_true_ns
    captured_ns = evidence.packets["capture_collector_ns"][evidence.packet_of_hop]
    result: NDArray[np.int64] = captured_ns - start_ns
    return result


def _count(
    chosen: Callable[[Evidence], NDArray[np.bool_]], from_ns: float, to_ns: float
) -> Callable[[Evidence], float]:
    def measure(evidence: Evidence) -> float:
        times_ns = captured_true_ns(evidence)[chosen(evidence)]
        return float(np.count_nonzero((times_ns >= from_ns) & (times_ns < to_ns)))

    return measure


def _of_flap(event: LinkFlap) -> Iterator[Limit]:
    end = LinkEnd.parse(event.end)

    def between(which: int) -> Callable[[Evidence], float]:
        def measure(evidence: Evidence) -> float:
            (down,) = evidence.events("link_down")
            assert down.until_true_ns is not None
            routed_ns = down.from_true_ns + down.value
            spans = (
                (-np.inf, down.from_true_ns),
                (routed_ns + MARGIN_NS, down.until_true_ns),
                (down.until_true_ns, np.inf),
            )
            return _count(lambda e: e.at(end), *spans[which])(evidence)

        return measure

    yield Limit(name="packets over the link before it failed", measure=between(0), at_least=1.0)
    yield Limit(name="packets into it after the new routes", measure=between(1), at_most=0.0)
    yield Limit(name="packets over it once it is back", measure=between(2), at_least=1.0)


def _of_restart(event: SwitchRestart) -> Iterator[Limit]:
    def between(which: int) -> Callable[[Evidence], float]:
        def measure(evidence: Evidence) -> float:
            (dark,) = evidence.events("switch_restart")
            assert dark.until_true_ns is not None
            spans = (
                (-np.inf, dark.from_true_ns),
                (dark.from_true_ns + MARGIN_NS, dark.until_true_ns),
                (dark.until_true_ns, np.inf),
            )
            return _count(lambda e: e.at(node=event.switch), *spans[which])(evidence)

        return measure

    yield Limit(name="packets through the switch before", measure=between(0), at_least=1.0)
    yield Limit(name="packets through it while it is dark", measure=between(1), at_most=0.0)
    yield Limit(name="packets through it once it is back", measure=between(2), at_least=1.0)
    yield Limit(
        name="report sequences that began anew",
        measure=lambda e: float(e.collection.counters.restarts),
        at_least=1.0,
    )


def _of_rehash() -> Limit:
    def moved_share(evidence: Evidence) -> float:
        (change,) = evidence.events("rehash")
        assert change.until_true_ns is not None
        before = evidence.spines_of_flows(0, change.from_true_ns)
        after = evidence.spines_of_flows(change.until_true_ns + MARGIN_NS)
        both = before.keys() & after.keys()
        return float(np.mean([before[flow] != after[flow] for flow in both]))

    return Limit(name="flows that moved, share", measure=moved_share, at_least=0.45, at_most=0.97)


def _of_failover(event: GrandmasterFailover) -> Iterator[Limit]:
    def after(evidence: Evidence) -> float:
        (silent,) = evidence.events("grandmaster_silent")
        window = evidence.truth.windows[0]
        start_ns = window.reference_ns - window.centre_true_ns
        ip = evidence.fabric.host(evidence.fabric.ptp.grandmaster).ip
        late_ns = start_ns + silent.from_true_ns + MARGIN_NS
        return float(
            sum(
                int(row["time_transmitter_ip"]) == ip and int(row["t4_reference_ns"]) > late_ns
                for _, row in evidence.result.exchanges
            )
        )

    def fewest(evidence: Evidence) -> float:
        ip = evidence.fabric.host(event.successor).ip
        others = {event.successor, evidence.fabric.ptp.grandmaster}
        counts = dict.fromkeys({host.name for host in evidence.fabric.hosts} - others, 0)
        for client, row in evidence.result.exchanges:
            if client in counts:
                counts[client] += int(row["time_transmitter_ip"]) == ip
        return float(min(counts.values()))

    yield Limit(name="exchanges with the old grandmaster after", measure=after, at_most=0.0)
    yield Limit(
        name="exchanges of a client with the new one", measure=fewest, at_least=EXCHANGES_MIN
    )


def _of_step(event: ClockStep) -> Limit:
    def error_ns(evidence: Evidence) -> float:
        sent_ns, ahead_ns = evidence.stamp_jumps_ns(event.switch)
        late = sent_ns > event.at_ns
        jump_ns = np.median(ahead_ns[late]) - np.median(ahead_ns[~late])
        return float(abs(jump_ns - event.step_ns))

    return Limit(
        name="jump of the switch's stamps less the true one, ns",
        measure=error_ns,
        at_most=STEP_ERROR_NS_MAX,
    )


def _of_asymmetry(off_ns_max: float) -> Limit:
    """Every asymmetry that was made is in the telemetry, and no other of its size.

    By the fastest packet in each direction: waking up only ever makes packets late.
    """

    def largest_ns(evidence: Evidence) -> float:
        errors_ns = []
        for index in inner_links(evidence.fabric):
            there_ns = evidence.one_way_ns(index, reverse=False)
            back_ns = evidence.one_way_ns(index, reverse=True)
            if len(there_ns) and len(back_ns):
                a_ns = (there_ns.min() - back_ns.min()) / 2
                errors_ns.append(a_ns - evidence.true_a_ns(evidence.fabric.links[index].name))
        return float(np.abs(errors_ns).max())

    return Limit(
        name="measured less true a_uv of any link, largest, ns",
        measure=largest_ns,
        at_most=off_ns_max,
    )


def _of_wrong_correction(switch: str, error_ns: int, off_ns_max: float) -> Iterator[Limit]:
    def unexplained_ns(evidence: Evidence, *, over_it: bool) -> NDArray[np.float64]:
        found = [
            one.unexplained_ns
            for one in evidence.corrections
            if (switch in one.switches) == over_it
        ]
        return np.array(found, np.float64)

    yield Limit(
        name="unexplained correction over the wrong switch less the true error, largest, ns",
        measure=lambda e: float(np.abs(unexplained_ns(e, over_it=True) - error_ns).max()),
        at_most=off_ns_max,
    )
    yield Limit(
        name="unexplained correction elsewhere, largest, ns",
        measure=lambda e: float(np.abs(unexplained_ns(e, over_it=False)).max()),
        at_most=off_ns_max,
    )
