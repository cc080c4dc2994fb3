# SPDX-License-Identifier: Apache-2.0
"""Partial deployment: a way through switches without telemetry is one edge per observed path.

Two hops that follow one another in a packet, with a switch in between that reports nothing, are the
ends of a path that its two outer ports name. Its samples hold the silent switches' residence, which
the lower envelope keeps small, and whatever differs between both ways: the prior is wide.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from correction.links import JoinCounters, PortIndex, Reject, port_index
from correction.model import ClockKind, FabricModel, Link
from correction.records import LINK_SAMPLE_DTYPE, Hops, LinkSamples, Packets
from correction.timebase import Bools, has_stamp

PATH_SD_NS = 100.0
"""Of half the difference of a silent path's two directions, besides its outer cables: what is
between is another pair of cables, ports and idle pipelines at least."""
PATHS_MAX = 4_096


def virtual_paths(
    packets: Packets,
    hops: Hops,
    model: FabricModel,
    counters: JoinCounters,
    *,
    reporting: Collection[int] | None = None,
) -> tuple[FabricModel, LinkSamples]:
    """(the model with a link per observed path, the samples of these).

    reporting: node ids of the switches that report; by default those of `hops`.
    """
    nothing = np.zeros(0, LINK_SAMPLE_DTYPE)
    index = port_index(model)
    if reporting is None:
        reporting = set(np.unique(hops["node_id"]).tolist())
    silent = _silent_ends(model, index, reporting)
    if not silent.any():
        return model, nothing
    pair_count = np.maximum(packets["hop_count"].astype(np.int64) - 1, 0)
    packet = np.repeat(np.arange(len(packets)), pair_count)
    within = np.arange(len(packet)) - np.repeat(np.cumsum(pair_count) - pair_count, pair_count)
    here = packets["first_hop"][packet] + within
    sender, receiver = hops[here], hops[here + 1]
    out = index.find(sender["node_id"], sender["egress_port"])
    into = index.find(receiver["node_id"], receiver["ingress_port"])
    usable = (out >= 0) & (into >= 0) & (out != into)
    usable &= silent[np.where(out >= 0, out, 0)] & silent[np.where(into >= 0, into, 0)]
    stamped = has_stamp(sender["egress_tstamp_local_ns"])
    usable &= stamped & has_stamp(receiver["ingress_tstamp_local_ns"])
    out, into, rows = out[usable], into[usable], np.flatnonzero(usable)
    if not len(rows):
        return model, nothing
    first, second = np.minimum(out, into), np.maximum(out, into)
    keys, path = np.unique(first * len(index.key) + second, return_inverse=True)
    kept = path < PATHS_MAX
    rows, path, reverse = rows[kept], path[kept], (out > into)[kept]
    links = tuple(
        _path(model, index, *divmod(key, len(index.key))) for key in keys[:PATHS_MAX].tolist()
    )
    counters.reject(Reject.NOT_ADJACENT, -len(rows))  # they were counted as such
    if not counters.rejected.get(Reject.NOT_ADJACENT):
        counters.rejected.pop(Reject.NOT_ADJACENT, None)
    samples = np.zeros(len(rows), LINK_SAMPLE_DTYPE)
    samples["link"] = len(model.links) + path
    samples["reverse"] = reverse
    samples["egress_local_ns"] = sender["egress_tstamp_local_ns"][rows]
    samples["ingress_local_ns"] = receiver["ingress_tstamp_local_ns"][rows]
    samples["frame_bytes"] = sender["egress_bytes"][rows]
    samples["queue_id"] = sender["queue_id"][rows]
    samples["capture_collector_ns"] = packets["capture_collector_ns"][packet[rows]]
    return replace(model, links=model.links + links), samples


def _silent_ends(model: FabricModel, index: PortIndex, reporting: Collection[int]) -> Bools:
    """[position in the index]: the port's cable leads to a switch that reports nothing."""
    silent = [
        clock.kind is ClockKind.SWITCH and clock.node_id not in reporting for clock in model.clocks
    ]
    far = [
        silent[model.links[link].b if at_a else model.links[link].a]
        for link, at_a in zip(index.link.tolist(), index.at_a.tolist(), strict=True)
    ]
    return np.array(far, np.bool_)


def _path(model: FabricModel, index: PortIndex, first: int, second: int) -> Link:
    """From the port at one position of the index to the port at another."""
    a, b = model.links[int(index.link[first])], model.links[int(index.link[second])]
    a_is_a, b_is_a = bool(index.at_a[first]), bool(index.at_a[second])
    a_clock, a_port = (a.a, a.a_port) if a_is_a else (a.b, a.b_port)
    b_clock, b_port = (b.a, b.a_port) if b_is_a else (b.b, b.b_port)
    names = model.clocks[a_clock].name, model.clocks[b_clock].name
    return Link(
        name=f"{names[0]}:{a_port}~{names[1]}:{b_port}",
        a=a_clock,
        a_port=a_port,
        b=b_clock,
        b_port=b_port,
        rate_bps=min(a.rate_bps, b.rate_bps),
        a_egress=a.a_egress if a_is_a else a.b_egress,
        a_ingress=a.a_ingress if a_is_a else a.b_ingress,
        b_egress=b.a_egress if b_is_a else b.b_egress,
        b_ingress=b.a_ingress if b_is_a else b.b_ingress,
        min_delay_ns=a.min_delay_ns + b.min_delay_ns,
        asymmetry_sd_ns=float(np.hypot(np.hypot(a.asymmetry_sd_ns, b.asymmetry_sd_ns), PATH_SD_NS)),
        access=False,
        # towards port a of the silent switch on the first cable, away from it on the second
        asymmetry_ns=(a.asymmetry_ns if a_is_a else -a.asymmetry_ns)
        + (-b.asymmetry_ns if b_is_a else b.asymmetry_ns),
        cable=False,
    )
