# SPDX-License-Identifier: Apache-2.0
"""Switches running the committed program, programmed by table and action names.

A `Node` is one embedded switch plus the little traffic manager that its tests need. Expectations
are computed in the tests from the standards and docs/p4.md, not with the product's encoders.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.profiles import GroupRow, Profile
from bmv2_lab.switch.state import (
    CloneSession,
    SwitchState,
    exact_match,
    lpm_match,
    ternary_match,
)
from bmv2_lab.switch.tables import PACKETS, Entry, Match
from controller.pipeline import load_pipeline
from tests.p4.dissect import COLLECTOR_UDP_PORTS
from tests.p4.int_headers import DOMAIN_ID
from tests.p4.reports import ExpectedReport, ReportBytes, expect_reports
from tests.p4.wire import ip

REPORT_PORT = 60
RECIRCULATION_PORT = 509
CPU_PORT = 510
COLLECTOR_IP = "10.255.0.1"
COLLECTOR_PORT = 32766
BUCKETS = 64
"""Members of every ECMP group: bucket i of group g is member g * 64 + i."""
RESIDENCE = 1500
QUEUE_WAIT_MARGIN = 400
"""How much shorter than the residence the time in the queue is."""

SEND_OBSERVERS: list[Callable[["Node", bytes, int, "Sent"], None]] = []
"""Called at the end of every `Node.send`: BMv2, where it is installed, gets the same frames."""


@functools.lru_cache(maxsize=1)
def program() -> SwitchProgram:
    """The committed program, translated once for all tests."""
    return SwitchProgram.from_json(load_pipeline().bmv2_json)


@dataclass
class Node:
    """One switch: host ports strip and start INT, the other ports are fabric links."""

    node_id: int
    host_ports: tuple[int, ...] = ()
    switch: EmbeddedSwitch = field(init=False)
    now: int = 1_000_000
    queue_depth: int = 3
    truncate_bytes: int = 64
    report_dscp: int = 0
    interfaces: dict[int, int] = field(default_factory=dict)
    """Level 2 interface of each port that has one."""

    def __post_init__(self) -> None:
        self.switch = EmbeddedSwitch(program(), device_id=self.node_id)
        self.names = {name.rsplit(".", 1)[-1]: name for name in self.state.tables}
        self.groups = 0
        self.set_default("int_node", "set_int_node", self.node_id, DOMAIN_ID)
        self.set_report_config()
        self.destination_default(COLLECTOR_IP)
        for port in self.host_ports:
            self.add("int_edge_ports", [exact_match(port)], "set_int_source_edge")
            self.add("int_sink_ports", [exact_match(port)], "set_int_sink")
        for dscp, queue in ((26, 1), (27, 1), (46, 2), (47, 2)):
            self.add("qos_class", [exact_match(dscp)], "set_queue", queue)
        for marked, unmarked in ((27, 26), (1, 0), (47, 46)):
            self.add("int_marked_dscp", [exact_match(marked)], "set_marked", unmarked)
        for session in (1, 2):
            self.clone_session(session, RECIRCULATION_PORT)
        self.route(COLLECTOR_IP, 32, REPORT_PORT)

    # ---- what the control plane writes

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

    def multicast_group(self, group: int, *ports: int) -> None:
        self.state.multicast_groups[group] = tuple((port, 1) for port in ports)

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

    # ---- traffic

    def send(
        self,
        frame: bytes,
        port: int,
        *,
        residence: int = RESIDENCE,
        at: int | None = None,
        drop_clones: bool = False,
    ) -> "Sent":
        """Push one frame through; each copy stays `residence` units, `at` sets the clock."""
        self.now = self.now + 10_000 if at is None else at
        start = self.now
        waiting: list[EgressCopy] = list(self.switch.ingress(frame, port, start))
        sent = Sent(
            node=self, ingress_tstamp=start, egress_tstamp=start + residence, received=frame
        )
        while waiting:
            copy = waiting.pop(0)
            sent.queues.append((copy.egress_port, copy.queue_id))
            if drop_clones and copy.egress_port == RECIRCULATION_PORT:
                continue
            outputs = self.switch.egress(
                copy,
                enq_timestamp=start + min(QUEUE_WAIT_MARGIN, residence) & 0xFFFFFFFF,
                enq_qdepth=self.queue_depth + 1,
                deq_timedelta=max(residence - QUEUE_WAIT_MARGIN, 0),
                deq_qdepth=self.queue_depth,
                egress_tstamp=start + residence,
            )
            for output in outputs:
                if isinstance(output, Emitted):
                    sent.emitted.append((output.port, output.frame))
                else:
                    waiting.append(output)
        for observe in SEND_OBSERVERS:
            observe(self, frame, port, sent)
        return sent

    def packet_out(self, frame: bytes, port: int) -> "Sent":
        """A frame that the controller sends out of one port."""
        return self.send((port << 7).to_bytes(2, "big") + frame, CPU_PORT)

    def expect_reports(self, sent: "Sent", *expected: ExpectedReport) -> None:
        """Exactly these reports were sent, every header as it should be."""
        expect_reports(self, sent.reports, expected)


@dataclass
class Sent:
    """What one frame made a switch send."""

    node: Node
    ingress_tstamp: int
    egress_tstamp: int
    received: bytes
    emitted: list[tuple[int, bytes]] = field(default_factory=list)
    queues: list[tuple[int, int]] = field(default_factory=list)

    @property
    def forwarded(self) -> list[tuple[int, bytes]]:
        """All but this switch's own reports."""
        return [(port, frame) for port, frame in self.emitted if not self._is_own_report(frame)]

    @property
    def frame(self) -> bytes:
        ((_, frame),) = self.forwarded
        return frame

    @property
    def port(self) -> int:
        ((port, _),) = self.forwarded
        return port

    @property
    def reports(self) -> list[ReportBytes]:
        """This switch's reports, ingress clones first."""
        found = [ReportBytes(f, port) for port, f in self.emitted if self._is_own_report(f)]
        return sorted(found, key=lambda report: report.hw_id)

    def _is_own_report(self, frame: bytes) -> bool:
        l3 = 18 if frame[12:14] == b"\x81\x00" else 14
        source = frame[l3 + 12 : l3 + 16]
        is_udp = frame[l3 - 2 : l3] == b"\x08\x00" and frame[l3 + 9] == 17
        is_own = source == self.node.address.to_bytes(4, "big")
        is_own &= int.from_bytes(frame[l3 + 22 : l3 + 24], "big") in COLLECTOR_UDP_PORTS
        return is_udp and is_own and not self.received.endswith(frame[l3 + 20 :])
