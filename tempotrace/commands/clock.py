# SPDX-License-Identifier: Apache-2.0
"""`tempotrace clock`: readings of a host's clocks for `clock_pairs.jsonl`."""

import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, TextIO

import typer

from controller.appended_lines import ForeignFileError, open_appended
from controller.clock_pairs import clock_pair_line, derived_clock_line, header_line
from controller.clock_reading import pairs_of_phc2sys
from controller.daemon_log import parse_daemon_log
from controller.host_clocks import default_behaviour
from controller.ptp_clock_device import PtpClockError
from tempotrace.clock_recorder import HostClockSource, record
from tempotrace.errors import InputError, one_line_errors
from tempotrace.interrupt import Interrupts
from tracing_core.clock_domains import ClockKind, clock_name

app = typer.Typer(
    help="A host's own clocks: read them in pairs, take pairs from logs.", no_args_is_help=True
)
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Out = Annotated[Path, typer.Option("--out", help="clock_pairs.jsonl; appended to.")]
Host = Annotated[
    str, typer.Option("--host", help="The host in fabric.yaml; this machine's name if not given.")
]


@app.command("record")
@one_line_errors
def record_command(
    out: Out,
    phc: Annotated[
        Path | None,
        typer.Option("--phc", help="/dev/ptpN of the NIC: ties the system clock to it."),
    ] = None,
    interval_s: Annotated[
        float, typer.Option("--interval-s", min=0.001, help="Between two readings.")
    ] = 1.0,
    duration_s: Annotated[
        float | None, typer.Option("--duration-s", min=0.0, help="Until Ctrl-C if not given.")
    ] = None,
    host: Host = "",
) -> None:
    """Read system, monotonic and TAI clock in pairs, and the NIC's clock with --phc."""
    with Interrupts() as interrupts, _device(phc) as phc_fd, _opened(out) as file:
        source = HostClockSource(
            host=host or os.uname().nodename,
            boot_id=BOOT_ID.read_text(encoding="ascii").strip(),
            read_ns=time.clock_gettime_ns,
            ioctl=fcntl.ioctl,
            phc_fd=phc_fd,
        )

        def write(line: str) -> None:
            file.write(line + "\n")
            file.flush()

        ticks = None if duration_s is None else max(1, math.ceil(duration_s / interval_s))
        try:
            pairs = record(source, write, ticks=ticks, wait=lambda: interrupts.wait_for(interval_s))
        except PtpClockError as error:
            raise InputError(f"clock record: {phc}: {error}") from None
    typer.echo(f"{pairs} pairs in {out}", err=True)


@app.command("from-log")
@one_line_errors
def from_log_command(
    log: Annotated[Path, typer.Argument(help="Log of phc2sys.")],
    out: Out,
    system_less_monotonic_ns: Annotated[
        int,
        typer.Option(
            "--system-less-monotonic-ns",
            help="CLOCK_REALTIME less CLOCK_MONOTONIC of that boot: phc2sys prints the latter.",
        ),
    ],
    tai_utc_s: Annotated[
        int, typer.Option("--tai-utc-s", help="Seconds that the PHC is ahead of UTC; 0 if in UTC.")
    ] = 37,
    host: Host = "",
) -> None:
    """Take pairs of system clock and PHC from what phc2sys printed."""
    name = host or os.uname().nodename
    system = clock_name(name, ClockKind.SYSTEM)
    with log.open(encoding="utf-8", errors="replace") as lines:
        parsed = parse_daemon_log(lines)
    pairs, left_out = pairs_of_phc2sys(
        parsed,
        system=system,
        phc=name,
        system_less_monotonic_ns=system_less_monotonic_ns,
        tai_utc_s=tai_utc_s,
    )
    if not pairs:
        raise InputError(f"clock from-log: {log}: no line of phc2sys about CLOCK_REALTIME")
    with _opened(out) as file:
        file.write(derived_clock_line(system, name, default_behaviour(system, name)) + "\n")
        file.writelines(clock_pair_line(pair) + "\n" for pair in pairs)
    typer.echo(f"{len(pairs)} pairs in {out}", err=True)
    for reason, count in sorted(left_out.items()):
        typer.echo(f"left out: {count} {reason}", err=True)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """The file at its end, behind its header and a whole line."""
    try:
        binary, _ = open_appended(path, header_line().encode() + b"\n")
    except ForeignFileError as error:
        raise InputError(f"clock: {error}") from None
    with TextIOWrapper(binary, encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def _device(path: Path | None) -> Iterator[int | None]:
    if path is None:
        yield None
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
