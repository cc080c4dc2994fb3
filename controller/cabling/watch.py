# SPDX-License-Identifier: Apache-2.0
"""Checks the cabling beside the switches that are being kept, round after round.

It reports. LLDP has no signature, so nothing that a frame says moves a route; that a link which was
heard falls silent does (`link_events/lldp_links.py`), if somebody takes it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from controller.cabling.check import Cabling, Finding
from controller.cabling.rounds import LldpCounters, Rounds, punts_lldp
from controller.fabric import Fabric, LinkEnd
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.keeper import Keeper
from controller.keeper.phases import Phase
from controller.link_events.link_watch import LinkWatch
from controller.link_events.lldp_links import LldpLinks
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn

SOURCE = "lldp"
INTERVAL_S = 30.0
"""Between rounds: msgTxInterval's default (802.1AB table 9-1)."""
HOLD_ROUNDS = 4
"""Our frames hold so many rounds and a second: msgTxHold's default (802.1AB table 9-1)."""
SENDING_PART = 0.25
"""Frames of a round are spread over this part of the interval, so that a large fabric is no load
all at once; the rest of it is for their way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CablingState:
    """What is known of the cabling now."""

    cabling: Cabling | None
    """None: two rounds are not over yet."""
    findings: tuple[Finding, ...]
    """Those of the last judgement, and earlier ones that cannot be looked at now."""
    counters: LldpCounters


class CablingWatch:
    """A companion of a keeper; give `take` to it as `on_packet_in`."""

    def __init__(
        self,
        on_event: OnEvent,
        *,
        interval_s: float = INTERVAL_S,
        links: LinkWatch | None = None,
    ) -> None:
        """links: is told of links that are silent after they were heard; None: nobody is."""
        self._on_event = on_event
        self._links = links
        self._lldp_links: LldpLinks | None = None
        self._interval_s = interval_s
        self._counters = LldpCounters()
        self._rounds: Rounds | None = None
        self._cabling: Cabling | None = None
        self._findings: frozenset[Finding] = frozenset()
        self._sending: dict[str, asyncio.Task[None]] = {}

    @property
    def state(self) -> CablingState:
        """What is known now."""
        return CablingState(
            cabling=self._cabling,
            findings=tuple(sorted(self._findings)),
            counters=self._counters,
        )

    def take(self, switch: str, packet: PacketIn) -> None:
        """A frame that a switch sent to the controller."""
        port = packet.metadata.get("ingress_port")
        if self._rounds is not None and port is not None:
            self._rounds.hear(LinkEnd(node=switch, port=port), packet.frame, _now_ns())

    async def __call__(self, keeper: Keeper) -> None:
        """Round after round, until cancelled."""
        fabric: Fabric | None = None
        try:
            while True:
                if keeper.fabric is not fabric:
                    fabric = keeper.fabric
                    self._follow(fabric)
                if self._rounds is not None:
                    await self._round(keeper, self._rounds)
                await asyncio.sleep(self._interval_s * (1 - SENDING_PART))
                if self._rounds is not None and keeper.fabric is fabric:
                    self._judge(keeper, self._rounds)
        finally:
            for task in self._sending.values():
                task.cancel()

    def _follow(self, fabric: Fabric) -> None:
        """Another file is in force: findings stay until it was judged by."""
        self._lldp_links = LldpLinks(fabric, self._lldp_links)
        if punts_lldp(fabric):
            ttl_s = round(self._interval_s * HOLD_ROUNDS) + 1
            self._rounds = Rounds(fabric, ttl_s=ttl_s, counters=self._counters)
        else:
            self._rounds = self._cabling = None
            if self._links is not None:
                self._links.forget(SOURCE)
            self._findings = frozenset()
            message = "no rule of punt takes LLDP (ether_type 0x88cc)"
            self._on_event(Event(kind=EventKind.CABLING_UNCHECKED, message=message))

    async def _round(self, keeper: Keeper, rounds: Rounds) -> None:
        rounds.begin()
        self._note_deaf(keeper, rounds)
        by_switch: dict[str, list[tuple[LinkEnd, bytes]]] = {}
        for port, frame in rounds.frames():
            by_switch.setdefault(port.node, []).append((port, frame))
        for name, frames in by_switch.items():
            before = self._sending.get(name)
            if before is not None and not before.done():
                continue  # the switch takes nothing; a send that is cancelled would end its stream
            self._sending[name] = asyncio.create_task(self._send(keeper, rounds, frames))
        await asyncio.sleep(self._interval_s * SENDING_PART)

    async def _send(
        self, keeper: Keeper, rounds: Rounds, frames: Iterable[tuple[LinkEnd, bytes]]
    ) -> None:
        frames = list(frames)
        pause_s = self._interval_s * SENDING_PART / (len(frames) + 1)
        for port, frame in frames:
            try:
                await keeper.packet_out(port.node, frame, egress_port=port.port)
            except SwitchError:
                return  # whoever looks after the switch finds out by itself
            rounds.sent(port)
            await asyncio.sleep(pause_s)

    def _note_deaf(self, keeper: Keeper, rounds: Rounds) -> None:
        """Only a switch that is in sync certainly has the entry that punts LLDP."""
        in_sync = {
            name for name, one in keeper.switches.items() if one.machine.phase is Phase.IN_SYNC
        }
        for switch in keeper.fabric.switches:
            if switch.name not in in_sync:
                rounds.deaf(switch.name)

    def _judge(self, keeper: Keeper, rounds: Rounds) -> None:
        self._note_deaf(keeper, rounds)
        cabling = rounds.judge(_now_ns())
        if cabling is None:
            return
        self._cabling = cabling
        if self._links is not None and self._lldp_links is not None:
            self._links.only(self._lldp_links.judge(cabling), source=SOURCE)
        now = {_key(one): one for one in cabling.findings}
        before = {_key(one): one for one in self._findings}
        ours = {switch.name for switch in keeper.fabric.switches}
        unseen = {
            key: one
            for key, one in before.items()
            if key not in now
            and any(end.node in ours and end.node not in cabling.listening for end in one.ports)
        }
        for key, one in now.items():
            if key not in before:
                self._on_event(Event(kind=EventKind.CABLING_WRONG, message=str(one)))
        for key, one in before.items():
            if key not in now and key not in unseen:
                self._on_event(Event(kind=EventKind.CABLING_RIGHT, message=f"no longer {one}"))
        self._findings = frozenset([*now.values(), *unseen.values()])


def _key(finding: Finding) -> tuple[object, ...]:
    return (finding.kind, finding.ports)


def _now_ns() -> int:
    """The running loop's clock."""
    return round(asyncio.get_running_loop().time() * 1e9)
