# SPDX-License-Identifier: Apache-2.0
"""Entries of a switch in an operator's words: names in place of addresses and numbers, with units.

Pure. What is not known here appears as the switch's own names and numbers (`entries.py`).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from controller.addresses import format_ip, format_ipv6
from controller.desired import MTU_BYTES_MAX, NO_INTERFACE, QUEUE_DEPTH_MAX
from controller.ecmp import (
    COLLECTOR_MEMBER_ID_BASE,
    MEMBER_IDS_PER_GROUP,
    PORT_MEMBER_ID_MAX,
)
from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    MatchValue,
    Member,
    MemberRef,
    MulticastGroup,
    TableEntry,
    Ternary,
    show_match,
    show_value,
)
from controller.fabric import Fabric, cabling
from controller.fabric_telemetry import DROP_REASONS, IpNetwork
from controller.report_entries import LATENCY_MAX
from controller.targets import TARGETS

_SCALED_PER_NS = 1 << 16
_ETHER_TYPES = {0x0800: "IPv4", 0x0806: "ARP", 0x86DD: "IPv6", 0x88CC: "LLDP", 0x88F7: "PTP"}
_PROTOCOLS = {6: "TCP", 17: "UDP", 58: "ICMPv6"}
_PORTS = {4791: "RoCEv2", 319: "PTP event", 320: "PTP general", 32767: "link probes"}
_MESSAGES = {0: "Sync", 1: "Delay_Req", 2: "Pdelay_Req", 3: "Pdelay_Resp"}
_REASONS = {number: name for name, number in DROP_REASONS.items()}
_WHOLE = frozenset((1 << bits) - 1 for bits in range(1, 129))
"""Masks that select a field as a whole, or its low bits where nothing is above them."""
_LABELS: Mapping[str, str] = MappingProxyType(
    {"dst_addr": "to", "ipv6_dst_addr": "to", "src_addr": "from", "ipv6_src_addr": "from"}
)


class FabricNames:
    """Names that a fabric's description has for ports, addresses and numbers."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.far_ends: dict[str, dict[int, str]] = {switch.name: {} for switch in fabric.switches}
        for near, far in cabling(fabric).items():
            if near.node in self.far_ends:
                self.far_ends[near.node][near.port] = str(far)
        self.macs = {node.mac: node.name for node in fabric.nodes}
        self.ips = {(4, node.ip): node.name for node in fabric.nodes}
        self.ips |= {(6, host.ipv6): host.name for host in fabric.hosts if host.ipv6 is not None}
        self.ips |= {(4, collector.ip): "collector" for collector in fabric.collectors}
        self.prefixes: dict[tuple[int, int, int], str] = {}
        for one in fabric.switches:
            prefixes: list[IpNetwork] = [*one.prefixes, *one.ipv6_prefixes]
            for prefix in prefixes:
                place = (prefix.version, int(prefix.network_address), prefix.prefixlen)
                self.prefixes[place] = one.name
        self.node_ids = {one.node_id: one.name for one in fabric.switches}
        self.dscps = {one.dscp: one.name for one in fabric.qos.classes}
        self.dscps |= {
            one.marked_dscp: f"{one.name}, marked"
            for one in fabric.qos.classes
            if one.marked_dscp is not None
        }


