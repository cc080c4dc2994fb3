# SPDX-License-Identifier: Apache-2.0
"""Versioned corrections and link estimates: appended, never changed, applied at read."""

import math
from collections.abc import Sequence

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


ROWS_MAX = 1_000_000
"""In a table: two hours of 28 clocks of which half are steered eight times a second. A reading that
only older rows cover is unknown; the rows stay in the store."""


class CorrectionStore:
    """Appends a set of corrections under a new version, and reads them as of a version."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cache: CorrectionTable | None = None
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

    def newest_window(self) -> int:
        """Number of the newest window that has a row; 0 when there is none."""
        return self._engine.scalar_int(
            f"SELECT max(window_index) FROM corrections WHERE {_PUBLISHED}"
        )

    def table(self, version: int = LATEST) -> CorrectionTable:
        """The corrections as of a version; its `version` is the newest one included.

        The newest ROWS_MAX of them. What has been read stays; newer versions are added to it.
        """
        with self._engine.transaction_lock():
            latest = self.latest_version()
            version = max(0, min(version, latest))
            cached = self._cache
            if cached is not None and cached.version == version:
                return cached
            if cached is not None and version == latest and len(cached.rows) < ROWS_MAX:
                more = self._read(cached.version, version)
                table = cached.extended(more, version=version)
            else:
                above = self._oldest_kept(version, ROWS_MAX // 2)
                table = CorrectionTable(self._read(above, version), version=version)
            if version == latest or cached is None:
                self._cache = table
            return table

    def history(
        self, clock: str, version: int, *, before: tuple[int, int] | None = None, limit: int = 100
    ) -> list[tuple[int, Correction]]:
        """A clock's rows of versions up to `version` with their version, newest version first and
        latest validity first; `before` is (version, valid_from_local_ns) of the last one seen."""
        last_version, last_from_ns = before or (0, 0)
        rows = self._engine.rows(
            f"SELECT correction_version, {', '.join(_COLUMNS)} FROM corrections"
            " WHERE clock = {clock:String} AND correction_version <= {version:UInt64}"
            f" AND {_PUBLISHED} AND ({{first:UInt8}} OR (correction_version, valid_from_local_ns)"
            " < ({last_version:UInt64}, {last_from_ns:Int64}))"
            " ORDER BY correction_version DESC, valid_from_local_ns DESC LIMIT {limit:UInt32}",
            {
                "clock": clock, "version": version, "first": int(before is None),
                "last_version": last_version, "last_from_ns": last_from_ns, "limit": limit,
            },
        )  # fmt: skip
        words: dict[object, object] = {}
        return [(int(row[0]), _correction(row[1:], words)) for row in rows]

    def _read(self, above: int, version: int) -> list[tuple[int, Correction]]:
        """The rows of published versions in (above, version]."""
        rows = self._engine.rows(
            f"SELECT correction_version, {', '.join(_COLUMNS)} FROM corrections"
            " WHERE correction_version > {above:UInt64}"
            f" AND correction_version <= {{version:UInt64}} AND {_PUBLISHED}"
            " ORDER BY correction_version, clock, valid_from_local_ns",
            {"above": above, "version": version},
        )
        words: dict[object, object] = {}
        return [(int(row[0]), _correction(row[1:], words)) for row in rows]

    def _oldest_kept(self, version: int, rows_max: int) -> int:
        """The version above which all versions together have `rows_max` rows at most, or one."""
        counts = self._engine.rows(
            "SELECT correction_version, count() FROM corrections"
            " WHERE correction_version <= {version:UInt64}"
            " GROUP BY correction_version ORDER BY correction_version DESC",
            {"version": version},
        )
        total = 0
        for number, (one, count) in enumerate(counts):
            total += int(count)
            if number and total > rows_max:
                return int(one)
        return 0

    def links(self, version: int = LATEST) -> dict[str, LinkEstimate]:
        """The newest estimate of each link as of a version, by link name."""
        rows = self._engine.rows(
            "SELECT link, a_uv_ns, sigma_ns, bad, delay_ab_ns, delay_ba_ns, samples_ab, samples_ba"
            f" FROM link_estimates WHERE correction_version <= {{version:UInt64}} AND {_PUBLISHED}"
            " ORDER BY correction_version DESC LIMIT 1 BY link",
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


def _correction(row: tuple[object, ...], words: dict[object, object]) -> Correction:
    """`words`: texts that many rows share, each kept once."""
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in ("clock", "method", "prior", "reason"):
        values[name] = words.setdefault(values[name], values[name])
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
