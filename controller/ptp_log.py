# SPDX-License-Identifier: Apache-2.0
"""`exchanges.jsonl`: PTP exchanges as the hosts saw them, and what their servos did.

One JSON object a line (docs/schemas/exchanges.schema.json). `record` is `header` (first line, with
the version), `exchange` (t1..t4 and the identities that join it to telemetry) or `servo` (one
adjustment of a PHC). Stamps are integer nanoseconds, as strings, since they exceed 2^53.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.addresses import format_ip, parse_ip
from correction.records import EXCHANGE_DTYPE, Exchanges
from correction.servo import ADJUSTMENT_DTYPE, ServoLog

PTP_LOG_VERSION = 1
"""`version` in the header line."""


class PtpLogError(Exception):
    """A line that cannot be used; `str()` names file, line and key."""

    def __init__(self, path: str, line: int, key: str, message: str) -> None:
        super().__init__(f"{path}:{line}: {key}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PtpLog:
    """Exchanges in the order of the file, and one servo log per steered clock."""

    exchanges: Exchanges
    servos: Mapping[str, ServoLog]


_ADDRESSES = ("time_transmitter_ip", "client_ip")
_HEX = ("sync_clock_identity", "delay_req_clock_identity")
_STAMPS = ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns", "c1_ns", "c2_ns")


def exchange_line(row: np.void, client: str) -> str:
    """One `exchange` line; `row` has the fields of `EXCHANGE_DTYPE`."""
    record: dict[str, object] = {"record": "exchange", "client": client}
    for name in EXCHANGE_DTYPE.names or ():
        if name == "client":
            continue
        value = int(row[name])
        if name in _ADDRESSES:
            record[name] = format_ip(value)
        elif name in _HEX:
            record[name] = f"{value:016x}"
        elif name in _STAMPS:
            record[name] = str(value)
        else:
            record[name] = value
    return json.dumps(record, separators=(",", ":"))


def servo_line(host: str, phc_local_ns: int, step_ns: int, frequency_ppb: float) -> str:
    """One `servo` line: the PHC read `phc_local_ns`, was stepped and runs at the frequency."""
    return json.dumps(
        {
            "record": "servo",
            "host": host,
            "phc_local_ns": str(phc_local_ns),
            "step_ns": str(step_ns),
            "frequency_ppb": frequency_ppb,
        },
        separators=(",", ":"),
    )


def write_ptp_log(path: Path, lines: Iterable[str]) -> None:
    """Write a log whose lines come from `exchange_line` and `servo_line`."""
    header = json.dumps({"record": "header", "version": PTP_LOG_VERSION}, separators=(",", ":"))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(header + "\n")
        for line in lines:
            file.write(line + "\n")


def read_ptp_log(path: Path, client_index: Mapping[str, int]) -> PtpLog:
    """Read a log; `client_index` gives each client's clock in the fabric model."""
    exchanges: list[tuple[int, ...]] = []
    servos: dict[str, list[tuple[int, int, float]]] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            _read_line(_Line(str(path), number, line), client_index, exchanges, servos)
    return PtpLog(
        exchanges=np.array(exchanges, dtype=EXCHANGE_DTYPE),
        servos={host: _servo_log(str(path), host, rows) for host, rows in servos.items()},
    )


class _Line:
    """One line of the file, with errors that name it."""

    def __init__(self, path: str, number: int, text: str) -> None:
        self._path = path
        self.number = number
        try:
            record: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise self.error("-", f"expected one JSON object a line: {error.msg}") from None
        if not isinstance(record, dict):
            raise self.error("-", "expected one JSON object a line")
        self.record: dict[str, Any] = record

    def error(self, key: str, message: str) -> PtpLogError:
        return PtpLogError(self._path, self.number, key, message)

    def integer(self, key: str) -> int:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.error(key, f"expected an integer or a decimal string, found {value!r}")
        try:
            number = int(value)
        except ValueError:
            raise self.error(key, f"expected an integer, found {value!r}") from None
        if not -(2**63) <= number < 2**64:
            raise self.error(key, f"{number} does not fit into 64 bits")
        return number

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str):
            raise self.error(key, f"expected a string, found {value!r}")
        return value

    def number_of(self, key: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"expected a number, found {value!r}")
        return float(value)

    def address(self, key: str) -> int:
        try:
            return parse_ip(self.text(key))
        except ValueError:
            raise self.error(key, f"expected an IPv4 address, found {self.text(key)!r}") from None

    def hexadecimal(self, key: str) -> int:
        try:
            return int(self.text(key), 16)
        except ValueError:
            raise self.error(key, f"expected 16 hex digits, found {self.text(key)!r}") from None

    def _value(self, key: str) -> object:
        if key not in self.record:
            raise self.error(key, "missing")
        return self.record[key]


def _read_line(
    line: _Line,
    client_index: Mapping[str, int],
    exchanges: list[tuple[int, ...]],
    servos: dict[str, list[tuple[int, int, float]]],
) -> None:
    kind = line.text("record")
    if line.number == 1:
        if kind != "header" or line.integer("version") != PTP_LOG_VERSION:
            raise line.error("version", f"expected a header line with version {PTP_LOG_VERSION}")
        return
    if kind == "exchange":
        exchanges.append(_exchange(line, client_index))
    elif kind == "servo":
        servos.setdefault(line.text("host"), []).append(
            (line.integer("phc_local_ns"), line.integer("step_ns"), line.number_of("frequency_ppb"))
        )
    else:
        raise line.error("record", f"expected exchange or servo, found {kind!r}")


def _exchange(line: _Line, client_index: Mapping[str, int]) -> tuple[int, ...]:
    client = line.text("client")
    if client not in client_index:
        raise line.error("client", f"no host called {client!r} in the fabric")
    values: list[int] = [client_index[client]]
    for name in (EXCHANGE_DTYPE.names or ())[1:]:
        if name in _ADDRESSES:
            value = line.address(name)
        elif name in _HEX:
            value = line.hexadecimal(name)
        else:
            value = line.integer(name)
        limits = np.iinfo(EXCHANGE_DTYPE[name])
        if not limits.min <= value <= limits.max:
            raise line.error(name, f"{value} is out of range {limits.min}..{limits.max}")
        values.append(value)
    return tuple(values)


def _servo_log(path: str, host: str, rows: list[tuple[int, int, float]]) -> ServoLog:
    adjustments: NDArray[np.void] = np.array(rows, dtype=ADJUSTMENT_DTYPE)
    try:
        return ServoLog.from_adjustments(adjustments)
    except ValueError as error:
        raise PtpLogError(path, 0, f"servo of {host}", str(error)) from None
