# SPDX-License-Identifier: Apache-2.0
"""Answers over a whole store, kept until something stored changes.

The expensive parts - the attribution index and the judged causal pairs - are functions of the
store's contents and a correction version, so they are computed once per state.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from correction.records import TRAFFIC_ROCE
from tracing_core.attribution import AttributionIndex
from tracing_core.ordering import (
    CausalPairs,
    InversionCounts,
    JudgedPairs,
    count_inversions,
    judge_pairs,
)
from tracing_core.pairs import causal_pairs
from tracing_core.store import LATEST, Store
from tracing_core.store.transfers import read_transfers

VERSIONS_KEPT_MAX = 2
"""Indices kept at a time: the newest, and one that an `as_of` asks for."""

T = TypeVar("T")


class _Recent(Generic[T]):
    """The few most recent results by key; one computation at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            else:
                self._results[key] = compute()
                while len(self._results) > VERSIONS_KEPT_MAX:
                    self._results.popitem(last=False)
            return self._results[key]


class Analysis:
    """Attribution and inversions over one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indices: _Recent[AttributionIndex] = _Recent()
        self._pairs: _Recent[tuple[CausalPairs, JudgedPairs]] = _Recent()

    def attribution(self, version: int = LATEST) -> AttributionIndex:
        """The index over all transfers as of a correction version."""
        store = self._store
        revision = store.revision
        table = store.corrections.table(version)

        def compute() -> AttributionIndex:
            packets, hops = store.telemetry.read(TRAFFIC_ROCE)
            return AttributionIndex(
                transfers=read_transfers(store.engine),
                packets=packets,
                hops=hops,
                nodes=store.fabric.nodes(),
                links=store.fabric.links(),
                table=table,
            )

        return self._indices.get((revision, table.version), compute)

    def judged_pairs(
        self, version: int = LATEST, *, tenant: str = ""
    ) -> tuple[CausalPairs, JudgedPairs]:
        """All causal pairs with their verdicts as of a correction version."""
        revision = self._store.revision
        table = self._store.corrections.table(version)

        def compute() -> tuple[CausalPairs, JudgedPairs]:
            pairs = causal_pairs(self._store, tenant=tenant)
            return pairs, judge_pairs(pairs, table)

        return self._pairs.get((revision, table.version, tenant), compute)

    def inversions(self, version: int = LATEST, *, tenant: str = "") -> InversionCounts:
        """Inversions raw against corrected, and what stays undecided."""
        return count_inversions(self.judged_pairs(version, tenant=tenant)[1])
