# SPDX-License-Identifier: Apache-2.0
"""Which packets a switch instruments: the entries of its watchlist tables.

Pure. Exempt flows come before traced ones, and of those the flows to the collectors are first on
every switch: reports about reports would never end (docs/p4.md).
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from itertools import product

from controller.entries import ActionCall, MatchValue, TableEntry, Ternary
from controller.fabric import PROTOCOL_UDP, ROCE_UDP_PORT, Fabric, Host
from controller.fabric_telemetry import HostOrPrefix, Watchlist, WatchMode, WatchTraffic
from controller.report_entries import prefix_match

PRIORITY_EXEMPT = 10_000
"""Exempt flows win over traced ones."""
PRIORITY_TRACED = 5_000
"""The first watchlist of the file; the others follow below in order."""

_U8, _U16, _U24, _U32, _U128 = 0xFF, 0xFFFF, 0xFF_FFFF, 0xFFFF_FFFF, (1 << 128) - 1
_DSCP = 0x3F
_PTP_MESSAGE_TYPE = 0xF
_SYNDROME_KIND = 0x60
"""Bits 6 and 5 of the AETH syndrome say which kind of acknowledgement it is."""

_AT_THE_EDGE = (WatchMode.MD, WatchMode.MX)
"""Modes whose entries only the switch of the sending host needs."""

_TABLES = {4: "int_watchlist", 6: "int_watchlist_ipv6"}


def watchlist_entries(fabric: Fabric, local_hosts: Sequence[Host]) -> list[TableEntry]:
    """Entries of `int_watchlist`, `int_watchlist_ipv6` and `ptp_watchlist` of a switch.

    A switch writes INT into packets of the hosts cabled to it only, so one without hosts gets no
    such flows. Postcards come from every switch, and all sample alike: or a path would have gaps.
    """
    entries = list(_collector_exemptions(fabric))
    for index, watchlist in enumerate(fabric.watchlists):
        priority = PRIORITY_TRACED - index
        match watchlist.traffic:
            case WatchTraffic.ROCE:
                hosts = local_hosts if watchlist.mode in _AT_THE_EDGE else fabric.hosts
                for version in (4, 6):
                    entries += _roce(fabric, watchlist, hosts, version=version, priority=priority)
            case WatchTraffic.PTP:
                entries += _ptp(fabric, watchlist, priority)
    return entries


def roce_entry_count_max(fabric: Fabric, watchlist: Watchlist) -> int:
    """No switch needs more entries of one table for this watchlist."""
    sources = len(watchlist.sources) or 1
    if watchlist.tenants:
        sources = sum(host.tenant in watchlist.tenants for host in fabric.hosts)
    count = max(1, sources)
    for values in (
        watchlist.destinations,
        watchlist.opcodes,
        watchlist.dest_qps,
        watchlist.syndromes,
    ):
        count *= len(values) or 1
    return count


def _collector_exemptions(fabric: Fabric) -> Iterator[TableEntry]:
    for collector in fabric.collectors:
        yield TableEntry.of(
            "int_watchlist",
            {
                "dst_addr": Ternary(collector.ip, _U32),
                "protocol": Ternary(PROTOCOL_UDP, _U8),
                "l4_dst_port": Ternary(collector.udp_port, _U16),
            },
            ActionCall.of("int_exempt"),
            priority=PRIORITY_EXEMPT,
        )


def _roce(
    fabric: Fabric, watchlist: Watchlist, hosts: Sequence[Host], *, version: int, priority: int
) -> Iterator[TableEntry]:
    """One entry per combination of the values asked for; a key not asked for is left out."""
    if not any(_address(host, version) is not None for host in hosts):
        return  # nobody here speaks this version
    traffic_class = fabric.qos.class_named(watchlist.traffic_class or "")
    assert traffic_class is not None, "checked with the file"
    flow: dict[str, MatchValue | int] = {
        "protocol": Ternary(PROTOCOL_UDP, _U8),
        "l4_dst_port": Ternary(ROCE_UDP_PORT, _U16),
        "dscp": Ternary(traffic_class.dscp, _DSCP),
        "roce_psn": Ternary(0, (1 << watchlist.sample_psn_bits) - 1),
    }
    action = _roce_action(watchlist, traffic_class.marked_dscp)
    choices = {
        "src_addr": _sources(fabric, watchlist, hosts, version),
        "dst_addr": _peers(fabric, watchlist.destinations, version),
        "roce_opcode": _exactly(watchlist.opcodes, _U8),
        "roce_dest_qp": _exactly(watchlist.dest_qps, _U24),
        "roce_syndrome": [Ternary(s.bits, _SYNDROME_KIND) for s in watchlist.syndromes] or [_ANY],
    }
    for values in product(*choices.values()):
        match = {**flow, **dict(zip(choices, values, strict=True))}
        yield TableEntry.of(_TABLES[version], match, action, priority=priority)


def _roce_action(watchlist: Watchlist, marked_dscp: int | None) -> ActionCall:
    match watchlist.mode:
        case WatchMode.EXEMPT:
            return ActionCall.of("int_exempt")
        case WatchMode.XD:
            return ActionCall.of(
                "int_postcard",
                report_metadata_bits=watchlist.instruction_bitmap,
                change_only=int(watchlist.change_only),
            )
        case WatchMode.MX:
            assert marked_dscp is not None, "checked with the file"
            return ActionCall.of(
                "int_source_mx",
                instruction_bitmap=watchlist.instruction_bitmap,
                marked_dscp=marked_dscp,
            )
        case WatchMode.MD:
            assert marked_dscp is not None, "checked with the file"
            assert watchlist.remaining_hop_count is not None, "checked with the file"
            return ActionCall.of(
                "int_source",
                instruction_bitmap=watchlist.instruction_bitmap,
                remaining_hop_count=watchlist.remaining_hop_count,
                marked_dscp=marked_dscp,
            )


_ANY = Ternary(0, 0)


def _exactly(values: Sequence[int], mask: int) -> list[Ternary]:
    return [Ternary(value, mask) for value in values] or [_ANY]


def _sources(
    fabric: Fabric, watchlist: Watchlist, hosts: Sequence[Host], version: int
) -> list[Ternary]:
    """Who sends: hosts of the tenants or sources that are among `hosts`, or prefixes with any."""
    if watchlist.tenants:
        chosen = [host.name for host in hosts if host.tenant in watchlist.tenants]
        return _peers(fabric, chosen, version) if chosen else []
    if not watchlist.sources:
        return [_ANY]
    names = {host.name for host in hosts}
    addresses = [address for host in hosts if (address := _address(host, version)) is not None]
    near: list[HostOrPrefix] = [
        source
        for source in watchlist.sources
        if (source in names if isinstance(source, str) else any(a in source for a in addresses))
    ]
    return _peers(fabric, near, version) if near else []


def _peers(fabric: Fabric, peers: Sequence[HostOrPrefix], version: int) -> list[Ternary]:
    """Addresses of one IP version; everything where no peer is named."""
    if not peers:
        return [_ANY]
    found = []
    for peer in peers:
        if isinstance(peer, str):
            address = _address(fabric.host(peer), version)
            if address is not None:
                found.append(Ternary(int(address), _U32 if version == 4 else _U128))
        elif peer.version == version:
            found.append(prefix_match(peer))
    return list(dict.fromkeys(found))


def _address(host: Host, version: int) -> IPv4Address | IPv6Address | None:
    if version == 4:
        return IPv4Address(host.ip)
    return None if host.ipv6 is None else IPv6Address(host.ipv6)


def _ptp(fabric: Fabric, watchlist: Watchlist, priority: int) -> Iterator[TableEntry]:
    """All switches take the same sequenceIds, which do not change on the way."""
    for message_type in watchlist.message_types:
        yield TableEntry.of(
            "ptp_watchlist",
            {
                "domain_number": Ternary(fabric.ptp.domain, _U8),
                "message_type": Ternary(message_type, _PTP_MESSAGE_TYPE),
                "sequence_id": Ternary(0, (1 << watchlist.sample_sequence_bits) - 1),
            },
            ActionCall.of("ptp_postcard", report_metadata_bits=watchlist.instruction_bitmap),
            priority=priority,
        )
