# SPDX-License-Identifier: Apache-2.0
"""What switches must hold, given the file and what was found at run time.

Pure. The file alone does not say it all: links fail, and transparent clocks get the delays that the
correction has estimated.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

from controller.desired import LINK_DELAY_TABLE, LinkDelays, desired_entries
from controller.draining import drained_links
from controller.entries import Entry, EntryKey, Kind
from controller.fabric import Fabric, Switch
from controller.link_mtu import MtuTable
from controller.ptp_entries import link_delay_entries
from controller.reconcile import Update, by_key, reconcile
from controller.route_entries import ECMP_SELECTOR
from controller.routing import RouteTable, compute_routes

ROUTE_NAMES = frozenset({ECMP_SELECTOR, "ipv4_lpm", "ipv6_lpm"})
"""Tables and profiles that hold the routes."""
LINK_DELAY_NAMES = frozenset({LINK_DELAY_TABLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is known of the fabric at run time and changes by itself, so it is not in the file."""

    link_delays: LinkDelays | None = None
    """2^-16 ns by switch and ingress port, for transparent clocks. None: whatever the switches
    hold stays, since whoever maintains it is not this caller."""
    failed_links: Collection[str] = ()
    """Names of links that are down: their ports' flows go to the other ports of the ECMP set."""
    drained_switches: Collection[str] = ()
    """Switches that nothing shall pass through: the links to their neighbours are left out."""


NO_FINDINGS = Findings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The desired entries of a fabric's switches under some findings."""

    fabric: Fabric
    routes: RouteTable
    link_delays: LinkDelays | None
    sizes: Mapping[str, Mapping[str, int]]
    """Entries that each table has room for, by device model; what is not named has enough."""
    mtus: MtuTable | None = field(default=None, compare=False, repr=False)
    """Of all links, looked up once."""
    _entries: dict[str, dict[EntryKey, Entry]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @classmethod
    def of(
        cls,
        fabric: Fabric,
        findings: Findings,
        sizes: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
        *,
        before: "Target | None" = None,
    ) -> Self:
        """Computes the shortest paths once for all switches.

        before: an earlier target, whose paths are taken over where switches and links are the same.
        """
        usual = None
        if before is not None and same_cables(before.fabric, fabric):
            usual = before.routes.usual
        out_of_use = {
            *findings.failed_links,
            *drained_links(fabric, findings.drained_switches),
        }
        return cls(
            fabric=fabric,
            routes=compute_routes(fabric, out_of_use, usual=usual),
            link_delays=findings.link_delays,
            sizes=sizes,
            mtus=MtuTable(fabric),
        )

    def entries(self, switch_name: str) -> Mapping[EntryKey, Entry]:
        """The desired entries of a switch by key, computed at the first call."""
        if switch_name not in self._entries:
            self._entries[switch_name] = by_key(
                desired_entries(
                    self.fabric,
                    switch_name,
                    routes=self.routes,
                    link_delays=self.link_delays,
                    mtus=self.mtus,
                )
            )
        return self._entries[switch_name]

    def updates(
        self,
        switch_name: str,
        actual: Mapping[EntryKey, Entry],
        names: frozenset[str] | None = None,
    ) -> list[Update]:
        """What separates a switch from its desired entries; with `names`, in these tables only."""
        foreign = LINK_DELAY_NAMES if self.link_delays is None else frozenset()

        def ours(entries: Mapping[EntryKey, Entry]) -> Mapping[EntryKey, Entry]:
            if names is not None:
                return {key: one for key, one in entries.items() if _name(key) in names - foreign}
            left_out = [key for key in entries if _name(key) in foreign]
            if not left_out:
                return entries
            return {key: one for key, one in entries.items() if key not in left_out}

        sizes = self.sizes.get(self.fabric.switch(switch_name).model, {}) if self.sizes else {}
        return reconcile(ours(self.entries(switch_name)), ours(actual), sizes)


def same_cables(one: Fabric, other: Fabric) -> bool:
    """Both have the same switches and links, drained or not: with all links up, their shortest
    paths are the same."""
    if one.switches is other.switches and one.links is other.links:
        return True
    return (
        len(one.links) == len(other.links)
        and one.switches == other.switches
        and all(
            replace(mine, drained=theirs.drained) == theirs
            for mine, theirs in zip(one.links, other.links, strict=True)
        )
    )


def link_delay_updates(
    fabric: Fabric,
    switch: Switch,
    link_delays: LinkDelays,
    actual: Mapping[EntryKey, Entry],
) -> list[Update]:
    """What separates a switch's link delays, `actual`, from these."""
    delays = link_delays.get(switch.name, {})
    return reconcile(link_delay_entries(fabric.model_of(switch), switch, delays), actual)


_NAMED = frozenset({Kind.TABLE, Kind.MEMBER, Kind.GROUP})


def _name(key: EntryKey) -> str:
    """The table or profile of an entry that is listed by such a name; empty for all others."""
    return key[1] if key[0] in _NAMED else ""
