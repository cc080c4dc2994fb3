# SPDX-License-Identifier: Apache-2.0
"""Windows of corrections into the store of a service in this process."""

import json
import math
from dataclasses import asdict
from typing import Any

from controller.following.documents import corrections_of, link_estimates
from correction.stream.follow import FollowedWindow
from tracing_core.model import ClockStatus, Correction, LinkEstimate
from tracing_core.store import Store

LINKS_EVERY = 10
"""Windows between two estimates of all links: they change slowly."""


class StoreOutput:
    """Appends each window as a version of its own; one that the store has is left out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._newest = store.corrections.newest_window()

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """Rows and link estimates as JSON."""
        links = link_estimates(window) if window.version % LINKS_EVERY == 1 else []
        record: dict[str, Any] = {
            "window": window.number,
            "rows": [asdict(row) for row in corrections_of(window)],
            "links": [_without_nan(asdict(link)) for link in links],
        }
        return json.dumps(record, allow_nan=False).encode()

    def write(self, encoded: bytes) -> None:
        """Append the window's rows."""
        record = json.loads(encoded)
        if record["window"] <= self._newest:
            return
        rows = [
            Correction(**{**row, "status": ClockStatus(row["status"])}) for row in record["rows"]
        ]
        links = [LinkEstimate(**_with_nan(link)) for link in record["links"]]
        self._store.corrections.append(rows, links)
        self._newest = record["window"]

    def close(self) -> None:
        """The store is the service's."""


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }


def _with_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in values.items()}
