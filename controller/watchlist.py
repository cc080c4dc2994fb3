# SPDX-License-Identifier: Apache-2.0
"""Which packets a switch instruments: the entries of its two watchlist tables.

Pure. Exempt flows come before traced ones, and of those the flow to the collector is first on
every switch: reports about reports would never end (docs/p4.md).
"""

from collections.abc import Iterator, Sequence

from controller.entries import ActionCall, MatchValue, TableEntry, Ternary
from controller.fabric import (
    PROTOCOL_UDP,
    ROCE_UDP_PORT,
    Fabric,
    Host,
    Watchlist,
    WatchTraffic,
)

PRIORITY_EXEMPT = 10_000
"""Exempt flows win over traced ones."""
PRIORITY_TRACED = 5_000
"""The first watchlist of the file; the others follow below in order."""

_U8, _U16, _U32 = 0xFF, 0xFFFF, 0xFFFF_FFFF
_DSCP = 0x3F
_PTP_MESSAGE_TYPE = 0xF


def watchlist_entries(fabric: Fabric, local_hosts: Sequence[Host]) -> list[TableEntry]:
    """Entries of `int_watchlist` and `ptp_watchlist` of a switch with these hosts.

    A switch starts INT only for the hosts cabled to it, so one without hosts gets no flows to
    trace. Postcards for PTP come from every switch, or the packet's path would have gaps.
    """
    entries = [_collector_exemption(fabric)]
    for index, watchlist in enumerate(fabric.watchlists):
        priority = PRIORITY_TRACED - index
        match watchlist.traffic:
            case WatchTraffic.ROCE if local_hosts:
                entries += _roce(fabric, watchlist, local_hosts, priority)
            case WatchTraffic.ROCE:
                pass
            case WatchTraffic.PTP:
                entries += _ptp(fabric, watchlist, priority)
    return entries


def _collector_exemption(fabric: Fabric) -> TableEntry:
    return TableEntry.of(
        "int_watchlist",
        {
            "dst_addr": Ternary(fabric.collector.ip, _U32),
            "protocol": Ternary(PROTOCOL_UDP, _U8),
            "l4_dst_port": Ternary(fabric.collector.udp_port, _U16),
        },
        ActionCall.of("int_exempt"),
        priority=PRIORITY_EXEMPT,
    )


def _roce(
    fabric: Fabric, watchlist: Watchlist, local_hosts: Sequence[Host], priority: int
) -> Iterator[TableEntry]:
    traffic_class = fabric.qos.class_named(watchlist.traffic_class or "")
    assert traffic_class is not None, "checked with the file"
    assert traffic_class.marked_dscp is not None, "checked with the file"
    assert watchlist.remaining_hop_count is not None, "checked with the file"
    flow: dict[str, MatchValue | int] = {
        "protocol": Ternary(PROTOCOL_UDP, _U8),
        "l4_dst_port": Ternary(ROCE_UDP_PORT, _U16),
        "dscp": Ternary(traffic_class.dscp, _DSCP),
        "roce_psn": Ternary(0, (1 << watchlist.sample_psn_bits) - 1),
    }
    action = ActionCall.of(
        "int_source",
        instruction_bitmap=watchlist.instruction_bitmap,
        remaining_hop_count=watchlist.remaining_hop_count,
        marked_dscp=traffic_class.marked_dscp,
    )
    if not watchlist.tenants:
        yield TableEntry.of("int_watchlist", flow, action, priority=priority)
        return
    for host in local_hosts:
        if host.tenant in watchlist.tenants:
            match = {**flow, "src_addr": Ternary(host.ip, _U32)}
            yield TableEntry.of("int_watchlist", match, action, priority=priority)


def _ptp(fabric: Fabric, watchlist: Watchlist, priority: int) -> Iterator[TableEntry]:
    for message_type in watchlist.message_types:
        yield TableEntry.of(
            "ptp_watchlist",
            {
                "domain_number": Ternary(fabric.ptp.domain, _U8),
                "message_type": Ternary(message_type, _PTP_MESSAGE_TYPE),
            },
            ActionCall.of("ptp_postcard", report_metadata_bits=watchlist.instruction_bitmap),
            priority=priority,
        )
