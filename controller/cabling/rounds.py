# SPDX-License-Identifier: Apache-2.0
"""Rounds of LLDP frames: what is sent, what is remembered of what was heard, and the judgement.

Pure: time and frames in, frames and findings out. What our own switches send is judged by the last
two rounds, so that one lost frame makes no finding and no cable is believed in for longer; what
others send holds for as long as they say (802.1AB clause 9.2.7).
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from controller.cabling.check import Cabling, check_cabling
from controller.cabling.lldp import (
    ETHER_TYPE_LLDP,
    LldpError,
    decode_lldp,
    encode_lldp,
    switch_lldp_frame,
)
from controller.cabling.neighbour import Directory, Neighbour
from controller.fabric import Fabric, LinkEnd, cabling, programmed_switches

_T = TypeVar("_T")

NEIGHBOURS_MAX = 8
"""Senders remembered per port; more can only be a flood."""
_NS_PER_S = 1_000_000_000
_ETHER_TYPE_AT = 12


def punts_lldp(fabric: Fabric) -> bool:
    """The switches are to send LLDP frames to their controller."""
    return any(
        rule.ether_type in (None, ETHER_TYPE_LLDP) and not rule.of_ip for rule in fabric.punt
    )


def checked_ports(fabric: Fabric) -> list[LinkEnd]:
    """Every cabled port of a switch that sends for this controller."""
    ours = {switch.name for switch in programmed_switches(fabric)}
    ends = {*cabling(fabric), *(one.attached for one in fabric.collectors if one.attached)}
    return sorted(end for end in ends if end.node in ours)


@dataclass(slots=True)
class LldpCounters:
    """Frames since the start."""

    sent: int = 0
    heard: int = 0
    malformed: int = 0


class Rounds:
    """What the ports of a fabric send and hear."""

    def __init__(self, fabric: Fabric, *, ttl_s: int, counters: LldpCounters | None = None) -> None:
        """ttl_s: how long others may believe what we send."""
        self.counters = counters or LldpCounters()
        self._fabric = fabric
        self._directory = Directory(fabric)
        macs = {switch.name: switch.mac for switch in fabric.switches}
        self._frames = {
            end: encode_lldp(
                switch_lldp_frame(name=end.node, mac=macs[end.node], port=end.port, ttl_s=ttl_s)
            )
            for end in checked_ports(fabric)
        }
        self._round = 0
        self._sent: list[set[LinkEnd]] = [set(), set()]
        """In the round before this one, and in this one."""
        self._heard: dict[LinkEnd, dict[Neighbour, tuple[int, int]]] = {}
        """Of our own switches, the newest last: since which round each was heard, and in which."""
        self._foreign: dict[LinkEnd, dict[Neighbour, int]] = {}
        """Of others: until when it holds."""
        self._deaf: dict[str, int] = {}
        """Switches that could not hear for a while, with the round in which that was."""

    def begin(self) -> None:
        """The next round."""
        self._round += 1
        self._sent = [self._sent[1], set()]

    def frames(self) -> Iterator[tuple[LinkEnd, bytes]]:
        """What to send in a round, port by port over all switches, so that no switch gets all of
        its frames at once."""
        yield from sorted(self._frames.items(), key=lambda item: (item[0].port, item[0].node))

    def sent(self, port: LinkEnd) -> None:
        """A frame was sent out of the port."""
        self.counters.sent += 1
        self._sent[1].add(port)

    def deaf(self, switch: str) -> None:
        """The switch does not tell what it hears, at this moment."""
        self._deaf[switch] = self._round

    def hear(self, port: LinkEnd, frame: bytes, now_ns: int) -> None:
        """A switch has sent this frame to its controller; it may be of any kind."""
        if int.from_bytes(frame[_ETHER_TYPE_AT : _ETHER_TYPE_AT + 2], "big") not in _LLDP_OR_TAG:
            return
        try:
            content = decode_lldp(frame)
        except LldpError:
            self.counters.malformed += 1
            return
        self.counters.heard += 1
        neighbour = self._directory.neighbour(content)
        if neighbour.is_ours:
            known = self._heard.setdefault(port, {})
            since, last = known.pop(neighbour, (self._round, self._round))
            known[neighbour] = (since if last >= self._round - 1 else self._round, self._round)
            _bound(known)
            return
        foreign = self._foreign.setdefault(port, {})
        foreign.pop(neighbour, None)
        if content.ttl_s:
            foreign[neighbour] = now_ns + content.ttl_s * _NS_PER_S
            _bound(foreign)

    def judge(self, now_ns: int) -> Cabling | None:
        """What the last two rounds say; None: there were none yet."""
        if self._round < 2:
            return None
        names = {end.node for end in self._frames}
        return check_cabling(
            self._fabric,
            self._neighbours(now_ns),
            sent=self._sent[0] & self._sent[1],
            listening={name for name in names if self._deaf.get(name, 0) < self._round - 1},
        )

    def _neighbours(self, now_ns: int) -> dict[LinkEnd, Collection[Neighbour]]:
        found: dict[LinkEnd, set[Neighbour]] = {}
        for port, known in self._heard.items():
            newest = max((last for _, last in known.values()), default=0)
            if newest >= self._round - 1:
                found[port] = self._of_round(known, newest)
        for port, ends in self._foreign.items():
            valid = {one for one, end_ns in ends.items() if now_ns < end_ns}
            if valid:
                found.setdefault(port, set()).update(valid)
        return {**found}

    def _of_round(self, known: dict[Neighbour, tuple[int, int]], number: int) -> set[Neighbour]:
        """Who was heard in a round: the last one only, while a cable is moved in the middle of it;
        several where they were there in the round before as well."""
        heard = [(one, since) for one, (since, last) in known.items() if last == number]
        if all(since < number for _, since in heard):
            return {one for one, _ in heard}
        return {heard[-1][0]}


def _bound(known: dict[Neighbour, _T]) -> None:
    """Forget the oldest beyond the limit."""
    if len(known) > NEIGHBOURS_MAX:
        del known[next(iter(known))]


_LLDP_OR_TAG = frozenset({ETHER_TYPE_LLDP, 0x8100})
