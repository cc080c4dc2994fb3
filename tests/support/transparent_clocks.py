# SPDX-License-Identifier: Apache-2.0
"""Switches of a synthetic fabric as transparent clocks, and the correctionFields that they make."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from correction.injected import SCALED_PER_NS, Injected
from correction.links import residence_time_ns
from correction.model import ClockKind, FabricModel
from correction.records import TRAFFIC_PTP, Exchanges, Hops, Packets
from tests.support.synthetic_fabric import Run


def transparent(model: FabricModel, names: Collection[str] | None = None) -> FabricModel:
    """The model with these switches declared as transparent clocks; None: all of them."""
    return replace(
        model,
        clocks=tuple(
            replace(clock, transparent=True)
            if clock.kind is ClockKind.SWITCH and (names is None or clock.name in names)
            else clock
            for clock in model.clocks
        ),
    )


def corrected(
    run: Run,
    model: FabricModel,
    injected: Injected | None = None,
    *,
    packets: Packets | None = None,
    hops: Hops | None = None,
) -> Exchanges:
    """Every exchange with what the transparent clocks of `model` put into its correctionFields.

    packets, hops: what really happened, where `run` holds less of it.
    """
    packets = run.packets if packets is None else packets
    hops = run.hops if hops is None else hops
    nodes = [clock.node_id for clock in model.clocks if clock.transparent]
    per_hop = np.where(np.isin(hops["node_id"], nodes), residence_time_ns(hops, model), 0)
    per_hop = per_hop.astype(np.float64)
    for row in (injected or Injected()).rows:
        here = (hops["node_id"] == row["node_id"]) & (hops["ingress_port"] == row["ingress_port"])
        per_hop[here] += row["delay_scaled_ns"] / SCALED_PER_NS
    field = {}
    for one in packets[packets["traffic"] == TRAFFIC_PTP]:
        first = int(one["first_hop"])
        total = per_hop[first : first + int(one["hop_count"])].sum()
        field[int(one["src_ip"]), int(one["dst_ip"]), int(one["ptp_sequence_id"])] = round(total)
    exchanges = run.exchanges.copy()
    for row in exchanges:
        ends = int(row["time_transmitter_ip"]), int(row["client_ip"])
        row["c1_ns"] = field[(*ends, int(row["sync_sequence_id"]))]
        row["c2_ns"] = field[(*ends[::-1], int(row["delay_req_sequence_id"]))]
    return exchanges
