# SPDX-License-Identifier: Apache-2.0
"""`tempotrace clock`: what is read, in which order, and what ends in one line."""

import errno
import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.clock_pairs import read_clock_pairs
from controller.ptp_clock_device import PTP_SYS_OFFSET_EXTENDED, PtpClockError
from tempotrace.cli import app
from tempotrace.clock_recorder import HostClockSource, record

UTC_NS = 1_790_000_000_000_000_000


class Machine:
    """A machine whose clocks advance by 10 ns with every look."""

    def __init__(self, *, phc: bool) -> None:
        self._now_ns = 0
        self._phc = phc

    def read_ns(self, clock: int) -> int:
        """As `clock_gettime`."""
        self._now_ns += 10
        start = {
            time.CLOCK_REALTIME: UTC_NS,
            time.CLOCK_MONOTONIC: 5_000,
            time.CLOCK_MONOTONIC_RAW: 7_000,
            time.CLOCK_TAI: UTC_NS + 37_000_000_000,
        }
        return start[clock] + self._now_ns

    def ioctl(self, fd: int, request: int, buffer: bytearray) -> int:
        """A PHC in TAI, read between two looks at the system clock; no cross-stamps."""
        assert fd == 4
        if request != PTP_SYS_OFFSET_EXTENDED or not self._phc:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        for triple in range(buffer[0]):
            for place in range(3):
                clock = time.CLOCK_TAI if place == 1 else time.CLOCK_REALTIME
                seconds, rest = divmod(self.read_ns(clock), 1_000_000_000)
                at = 16 + 48 * triple + 16 * place
                buffer[at : at + 8] = seconds.to_bytes(8, "little", signed=True)
                buffer[at + 8 : at + 12] = rest.to_bytes(4, "little")
        return 0

    def source(self, phc_fd: int | None) -> HostClockSource:
        """This machine as host h3 in its boot b1."""
        return HostClockSource(
            host="h3", boot_id="b1", read_ns=self.read_ns, ioctl=self.ioctl, phc_fd=phc_fd
        )


def recorded(source: HostClockSource, ticks: int) -> list[dict[str, object]]:
    """What is written in so many ticks."""
    lines: list[str] = []
    record(source, lines.append, ticks=ticks, wait=lambda: False)
    return [json.loads(line) for line in lines]


def offset_ns(pair: dict[str, object]) -> int:
    """Clock less parent."""
    return int(str(pair["clock_local_ns"])) - int(str(pair["parent_local_ns"]))


def test_each_clock_is_tied_to_its_parent() -> None:
    """System clock to the NIC (37 s behind), monotonic and TAI clock to the system clock; windows
    of 20 ns are right to 10 ns; monotonic clocks carry the boot's id."""
    found = recorded(Machine(phc=True).source(4), ticks=1)
    declared = {str(one["clock"]): one["parent"] for one in found[:4]}
    assert declared == {
        "h3/system": "h3",
        "h3/monotonic/b1": "h3/system",
        "h3/monotonic_raw/b1": "h3/system",
        "h3/tai": "h3/system",
    }
    pairs = {str(one["clock"]): one for one in found[4:]}
    assert {name: offset_ns(one) for name, one in pairs.items()} == {
        "h3/system": -37_000_000_000,
        "h3/monotonic/b1": 5_000 - UTC_NS,
        "h3/monotonic_raw/b1": 7_000 - UTC_NS,
        "h3/tai": 37_000_000_000,
    }
    assert {one["uncertainty_ns"] for one in pairs.values()} == {10}


def test_without_a_phc_the_other_clocks_are_read_all_the_same() -> None:
    """No device, no privilege: three pairs a tick, none with the NIC's clock."""
    found = recorded(Machine(phc=False).source(None), ticks=3)
    pairs = [one for one in found if one["record"] == "clock_pair"]
    assert len(pairs) == 9
    assert {str(one["parent"]) for one in pairs} == {"h3/system"}


def test_a_device_without_readings_ends_the_recording() -> None:
    """The PHC was asked for: its absence is an error, not a file without it."""
    with pytest.raises(PtpClockError, match="Operation not supported"):
        recorded(Machine(phc=False).source(4), ticks=1)


def test_recording_ends_when_it_is_told_to() -> None:
    """`wait` says so after the second tick."""
    answers = iter([False, True])
    lines: list[str] = []
    pairs = record(
        Machine(phc=False).source(None), lines.append, ticks=None, wait=lambda: next(answers)
    )
    assert pairs == 6


def test_this_machines_clocks_are_recorded_and_appended(tmp_path: Path) -> None:
    """Twice into one file: one header, and `correct run` can read it; TAI less system clock is a
    whole number of seconds, to the readings' uncertainty."""
    out = tmp_path / "clock_pairs.jsonl"
    for _ in range(2):
        result = CliRunner().invoke(
            app, ["clock", "record", "--out", str(out), "--host", "h3", "--duration-s", "0"]
        )
        assert result.exit_code == 0, result.output
    assert out.read_text().count('"header"') == 1
    pairs = {one.clock: one for one in read_clock_pairs(out, {}).pairs}
    assert len(pairs) == 3
    for row in pairs["h3/tai"].rows:
        apart = int(row["clock_local_ns"]) - int(row["parent_local_ns"])
        whole = round(apart / 1e9) * 1_000_000_000
        assert abs(apart - whole) <= int(row["uncertainty_ns"])


@pytest.mark.parametrize(
    ("device", "words"),
    [("/dev/null", "PTP_SYS_OFFSET_EXTENDED"), ("/dev/ptp-none", "no such file")],
)
def test_a_device_that_is_no_phc_is_named(tmp_path: Path, device: str, words: str) -> None:
    """Exit code 2 and one line."""
    out = tmp_path / "pairs.jsonl"
    result = CliRunner().invoke(
        app, ["clock", "record", "--out", str(out), "--phc", device, "--duration-s", "0"]
    )
    assert result.exit_code == 2
    assert words in result.output
    assert device in result.output


def test_phc2sys_log_becomes_pairs(tmp_path: Path) -> None:
    """Lines about CLOCK_REALTIME are taken, others counted; a log without any is an error."""
    log, out = tmp_path / "phc2sys.log", tmp_path / "pairs.jsonl"
    line = "phc2sys[{}.000]: CLOCK_REALTIME phc offset 80 s2 freq +10 delay 500\n"
    log.write_text("".join(line.format(at) for at in range(5, 9)))
    options = ["--out", str(out), "--host", "h3", "--system-less-monotonic-ns", str(UTC_NS)]
    result = CliRunner().invoke(app, ["clock", "from-log", str(log), *options])
    assert result.exit_code == 0, result.output
    (pairs,) = read_clock_pairs(out, {}).pairs
    assert (pairs.clock, pairs.parent, len(pairs.rows)) == ("h3/system", "h3", 4)
    log.write_text("nothing\n")
    result = CliRunner().invoke(app, ["clock", "from-log", str(log), *options])
    assert result.exit_code == 2
    assert "no line of phc2sys" in result.output
