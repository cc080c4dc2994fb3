# SPDX-License-Identifier: Apache-2.0
"""From a recording to corrections: reports and exchanges in, rows for the store out.

The same door for a lab run and for a user's own captures: `fabric.yaml`, a pcap of telemetry
reports and `exchanges.jsonl`. Nothing here knows what is true.
"""

import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controller.clock_pairs import read_clock_pairs
from controller.fabric import Fabric, PtpRole
from controller.fabric_model import fabric_model
from controller.following.clock_status import CLOCK_STATUS
from controller.following.derived_rows import DERIVED_PRIOR, derived_corrections
from controller.ptp_entries import residence_offset_scaled
from controller.ptp_log import PtpLog, read_ptp_log
from controller.telemetry.collector import Collection, CollectorCounters, collect
from controller.telemetry.pcap import read_pcap
from controller.written_delays import read_link_delays
from correction.boundary_clocks import free_running_transmitters, with_boundary_clocks
from correction.correction_fields import ClientFields, client_fields
from correction.cross_stamps import free_running_stamps
from correction.derived.chain import NOTHING_DERIVED, DerivedClocks, derive
from correction.derived.phc import all_free_running, phc_rows
from correction.derived.readings import ClockPairs, PairReject
from correction.exchange_accept import accept_exchanges
from correction.injected import Injected, account
from correction.links import JoinCounters
from correction.model import ClockKind, FabricModel
from correction.records import Exchanges, LinkSamples
from correction.servo import ServoLog, free_running_exchanges, steered_table
from correction.solution import FabricSolution
from correction.sources import gather
from correction.table import UNBOUNDED_NS, CorrectionTable, Status
from correction.windows import telemetry_windows
from tempotrace.errors import InputError
from tempotrace.unreported_clients import solve_with_unreported
from tracing_core.model import Correction, LinkEstimate
from tracing_core.store import Store, links_of, nodes_of

LINKS_MAX = 2_000
"""Of a recording that is solved as a whole: matrices over links, and two minutes at this size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything derived from one recording."""

    fabric: Fabric
    declared: FabricModel
    """What `fabric.yaml` declares: the first clocks and links of `model`."""
    model: FabricModel
    """With what else ties clocks together: machines' counters and cross-stamps."""
    collection: Collection
    ptp_log: PtpLog
    windows: NDArray[np.int64]
    samples: LinkSamples
    """NIC stamps in free-running time."""
    injected: Injected
    """Link delays that transparent clocks were told to add to correctionFields."""
    solution: FabricSolution
    """Clocks of steered NICs in free-running time."""
    table: CorrectionTable
    """The same on the clocks as they read, servo adjustments included."""
    derived: DerivedClocks
    """Clocks of hosts that clock pairs tie to their NICs: system clocks, GPUs, monotonic ones."""

    @property
    def servos(self) -> Mapping[int, ServoLog]:
        """Servo logs by clock index."""
        return _servos_by_clock(self.ptp_log, self.model)


def analyse(
    fabric: Fabric,
    reports: Path,
    exchanges: Path,
    clock_pairs: Path | None = None,
    link_delays: Path | None = None,
) -> Analysis:
    """Decode, join and solve one recording; `clock_pairs`: cross-stamps and pairs of hosts' other
    clocks, where there are any; `link_delays`: what was written to transparent clocks."""
    declared = fabric_model(fabric)
    collection = collect(read_pcap(reports), fabric)
    with_ptp = with_boundary_clocks(declared)
    kinds = (ClockKind.NIC, ClockKind.PTP)
    clients = {
        clock.name: index for index, clock in enumerate(with_ptp.clocks) if clock.kind in kinds
    }
    ptp_log = read_ptp_log(exchanges, clients, time_transmitter=fabric.ptp.grandmaster)
    servos = _servos_by_clock(ptp_log, with_ptp)
    free = free_running_exchanges(ptp_log.exchanges, servos)
    windows = telemetry_windows(collection.packets)
    free = free_running_transmitters(free, servos, with_ptp)
    pair_log = None if clock_pairs is None else read_clock_pairs(clock_pairs, clients)
    gathered = gather(
        collection.packets,
        collection.hops,
        free,
        declared,
        cross_stamps=None
        if pair_log is None or not len(pair_log.stamps.rows)
        else free_running_stamps(pair_log.stamps, servos),
    )
    if len(gathered.model.links) > LINKS_MAX:
        raise InputError(
            f"{fabric.name}: {len(gathered.model.links)} links; a recording is solved as a whole "
            f"for up to {LINKS_MAX}, larger fabrics window by window (tempotrace correct follow)"
        )
    injected = _injected(fabric, link_delays)
    gathered, solution = solve_with_unreported(
        fabric, collection, gathered, free, windows, injected
    )
    return Analysis(
        fabric=fabric,
        declared=declared,
        model=gathered.model,
        collection=collection,
        ptp_log=ptp_log,
        windows=windows,
        samples=gathered.samples,
        injected=injected,
        solution=solution,
        table=steered_table(solution.table, servos),
        derived=NOTHING_DERIVED if pair_log is None else _derived(pair_log.pairs, solution, servos),
    )


