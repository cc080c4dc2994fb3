# SPDX-License-Identifier: Apache-2.0
"""The step of a running follower: take what has come, close windows, save the state, publish.

The state is saved with what is about to be published before that is done, so that whenever the
process dies, a window is published once, or again with the same content.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from controller.collector.outputs.output import never
from controller.following.correction_outputs import CorrectionOutput
from controller.following.findings import findings_of
from controller.following.parts_input import PartsInput
from controller.following.state_file import StateFile
from controller.following.tails import ClockPairTail, PtpTail
from controller.telemetry.collector import Collection
from correction.stream.follow import FollowedWindow, Follower
from correction.table import Status
from tracing_core.store import Store

STORE_NS = 1_000_000_000
"""Packets go to the store so often."""


@dataclass(slots=True, kw_only=True)
class FollowTotals:
    """Of this process."""

    windows: int = 0
    rows: int = 0
    rows_held: int = 0
    newest_window: int | None = None
    clocks: dict[str, int] = field(default_factory=dict)
    """Clocks of the newest window by status."""
    findings: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class Following:
    """A follower with its inputs and outputs."""

    follower: Follower
    run: str
    outputs: Sequence[CorrectionOutput]
    exchanges: PtpTail | None = None
    clock_pairs: ClockPairTail | None = None
    parts: PartsInput | None = None
    state: StateFile | None = None
    totals: FollowTotals = field(default_factory=FollowTotals)
    is_closed: bool = False

    def republish(self, outbox: Sequence[bytes]) -> None:
        """What a process before may have published, or not."""
        for number, encoded in enumerate(outbox):
            self.outputs[number % len(self.outputs)].write(encoded)

    def step(self, now_collector_ns: int | None = None) -> bool:
        """Take what has come and publish what has ended (default: by the newest packet).

        Whether there was a part of a collector.
        """
        found = self._poll()
        if self.parts is not None and self.parts.complete_ns is not None:
            self._publish(self.follower.close(self.parts.complete_ns + self.follower.late_ns))
        self._publish(self.follower.close(now_collector_ns))
        return found

    def finish(self) -> None:
        """The end of the input: publish all that is held, and close the outputs."""
        self._poll()
        self._publish(self.follower.rest())
        self.close()

    def close(self) -> None:
        """Close inputs and outputs, once; what has not ended is left."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.parts is not None:
            self.parts.close()
        for output in self.outputs:
            output.close()

    def summary(self) -> dict[str, Any]:
        """Counters, ready for JSON."""
        follower, totals = self.follower, self.totals
        counters = asdict(follower.counters)
        return {
            "windows": totals.windows,
            "newest_window": totals.newest_window,
            "rows": totals.rows,
            "rows_held": totals.rows_held,
            "clocks": totals.clocks,
            "findings": dict(sorted(totals.findings.items())),
            "since_the_first_start": counters,
            "late_samples": follower.late_samples,
            "left_out": {r.value: n for r, n in sorted(follower.left_out.rejected.items()) if n},
            "lines_refused": sum(
                tail.refused for tail in (self.exchanges, self.clock_pairs) if tail is not None
            ),
            "servo_logs_broken": follower.servos.broken,
            "parts": 0 if self.parts is None else self.parts.parts,
            "parts_repeated": 0 if self.parts is None else self.parts.repeated,
        }

    def _poll(self) -> bool:
        if self.exchanges is not None:
            self.exchanges.poll(self.follower)
        if self.clock_pairs is not None:
            self.clock_pairs.poll(self.follower)
        return self.parts is not None and self.parts.poll(self.follower)

    def _publish(self, windows: Sequence[FollowedWindow]) -> None:
        if not windows:
            return
        outbox = [output.encode(window, self.run) for window in windows for output in self.outputs]
        if self.state is not None:
            position = (0, 0) if self.parts is None else self.parts.position(self.follower)
            self.state.write(self.follower, run=self.run, outbox=outbox, position=position)
        self.republish(outbox)
        for window in windows:
            self._count(window)

    def _count(self, window: FollowedWindow) -> None:
        totals = self.totals
        totals.windows += 1
        totals.newest_window = window.number
        totals.rows += len(window.rows)
        totals.rows_held += int(window.held.sum())
        totals.findings.update(one.kind for one in findings_of(window))
        if window.tracked is not None:
            status = window.tracked.status.tolist()
            totals.clocks = {one.name.lower(): status.count(one) for one in Status}


class FollowPump:
    """Where a running collector hands packets: stands in for its outputs."""

    def __init__(
        self,
        following: Following,
        *,
        now_collector_ns: Callable[[], int],
        store: Store | None = None,
    ) -> None:
        """store: gets the packets, too."""
        self.outputs: tuple[()] = ()
        self._following = following
        self._now = now_collector_ns
        self._store = store
        self._store_at_ns = 0
        self._kept: list[Collection] = []

    def write(self, collection: Collection, give_up: Callable[[], bool] = never) -> int:
        """Take what a drain gave, and step."""
        self._following.follower.add_packets(collection.packets, collection.hops)
        if self._store is not None and len(collection.packets):
            self._kept.append(collection)
        now = self._now()
        if now >= self._store_at_ns:
            self._store_at_ns = now + STORE_NS
            self._into_store()
        self._following.step(now)
        return 0

    def close(self) -> None:
        """Publish the rest."""
        self._into_store()
        self._following.finish()

    def _into_store(self) -> None:
        for one in self._kept:
            assert self._store is not None
            self._store.telemetry.append(one.packets, one.hops)
        self._kept.clear()
