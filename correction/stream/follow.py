# SPDX-License-Identifier: Apache-2.0
"""A fabric followed while it runs: packets, exchanges and cross-stamps in, correction rows out.

    packets ─► link samples ──────────────┐
    exchanges, servo logs ─► access links ├─► windows ─► tracker ─► rows on the clocks as they read
    cross-stamps, references, silent paths┘

No clock, no I/O: `close` says what has ended by a given time of the collector's clock. A window is
numbered by its start, so that it has the same number after a restart; a window that has been closed
is never opened again, and what comes for it is counted as late.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from correction.boundary_clocks import (
    boundary_samples,
    free_running_transmitters,
    with_boundary_clocks,
)
from correction.cross_stamps import CrossStamps
from correction.derived.chain import NOTHING_DERIVED, DerivedClocks
from correction.derived.readings import ClockPairs
from correction.exchange_accept import REJECT_OF_JUMP, accept_exchanges
from correction.link_windows import (
    LINK_WINDOW_DTYPE,
    SAMPLES_PER_GROUP_MAX,
    LinkWindowing,
    LinkWindows,
)
from correction.links import JoinCounters, Reject, link_samples
from correction.links_fast import FabricSampler
from correction.model import ClockKind, FabricModel
from correction.records import TRAFFIC_PROBE, Exchanges, Hops, LinkSamples, Packets
from correction.references import reference_samples
from correction.servo import free_running_exchanges
from correction.stream.answer import TrackedWindow
from correction.stream.extended import PendingStamps, extended
from correction.stream.host_clocks import HostClockPairs
from correction.stream.naming import link_keys, place_of, renumbered_links
from correction.stream.own_samples import OwnSamples
from correction.stream.pending import PendingExchanges, PtpPackets
from correction.stream.rows import HOLDOVER_NS, Coverage, WindowPlace, window_rows
from correction.stream.saved import moved_to
from correction.stream.servo_logs import ServoLogs
from correction.stream.silent_paths import SilentPaths
from correction.stream.steered import steered_window
from correction.stream.tracker import FabricTracker
from correction.table import Corrections
from correction.ties import joined
from correction.timebase import NS_PER_S, Bools, Int64s
from correction.windows import WINDOW_NS

LATE_NS = 2 * NS_PER_S
"""A window is closed this long after its end."""
_AT_JOIN = (
    Reject.EXCHANGE_WRONG_PORT,
    Reject.EXCHANGE_AMBIGUOUS,
    Reject.EXCHANGE_STALE,
    *REJECT_OF_JUMP.values(),
)
"""Reasons of exchanges that are counted with the packets of a window, the others when an exchange
is forgotten: it is looked at for several windows. What a row refutes by itself is counted then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedWindow:
    """What is said of one window."""

    number: int
    """Its start in windows since the collector's epoch."""
    start_collector_ns: int
    end_collector_ns: int
    version: int
    """Counts windows that were published: a later one decides where both cover a reading."""
    model: FabricModel
    """With all ties: names of clocks and links."""
    rows: Corrections
    """On the clocks as they read, by clock and time."""
    held: Bools
    """[row]: the clock was not reached; an older row of it still stands."""
    tracked: TrackedWindow | None
    """None where nothing was measured."""
    exchanges: Exchanges
    """As read; those of about this time."""
    derived: DerivedClocks = NOTHING_DERIVED
    """Clocks of hosts that clock pairs tie to NICs."""
    own_pairs: Int64s | None = None
    """[link as declared]: samples in both directions, probes left out; None where packets are
    sampled elsewhere."""


@dataclass(slots=True, kw_only=True)
class FollowCounters:
    """Totals; kept over a restart."""

    windows: int = 0
    """Published."""
    packets: int = 0
    link_samples: int = 0
    exchanges: int = 0
    exchange_messages_joined: int = 0
    cross_stamps: int = 0
    late_link_windows: int = 0
    """Rows from a collector whose window had been closed."""


