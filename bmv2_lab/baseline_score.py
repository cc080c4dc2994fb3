# SPDX-License-Identifier: Apache-2.0
"""Errors of the baselines beside the engine's and the oracle's, on the same hosts and windows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.oracle_score import table_errors_ns
from bmv2_lab.simulator.collective import RingJob
from bmv2_lab.truth import Truth
from correction.baselines.compare import (
    HOST_MESH,
    LEAST_SQUARES,
    RAW_PTP,
    RESIDENCE_ONLY,
)
from correction.baselines.host_packets import HOST_PACKET_DTYPE, HostPackets
from correction.model import ClockKind, FabricModel
from correction.servo import ServoLog
from correction.solution import FabricSolution
from correction.table import CorrectionTable


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineScore:
    """Rms errors over unflagged client hosts at the windows' centres, ns."""

    raw_ptp_ns_rms: float
    """Median of a window's exchanges: without the noise that a servo adds."""
    residence_only_ns_rms: float
    """The same with each packet's residence taken off."""
    host_mesh_ns_rms: float
    """Support vectors between hosts, then the network effect (after Huygens)."""
    least_squares_ns_rms: float
    """On the links, none of them taken to be bad."""
    engine_ns_rms: float
    oracle_ns_rms: float
    """Least squares told which links are bad."""
    engine_nodes_ns_rms: float
    """Switches too."""
    oracle_nodes_ns_rms: float
    host_packets: int
    """Packets stamped at both ends by NICs that the mesh had besides PTP."""


def score_baselines(
    truth: Truth,
    solution: FabricSolution,
    table: CorrectionTable,
    differences_ns: Mapping[str, NDArray[np.float64]],
    oracle_errors_ns: Mapping[str, NDArray[np.float64]],
    *,
    left_out: Collection[str],
    host_packets: int,
) -> BaselineScore:
    """From what each method's offsets differ from the engine's (`baseline_offsets`).

    `table`: the engine's corrections, on the clocks as they are steered. `left_out`: flagged
    clocks. A method without an offset where the engine has one counts only where it has one.
    """
    clock_names = [clock.name for clock in solution.model.clocks]
    row = [_window_at(solution, window.reference_ns) for window in truth.windows]
    nodes = {
        name: values
        for name, values in table_errors_ns(truth, table).items()
        if name not in left_out and name != clock_names[solution.model.reference]
    }
    nics = {clock.name for clock in solution.model.clocks if clock.kind is ClockKind.NIC}
    engine = {name: values for name, values in nodes.items() if name in nics}
    errors: dict[str, list[NDArray[np.float64]]] = {method: [] for method in differences_ns}
    for name, values in engine.items():
        clock = clock_names.index(name)
        for method, difference in differences_ns.items():
            errors[method].append(
                np.array(
                    [
                        value + difference[w, clock] if w is not None else np.nan
                        for value, w in zip(values, row, strict=True)
                    ]
                )
            )
    return BaselineScore(
        raw_ptp_ns_rms=_rms(errors[RAW_PTP]),
        residence_only_ns_rms=_rms(errors[RESIDENCE_ONLY]),
        host_mesh_ns_rms=_rms(errors[HOST_MESH]),
        least_squares_ns_rms=_rms(errors[LEAST_SQUARES]),
        engine_ns_rms=_rms(list(engine.values())),
        oracle_ns_rms=_rms([oracle_errors_ns[name] for name in engine]),
        engine_nodes_ns_rms=_rms(list(nodes.values())),
        oracle_nodes_ns_rms=_rms([oracle_errors_ns[name] for name in nodes]),
        host_packets=host_packets,
    )


def message_packets(
    jobs: Sequence[RingJob], model: FabricModel, servos: Mapping[int, ServoLog]
) -> HostPackets:
    """First packet of each message that both NICs stamped, in free-running time.

    A message's packets leave back to back, so that its first one alone says something new. What
    was stamped before a servo's first adjustment has no place in free-running time.
    """
    index = {clock.name: n for n, clock in enumerate(model.clocks)}
    rows = [
        (
            index[transfer.qp.local.name],
            index[transfer.qp.remote.name],
            transfer.tx_first_local_ns,
            transfer.rx_first_local_ns,
            np.nan,
        )
        for job in jobs
        for step in job.steps
        for rank in step.ranks
        for transfer in rank.transfers
        if transfer.done and transfer.received_local_ns and not transfer.overtaken
    ]
    found = np.array(rows, HOST_PACKET_DTYPE)
    known = np.ones(len(found), np.bool_)
    for clock, log in servos.items():
        if not len(log.adjustments):
            continue
        for end, stamp in (("sender", "sent_local_ns"), ("receiver", "received_local_ns")):
            mine = found[end] == clock
            known[mine] &= log.pieces(found[stamp][mine]) >= 0
            found[stamp][mine] = log.to_free_ns(found[stamp][mine])
    return found[known]


def _window_at(solution: FabricSolution, reference_ns: int) -> int | None:
    """The window that this instant of the reference clock lies in."""
    for w, one in enumerate(solution.windows):
        length_ns = one.end_collector_ns - one.start_collector_ns
        if one.reference_ns is not None and 2 * abs(one.reference_ns - reference_ns) <= length_ns:
            return w
    return None


def _rms(values: Sequence[NDArray[np.float64]]) -> float:
    every = np.concatenate([np.zeros(0), *values])
    every = every[np.isfinite(every)]
    return float(np.sqrt(np.mean(every**2))) if len(every) else float("nan")
