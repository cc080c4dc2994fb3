# SPDX-License-Identifier: Apache-2.0
"""`exchanges.jsonl`: PTP exchanges as the hosts saw them, and what their servos did.

One JSON object a line (docs/schemas/exchanges.schema.json). `record` is `header` (first line, with
the version), `exchange` (t1..t4 and the identities that join it to telemetry) or `servo` (one
adjustment of a PHC). Stamps are integer nanoseconds, as strings, since they exceed 2^53. Whatever
a file holds instead, it is refused with one line that names file, line and key.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from controller.addresses import format_ip, parse_ip
from correction.records import EXCHANGE_DTYPE, Exchanges
from correction.servo import ADJUSTMENT_DTYPE, ServoLog

PTP_LOG_VERSION = 1
"""`version` in the header line."""
LINE_BYTES_MAX = 1 << 16
"""Longest line of a file; an exchange takes 600 bytes."""
FREQUENCY_PPB_MAX = 1_000_000
"""Largest frequency adjustment of a PHC: ten times what servos allow."""
SERVO_NS_LIMIT = 1 << 62
"""PHC readings of a servo are less than this from 0, so that their differences fit an int64."""


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
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


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
        allow_nan=False,
    )


def write_ptp_log(path: Path, lines: Iterable[str]) -> None:
    """Write a log whose lines come from `exchange_line` and `servo_line`."""
    header = json.dumps({"record": "header", "version": PTP_LOG_VERSION}, separators=(",", ":"))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(header + "\n")
        for line in lines:
            file.write(line + "\n")


def read_ptp_log(
    path: Path, client_index: Mapping[str, int], *, time_transmitter: str | None = None
) -> PtpLog:
    """Read a log; `client_index` gives each host's clock in the fabric model, `time_transmitter`
    is the one that nobody steers."""
    exchanges: list[tuple[int, ...]] = []
    servos: dict[str, list[Adjustment]] = {}
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(log_lines(str(path), file.readline), start=1):
            kind = line.text("record")
            if number == 1:
                check_header(line, kind)
            elif kind == "exchange":
                exchanges.append(exchange_fields(line, client_index))
            elif kind == "servo":
                host = steered_host(line, client_index, time_transmitter)
                rows = servos.setdefault(host, [])
                rows.append(adjustment_of(line, rows[-1] if rows else None))
            else:
                raise line.error("record", f"expected exchange or servo, found {_shown(kind)}")
    if number == 0:
        raise PtpLogError(str(path), 1, "record", "the file is empty; expected a header line")
    return PtpLog(
        exchanges=np.array(exchanges, dtype=EXCHANGE_DTYPE),
        servos={
            host: ServoLog.from_adjustments(np.array(rows, dtype=ADJUSTMENT_DTYPE))
            for host, rows in servos.items()
        },
    )


class Adjustment(NamedTuple):
    """A row of `ADJUSTMENT_DTYPE`."""

    phc_local_ns: int
    step_ns: int
    frequency_ppb: float


class _Unusable(NamedTuple):
    """A number of the file that no key can hold, as it stands there."""

    text: str


_INTEGER = re.compile(r"-?[0-9]+")
_INTEGER_CHARACTERS_MAX = 20
"""-2^63 and 2^64 - 1 take as many."""
_IDENTITY = re.compile(r"[0-9a-fA-F]{16}")


def _parse_integer(text: str) -> int | _Unusable:
    return int(text) if len(text) <= _INTEGER_CHARACTERS_MAX else _Unusable(text)


def _shown(value: object) -> str:
    """A value as an error shows it: on one line, and not too long."""
    text = value.text if isinstance(value, _Unusable) else ascii(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class LogLine:
    """One line of the file, with errors that name it."""

    def __init__(self, path: str, number: int, data: bytes) -> None:
        self._path = path
        self.number = number
        if len(data) > LINE_BYTES_MAX:
            raise self.error("-", f"longer than {LINE_BYTES_MAX} bytes; {_EXPECTED}")
        try:
            record: Any = json.loads(
                data.decode("utf-8"),
                parse_int=_parse_integer,
                parse_constant=_Unusable,
                object_pairs_hook=self._mapping,
            )
        except UnicodeDecodeError:
            raise self.error("-", f"not UTF-8 text; {_EXPECTED}") from None
        except json.JSONDecodeError as error:
            raise self.error("-", f"{_EXPECTED}: {error.msg}") from None
        except RecursionError:
            raise self.error("-", f"nested too deeply; {_EXPECTED}") from None
        if not isinstance(record, dict):
            raise self.error("-", _EXPECTED)
        self.record: dict[str, Any] = record

    def _mapping(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        record = dict(pairs)
        if len(record) < len(pairs):
            keys = [key for key, _value in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise self.error(_shown(twice), "stands twice in one object; expected it once")
        return record

    def error(self, key: str, message: str) -> PtpLogError:
        return PtpLogError(self._path, self.number, key, message)

    def integer(self, key: str) -> int:
        value = self._value(key)
        number: int | _Unusable | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _INTEGER.fullmatch(value):
            number = _parse_integer(value)
        elif isinstance(value, _Unusable) and _INTEGER.fullmatch(value.text):
            number = value
        if number is None:
            raise self.error(
                key,
                f"expected an integer, or its decimal digits in a string, found {_shown(value)}",
            )
        if isinstance(number, _Unusable) or not -(2**63) <= number < 2**64:
            raise self.error(key, f"{_shown(value)} does not fit into 64 bits")
        return number

    def text(self, key: str) -> str:
        value = self._value(key)
        if not isinstance(value, str):
            raise self.error(key, f"expected a string, found {_shown(value)}")
        return value

    def number_of(self, key: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float | _Unusable):
            raise self.error(key, f"expected a number, found {_shown(value)}")
        if isinstance(value, _Unusable) or not math.isfinite(value):
            raise self.error(key, f"expected a finite number, found {_shown(value)}")
        return float(value)

    def address(self, key: str) -> int:
        text = self.text(key)
        try:
            return parse_ip(text)
        except ValueError:
            raise self.error(key, f"expected an IPv4 address, found {_shown(text)}") from None

    def identity(self, key: str) -> int:
        text = self.text(key)
        if not _IDENTITY.fullmatch(text):
            raise self.error(key, f"expected 16 hex digits, found {_shown(text)}")
        return int(text, 16)

    def _value(self, key: str) -> object:
        if key not in self.record:
            raise self.error(key, "missing")
        return self.record[key]


_EXPECTED = "expected one JSON object a line"


def log_lines(path: str, readline: Callable[[int], bytes]) -> Iterator[LogLine]:
    """All lines of a file, each read as an object."""
    number = 0
    while data := readline(LINE_BYTES_MAX + 1):
        number += 1
        yield LogLine(path, number, data)


def check_header(line: LogLine, kind: str) -> None:
    """`PtpLogError` for a first line that is not the header of a version that is known."""
    if kind != "header":
        raise line.error("record", f"expected a header line first, found {_shown(kind)}")
    version = line.integer("version")
    if version != PTP_LOG_VERSION:
        raise line.error("version", f"expected {PTP_LOG_VERSION}, found {version}")


def exchange_fields(line: LogLine, client_index: Mapping[str, int]) -> tuple[int, ...]:
    """An `exchange` line as a row of `EXCHANGE_DTYPE`."""
    client = line.text("client")
    if client not in client_index:
        raise line.error("client", f"no host called {_shown(client)} in the fabric")
    values: list[int] = [client_index[client]]
    for name in (EXCHANGE_DTYPE.names or ())[1:]:
        if name in _ADDRESSES:
            value = line.address(name)
        elif name in _HEX:
            value = line.identity(name)
        else:
            value = line.integer(name)
        limits = np.iinfo(EXCHANGE_DTYPE[name])
        if not limits.min <= value <= limits.max:
            raise line.error(name, f"{value} is out of range {limits.min}..{limits.max}")
        values.append(value)
    return tuple(values)


def steered_host(
    line: LogLine, client_index: Mapping[str, int], time_transmitter: str | None
) -> str:
    """Whose clock a `servo` line is of."""
    host = line.text("host")
    if host not in client_index:
        raise line.error("host", f"no host called {_shown(host)} in the fabric")
    if host == time_transmitter:
        raise line.error("host", f"{host} is the time transmitter; expected a host that follows it")
    return host


def adjustment_of(line: LogLine, before: Adjustment | None) -> Adjustment:
    """The adjustment of a line, which must be able to follow the one before it of its PHC."""
    row = Adjustment(
        line.integer("phc_local_ns"), line.integer("step_ns"), line.number_of("frequency_ppb")
    )
    for key, value in (
        ("phc_local_ns", row.phc_local_ns),
        ("step_ns", row.step_ns),
        ("step_ns", row.phc_local_ns + row.step_ns),
    ):
        if abs(value) >= SERVO_NS_LIMIT:
            raise line.error(key, f"a PHC that reads {value} ns; expected less than 2^62 from 0")
    if abs(row.frequency_ppb) > FREQUENCY_PPB_MAX:
        raise line.error(
            "frequency_ppb",
            f"expected {-FREQUENCY_PPB_MAX}..{FREQUENCY_PPB_MAX}, found {row.frequency_ppb!r}",
        )
    if before is not None:
        reached_ns = before.phc_local_ns + before.step_ns
        if row.phc_local_ns < reached_ns:
            raise line.error(
                "phc_local_ns",
                f"{row.phc_local_ns} is earlier than the adjustment before it, which left the PHC "
                f"at {reached_ns}; expected the order in which they were made",
            )
    return row
