# SPDX-License-Identifier: Apache-2.0
"""Port states of switches over gNMI, for those of the file that have it.

One subscription a switch, ON_CHANGE on `interfaces/interface/state/oper-status` (OpenConfig). A
session that ends is opened again; what was known of its ports stays until the switch says
otherwise.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Never

from finsy import GNMIUpdate

from controller.access import Access, AccessError
from controller.fabric import Fabric, LinkEnd, gnmi_address, programmed_switches
from controller.keeper.backoff import Backoff
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.keeper import Keeper
from controller.link_events.gnmi_session import GnmiError, GnmiSession
from controller.link_events.gnmi_values import (
    OPER_STATUS,
    PORT_NUMBER_PATHS,
    down_reason,
    interface_of,
    is_about,
    port_number,
    port_numbers,
)
from controller.link_events.link_watch import LinkWatch
from controller.p4channel import open_channel

SOURCE = "gnmi"
HEARTBEAT_S = 10.0
"""Between questions to a silent switch, and the longest wait for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GnmiState:
    """One switch's port states."""

    is_followed: bool
    """They are known, and changes come as they happen."""
    error: str = ""
    """Why not, where it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsState:
    """Of all switches."""

    by_switch: Mapping[str, GnmiState]
    without: tuple[str, ...]
    """Switches for which the file has no gNMI server."""


class GnmiPorts:
    """A companion of a keeper; tells `links` which ports are down."""

    def __init__(
        self,
        links: LinkWatch,
        access: Access,
        on_event: OnEvent,
        *,
        draw: Callable[[], float] = random.random,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._links = links
        self._access = access
        self._on_event = on_event
        self._draw = draw
        self._heartbeat_s = heartbeat_s
        self._sessions: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """By switch: its address, and who follows it."""
        self._states: dict[str, GnmiState] = {}
        self._without: tuple[str, ...] = ()
        self._down: dict[LinkEnd, str] = {}
        """Ports that are down, with the reason, whether they have a cable in the file or not."""

    @property
    def state(self) -> PortsState:
        """What is known now."""
        return PortsState(by_switch=dict(self._states), without=self._without)

    async def __call__(self, keeper: Keeper) -> None:
        """Until cancelled."""
        try:
            while True:
                self._follow(keeper.fabric)
                await _another_fabric(keeper, keeper.fabric)
        finally:
            tasks = [task for _, task in self._sessions.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, fabric: Fabric) -> None:
        found = {one.name: gnmi_address(fabric, one) for one in programmed_switches(fabric)}
        self._without = tuple(name for name, address in found.items() if address is None)
        for name, (address, task) in [*self._sessions.items()]:
            if found.get(name) != address:
                task.cancel()
                del self._sessions[name], self._states[name]
                self._down = {port: one for port, one in self._down.items() if port.node != name}
                self._links.forget(f"{SOURCE} {name}")
        for name, one in found.items():
            if one is not None and name not in self._sessions:
                self._states[name] = GnmiState(is_followed=False)
                self._sessions[name] = (one, asyncio.create_task(self._keep_following(name, one)))
        for port, reason in self._down.items():  # which may be another link's in this file
            self._tell(port, reason)

    async def _keep_following(self, switch: str, address: str) -> None:
        backoff = Backoff(self._draw)
        while True:
            try:
                async with open_channel(address, self._access.tls) as channel:
                    await self._session(switch, GnmiSession(channel), backoff)
            except TimeoutError:
                error = "no answer"
            except (GnmiError, AccessError) as problem:
                error = str(problem)
            self._lost(switch, f"gNMI server {address}: {error}")
            await asyncio.sleep(backoff.wait_ns() / 1e9)

    def _lost(self, switch: str, error: str) -> None:
        before = self._states[switch]
        self._states[switch] = GnmiState(is_followed=False, error=error)
        if before.is_followed or not before.error:  # once until it works again
            self._on_event(Event(kind=EventKind.PORTS_UNKNOWN, switch=switch, message=error))

    async def _session(self, switch: str, session: GnmiSession, backoff: Backoff) -> Never:
        """Until the subscription ends, or the switch does not answer any more: an error tells."""
        async with aclosing(session.changes(OPER_STATUS)) as changes:
            async with asyncio.timeout(self._heartbeat_s):
                numbers = await _port_numbers(session)
                async for updates in changes:
                    if updates is None:
                        break
                    self._take(switch, updates, numbers)
            backoff.reset()
            self._states[switch] = GnmiState(is_followed=True)
            self._on_event(Event(kind=EventKind.PORTS_KNOWN, switch=switch))
            work = {
                asyncio.create_task(self._read(switch, changes, numbers)),
                asyncio.create_task(self._beat(session)),
            }
            try:
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        raise done.pop().exception() or AssertionError("both go on until an error")

    async def _read(
        self,
        switch: str,
        changes: AsyncIterator[list[GNMIUpdate] | None],
        numbers: Mapping[str, int],
    ) -> None:
        async for updates in changes:
            self._take(switch, updates or (), numbers)

    async def _beat(self, session: GnmiSession) -> None:
        """A dead switch ends no stream: ask it something, time and again."""
        while True:
            await asyncio.sleep(self._heartbeat_s)
            async with asyncio.timeout(self._heartbeat_s):
                try:
                    await session.capabilities()
                except GnmiError as error:
                    if not error.is_missing:
                        raise

    def _take(self, switch: str, updates: Iterable[GNMIUpdate], numbers: Mapping[str, int]) -> None:
        for update in updates:
            name = interface_of(update)
            number = numbers.get(name, port_number(name))
            reason = down_reason(update) if is_about(update, OPER_STATUS) else None
            if number is not None and reason is not None:
                port = LinkEnd(node=switch, port=number)
                if reason:
                    self._down[port] = reason
                else:
                    self._down.pop(port, None)
                self._tell(port, reason)

    def _tell(self, port: LinkEnd, reason: str) -> None:
        said = f"gNMI: {port}: {reason}"
        self._links.port(port, source=f"{SOURCE} {port.node}", up=not reason, reason=said)


async def _another_fabric(keeper: Keeper, seen: Fabric) -> None:
    await keeper.until(lambda: keeper.fabric is not seen)


async def _port_numbers(session: GnmiSession) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in PORT_NUMBER_PATHS:
        try:
            found |= port_numbers(await session.get(path))
        except GnmiError as error:
            if not error.is_missing:
                raise
    return found
