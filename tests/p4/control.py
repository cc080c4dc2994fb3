# SPDX-License-Identifier: Apache-2.0
"""The control plane's side of a `Node`: tables by name, routes, watchlists, sessions, counters.

All programming goes through the methods here, so that a second switch can be given the same state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.profiles import GroupRow, Profile
from bmv2_lab.switch.state import (
    CloneSession,
    SwitchState,
    exact_match,
    lpm_match,
    ternary_match,
)
from bmv2_lab.switch.tables import PACKETS, Entry, Match
from tests.p4.wire import ip

COLLECTOR_IP = "10.255.0.1"
COLLECTOR_PORT = 32766
BUCKETS = 64
"""Members of every ECMP group: bucket i of group g is member g * 64 + i."""


@dataclass
class Control:
    """What the controller does to one switch."""

    node_id: int
    host_ports: tuple[int, ...] = ()
    switch: EmbeddedSwitch = field(init=False)
    names: dict[str, str] = field(init=False, default_factory=dict)
    """Table name without its controls -> full name."""
    groups: int = field(init=False, default=0)
    truncate_bytes: int = 64
    report_dscp: int = 0
    interfaces: dict[int, int] = field(default_factory=dict)
    """Level 2 interface of each port that has one."""

    @property
    def state(self) -> SwitchState:
        return self.switch.state

    @property
    def mac(self) -> int:
        return 0x02EE00000000 | self.node_id

    @property
    def address(self) -> int:
        return ip("10.254.0.0") | self.node_id

    def set_report_config(self, truncate_bytes: int = 64, dscp: int = 0) -> None:
        """The report's outside; collectors are in report_destination."""
        self.truncate_bytes, self.report_dscp = truncate_bytes, dscp
        arguments = (self.mac, self.address, dscp, truncate_bytes)
        self.set_default("report_config", "set_report_config", *arguments)

    def clone_session(self, session: int, port: int) -> None:
        self.state.clone_sessions[session] = CloneSession(session_id=session, replicas=((port, 1),))

    def multicast_group(self, group: int, *ports: int, tags: Mapping[int, int] = {}) -> None:
        """Copies out of these ports; `tags`: instance of the ports that do not keep the tag."""
        self.state.multicast_groups[group] = tuple((port, tags.get(port, 0)) for port in ports)

    def _action(self, table: str, action: str) -> tuple[str, str]:
        """Full names of a table and of an action as that table knows it."""
        spec = self.state.table(self.names[table]).spec
        full = next(name for name in spec.action_names if name.rsplit(".", 1)[-1] == action)
        return spec.name, full

    def set_default(self, table: str, action: str, *arguments: int) -> None:
        self.state.set_default(*self._action(table, action), arguments)

    def add(
        self, table: str, match: Sequence[Match], action: str, *arguments: int, priority: int = 0
    ) -> Entry:
        names = self._action(table, action)
        return self.state.add_entry(names[0], tuple(match), names[1], arguments, priority=priority)

    def clear(self, *tables: str) -> None:
        """Remove all entries of some tables."""
        for table in tables:
            self.state.table(self.names[table]).clear()

    def ternary(self, table: str, keys: dict[str, tuple[int, int]]) -> list[Match]:
        """A match on the named keys, each value and mask; the others match everything."""
        names = [key.name for key in self.state.table(self.names[table]).spec.key]
        unknown = set(keys) - set(names)
        assert not unknown, f"{table} has no key {unknown}"
        return [ternary_match(*keys.get(name, (0, 0))) for name in names]

    def route(
        self,
        prefix: str,
        bits: int,
        *ports: int,
        vlan: int | None = None,
        buckets: Sequence[int] = (),
    ) -> int:
        """A route to one port, or to several in turn over 64 buckets (`buckets`: port of each).

        Returns the group's number.
        """
        self.groups += 1
        many = list(buckets) or [ports[i % len(ports)] for i in range(BUCKETS)]
        if len(ports) == 1:
            many = [ports[0]]
        for index, port in enumerate(many):
            self._add_member(self.groups * BUCKETS + index, *self._forward(port, vlan))
        self._add_route(prefix, bits, self.groups, len(many))
        return self.groups

    def route_to_drop(self, prefix: str, bits: int) -> None:
        """A route whose action is to drop."""
        self.groups += 1
        self._add_member(self.groups * BUCKETS, "drop")
        self._add_route(prefix, bits, self.groups, 1)

    def rewrite_bucket(self, group: int, bucket: int, port: int) -> None:
        """Failover: one member of a group changes, the group does not."""
        action, *arguments = self._forward(port, None)
        cell = self.state.cell(self._member_action(str(action)), [int(v) for v in arguments])
        self._profile.modify_member(group * BUCKETS + bucket, cell)

    def _forward(self, port: int, vlan: int | None) -> tuple[str, *tuple[int, ...]]:
        mac = 0x020000000000 | port
        return ("forward", port, mac) if vlan is None else ("forward_vlan", port, mac, vlan)

    @property
    def _profile(self) -> Profile:
        (profile,) = self.state.profiles.values()
        return profile

    def _member_action(self, action: str) -> int:
        table, full = self._action("ipv4_lpm", action)
        return self.state.action_id(self.state.table(table).spec, full)

    def _add_member(self, member: int, action: str, *arguments: int) -> None:
        cell = self.state.cell(self._member_action(action), list(arguments))
        self._profile.add_member(member, cell)

    def _add_route(self, prefix: str, bits: int, group: int, members: int) -> None:
        first = group * BUCKETS
        if members == 1:
            cells = self._profile.member_cells[first]
            self._profile.use(member_id=first, group_id=None, change=1)
        else:
            rows: list[GroupRow] = [(first + index, 1, 0) for index in range(members)]
            self._profile.add_group(group, BUCKETS, rows)
            self._profile.use(member_id=None, group_id=group, change=1)
            cells = self._profile.groups[group].cells
        name = "ipv6_lpm" if ":" in prefix else "ipv4_lpm"
        match = (lpm_match(ip(prefix), bits, 128 if ":" in prefix else 32),)
        entry = Entry(match=match, priority=0, cell=self.state.indirect_cell(cells))
        self.state.table(self.names[name]).insert(entry)

    # ---- watchlists

    def _watch(
        self,
        action: str,
        arguments: tuple[int, ...],
        priority: int,
        keys: dict[str, tuple[int, int]],
    ) -> None:
        """In both watchlists, or in that of the addresses if the keys have any."""
        addresses = [keys[name][1] for name in ("src_addr", "dst_addr") if name in keys]
        is_v6 = any(mask >> 32 for mask in addresses)
        tables = ["int_watchlist", "int_watchlist_ipv6"]
        for table in tables[is_v6:][:1] if addresses else tables:
            self.add(table, self.ternary(table, keys), action, *arguments, priority=priority)

    def watch(
        self,
        *,
        bitmap: int = 0xFC00,
        remaining_hop_count: int = 8,
        marked_dscp: int = 27,
        priority: int = 10,
        **keys: tuple[int, int],
    ) -> None:
        """INT-MD for flows from host ports whose named keys fit value/mask."""
        arguments = (bitmap, remaining_hop_count, marked_dscp)
        self._watch("int_source", arguments, priority, keys)

    def watch_mx(
        self,
        *,
        bitmap: int = 0xFC00,
        marked_dscp: int = 27,
        priority: int = 10,
        **keys: tuple[int, int],
    ) -> None:
        """INT-MX for flows from host ports."""
        self._watch("int_source_mx", (bitmap, marked_dscp), priority, keys)

    def watch_xd(
        self,
        *,
        bits: int = 0x7C00,
        change_only: int = 0,
        priority: int = 10,
        **keys: tuple[int, int],
    ) -> None:
        """INT-XD: a postcard for packets on any port."""
        self._watch("int_postcard", (bits, change_only), priority, keys)

    def exempt(self, *, priority: int = 1000, **keys: tuple[int, int]) -> None:
        """Neither INT nor postcards."""
        self._watch("int_exempt", (), priority, keys)

    def watch_ptp(self, bits: int = 0x7C00, **keys: tuple[int, int]) -> None:
        """Postcards for PTP event messages."""
        match = self.ternary("ptp_watchlist", keys)
        self.add("ptp_watchlist", match, "ptp_postcard", bits, priority=1)

    def set_interface(self, port: int, interface: int) -> None:
        """The level 2 interface of a port, in both directions."""
        self.interfaces[port] = interface
        for way in ("ingress", "egress"):
            action = f"set_{way}_interface"
            self.add(f"{way}_interface", [exact_match(port)], action, interface)

    def destination(self, bucket: int, number: int, address: str, port: int) -> None:
        """The collector of one bucket of flows."""
        arguments = (number, ip(address), port)
        action = "set_report_destination"
        self.add("report_destination", [exact_match(bucket)], action, *arguments)

    def destination_default(self, address: str) -> None:
        """The collector of all buckets without an entry."""
        arguments = (0, ip(address), COLLECTOR_PORT)
        self.set_default("report_destination", "set_report_destination", *arguments)

    def preset_sequences(self, value: int) -> None:
        """Data-plane registers; no control plane writes them."""
        for name, register in self.state.registers.items():
            if name.endswith("report_seq"):
                register[:] = [value] * len(register)

    # ---- what it counted

    def hits(self, table: str) -> int:
        """Packets that hit any entry of a table."""
        entries = self.state.table(self.names[table]).entries.values()
        return sum(int(entry.cell[PACKETS]) for entry in entries)

    def counts(self, counter: str) -> dict[int, int]:
        """Index -> packets of one of drops, ingress_events, egress_events; without zeros."""
        (name,) = (n for n in self.state.counter_packets if n.rsplit(".", 1)[-1] == counter)
        return {i: count for i, count in enumerate(self.state.counter_packets[name]) if count}

    @property
    def drops(self) -> dict[int, int]:
        """Drop reason -> packets."""
        return self.counts("drops")

    def event(self, index: int) -> int:
        """One of EVENT_* of the ingress."""
        return self.counts("ingress_events").get(index, 0)

    def egress_event(self, index: int) -> int:
        """One of EVENT_* of the egress."""
        return self.counts("egress_events").get(index, 0)