def _derived(
    pairs: tuple[ClockPairs, ...], solution: FabricSolution, servos: Mapping[int, ServoLog]
) -> DerivedClocks:
    """Clocks that pairs tie to NICs; `solution` and what NICs read in free-running time."""
    rejected: Counter[PairReject] = Counter()
    by_name = {solution.model.clocks[clock].name: log for clock, log in servos.items()}
    free = all_free_running(pairs, by_name, rejected)
    return derive(free, phc_rows(solution), rejected)


def _injected(fabric: Fabric, link_delays: Path | None) -> Injected:
    """What transparent clocks add besides residence: as recorded, and for their stamp points as a
    deployment of the fabric has it."""
    offsets = {
        switch.node_id: residence_offset_scaled(fabric, switch)
        for switch in fabric.switches
        if fabric.model(switch.model).ptp_role is PtpRole.TRANSPARENT_CLOCK
    }
    if link_delays is None:
        return Injected(residence_offset_scaled_ns=offsets)
    node_ids = {switch.name: switch.node_id for switch in fabric.switches}
    read = read_link_delays(link_delays, node_ids)
    return replace(read, residence_offset_scaled_ns=offsets | read.residence_offset_scaled_ns)


def warn_of_refusals(analysis: Analysis) -> None:
    """One line on stderr for reports that the fabric's description or format does not explain."""
    counters = analysis.collection.counters
    if counters.rejected_total:
        reasons = ", ".join(f"{n} {reason}" for reason, n in rejected_by_reason(counters).items())
        sys.stderr.write(
            f"warning: {counters.rejected_total} of {counters.received} reports refused: "
            f"{reasons}\n"
        )


def rejected_by_reason(counters: CollectorCounters) -> dict[str, int]:
    """Counts of refused reports by the name of the reason, in the order of the names."""
    return dict(sorted((reason.value, count) for reason, count in counters.rejected.items()))


def _servos_by_clock(ptp_log: PtpLog, model: FabricModel) -> dict[int, ServoLog]:
    """Reference clocks left out: what they read is reference time, however they are steered."""
    references = {one.clock for one in model.references}
    index = {clock.name: number for number, clock in enumerate(model.clocks)}
    logs = {index[name]: log for name, log in ptp_log.servos.items() if name in index}
    return {clock: log for clock, log in logs.items() if clock not in references}


def correction_rows(analysis: Analysis) -> list[Correction]:
    """The table as rows of the store, each with the worst bound within its validity."""
    solution = analysis.solution
    possible = accept_exchanges(analysis.ptp_log.exchanges, analysis.model, JoinCounters())
    reported = {
        index: _client_offsets(possible, index, clock.ip)
        for index, clock in enumerate(analysis.model.clocks)
    }
    rows: list[Correction] = []
    for row in analysis.table.rows:
        clock = int(row["clock"])
        window = int(row["window"])
        status = Status(int(row["status"]))
        rows.append(
            Correction(
                clock=analysis.table.clock_names[clock],
                valid_from_local_ns=int(row["valid_from_local_ns"]),
                valid_to_local_ns=int(row["valid_to_local_ns"]),
                anchor_local_ns=int(row["anchor_local_ns"]),
                offset_ns=int(row["offset_ns"]),
                rate_ppb=float(row["rate_ppb"]),
                bound_hard_ns=_bound(int(row["bound_hard_worst_ns"])),
                bound_conditional_ns=_bound(int(row["bound_conditional_worst_ns"])),
                method=analysis.table.method_of(clock, analysis.model.reference).value,
                prior=analysis.table.prior,
                status=CLOCK_STATUS[status],
                reason=solution.windows[window].reason[clock],
                ptp_offset_ns=_nearest(*reported[clock], int(row["anchor_local_ns"])),
                window_index=window,
            )
        )
    prior = f"{analysis.table.prior}; {DERIVED_PRIOR}"
    return rows + derived_corrections(analysis.derived, prior=prior)


