# SPDX-License-Identifier: Apache-2.0
"""The cabling as it was heard, compared with the fabric file.

Pure. Each end of a cable hears who is at the other end. What the ports have heard gives the cables
that are there; those that the file has otherwise are findings, each under the name of its ports.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from controller.cabling.neighbour import Neighbour
from controller.fabric import Fabric, Link, LinkEnd, cabling, programmed_switches

Heard = Mapping[LinkEnd, Collection[Neighbour]]
"""By the port that has heard them, the senders."""


@unique
class FindingKind(StrEnum):
    """What is wrong with a cable."""

    MISCABLED = "miscabled"
    """A cable between ports that the file has elsewhere, or not at all."""
    SWAPPED = "swapped"
    """Two cables whose ends have changed places."""
    ONE_WAY = "one_way"
    """Frames pass in one direction only."""
    SILENT = "silent"
    """Nothing is heard: no cable, no light, or a port that is off."""
    UNKNOWN = "unknown_neighbour"
    """Somebody who is not in the file."""
    SHARED = "shared"
    """Somebody else besides the right neighbour: a bridge in between passes LLDP on."""
    LOOPED = "looped"
    """A port hears itself."""


@unique
class LinkState(StrEnum):
    """What is known of a link of the file."""

    RIGHT = "right"
    WRONG = "wrong"
    UNCHECKED = "unchecked"
    """Neither confirmed nor refuted: a host that speaks no LLDP, a switch that is away."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Finding:
    """One thing that is not as in the file."""

    kind: FindingKind
    ports: tuple[LinkEnd, ...]
    message: str

    def __str__(self) -> str:
        return f"{self.kind.value.replace('_', ' ')}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cabling:
    """The outcome of a check."""

    findings: tuple[Finding, ...]
    links: Mapping[str, LinkState]
    """By the links' names."""
    listening: frozenset[str]
    """Switches that told what they hear."""

    def count(self, state: LinkState) -> int:
        """How many links are in a state."""
        return sum(one is state for one in self.links.values())


def check_cabling(
    fabric: Fabric, heard: Heard, *, sent: Collection[LinkEnd], listening: Collection[str]
) -> Cabling:
    """Compare what was heard with the file.

    sent: ports that a frame was sent out of. listening: switches that report what they hear. Only
    where both hold can silence say anything.
    """
    return _Check(fabric, heard, frozenset(sent), frozenset(listening)).result()


_Cable = frozenset[LinkEnd]


