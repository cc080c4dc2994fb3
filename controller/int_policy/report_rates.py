# SPDX-License-Identifier: Apache-2.0
"""How many reports each watchlist causes: from the packet counters of its entries. Pure.

An entry's priority says which watchlist it is of (`watchlist.py`); each packet that it counts makes
a known number of reports, or at most so many.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.entry_counts import CounterKey
from controller.fabric import Fabric
from controller.fabric_telemetry import Watchlist, WatchMode, WatchTraffic
from controller.report_entries import DESTINATION_BUCKET_COUNT, collector_of_bucket
from controller.routing import tiers
from controller.watchlist import PRIORITY_TRACED

COUNTED_TABLES = ("int_watchlist", "int_watchlist_ipv6", "ptp_watchlist")
REPORTS_PER_MD_PACKET = 2
"""The stack at the sink, and the sink's own hop (docs/p4.md, Reports)."""
REPORTS_PER_PROBE = 3
"""A postcard of each switch, and the probe's end."""


Counts = Mapping[CounterKey, int]
"""Packets since each entry was inserted."""


def packets_between(before: Counts, after: Counts) -> Iterable[tuple[CounterKey, int]]:
    """Packets of each entry between two readings of a switch; entries that are new begin at 0."""
    for key, count in after.items():
        earlier = before.get(key, 0)
        yield key, count - earlier if count >= earlier else count


def reports_per_packet(fabric: Fabric, watchlist: Watchlist) -> int:
    """Reports that a counted packet makes, at most."""
    if watchlist.traffic is WatchTraffic.PTP:
        return 1
    match watchlist.mode:
        case WatchMode.EXEMPT:
            return 0
        case WatchMode.XD:
            return 1
        case WatchMode.MD:
            return REPORTS_PER_MD_PACKET
        case WatchMode.MX:  # one of each switch on the way, up and down again
            return 2 * max(tiers(fabric).values(), default=0) + 1


class ReportRates:
    """Turns readings of all switches into reports a second by watchlist."""

    def __init__(self, fabric: Fabric) -> None:
        self._names = [one.name for one in fabric.watchlists]
        self._weights = [reports_per_packet(fabric, one) for one in fabric.watchlists]
        self._before: dict[str, Counts] = {}

    def take(self, counts: Mapping[str, Counts], seconds: float) -> dict[str, float]:
        """counts: by switch, read `seconds` after those before; switches that were not read then
        say nothing yet."""
        reports: Counter[str] = Counter()
        for switch, after in counts.items():
            before = self._before.get(switch)
            if before is None:
                continue
            for key, packets in packets_between(before, after):
                index = PRIORITY_TRACED - key.priority
                if 0 <= index < len(self._names):
                    reports[self._names[index]] += packets * self._weights[index]
        self._before = dict(counts)
        return {name: reports[name] / seconds for name in self._names}

    def knows(self, switch: str) -> bool:
        """The switch was read the last time."""
        return switch in self._before


def largest_collector_share(fabric: Fabric) -> float:
    """The part of all flows whose reports go to the collector that gets most."""
    shares = Counter(
        collector_of_bucket(fabric.collectors, bucket).ip
        for bucket in range(DESTINATION_BUCKET_COUNT)
    )
    return max(shares.values()) / DESTINATION_BUCKET_COUNT