def publish(analysis: Analysis, store: Store) -> int:
    """Put an analysis into the store; returns the new correction version.

    Packets of a recording that was published before are there already, and stay there once.
    """
    store.fabric.replace(nodes_of(analysis.declared), links_of(analysis.declared))
    store.telemetry.append_new(analysis.collection.packets, analysis.collection.hops)
    return store.corrections.append(correction_rows(analysis), link_estimates(analysis))


def fields_of_clients(analysis: Analysis) -> tuple[ClientFields, ...]:
    """What correctionFields hold that neither residence nor written link delays explain."""
    collection = analysis.collection
    accounted = account(
        collection.packets,
        collection.hops,
        analysis.ptp_log.exchanges,
        analysis.model,
        analysis.injected,
    )
    return client_fields(accounted)


def _client_offsets(
    exchanges: Exchanges, clock: int, ip: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """t2 and what the client itself computed as its offset, in order of t2."""
    mine = exchanges[(exchanges["client"] == clock) & (exchanges["client_ip"] == ip)]
    mine = mine[np.argsort(mine["t2_local_ns"], kind="stable")]
    to_client = mine["t2_local_ns"] - mine["t1_reference_ns"] - mine["c1_ns"]
    to_transmitter = mine["t4_reference_ns"] - mine["t3_local_ns"] - mine["c2_ns"]
    return mine["t2_local_ns"], (to_client - to_transmitter) // 2


def _nearest(times_ns: NDArray[np.int64], values: NDArray[np.int64], at_ns: int) -> int | None:
    """The value whose time is nearest; None where there is none."""
    if not len(times_ns):
        return None
    after = int(np.searchsorted(times_ns, at_ns))
    near = [index for index in (after - 1, after) if 0 <= index < len(times_ns)]
    return int(values[min(near, key=lambda index: abs(int(times_ns[index]) - at_ns))])


def _bound(bound_ns: int) -> int | None:
    return None if bound_ns == UNBOUNDED_NS else bound_ns


def link_estimates(analysis: Analysis) -> list[LinkEstimate]:
    """What was measured per link; NaN where a link lies in no loop."""
    links = analysis.solution.links
    samples = analysis.samples
    declared = [link.asymmetry_ns for link in analysis.model.links]
    total_ns = links.a_ns + np.array(declared, np.float64)
    counts = np.bincount(
        2 * samples["link"] + samples["reverse"], minlength=2 * len(analysis.model.links)
    )
    return [
        LinkEstimate(
            link=link.name,
            a_uv_ns=float(total_ns[index]) if links.observable[index] else math.nan,
            sigma_ns=float(links.sd_ns[index]),
            bad=bool(links.asymmetric[index]),
            delay_ab_ns=float(links.half_round_trip_ns[index] + total_ns[index]),
            delay_ba_ns=float(links.half_round_trip_ns[index] - total_ns[index]),
            samples_ab=int(counts[2 * index]),
            samples_ba=int(counts[2 * index + 1]),
        )
        for index, link in enumerate(analysis.declared.links)
    ]


def with_addresses(fabric: Fabric, addresses: Mapping[str, str]) -> Fabric:
    """The fabric with other P4Runtime addresses."""
    return replace(
        fabric,
        switches=tuple(
            replace(switch, p4runtime=addresses.get(switch.name, switch.p4runtime))
            for switch in fabric.switches
        ),
    )
