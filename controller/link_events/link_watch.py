# SPDX-License-Identifier: Apache-2.0
"""Tells the keeper which links are down, as soon as somebody knows.

Sources say what they see of a port or a link; `damping.py` judges. A link is down as long as any
source says so.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from controller.fabric import Fabric, LinkEnd
from controller.keeper.keeper import Keeper
from controller.link_events.damping import LinkChange, LinkDamping


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkWatchState:
    """What is known of links now."""

    kept_down: tuple[str, ...]
    """Up, but kept out of use since they went down too often."""


class LinkWatch:
    """A companion of a keeper; sources call `port`, `link` and `forget` in its loop."""

    def __init__(self) -> None:
        self._damping = LinkDamping()
        self._keeper: Keeper | None = None
        self._fabric: Fabric | None = None
        self._link_of: dict[LinkEnd, str] = {}
        self._told: dict[str, dict[str, None]] = {}
        """By source, the links that it complains about."""
        self._news = asyncio.Event()

    @property
    def state(self) -> LinkWatchState:
        """What is known now."""
        return LinkWatchState(kept_down=self._damping.kept_down)

    def port(self, port: LinkEnd, *, source: str, up: bool, reason: str = "") -> None:
        """A port is up or down; one without a cable in the file concerns nobody."""
        self._follow()
        link = self._link_of.get(port)
        if link is not None:
            self.link(link, source=f"{source} {port}", up=up, reason=reason)

    def link(self, link: str, *, source: str, up: bool, reason: str = "") -> None:
        """A link is up or down, as the source sees it."""
        if self._keeper is None:
            return  # it has not begun; sources repeat what they see
        self._follow()
        now_ns = self._keeper.now_ns()
        if up:
            self._told.get(source, {}).pop(link, None)
            self._damping.withdraw(link, source, now_ns)
        elif link in self._links():
            self._told.setdefault(source, {})[link] = None
            change = self._damping.complain(link, source, reason, now_ns)
            if change is not None:
                self._tell(change)
        self._news.set()

    def only(self, complaints: Mapping[str, str], *, source: str) -> None:
        """These links are down as the source sees it, with the reasons, and no others."""
        for link in [*self._told.get(source, {})]:
            if link not in complaints:
                self.link(link, source=source, up=True)
        for link, reason in complaints.items():
            self.link(link, source=source, up=False, reason=reason)

    def forget(self, source: str) -> None:
        """The source says nothing any more, of no port."""
        for name in [*self._told]:
            if name == source or name.startswith(f"{source} "):
                self.only({}, source=name)

    async def __call__(self, keeper: Keeper) -> None:
        """Until cancelled."""
        self._keeper = keeper
        try:
            while True:
                self._news.clear()
                self._follow()
                for change in self._damping.due(keeper.now_ns()):
                    self._tell(change)
                wake_ns = self._damping.wake_ns
                wait_s = None if wake_ns is None else max(0, wake_ns - keeper.now_ns()) / 1e9
                try:
                    async with asyncio.timeout(wait_s):
                        await self._news.wait()
                except TimeoutError:
                    pass
        finally:
            self._keeper = None

    def _tell(self, change: LinkChange) -> None:
        assert self._keeper is not None, "it runs"
        self._keeper.set_link(change.link, up=change.up, reason=change.reason)

    def _links(self) -> set[str]:
        return {*self._link_of.values()}

    def _follow(self) -> None:
        """Another file may be in force: links that are gone are forgotten."""
        if self._keeper is None or self._keeper.fabric is self._fabric:
            return
        self._fabric = self._keeper.fabric
        self._link_of = {end: one.name for one in self._fabric.links for end in (one.a, one.b)}
        links = self._links()
        self._damping.follow(links)
        for told in self._told.values():
            for link in told.keys() - links:
                del told[link]
