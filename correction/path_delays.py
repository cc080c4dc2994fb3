# SPDX-License-Identifier: Apache-2.0
"""The delay of one directed path: its links, from host to host, and the switches between them.

A path is a list of switches with the ports that a packet came in and left by; the cables follow
from the fabric's description. Delays count between stamp points: from the sending NIC's stamp to
the receiving one's. What queueing there is lies in the residences.
"""

from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np

from correction.delay_sum import (
    DelayEstimate,
    DelaySum,
    DirectedLink,
    evaluate,
    sum_of_links,
)
from correction.flow_paths import Path
from correction.link_delays import LinkBasis, LinkDelays
from correction.links import PortIndex
from correction.model import ClockKind, FabricModel
from correction.residences import Residence

PTP_EVENT_BYTES = 90
"""Sync and Delay_Req over UDP and IPv4, with FCS."""


class PathError(ValueError):
    """A path that the fabric's cables do not explain; `str()` says why."""


@unique
class PathSource(StrEnum):
    """How it is known which way packets go."""

    REPORTED = "reported"
    """Packets reported their own way."""
    PREDICTED = "predicted"
    """A hash model said so that was right for the reported ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPart:
    """One link of a path in the direction of travel."""

    link: int
    reverse: bool
    basis: LinkBasis
    delay: DelayEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PathDelay:
    """One direction."""

    path: Path
    source: PathSource
    frame_bytes: float
    links: tuple[LinkPart, ...]
    """From the sending host's cable to the receiving host's."""
    residences: tuple[Residence, ...]
    """Per switch; empty where no packet told."""
    link_delay: DelayEstimate
    """Of all links together: not the sum of their bounds, since they are correlated."""
    terms: DelaySum
    """What `link_delay` is the value of; differences of paths are made of these."""

    @property
    def clocks(self) -> tuple[int, int]:
        """Of the two NICs, sender first."""
        return self.terms.clocks

    @property
    def residence_ns(self) -> float | None:
        """Median residences together; None where not known."""
        if not self.residences:
            return None
        return sum(one.median_ns for one in self.residences)

    @property
    def total_ns(self) -> float | None:
        """From NIC stamp to NIC stamp, with median residences."""
        residence_ns = self.residence_ns
        if residence_ns is None or not self.link_delay.known:
            return None
        return self.link_delay.value_ns + residence_ns


def links_of_path(path: Path, model: FabricModel, ports: PortIndex) -> tuple[DirectedLink, ...]:
    """The cables of a path, both hosts' included."""
    if not path:
        raise PathError("no switch reported the path")
    into = _positions(path, ports, ingress=True)
    out = _positions(path, ports, ingress=False)
    links = []
    for number, (hop, position) in enumerate(zip(path, into, strict=True)):
        link = int(ports.link[position])
        before = out[number - 1] if number else None
        if before is not None and (
            int(ports.link[before]) != link or ports.at_a[before] == ports.at_a[position]
        ):
            one = path[number - 1]
            raise PathError(
                f"no cable joins port {one.egress_port} of node {one.node_id} "
                f"with port {hop.ingress_port} of node {hop.node_id}"
            )
        # towards the switch: away from b where the switch is end a
        links.append(DirectedLink(link, bool(ports.at_a[position])))
    links.append(DirectedLink(int(ports.link[out[-1]]), not ports.at_a[out[-1]]))
    for at, directed in (("first", links[0]), ("last", links[-1])):
        link_of = model.links[directed.link]
        if ClockKind.NIC not in (model.clocks[link_of.a].kind, model.clocks[link_of.b].kind):
            raise PathError(f"the {at} cable, {link_of.name}, leads to no host")
    return tuple(links)


def _positions(path: Path, ports: PortIndex, *, ingress: bool) -> list[int]:
    node = np.array([hop.node_id for hop in path], np.int64)
    port = np.array([hop.ingress_port if ingress else hop.egress_port for hop in path], np.int64)
    found = ports.find(node, port).tolist()
    for hop, position in zip(path, found, strict=True):
        if position < 0:
            number = hop.ingress_port if ingress else hop.egress_port
            raise PathError(f"port {number} of node {hop.node_id} has no declared cable")
    return [int(one) for one in found]


def path_delay(
    path: Path,
    delays: LinkDelays,
    ports: PortIndex,
    *,
    residences: tuple[Residence, ...] = (),
    source: PathSource = PathSource.REPORTED,
    frame_bytes: float = PTP_EVENT_BYTES,
) -> PathDelay:
    """The delay of frames of that length; PathError where cables do not explain the path."""
    links = links_of_path(path, delays.model, ports)
    terms = sum_of_links(links, delays.model, frame_bytes=frame_bytes)
    return PathDelay(
        path=path,
        source=source,
        frame_bytes=frame_bytes,
        links=tuple(
            LinkPart(
                link=one.link,
                reverse=one.reverse,
                basis=delays.basis[one.link],
                delay=evaluate(sum_of_links((one,), delays.model, frame_bytes=frame_bytes), delays),
            )
            for one in links
        ),
        residences=residences,
        link_delay=evaluate(terms, delays),
        terms=terms,
    )


def port_delays(delays: LinkDelays, *, frame_bytes: float = PTP_EVENT_BYTES) -> list[LinkPart]:
    """Both directions of every cable: what a frame that comes in at its far end has behind it."""
    return [
        LinkPart(
            link=link,
            reverse=reverse,
            basis=delays.basis[link],
            delay=evaluate(
                sum_of_links((DirectedLink(link, reverse),), delays.model, frame_bytes=frame_bytes),
                delays,
            ),
        )
        for link, declared in enumerate(delays.model.links)
        if declared.cable
        for reverse in (False, True)
    ]
