# SPDX-License-Identifier: Apache-2.0
"""The record of which link delays were in force when, so that they can be taken off again.

Kept by whoever writes `ptp_link_delay`; `correction.injected` reads it.
"""

from collections.abc import Mapping

import numpy as np

from correction.injected import END_OF_TIME_NS, INJECTED_DTYPE, Injected

ROWS_MAX = 200_000
"""Oldest spans are forgotten beyond this: a day of one change a second on two ports."""


class WrittenDelays:
    """Spans of values per (node, ingress port), on the collector's clock."""

    def __init__(
        self,
        node_ids: Mapping[str, int],
        residence_offset_scaled_ns: Mapping[str, int] | None = None,
    ) -> None:
        """node_ids: INT node id by switch name; residence offsets by switch name."""
        self._node_ids = dict(node_ids)
        self._offsets = {
            self._node_ids[name]: offset
            for name, offset in (residence_offset_scaled_ns or {}).items()
        }
        self._open: dict[tuple[int, int], tuple[int, int]] = {}
        self._closed: list[tuple[int, int, int, int, int]] = []

    def record(self, in_force: Mapping[str, Mapping[int, int]], now_collector_ns: int) -> int:
        """The switches named hold exactly these values from now on; how many ports changed."""
        changes = 0
        for switch, ports in in_force.items():
            node = self._node_ids[switch]
            known = {port for at, port in self._open if at == node}
            for port in sorted(known | set(ports)):
                changes += self._set((node, port), ports.get(port), now_collector_ns)
        del self._closed[: max(0, len(self._closed) - ROWS_MAX)]
        return changes

    def _set(self, key: tuple[int, int], value: int | None, now_ns: int) -> bool:
        before = self._open.get(key)
        if before is not None:
            if before[0] == value:
                return False
            self._closed.append((*key, before[0], before[1], now_ns))
            del self._open[key]
        elif value is None:
            return False
        if value is not None:
            self._open[key] = (value, now_ns)
        return True

    def injected(self, since_collector_ns: int = 0) -> Injected:
        """Everything that was in force at `since` or later."""
        rows = [row for row in self._closed if row[4] >= since_collector_ns]
        rows += [(*key, value, start, END_OF_TIME_NS) for key, (value, start) in self._open.items()]
        return Injected(
            rows=np.array(rows, INJECTED_DTYPE), residence_offset_scaled_ns=dict(self._offsets)
        )
