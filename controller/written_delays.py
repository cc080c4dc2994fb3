# SPDX-License-Identifier: Apache-2.0
"""The record of which link delays were in force when, so that they can be taken off again.

Kept by whoever writes `ptp_link_delay`, in memory or as `link_delays.jsonl`
(docs/schemas/link-delays.schema.json); `correction.injected` reads it.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from controller.ptp_log import LogLine, PtpLogError, log_lines
from correction.injected import END_OF_TIME_NS, INJECTED_DTYPE, Injected

LINK_DELAYS_VERSION = 1
"""`version` in the header line."""
DELAY_SCALED_NS_MAX = 1 << 46
"""A second: no cable takes longer, and sums over a path stay far from 64 bits."""

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
        self._newest_ns = 0
        self._open: dict[tuple[int, int], tuple[int, int]] = {}
        self._closed: list[tuple[int, int, int, int, int]] = []

    def follow(
        self, node_ids: Mapping[str, int], residence_offset_scaled_ns: Mapping[str, int]
    ) -> None:
        """Another description is in force; what was recorded of nodes that are gone stays, and that
        of a switch with another id goes on under that, since the record is by name."""
        known = self._node_ids
        moved = {known[name]: node for name, node in node_ids.items() if name in known}
        self._open = {(moved.get(at, at), port): one for (at, port), one in self._open.items()}
        self._closed = [(moved.get(row[0], row[0]), *row[1:]) for row in self._closed]
        self._offsets = {moved.get(at, at): one for at, one in self._offsets.items()}
        self._node_ids.update(node_ids)
        self._offsets.update(
            {node_ids[name]: offset for name, offset in residence_offset_scaled_ns.items()}
        )

    def resume(self, before: Injected) -> None:
        """Go on with an earlier record; what was in force at its end is taken to be so still."""
        for node, port, value, start, end in before.rows.tolist():
            if end == END_OF_TIME_NS:
                self._open[node, port] = (value, start)
                self._newest_ns = max(self._newest_ns, start)
            else:
                self._closed.append((node, port, value, start, end))
                self._newest_ns = max(self._newest_ns, end)

    def record(self, in_force: Mapping[str, Mapping[int, int]], now_collector_ns: int) -> int:
        """The switches named hold exactly these values from now on; how many ports changed."""
        if now_collector_ns < self._newest_ns:
            self._cut(now_collector_ns)
        self._newest_ns = now_collector_ns
        changes = 0
        for switch, ports in in_force.items():
            node = self._node_ids[switch]
            known = {port for at, port in self._open if at == node}
            for port in sorted(known | set(ports)):
                changes += self._set((node, port), ports.get(port), now_collector_ns)
        del self._closed[: max(0, len(self._closed) - ROWS_MAX)]
        return changes

    def _cut(self, now_ns: int) -> None:
        """The clock was set back: what was recorded as later than now is yet to come."""
        self._closed = [(*row[:4], min(row[4], now_ns)) for row in self._closed if row[3] < now_ns]
        self._open = {
            key: (value, min(start, now_ns)) for key, (value, start) in self._open.items()
        }

    def _set(self, key: tuple[int, int], value: int | None, now_ns: int) -> bool:
        before = self._open.get(key)
        if before is not None:
            if before[0] == value:
                return False
            if before[1] < now_ns:
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

    def lines(self) -> Iterator[str]:
        """The record as the lines of `link_delays.jsonl`."""
        names = {node: name for name, node in self._node_ids.items()}
        yield _line({"record": "header", "version": LINK_DELAYS_VERSION})
        for node, offset in sorted(self._offsets.items()):
            if offset:
                yield _line(
                    {
                        "record": "residence_offset",
                        "switch": names[node],
                        "offset_scaled_ns": str(offset),
                    }
                )
        for row in self.injected().rows:
            end = int(row["to_collector_ns"])
            yield _line(
                {
                    "record": "link_delay",
                    "switch": names[int(row["node_id"])],
                    "ingress_port": int(row["ingress_port"]),
                    "delay_scaled_ns": str(int(row["delay_scaled_ns"])),
                    "from_collector_ns": str(int(row["from_collector_ns"])),
                    "to_collector_ns": None if end == END_OF_TIME_NS else str(end),
                }
            )


def _line(record: dict[str, object]) -> str:
    return json.dumps(record, separators=(",", ":"))


def write_link_delays(path: Path, written: WrittenDelays) -> None:
    """Replace the record, so that one that is cut off in the middle leaves the one before."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in written.lines())
    new.replace(path)


def read_link_delays(path: Path, node_ids: Mapping[str, int]) -> Injected:
    """Read a record; `node_ids`: INT node id by switch name. `PtpLogError`."""
    rows: list[tuple[int, int, int, int, int]] = []
    offsets: dict[int, int] = {}
    newest: dict[tuple[int, int], int] = {}
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(log_lines(str(path), file.readline), start=1):
            kind = line.text("record")
            if number == 1:
                if kind != "header" or line.integer("version") != LINK_DELAYS_VERSION:
                    raise line.error(
                        "record", f"expected a header of version {LINK_DELAYS_VERSION} first"
                    )
            elif kind == "residence_offset":
                offsets[_node(line, node_ids)] = scaled_of(line, "offset_scaled_ns")
            elif kind == "link_delay":
                row = _span(line, node_ids)
                if row[3] < newest.get(row[:2], row[3]):
                    raise line.error(
                        "from_collector_ns", "before the end of the port's value before it"
                    )
                newest[row[:2]] = row[4]
                rows.append(row)
            else:
                raise line.error("record", "expected residence_offset or link_delay")
    if number == 0:
        raise PtpLogError(str(path), 1, "record", "the file is empty; expected a header line")
    return Injected(rows=np.array(rows, INJECTED_DTYPE), residence_offset_scaled_ns=offsets)


def _span(line: LogLine, node_ids: Mapping[str, int]) -> tuple[int, int, int, int, int]:
    start = instant_of(line, "from_collector_ns")
    end = END_OF_TIME_NS
    if line.record.get("to_collector_ns") is not None:
        end = instant_of(line, "to_collector_ns")
    if end < start:
        raise line.error("to_collector_ns", "before from_collector_ns")
    return _node(line, node_ids), port_of(line), scaled_of(line, "delay_scaled_ns"), start, end


def port_of(line: LogLine) -> int:
    """The line's `ingress_port`."""
    port = line.integer("ingress_port")
    if not 0 <= port <= 0xFFFF:
        raise line.error("ingress_port", f"{port} is no port")
    return port


def instant_of(line: LogLine, key: str) -> int:
    """An instant of the collector's clock."""
    value = line.integer(key)
    if not 0 <= value < END_OF_TIME_NS:
        raise line.error(key, "expected the collector's time in ns")
    return value


def _node(line: LogLine, node_ids: Mapping[str, int]) -> int:
    switch = line.text("switch")
    if switch not in node_ids:
        raise line.error("switch", "no such switch in the fabric")
    return node_ids[switch]


def scaled_of(line: LogLine, key: str) -> int:
    """A delay in 2^-16 ns."""
    value = line.integer(key)
    if abs(value) > DELAY_SCALED_NS_MAX:
        raise line.error(key, "more than a second, in units of 2^-16 ns")
    return value