class _Check:
    def __init__(
        self, fabric: Fabric, heard: Heard, sent: frozenset[LinkEnd], listening: frozenset[str]
    ) -> None:
        self._fabric = fabric
        self._heard = heard
        self._sent = sent
        self._listening = listening
        self._expected = cabling(fabric)
        self._speakers = {switch.name for switch in programmed_switches(fabric)}
        self._collectors = {one.attached for one in fabric.collectors}
        self._link_of = {end: link for link in fabric.links for end in (link.a, link.b)}
        self._findings: list[Finding] = []
        self._wrong_ports: set[LinkEnd] = set()
        self._cables: dict[_Cable, set[LinkEnd]] = {}
        """Cables that the file does not have, with the ends that hear the other one."""

    def result(self) -> Cabling:
        """All of it."""
        for port, neighbours in sorted(self._heard.items()):
            for neighbour in sorted(neighbours):
                if not self._is_expected(port, neighbour):
                    self._take_other(port, neighbour)
        self._swaps()
        for cable in sorted(self._cables, key=sorted):
            self._miscabled(cable)
        links = {link.name: self._link(link) for link in self._fabric.links}
        return Cabling(
            findings=tuple(sorted(self._findings)), links=links, listening=self._listening
        )

    def _find(self, kind: FindingKind, ports: Collection[LinkEnd], message: str) -> None:
        self._findings.append(Finding(kind=kind, ports=tuple(sorted(ports)), message=message))

    # What a port has heard

    def _is_expected(self, port: LinkEnd, neighbour: Neighbour) -> bool:
        end = self._expected.get(port)
        if end is None:
            return port in self._collectors and not neighbour.nodes
        return end.node in neighbour.nodes and neighbour.port in (None, end.port)

    def _hears(self, port: LinkEnd) -> bool:
        """It hears who it should."""
        return any(self._is_expected(port, one) for one in self._heard.get(port, ()))

    def _take_other(self, port: LinkEnd, neighbour: Neighbour) -> None:
        end = self._end(neighbour)
        if end == port:
            self._wrong_ports.add(port)
            self._find(FindingKind.LOOPED, [port], f"{port} hears itself{self._instead(port)}")
        elif self._hears(port):
            self._wrong_ports.add(port)
            message = f"{port} hears {neighbour.label} besides {self._expected.get(port)}"
            self._find(FindingKind.SHARED, [port], message)
        elif end is not None:
            self._cables.setdefault(frozenset({port, end}), set()).add(port)
        else:
            self._wrong_ports.add(port)
            kind = FindingKind.MISCABLED if neighbour.nodes else FindingKind.UNKNOWN
            self._find(kind, [port], f"{port} is cabled to {neighbour.label}{self._instead(port)}")

    def _end(self, neighbour: Neighbour) -> LinkEnd | None:
        """The port of the sender, as far as it can be told."""
        if neighbour.port is not None:
            return LinkEnd(node=neighbour.nodes[0], port=neighbour.port)
        ends = [end for end in self._expected if end.node in neighbour.nodes]
        return ends[0] if len(ends) == 1 else None

    def _instead(self, port: LinkEnd) -> str:
        end = self._expected.get(port)
        return f"; the file has {end} there" if end else "; the file has no cable there"

    # Cables that the file does not have

    def _swaps(self) -> None:
        """Two cables x-y and x'-y' where the file has x-x' and y-y': one end each of both links has
        changed places."""
        for cable in sorted(self._cables, key=sorted):
            if cable not in self._cables:
                continue  # the other half of a swap
            x, y = sorted(cable)
            if x not in self._expected or y not in self._expected:
                continue
            x_file, y_file = self._expected[x], self._expected[y]
            other = frozenset({x_file, y_file})
            if other == cable or other not in self._cables:
                continue
            for done in (cable, other):
                del self._cables[done]
            self._wrong_ports |= cable | other
            ends = [sorted([(x, y), (y_file, x_file)]), sorted([(y, x), (x_file, y_file)])]
            (p, p_leads_to), (q, q_leads_to) = min(
                ends, key=lambda pair: (pair[0][0].node != pair[1][0].node, pair)
            )
            self._find(
                FindingKind.SWAPPED,
                [p, q],
                f"{p} and {q} are swapped: {p} leads to {p_leads_to}, {q} to {q_leads_to}",
            )

    def _miscabled(self, cable: _Cable) -> None:
        x, y = sorted(cable)
        self._wrong_ports |= cable
        links = {one.name for end in (x, y) if (one := self._link_of.get(end)) is not None}
        message = f"{x} is cabled to {y}; the file has {' and '.join(sorted(links)) or 'neither'}"
        hearing = self._cables[cable]
        for end, other in ((x, y), (y, x)):
            if end not in hearing and self._can_hear(end, other):
                message += f"; {end} hears nothing of it"
        self._find(FindingKind.MISCABLED, [x, y], message)

    # Links of the file

    def _can_hear(self, port: LinkEnd, sender: LinkEnd) -> bool:
        """Silence at the port would mean something."""
        return port.node in self._listening and sender in self._sent

    def _link(self, link: Link) -> LinkState:
        if self._wrong_ports & {link.a, link.b}:
            return LinkState.WRONG
        ends = ((link.a, link.b), (link.b, link.a))
        hearing = [port for port, _ in ends if self._hears(port)]
        deaf = [pair for pair in ends if pair[0] not in hearing and self._can_hear(*pair)]
        if not deaf:
            speakers = [end for end in (link.a, link.b) if end.node in self._speakers]
            enough = len(hearing) == 2 or (hearing and len(speakers) < 2)
            return LinkState.RIGHT if enough else LinkState.UNCHECKED
        port, sender = deaf[0]
        if hearing:
            message = f"{link.name}: {sender} hears {port}, but {port} hears nothing of {sender}"
            self._find(FindingKind.ONE_WAY, [link.a, link.b], message)
        elif len(deaf) == 2:
            message = f"{link.name}: nothing is heard in either direction"
            self._find(FindingKind.SILENT, [link.a, link.b], message)
        else:
            message = f"{link.name}: {port} hears nothing of {sender}; the way back is unchecked"
            self._find(FindingKind.SILENT, [link.a, link.b], message)
        return LinkState.WRONG
