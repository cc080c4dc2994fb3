# SPDX-License-Identifier: Apache-2.0
"""Versioned corrections and link estimates: appended, never changed, applied at read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, Correction, LinkEstimate
from tracing_core.store.engine import Engine

LATEST = 2**63 - 1
"""Stands for the newest correction version."""

_COLUMNS = (
    "clock",
    "valid_from_local_ns",
    "valid_to_local_ns",
    "anchor_local_ns",
    "offset_ns",
    "rate_ppb",
    "bound_hard_ns",
    "bound_conditional_ns",
    "method",
    "prior",
    "status",
    "reason",
    "ptp_offset_ns",
    "window_index",
)

_PUBLISHED = "correction_version IN (SELECT correction_version FROM correction_versions)"
"""A version is published by its row in `correction_versions`, written last: what a crash left
half written is never read, and its number is not used again."""

_NEWEST_USED = (
    "SELECT greatest((SELECT max(correction_version) FROM correction_versions),"
    " (SELECT max(correction_version) FROM corrections),"
    " (SELECT max(correction_version) FROM link_estimates))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cached:
    revision: int
    version: int
    table: CorrectionTable


class CorrectionStore:
    """Appends a set of corrections under a new version, and reads them as of a version."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache: _Cached | None = None
        self.revision = 0
        """Rises with every append."""

    def append(self, rows: Sequence[Correction], links: Sequence[LinkEstimate] = ()) -> int:
        """Stores the rows under the next version and returns it."""
        CorrectionTable(((0, row) for row in rows), version=0)  # refuses overlapping rows
        with self._engine.transaction_lock():
            version = 1 + self._engine.scalar_int(_NEWEST_USED)
            if links:
                self._engine.insert("link_estimates", _link_columns(links, version))
            if rows:
                columns: dict[str, Sequence[object]] = {
                    name: [getattr(row, name) for row in rows] for name in _COLUMNS
                }
                columns["status"] = [row.status.value for row in rows]
                self._engine.insert(
                    "corrections", {"correction_version": [version] * len(rows), **columns}
                )
            self._engine.insert("correction_versions", {"correction_version": [version]})
            self.revision += 1
        return version

    def latest_version(self) -> int:
        """The newest version; 0 when there is no correction yet."""
        return self._engine.scalar_int("SELECT max(correction_version) FROM correction_versions")

    def table(self, version: int = LATEST) -> CorrectionTable:
        """The corrections as of a version; its `version` is the newest one included."""
        with self._engine.transaction_lock():
            latest = self.latest_version()
            version = max(0, min(version, latest))
            cached = self._cache
            if cached and cached.revision == self.revision and cached.version == version:
                return cached.table
            rows = self._engine.rows(
                f"SELECT correction_version, {', '.join(_COLUMNS)} FROM corrections"
                f" WHERE correction_version <= {{version:UInt64}} AND {_PUBLISHED}"
                " ORDER BY correction_version, clock, valid_from_local_ns",
                {"version": version},
            )
            table = CorrectionTable(
                ((int(row[0]), _correction(row[1:])) for row in rows), version=version
            )
            self._cache = _Cached(revision=self.revision, version=version, table=table)
            return table

    def links(self, version: int = LATEST) -> dict[str, LinkEstimate]:
        """The newest estimate of each link as of a version, by link name."""
        rows = self._engine.rows(
            "SELECT link, a_uv_ns, sigma_ns, bad, delay_ab_ns, delay_ba_ns, samples_ab, samples_ba"
            f" FROM link_estimates WHERE correction_version <= {{version:UInt64}} AND {_PUBLISHED}"
            " ORDER BY correction_version",
            {"version": version},
        )
        return {
            row[0]: LinkEstimate(
                link=row[0],
                a_uv_ns=row[1],
                sigma_ns=row[2],
                bad=bool(row[3]),
                delay_ab_ns=row[4],
                delay_ba_ns=row[5],
                samples_ab=row[6],
                samples_ba=row[7],
            )
            for row in rows
        }


def _correction(row: tuple[object, ...]) -> Correction:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["status"] = ClockStatus(str(values["status"]))
    return Correction(**values)  # type: ignore[arg-type]  # column types are the fields' types


def _link_columns(links: Sequence[LinkEstimate], version: int) -> dict[str, Sequence[object]]:
    def finite(value: float) -> float:
        return value if math.isfinite(value) else math.nan

    return {
        "correction_version": [version] * len(links),
        "link": [link.link for link in links],
        "a_uv_ns": [finite(link.a_uv_ns) for link in links],
        "sigma_ns": [finite(link.sigma_ns) for link in links],
        "bad": [int(link.bad) for link in links],
        "delay_ab_ns": [finite(link.delay_ab_ns) for link in links],
        "delay_ba_ns": [finite(link.delay_ba_ns) for link in links],
        "samples_ab": [link.samples_ab for link in links],
        "samples_ba": [link.samples_ba for link in links],
    }
