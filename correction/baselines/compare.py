# SPDX-License-Identifier: Apache-2.0
"""All baselines on one recording, as differences to the engine's own offsets."""

import numpy as np

from correction.baselines.host_mesh import (
    SLOPE_NS_PER_S_MAX,
    network_effect,
    support_vector_differences,
)
from correction.baselines.host_packets import (
    HOST_PACKET_DTYPE,
    HostPackets,
    chosen,
    exchange_packets,
    has_offset,
    place,
)
from correction.baselines.ptp import window_medians
from correction.oracle import oracle
from correction.records import Exchanges, Hops, Packets
from correction.solution import FabricSolution
from correction.timebase import Float64s

RAW_PTP = "raw_ptp"
RESIDENCE_ONLY = "residence_only"
HOST_MESH = "host_mesh"
LEAST_SQUARES = "least_squares"
METHODS = (RAW_PTP, RESIDENCE_ONLY, HOST_MESH, LEAST_SQUARES)


def baseline_offsets(
    solution: FabricSolution,
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    host_packets: HostPackets | None = None,
) -> dict[str, Float64s]:
    """By method, [window, clock]: its offset less the engine's at the same instant, ns.

    The engine's error plus this is the method's error. NaN where the method or the engine has no
    offset; switches have one from least squares alone. `exchanges` and `host_packets` (packets
    between NICs beyond PTP) must be on clocks that run free within a window, as for `engine.solve`.
    """
    model = solution.model
    shape = (len(solution.windows), len(model.clocks))
    reference = model.reference
    of_exchanges = exchange_packets(exchanges, packets, hops, solution)
    count = len(of_exchanges) // 2
    down, up = place(of_exchanges[:count], solution), place(of_exchanges[count:], solution)
    both = np.intersect1d(down.packet, up.packet)
    down, up = chosen(down, both), chosen(up, both)
    more = np.zeros(0, HOST_PACKET_DTYPE) if host_packets is None else host_packets
    placed = place(np.concatenate([of_exchanges, more]), solution)
    pairs = support_vector_differences(placed, SLOPE_NS_PER_S_MAX, len(model.clocks))
    return {
        RAW_PTP: window_medians(down, up, reference, shape, residence=False),
        RESIDENCE_ONLY: window_medians(down, up, reference, shape, residence=True),
        HOST_MESH: network_effect(pairs, reference, shape),
        LEAST_SQUARES: _least_squares(solution),
    }


def _least_squares(solution: FabricSolution) -> Float64s:
    """Weighted least squares on the links: the oracle, told that no link is bad."""
    plain = oracle(solution.measured, np.zeros(len(solution.model.links), np.bool_))
    rows = []
    for ours, theirs in zip(solution.windows, plain.windows, strict=True):
        usable = has_offset(ours.status) & has_offset(theirs.status)
        rows.append(np.where(usable, (theirs.offset_ns - ours.offset_ns).astype(float), np.nan))
    return np.array(rows).reshape(len(solution.windows), len(solution.model.clocks))