class Follower:
    """Follows one fabric; `declared` is what its description says."""

    def __init__(
        self,
        declared: FabricModel,
        *,
        window_ns: int = WINDOW_NS,
        late_ns: int = LATE_NS,
        holdover_ns: int = HOLDOVER_NS,
        samples_max: int = SAMPLES_PER_GROUP_MAX,
    ) -> None:
        """samples_max: kept of each directed link, queue and length class in a window."""
        self.window_ns, self.late_ns, self.holdover_ns = window_ns, late_ns, holdover_ns
        self.declared = declared
        self.counters = FollowCounters()
        self.left_out = JoinCounters()
        """What is no sample, by reason."""
        self.servos = ServoLogs()
        self.next_number: int | None = None
        """The first window that is not closed; None: nothing has been seen yet."""
        self.version = 0
        self.stamps = PendingStamps()
        self.host_clocks = HostClockPairs()
        self.base = with_boundary_clocks(declared)
        self.paths = SilentPaths(model=self.base, window_ns=window_ns)
        self._path_links = self.paths.links
        self.model = extended(declared, (), self.stamps)
        """With all ties that are known."""
        self._tied = _tied(self.model)
        self.tracker = FabricTracker(self.model)
        self.coverage = Coverage.new(len(self.model.clocks))
        self._sampler = FabricSampler(declared)
        self._windowing = LinkWindowing(
            self.model, window_ns=window_ns, late_ns=0, samples_max=samples_max
        )
        self._own = OwnSamples(window_ns, len(declared.links))
        self._is_sampling = False
        self._ptp = PtpPackets(window_ns)
        self._exchanges = PendingExchanges()
        self._link_windows: dict[int, list[LinkWindows]] = {}
        self._newest_collector_ns = -(2**63)

    # ------------------------------------------------------------ what comes in

    @property
    def client_index(self) -> dict[str, int]:
        """Clocks that exchanges, servo lines and cross-stamps may name."""
        kinds = (ClockKind.NIC, ClockKind.PTP)
        return {c.name: n for n, c in enumerate(self.base.clocks) if c.kind in kinds}

    def add_packets(self, packets: Packets, hops: Hops, *, sampled_elsewhere: bool = False) -> None:
        """Take finished packets in any order.

        sampled_elsewhere: their links' statistics come by `add_link_windows`.
        """
        if not len(packets):
            return
        self.counters.packets += len(packets)
        newest = int(np.max(packets["capture_collector_ns"]))
        self._newest_collector_ns = max(self._newest_collector_ns, newest)
        self.paths.listen(hops)
        if not sampled_elsewhere:
            samples = self._sampler.samples(packets, hops, self.left_out)
            self._count_own(samples, packets, hops)
            self.counters.link_samples += len(samples)
            self._windowing.add(samples)
            self.paths.add(packets, hops)
        self._ptp.add(packets, hops)

    def _count_own(self, samples: LinkSamples, packets: Packets, hops: Hops) -> None:
        self._own.add(samples)
        probes = packets[packets["traffic"] == TRAFFIC_PROBE]
        if len(probes):
            self._own.add(self._sampler.samples(probes, hops, JoinCounters()), count=-1)
        self._is_sampling = True

    def add_link_windows(self, rows: LinkWindows) -> None:
        """Take statistics of a collector elsewhere, links numbered as in the same description."""
        for start in np.unique(rows["window_start_collector_ns"]).tolist():
            number = start // self.window_ns
            mine = rows[rows["window_start_collector_ns"] == start]
            if self.next_number is not None and number < self.next_number:
                self.counters.late_link_windows += len(mine)
            else:
                self._link_windows.setdefault(number, []).append(mine)

    def add_exchanges(self, exchanges: Exchanges) -> None:
        """Take exchanges in any order, stamps as read; clients by `client_index`."""
        self.counters.exchanges += len(exchanges)
        self._exchanges.add(exchanges)
        possible = accept_exchanges(exchanges, self.base, JoinCounters())
        order = np.lexsort((possible["t3_local_ns"], possible["client"]))
        newest = possible[order][np.diff(possible["client"][order], append=-1) != 0]
        for clock, reading in zip(
            newest["client"].tolist(), newest["t3_local_ns"].tolist(), strict=True
        ):
            self.servos.told(clock, reading)

    def add_cross_stamps(self, stamps: CrossStamps) -> None:
        """Take cross-stamps, PHCs as read; clocks by `client_index`."""
        self.counters.cross_stamps += len(stamps.rows)
        self.stamps.add(stamps)

    def add_clock_pairs(self, pairs: Iterable[ClockPairs]) -> None:
        """Take readings of hosts' other clocks, as read, in the order in which they were taken."""
        self.host_clocks.add(pairs)

    # ------------------------------------------------------------ what comes out

    def close(self, now_collector_ns: int | None = None) -> list[FollowedWindow]:
        """The windows that have ended by now (default: by the newest packet), in order."""
        now = self._newest_collector_ns if now_collector_ns is None else now_collector_ns
        return self._closed_before((now - self.late_ns) // self.window_ns)

    def rest(self) -> list[FollowedWindow]:
        """The end of the input: all windows that hold anything."""
        held = self._held_numbers()
        made = self._closed_before(max(held) + 1) if held else []
        self._forget(self._exchanges.expire(2**62))
        return made

    def begin_at(self, number: int | None) -> None:
        """Windows before this one have been closed."""
        self.next_number = number
        if number is not None:
            self._windowing.closed(number * self.window_ns)

    @property
    def lag_ns(self) -> dict[int, int]:
        """By address of a time transmitter: the collector's clock less its own."""
        return self._exchanges.lag_ns

    @property
    def late_samples(self) -> int:
        """Link samples that came after their window had been closed."""
        return self._windowing.late_count

    def _held_numbers(self) -> list[int]:
        numbers = {*self._windowing.open_windows(), *self._ptp.packets, *self._link_windows}
        first = self.next_number
        return sorted(one for one in numbers if first is None or one >= first)

    def _closed_before(self, end: int) -> list[FollowedWindow]:
        made = []
        while True:
            number = self._next(end)
            if number is None:
                break
            window = self._window(number)
            self.next_number = number + 1
            if window is not None:
                made.append(window)
        return made

    def _next(self, end: int) -> int | None:
        """The next window to close below `end`: empty ones only while clocks are held over."""
        held = [one for one in self._held_numbers() if one < end]
        first = self.next_number
        if first is not None and first < end and self.coverage.known.any():
            return first
        return held[0] if held else None

    def _window(self, number: int) -> FollowedWindow | None:
        start, end = number * self.window_ns, (number + 1) * self.window_ns
        exchanges = self._exchanges.around(start, end)
        self._windowing.add(self._tie_samples(number, exchanges))
        parts = [*self._link_windows.pop(number, []), self._windowing.closed(end)]
        rows = np.concatenate([np.zeros(0, LINK_WINDOW_DTYPE), *parts])
        tracked = self.tracker.push(rows) if len(rows) else []
        self.version += 1
        place = WindowPlace(
            number=number,
            start_collector_ns=start,
            end_collector_ns=end,
            version=self.version,
            holdover_ns=self.holdover_ns,
        )
        answer = tracked[0] if tracked else None
        own_pairs = self._own.take(number)
        told = window_rows(self.coverage, answer, self.model, place)
        derived = self.host_clocks.derived(told.rows, self.model, self.servos.logs)
        told = steered_window(told, self.servos)
        self._forget(self._exchanges.expire(end))
        if answer is None and not len(told.rows):
            self.version -= 1
            return None
        self.counters.windows += 1
        return FollowedWindow(
            number=number,
            start_collector_ns=start,
            end_collector_ns=end,
            version=self.version,
            model=self.model,
            rows=told.rows,
            held=told.held,
            tracked=answer,
            exchanges=exchanges,
            derived=derived,
            own_pairs=own_pairs if self._is_sampling else None,
        )

    def _tie_samples(self, number: int, exchanges: Exchanges) -> LinkSamples:
        """Samples of a window that need more than a packet's own hops."""
        start, end = number * self.window_ns, (number + 1) * self.window_ns
        packets, hops = self._ptp.take(number)
        silent = self.paths.take(number, self.left_out)
        self.stamps.refuse(self.servos.logs, self.left_out)
        new_ties = self.stamps.new_ties()
        if new_ties or self.paths.links != self._path_links:
            self.extend()
        model, servos = self.model, self.servos.logs
        free = free_running_exchanges(exchanges, servos)
        reference_ip = model.clocks[model.reference].ip
        if model.boundary_clocks or (free["time_transmitter_ip"] != reference_ip).any():
            free = free_running_transmitters(free, servos, model)
        samples, join = link_samples(packets, hops, free, self.base)
        self._exchanges.learn(exchanges, packets)
        samples = joined([samples, boundary_samples(free, packets, hops, samples, model)])
        samples = joined([samples, silent])
        if len(self.stamps.rows):
            made = self.stamps.samples(samples, model, servos, self.left_out)
            samples = joined([samples, made])
        if model.references:
            samples = joined([samples, reference_samples(samples, model)])
        by_itself = JoinCounters()
        accept_exchanges(free, self.base, by_itself)
        for reason in _AT_JOIN:
            count = join.rejected.get(reason, 0) - by_itself.rejected.get(reason, 0)
            self.left_out.reject(reason, count)
        self.counters.exchange_messages_joined += join.exchanges_joined
        inside = (samples["capture_collector_ns"] >= start) & (
            samples["capture_collector_ns"] < end
        )
        found: LinkSamples = samples[inside & self._tied[samples["link"]]]
        return found

    def _forget(self, exchanges: Exchanges) -> None:
        refused = JoinCounters()
        accept_exchanges(exchanges, self.base, refused)
        for reason, count in refused.rejected.items():
            self.left_out.reject(reason, count)

    # ------------------------------------------------------------ a changed fabric

    def change(self, declared: FabricModel) -> None:
        """Go on with another description; what is still there keeps what is known of it.

        Offsets are against the reference: where that is another one, clocks begin anew.
        """
        before, self.base = self.base, with_boundary_clocks(declared)
        self.declared = declared
        self._sampler = FabricSampler(declared)
        self._own = OwnSamples(self.window_ns, len(declared.links))
        heard = self.paths.heard
        self.paths = SilentPaths(model=self.base, window_ns=self.window_ns)
        self.paths.heard = heard & self.paths.declared
        clocks = place_of([c.name for c in before.clocks], [c.name for c in self.base.clocks])
        moved = {old: new for old, new in enumerate(clocks.tolist()) if new >= 0}
        self._exchanges.renumbered(moved)
        self.stamps.renumbered(moved)
        self.servos.renumbered(moved)
        self.extend()

    def extend(self) -> None:
        """Make the model of what is known anew, and bring everything over to it by name."""
        before, self._path_links = self.model, self.paths.links
        self.model = extended(self.declared, self.paths.links, self.stamps)
        self._tied = _tied(self.model)
        links = place_of(link_keys(before), link_keys(self.model))
        self.tracker = moved_to(self.tracker, self.model)
        self.coverage = self.coverage.moved_to(before, self.model)
        self._windowing.moved_to(self.model, links)
        for number, parts in self._link_windows.items():
            self._link_windows[number] = [renumbered_links(rows, links) for rows in parts]


def _tied(model: FabricModel) -> Bools:
    """[link]: its samples are made here; those between switches by the sampler or a collector."""
    return np.array([link.access or not link.cable for link in model.links], np.bool_)
