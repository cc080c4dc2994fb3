# SPDX-License-Identifier: Apache-2.0
"""The few columns of many spans that a timeline is drawn from, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.clock_domains import SPAN_RANK
from tracing_core.store.engine import Engine, Parameters

_KEYS_AT_A_TIME = 10_000
"""Names that one query asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Spans of one rank or host, stamped by one clock."""

    tenant: str
    host: str
    rank: int | None
    clock: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRows:
    """Spans of some traces, each once, in no order; equally long arrays."""

    tracks: tuple[Track, ...]
    track: NDArray[np.int64]
    """Number of the track."""
    start_local_ns: NDArray[np.int64]
    end_local_ns: NDArray[np.int64]
    trace_ids: tuple[str, ...]
    trace: NDArray[np.int64]
    span_id: NDArray[np.uint64]
    parent_span_id: NDArray[np.uint64]
    kind: NDArray[np.int64]
    name_key: NDArray[np.uint64]
    """What `names` finds a name by."""

    def __len__(self) -> int:
        return len(self.track)


_IDS = "(SELECT toFixedString(unhex(arrayJoin({ids:Array(String)})), 16))"
_WHERE = (
    "trace_id IN " + _IDS + " AND ({tenant:String} = '' OR tenant = {tenant:String})"
    " AND (tenant, segment) IN (SELECT tenant, segment FROM trace_parts WHERE trace_id IN "
    + _IDS
    + ")"
)
_HAS_RANK = f"mapContains(attributes_int, '{SPAN_RANK}')"
_RANK = f"attributes_int['{SPAN_RANK}']"
_TRACK = f"cityHash64(tenant, host, clock_domain, {_HAS_RANK}, {_RANK})"
_COLUMNS = (
    "track", "start_local_ns", "end_local_ns", "trace", "span_id", "parent_span_id", "kind", "name"
)  # fmt: skip
_ROWS_SQL = f"""
SELECT {_TRACK}, start_local_ns, end_local_ns, cityHash64(trace_id),
    reinterpretAsUInt64(reverse(span_id)), reinterpretAsUInt64(reverse(parent_span_id)),
    toUInt64(kind), cityHash64(name)
FROM span_rows WHERE {_WHERE}
LIMIT 1 BY tenant, trace_id, span_id, kind
"""


class TimelineStore:
    """Reads spans for timelines."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def count(self, trace_ids: Sequence[str], *, tenant: str = "") -> int:
        """Number of spans that `rows` would read, repeated ones included."""
        return self._engine.scalar_int(
            f"SELECT sum(span_count) FROM trace_parts WHERE trace_id IN {_IDS}"
            " AND ({tenant:String} = '' OR tenant = {tenant:String})",
            {"ids": list(trace_ids), "tenant": tenant},
        )

    def rows(self, trace_ids: Sequence[str], *, tenant: str = "") -> TimelineRows:
        """All spans of the traces."""
        parameters: Parameters = {"ids": list(trace_ids), "tenant": tenant}
        columns = self._engine.columns(_ROWS_SQL, _COLUMNS, parameters)
        found = self._engine.rows(
            f"SELECT {_TRACK} AS track, any(tenant), any(host), any(clock_domain),"
            f" any({_HAS_RANK}), any({_RANK}) FROM span_rows WHERE {_WHERE} GROUP BY track",
            parameters,
        )
        tracks: dict[Track, int] = {}
        number: dict[int, int] = {}
        one_rank = _only_ranks([(row[1], row[2], row[3], row[5]) for row in found if row[4]])
        for key, of_tenant, host, clock, has_rank, rank in found:
            known = rank if has_rank else one_rank.get((of_tenant, host, clock))
            track = Track(tenant=of_tenant, host=host, rank=known, clock=clock)
            number[int(key)] = tracks.setdefault(track, len(tracks))
        hashes = self._engine.rows(
            "SELECT id, cityHash64(toFixedString(unhex(id), 16)) FROM"
            " (SELECT arrayJoin({ids:Array(String)}) AS id)",
            {"ids": list(trace_ids)},
        )
        trace_number = {int(row[1]): index for index, row in enumerate(hashes)}
        return TimelineRows(
            tracks=tuple(tracks),
            track=_numbered(columns["track"], number),
            start_local_ns=columns["start_local_ns"].astype(np.int64),
            end_local_ns=columns["end_local_ns"].astype(np.int64),
            trace_ids=tuple(row[0] for row in hashes),
            trace=_numbered(columns["trace"], trace_number),
            span_id=columns["span_id"].astype(np.uint64),
            parent_span_id=columns["parent_span_id"].astype(np.uint64),
            kind=columns["kind"].astype(np.int64),
            name_key=columns["name"].astype(np.uint64),
        )

    def names(
        self, trace_ids: Sequence[str], keys: NDArray[np.uint64], *, tenant: str = ""
    ) -> dict[int, str]:
        """Names of spans of the traces by `name_key`."""
        found: dict[int, str] = {}
        wanted = np.unique(keys).tolist()
        for first in range(0, len(wanted), _KEYS_AT_A_TIME):
            rows = self._engine.rows(
                f"SELECT DISTINCT cityHash64(name), name FROM span_rows WHERE {_WHERE}"
                " AND cityHash64(name) IN {keys:Array(UInt64)}",
                {
                    "ids": list(trace_ids), "tenant": tenant,
                    "keys": wanted[first : first + _KEYS_AT_A_TIME],
                },
            )  # fmt: skip
            found.update((int(row[0]), row[1]) for row in rows)
        return found


def _only_ranks(
    places: Sequence[tuple[str, str, str, int]],
) -> dict[tuple[str, str, str], int]:
    """Of hosts and clocks that one rank alone uses, its number: spans without a rank are its."""
    ranks: dict[tuple[str, str, str], set[int]] = {}
    for tenant, host, clock, rank in places:
        ranks.setdefault((tenant, host, clock), set()).add(rank)
    return {place: next(iter(found)) for place, found in ranks.items() if len(found) == 1}


def _numbered(keys: NDArray[np.uint64], number: dict[int, int]) -> NDArray[np.int64]:
    """Hashes as small numbers."""
    if not len(keys):
        return np.zeros(0, np.int64)
    distinct, inverse = np.unique(keys.astype(np.uint64), return_inverse=True)
    return np.array([number[int(key)] for key in distinct], np.int64)[inverse]
