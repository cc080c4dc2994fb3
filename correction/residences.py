# SPDX-License-Identifier: Apache-2.0
"""How long packets stayed in the switches of a path: of one packet exactly, of many as quantiles.

Egress minus ingress stamp of one switch, divided by its clock's rate against the reference
(clocks.md 2.1): a residence needs no offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.flow_paths import Path
from correction.hop_windows import RESIDENCE_QUANTILES, HopWindows
from correction.link_delays import LinkDelays
from correction.links import RESIDENCE_NS_MAX, residence_time_ns
from correction.model import ClockKind
from correction.records import Hops, Packets
from correction.timebase import Bools, Float64s

NS_PER_PPB = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Residence:
    """Time from ingress to egress stamp in one switch, ns of the reference clock."""

    count: int
    """Packets that it is of; 1: this packet's own."""
    least_ns: float
    median_ns: float
    p99_ns: float
    most_ns: float


def residence_matrix(packets: Packets, hops: Hops, delays: LinkDelays) -> tuple[Float64s, Bools]:
    """[packet, hop] of packets with equally many hops, and which packets are timed throughout."""
    count = int(packets["hop_count"][0]) if len(packets) else 0
    index = packets["first_hop"][:, None] + np.arange(count)
    chosen = hops[index.ravel()]
    raw = residence_time_ns(chosen, delays.model).reshape(index.shape)
    sound: Bools = np.all((raw >= 0) & (raw <= RESIDENCE_NS_MAX), axis=1)
    rate = _rates(chosen["node_id"], delays).reshape(index.shape)
    return raw * (1.0 - rate), sound


def residences_of_packets(
    packets: Packets, hops: Hops, delays: LinkDelays
) -> tuple[Residence, ...]:
    """Per hop, over packets of one path; empty where no packet has all its stamps."""
    values, sound = residence_matrix(packets, hops, delays)
    values = values[sound]
    if not len(values):
        return ()
    levels = np.quantile(values, (0.0, 0.5, 0.99, 1.0), axis=0)
    return tuple(_residence(len(values), column) for column in levels.T.tolist())


def residences_of_windows(
    path: Path, queue_id: int, windows: HopWindows, delays: LinkDelays
) -> tuple[Residence, ...]:
    """Per hop, what the newest window says of the queue that the path leaves by; empty where a
    hop has none."""
    at = [RESIDENCE_QUANTILES.index(level) for level in (0.0, 0.5, 0.99, 1.0)]
    result = []
    for hop in path:
        rows = windows[
            (windows["node_id"] == hop.node_id)
            & (windows["egress_port"] == hop.egress_port)
            & (windows["queue_id"] == queue_id)
            & (windows["timed"] > 0)
        ]
        if not len(rows):
            return ()
        newest = rows[np.argmax(rows["window_end_collector_ns"])]
        rate = float(_rates(np.array([hop.node_id]), delays)[0])
        levels = newest["residence_ns"][at] * (1.0 - rate)
        result.append(_residence(int(newest["timed"]), levels.tolist()))
    return tuple(result)


def _residence(count: int, levels: Sequence[float]) -> Residence:
    least, median, p99, most = levels
    return Residence(count=count, least_ns=least, median_ns=median, p99_ns=p99, most_ns=most)


def _rates(node_ids: NDArray[np.integer], delays: LinkDelays) -> Float64s:
    """d(offset)/d(local time) of each node's clock; 0 where it is not known."""
    of_node = {
        clock.node_id: float(np.nan_to_num(delays.rate_ppb[index]))
        for index, clock in enumerate(delays.model.clocks)
        if clock.kind is ClockKind.SWITCH
    }
    return np.array([of_node.get(int(one), 0.0) for one in node_ids]) * NS_PER_PPB
