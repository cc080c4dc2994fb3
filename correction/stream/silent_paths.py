# SPDX-License-Identifier: Apache-2.0
"""Ways through switches that report nothing, window by window (`correction.virtual_paths`).

A switch is silent as long as nothing has been heard of it; one that falls silent later is not.
"""

from dataclasses import dataclass, field

import numpy as np

from correction.links import JoinCounters, Reject, port_index
from correction.model import ClockKind, FabricModel, Link
from correction.records import (
    HOP_DTYPE,
    LINK_SAMPLE_DTYPE,
    PACKET_DTYPE,
    Hops,
    LinkSamples,
    Packets,
)
from correction.virtual_paths import virtual_paths

PAIRS_MAX = 200_000
"""Kept of a window: more hardly narrow an edge."""


@dataclass(slots=True)
class SilentPaths:
    """Pairs of hops with a silent switch in between, and the links found so far."""

    model: FabricModel
    """Declared, with boundary clocks: links of paths come next."""
    window_ns: int
    links: tuple[Link, ...] = ()
    heard: set[int] = field(default_factory=set)
    """Node ids of switches that have reported."""
    _pairs: dict[int, list[tuple[Packets, Hops]]] = field(default_factory=dict)

    @property
    def all_heard(self) -> bool:
        """Nothing is silent."""
        return len(self.heard) >= len(self.declared)

    @property
    def declared(self) -> frozenset[int]:
        """Node ids of all switches."""
        return frozenset(c.node_id for c in self.model.clocks if c.kind is ClockKind.SWITCH)

    def listen(self, hops: Hops) -> None:
        """Who reports."""
        if not self.all_heard:
            self.heard |= set(np.unique(hops["node_id"]).tolist()) & self.declared

    def add(self, packets: Packets, hops: Hops) -> None:
        """Keep the pairs of hops that no cable joins."""
        if self.all_heard:
            return
        count = np.maximum(packets["hop_count"].astype(np.int64) - 1, 0)
        packet = np.repeat(np.arange(len(packets)), count)
        within = np.arange(len(packet)) - np.repeat(np.cumsum(count) - count, count)
        here = packets["first_hop"][packet] + within
        index = port_index(self.model)
        out = index.find(hops["node_id"][here], hops["egress_port"][here])
        into = index.find(hops["node_id"][here + 1], hops["ingress_port"][here + 1])
        apart = (out >= 0) & (into >= 0) & (index.link[out] != index.link[into])
        number = packets["capture_collector_ns"][packet] // self.window_ns
        for one in np.unique(number[apart]).tolist():
            mine = np.flatnonzero(apart & (number == one))
            pair = packets[packet[mine]]
            pair["first_hop"], pair["hop_count"] = 2 * np.arange(len(mine)), 2
            both = hops[np.stack([here[mine], here[mine] + 1], axis=1).ravel()]
            self._pairs.setdefault(one, []).append((pair, both))

    def take(self, number: int, counters: JoinCounters) -> LinkSamples:
        """Samples of one window, links numbered behind those of the model; links that are new are
        added to `links`. Earlier windows are forgotten."""
        found = self._pairs.pop(number, [])
        for old in [one for one in self._pairs if one < number]:
            del self._pairs[old]
        if not found or self.all_heard:
            return np.zeros(0, LINK_SAMPLE_DTYPE)
        packets, hops, base = [np.zeros(0, PACKET_DTYPE)], [np.zeros(0, HOP_DTYPE)], 0
        for some, own in found:
            if base >= 2 * PAIRS_MAX:
                break
            some["first_hop"] += base
            packets.append(some)
            hops.append(own)
            base += len(own)
        scratch = JoinCounters()
        model, samples = virtual_paths(
            np.concatenate(packets),
            np.concatenate(hops),
            self.model,
            scratch,
            reporting=self.heard,
        )
        counters.reject(Reject.NOT_ADJACENT, -len(samples))  # they had been counted as such
        first = len(self.model.links)
        known = {link.name: number for number, link in enumerate(self.links)}
        for link in model.links[first:]:
            if link.name not in known:
                known[link.name] = len(known)
                self.links += (link,)
        place = np.array([known[link.name] for link in model.links[first:]], np.int64)
        if len(samples):
            samples["link"] = first + place[samples["link"] - first]
        return samples
