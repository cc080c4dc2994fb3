# SPDX-License-Identifier: Apache-2.0
"""One check of a fabric's cabling: over sessions of its own that end with it."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from controller.access import DEFAULT_ACCESS, Access
from controller.cabling.check import Cabling
from controller.cabling.lldp import ETHER_TYPE_LLDP
from controller.cabling.rounds import Rounds
from controller.deployment import side_by_side
from controller.entries import Entry, TableEntry, Ternary
from controller.fabric import Fabric, LinkEnd, Switch
from controller.pipeline import Pipeline
from controller.programs import Programs
from controller.session import CONNECT_DEADLINE_S, SwitchSession, open_session
from controller.switch_error import SwitchError

LISTEN_S = 2.0
"""How long frames may be on their way; hosts send every 30 s, so hearing them takes longer."""
ROUNDS = 2
"""So that one lost frame is no finding."""
_TTL_S = 10
_PUNT = "punt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CablingResult:
    """The outcome, with the switches that could not take part."""

    cabling: Cabling
    errors: tuple[SwitchError, ...]

    @property
    def ok(self) -> bool:
        """All that could be heard is as in the file, and every switch took part."""
        return not self.cabling.findings and not self.errors


async def check_once(
    fabric: Fabric,
    addresses: Mapping[str, str] | None = None,
    pipeline: Pipeline | None = None,
    *,
    access: Access = DEFAULT_ACCESS,
    listen_s: float = LISTEN_S,
) -> CablingResult:
    """Send over every cabled port, listen, and compare with the file; writes no entry.

    Packets come to and from the primary controller only, so this must be it for the while.
    """
    programs = Programs.of_pipeline(pipeline)
    rounds = Rounds(fabric, ttl_s=_TTL_S)
    async with AsyncExitStack() as stack:

        async def connect(switch: Switch, address: str) -> SwitchSession:
            schema = programs.of(fabric, switch)
            session = await stack.enter_async_context(
                open_session(
                    name=switch.name,
                    address=address,
                    device_id=switch.device_id,
                    schema=schema,
                    access=access,
                )
            )
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                await session.become_primary(access.election_id)
            problem = await _problem(session, schema.p4cookie)
            if problem:
                raise SwitchError(switch=switch.name, message=f"{problem}; deploy first")
            return session

        async def guarded(switch: Switch, address: str) -> SwitchSession:
            try:
                return await connect(switch, address)
            except TimeoutError:
                raise SwitchError(
                    switch=switch.name,
                    message=f"{address} did not answer within {CONNECT_DEADLINE_S:g} s",
                    lost=True,
                ) from None

        connected, errors = await side_by_side(fabric, addresses or {}, guarded)
        sessions = {one.name: one for one in connected}
        listeners = [asyncio.create_task(_listen(one, rounds)) for one in connected]
        try:
            for _ in range(ROUNDS):
                rounds.begin()
                for switch in fabric.switches:
                    if switch.name not in sessions:
                        rounds.deaf(switch.name)
                await _send(rounds, sessions)
                await asyncio.sleep(listen_s / ROUNDS)
        finally:
            for task in listeners:
                task.cancel()
    cabling = rounds.judge(_now_ns())
    assert cabling is not None, "there were two rounds"
    return CablingResult(cabling=cabling, errors=tuple(errors))


async def _problem(session: SwitchSession, cookie: int) -> str:
    """Why the switch cannot take part, if so."""
    running = await session.pipeline_cookie()
    if running != cookie:
        return "it runs no pipeline" if running is None else "it runs another pipeline"
    punts = any(map(_punts_lldp, await session.read_entries([_PUNT])))
    return "" if punts else "it punts no LLDP"


async def _send(rounds: Rounds, sessions: Mapping[str, SwitchSession]) -> None:
    for port, frame in rounds.frames():
        session = sessions.get(port.node)
        if session is None:
            continue
        try:
            await session.packet_out(frame, egress_port=port.port)
        except SwitchError:
            rounds.deaf(port.node)
            continue
        rounds.sent(port)


async def _listen(session: SwitchSession, rounds: Rounds) -> None:
    while True:
        packet = await session.packets_in.get()
        port = packet.metadata.get("ingress_port")
        if port is not None:
            rounds.hear(LinkEnd(node=session.name, port=port), packet.frame, _now_ns())


def _punts_lldp(entry: Entry) -> bool:
    """An entry of `punt` that takes LLDP from any port."""
    if not isinstance(entry, TableEntry):
        return False
    match = dict(entry.match)
    kind = match.pop("ether_type", None)
    if not isinstance(kind, Ternary):
        return not match and kind is None
    return not match and ETHER_TYPE_LLDP & kind.mask == kind.value


def _now_ns() -> int:
    return round(asyncio.get_running_loop().time() * 1e9)
