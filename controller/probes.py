# SPDX-License-Identifier: Apache-2.0
"""Link probes: which links are quiet, which get a probe when, within the fabric's budget.

A probe leaves switch u by packet-out, its neighbour v sends it back, u reports it and drops it. One
probe is one sample in each direction, of equal length and queue. Links with traffic of their own
need none: only what is missing to `PAIRS_PER_WINDOW_WANTED` is probed.

Pure: counts and time in, frames with their times out. Whoever calls sends them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controller.fabric import Fabric, Link, LinkEnd, Switch
from controller.fabric_telemetry import Probes
from controller.telemetry.codec import encode
from controller.telemetry.datagram import UDP_PORT_PROBE, wrap_udp
from controller.telemetry.layout import Probe
from correction.links import JoinCounters, fabric_samples, port_index
from correction.model import FabricModel
from correction.prepare import LENGTH_CLASS_BYTES
from correction.records import TRAFFIC_PROBE, Hops, Packets
from correction.timebase import NS_PER_S

PAIRS_PER_WINDOW_WANTED = 20
"""Samples in both directions that an envelope needs to find its edge to about a nanosecond."""
PROBE_VERSION = 1
PROBE_TTL = 255
"""Only a neighbour can have sent it (RFC 5082)."""
SEQUENCE_MASK = 0xFFFF_FFFF
PACKET_OUT_PORT_SHIFT = 7
"""`packet_out`: egress_port 9 bits, submit_to_ingress 1, pad 6."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProbe:
    """One packet-out."""

    at_ns: int
    """When to send it, on the planner's clock."""
    switch: str
    egress_port: int
    frame: bytes
    """Without the packet-out header."""

    @property
    def packet_out(self) -> bytes:
        """The frame behind its `packet_out` header, as it enters a CPU port."""
        header = self.egress_port << PACKET_OUT_PORT_SHIFT
        return header.to_bytes(2, "big") + self.frame


def pairs_per_link(packets: Packets, hops: Hops, model: FabricModel) -> dict[str, int]:
    """By link name, samples that traffic gave in both directions, of equal queue and length class.

    Probes do not count, so that a link does not cease to be quiet because it is probed.
    """
    own = packets[packets["traffic"] != TRAFFIC_PROBE]
    samples = fabric_samples(own, hops, model, port_index(model), JoinCounters())
    length_class = np.searchsorted(LENGTH_CLASS_BYTES, samples["frame_bytes"])
    key = np.stack([samples["link"], samples["queue_id"].astype(np.int64), length_class])
    pairs = dict.fromkeys((link.name for link in model.links if not link.access), 0)
    kinds, kind = np.unique(key, axis=1, return_inverse=True)
    for index in range(kinds.shape[1]):
        mine = samples["reverse"][kind.ravel() == index]
        back = int(np.count_nonzero(mine))
        pairs[model.links[int(kinds[0, index])].name] += min(back, len(mine) - back)
    return pairs


class ProbePlanner:
    """Plans one window after the other; sequence numbers run on."""

    def __init__(self, fabric: Fabric, *, pairs_wanted: int = PAIRS_PER_WINDOW_WANTED) -> None:
        """`fabric.probes` gives the budget; without it nothing is ever planned."""
        self._config: Probes | None = fabric.probes
        self._switches: dict[str, Switch] = {one.name: one for one in fabric.switches}
        self._links: tuple[Link, ...] = tuple(
            link
            for link in fabric.links
            if link.a.node in self._switches and link.b.node in self._switches
        )
        self._wanted = pairs_wanted
        self._sequence: dict[LinkEnd, int] = {}
        self._turn = 0

    def plan(
        self, pairs: Mapping[str, int], *, start_ns: int, window_ns: int
    ) -> list[PlannedProbe]:
        """The probes of [start, start + window), in order of time.

        pairs: by link name, what traffic gives in such a window (`pairs_per_link`); a link that
        is not named has none.
        """
        if self._config is None:
            return []
        need = [max(0, self._wanted - pairs.get(link.name, 0)) for link in self._links]
        order = self._share(need, self._config.budget_pps * window_ns // NS_PER_S)
        gap_ns = window_ns / max(1, len(order))
        return [
            self._probe(self._links[index], start_ns + round((position + 0.5) * gap_ns))
            for position, index in enumerate(order)
        ]

    def _share(self, need: Sequence[int], budget: int) -> list[int]:
        """Links in the order of their probes: round after round, each quiet link once a round.

        Where the budget ends in the middle of a round, the next window goes on from there, so that
        no link starves.
        """
        left = list(need)
        order: list[int] = []
        count = len(left)
        while len(order) < budget and any(left):
            for step in range(count):
                index = (self._turn + step) % count
                if not left[index]:
                    continue
                if len(order) == budget:
                    self._turn = index
                    break
                left[index] -= 1
                order.append(index)
        return order

    def _probe(self, link: Link, at_ns: int) -> PlannedProbe:
        """From either end in turn, so that a switch without packet-out hides no link."""
        total = self._sequence.get(link.a, 0) + self._sequence.get(link.b, 0)
        near, far = (link.a, link.b) if total % 2 == 0 else (link.b, link.a)
        sequence_number = self._sequence.get(near, 0)
        self._sequence[near] = sequence_number + 1
        assert self._config is not None, "plan() asked before"
        return PlannedProbe(
            at_ns=at_ns,
            switch=near.node,
            egress_port=near.port,
            frame=probe_frame(
                self._switches[near.node],
                self._switches[far.node],
                near.port,
                sequence_number & SEQUENCE_MASK,
                config=self._config,
                vlan_id=link.vlan,
            ),
        )


def probe_frame(
    sender: Switch,
    neighbour: Switch,
    egress_port: int,
    sequence_number: int,
    *,
    config: Probes,
    vlan_id: int | None = None,
) -> bytes:
    """The probe that `sender` sends out of `egress_port`; no UDP checksum, since v changes it."""
    probe = Probe(
        version=PROBE_VERSION,
        returning=0,
        reserved=0,
        egress_port=egress_port,
        node_id=sender.node_id,
        sequence_number=sequence_number,
    )
    return wrap_udp(
        encode(probe) + bytes(config.payload_bytes),
        src_mac=sender.mac,
        dst_mac=neighbour.mac,
        src_ip=sender.ip,
        dst_ip=neighbour.ip,
        src_port=UDP_PORT_PROBE,
        dst_port=UDP_PORT_PROBE,
        dscp=config.dscp,
        ttl=PROBE_TTL,
        vlan_id=vlan_id,
    )