class EntryText:
    """Words for the entries of one switch."""

    def __init__(self, names: FabricNames, switch_name: str) -> None:
        switch = names.fabric.switch(switch_name)
        model = names.fabric.model(switch.model)
        self._names = names
        self._unit_ns = model.stamp_unit_ns
        self._far_end = dict(names.far_ends[switch_name])
        for port, name in TARGETS[model.target].reserved_ports.items():
            self._far_end.setdefault(port, name)
        self._far_end.setdefault(switch.cpu_port, "CPU")
        if switch.report_port is not None:
            self._far_end.setdefault(switch.report_port, "collectors")
        self._values = self._value_texts()

    def what(self, entry: Entry) -> str:
        """What the entry is about."""
        match entry:
            case Member(member_id=number) if number <= PORT_MEMBER_ID_MAX:
                return f"member {number}"
            case Member(member_id=number):
                return self._member(number)
            case Group(group_id=number):
                return f"group {number}"
            case MulticastGroup() | CloneSession():
                return entry.where
            case DefaultEntry():
                return "otherwise"
            case TableEntry():
                fields = [self._match(entry.table, name, value) for name, value in entry.match]
                return ", ".join(fields) or "anything"

    def does(self, entry: Entry) -> str:
        """What happens then."""
        match entry:
            case Member(action=action) | DefaultEntry(action=action):
                return self._action(action)
            case Group(members=members):
                return f"{len(members)} buckets"
            case MulticastGroup(replicas=replicas) | CloneSession(replicas=replicas):
                ports = (f"{self._port(port)} instance {instance}" for port, instance in replicas)
                cut = getattr(entry, "packet_bytes", 0)
                return (", ".join(ports) or "no copy") + (f", cut to {cut} bytes" if cut else "")
            case TableEntry(action=MemberRef(member_id=number)):
                return self._member(number)
            case TableEntry(action=GroupRef(group_id=number)):
                return f"group {number}"
            case TableEntry(action=ActionCall() as action):
                return self._action(action)
        raise AssertionError(entry)

    def next_hop(self, action: ActionCall) -> str:
        """Where a member of a group sends packets."""
        params = dict(action.params)
        if "port" not in params:
            return action.name
        tag = f", VLAN {params['vlan_id']}" if "vlan_id" in params else ""
        far = self._far_end.get(params["port"], "").rpartition(":")[0]
        mac = params.get("dst_mac")
        other = ""
        if mac is not None and self._names.macs.get(mac) != far:
            other = f", to {self._names.macs.get(mac) or show_value('dst_mac', mac)}"
        return f"{self._port(params['port'])}{tag}{other}"

    def _action(self, action: ActionCall) -> str:
        if action.name in ("forward", "forward_vlan"):
            return self.next_hop(action)
        params = ", ".join(self._value(name, value) for name, value in action.params)
        return f"{action.name}({params})"

    def _member(self, number: int) -> str:
        if number <= PORT_MEMBER_ID_MAX:
            return self._port(number)
        if number < COLLECTOR_MEMBER_ID_BASE + MEMBER_IDS_PER_GROUP:
            return f"collector {number - COLLECTOR_MEMBER_ID_BASE}"
        return f"bucket {number % MEMBER_IDS_PER_GROUP} of group {number // MEMBER_IDS_PER_GROUP}"

    def _match(self, table: str, name: str, value: MatchValue) -> str:
        version = 6 if "ipv6" in table or "ipv6" in name else 4
        label = _LABELS.get(name)
        if label is not None and table != "l2_ptp":
            return (
                f"{label} {self._addresses(version, value) or show_match(name, value, table=table)}"
            )
        match value:
            case Exact(number):
                return self._value(name, number)
            case Ternary(number, mask) if (
                mask in _WHOLE and number.bit_length() <= mask.bit_length()
            ):
                if name in self._values:
                    return self._value(name, number)
        return f"{name} {show_match(name, value, table=table)}"

    def _addresses(self, version: int, value: MatchValue) -> str | None:
        shown = format_ip if version == 4 else format_ipv6
        bits = 32 if version == 4 else 128
        number, length = value.value, bits
        if isinstance(value, Lpm):
            length = value.prefix_len
        elif isinstance(value, Ternary):
            length = value.mask.bit_count()
            if value.mask != ((1 << length) - 1) << (bits - length):
                return None
        if length == bits:
            name = self._names.ips.get((version, number))
            return shown(number) + (f" ({name})" if name else "")
        name = self._names.prefixes.get((version, number, length))
        return f"{shown(number)}/{length}" + (f" ({name})" if name else "")

    def _value(self, name: str, value: int) -> str:
        if name in self._values:
            return self._values[name](value)
        if name.endswith("_ip"):
            return f"{name} {self._addresses(4, Exact(value))}"
        return f"{name} {show_value(name, value)}"

    def _port(self, port: int) -> str:
        far = self._far_end.get(port)
        return f"port {port}" + (f" ({far})" if far else "")

    def _value_texts(self) -> Mapping[str, Callable[[int], str]]:
        """Words for values by the name of the field or parameter."""

        def named(what: str, names: Mapping[int, str]) -> Callable[[int], str]:
            return lambda value: (
                f"{what} {value}" + (f" ({names[value]})" if value in names else "")
            )

        def called(names: Mapping[int, str], what: str) -> Callable[[int], str]:
            return lambda value: names.get(value, f"{what} {value:#x}")

        def limited(most: int, text: Callable[[int], str]) -> Callable[[int], str]:
            return lambda value: "no limit" if value >= most else text(value)

        def scaled(what: str) -> Callable[[int], str]:
            return lambda value: f"{what} {_signed(value) / _SCALED_PER_NS:g} ns"

        def switch(what: str) -> Callable[[int], str]:
            return lambda value: f"{what} {'on' if value else 'off'}"

        unit_ns = self._unit_ns
        dscp = named("DSCP", self._names.dscps)
        return {
            **dict.fromkeys(("port", "ingress_port", "egress_port"), self._port),
            **dict.fromkeys(("dscp", "marked_dscp", "unmarked_dscp"), dscp),
            "domain_number": lambda value: f"PTP domain {value}",
            "queue_id": lambda value: f"queue {value}",
            "node_id": named("node", self._names.node_ids),
            "ether_type": called(_ETHER_TYPES, "EtherType"),
            "protocol": called(_PROTOCOLS, "protocol"),
            "message_type": called(_MESSAGES, "message type"),
            "reason": called(_REASONS, "reason"),
            "l4_dst_port": named("to port", _PORTS),
            "l4_src_port": named("from port", _PORTS),
            "udp_port": named("UDP port", _PORTS),
            "depth": limited(QUEUE_DEPTH_MAX, lambda value: f"from {value} packets on"),
            "latency": limited(LATENCY_MAX, lambda value: f"from {value * unit_ns} ns on"),
            "quota": lambda value: f"{value} reports an episode",
            "mtu_bytes": limited(MTU_BYTES_MAX, lambda value: f"MTU {value} bytes"),
            "truncate_bytes": lambda value: f"cut to {value} bytes",
            "interface_id": lambda value: (
                "no interface" if value == NO_INTERFACE else f"interface {value}"
            ),
            "latency_shift": lambda value: f"latency in steps of {unit_ns << value} ns",
            "interval_shift": lambda value: f"every {unit_ns << value} ns",
            "scaled_ns_per_unit": lambda value: f"{value / _SCALED_PER_NS:g} ns a unit",
            "delay": scaled("delay"),
            "residence_offset": scaled("offset"),
            "remaining_hop_count": lambda value: f"{value} hops",
            "destination_id": lambda value: f"destination {value}",
            "filter_mx": switch("filter of MX"),
            "filter_drops": switch("filter of drops"),
            "hash_flow_label": switch("flow label"),
            "change_only": switch("changes only"),
        }


def _signed(value: int) -> int:
    """64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value
