# SPDX-License-Identifier: Apache-2.0
"""The real chronyd on every host, for the NTP side: it measures and, with `-x`, steers nothing."""

import contextlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.backends.namespaces import DAEMON_PRIORITY, Namespace, end_process
from bmv2_lab.backends.needs import BackendError, program_path
from controller.addresses import format_ip
from controller.fabric import Fabric, Host

POLL_LOG2_S = -1
"""A measurement every half second."""
MEASUREMENTS_FILE = "measurements.log"
_FIELDS_MIN = 15
_SOURCE_FIELD, _OFFSET_FIELD, _PEER_DELAY_FIELD = 2, 11, 12
"""Of a line of chrony's measurements.log, separated by blanks (chrony.conf, directive log)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NtpMeasurement:
    """One NTP exchange as chronyd judged it."""

    offset_ns: float
    """Client minus server, positive when the client is ahead."""
    round_trip_ns: float


def chronyd_config(server_ip: int | None, own_ip: int, directory: Path) -> str:
    """The configuration of a client of `server_ip`, or of the server itself."""
    lines = [f"pidfile {directory}/chronyd.pid", "cmdport 0", f"bindaddress {format_ip(own_ip)}"]
    if server_ip is None:
        lines += ["local stratum 1", "allow all"]
    else:
        lines += [
            f"server {format_ip(server_ip)} minpoll {POLL_LOG2_S} maxpoll {POLL_LOG2_S} iburst",
            f"logdir {directory}",
            "log measurements",
            "logbanner 0",
            "port 0",
        ]
    return "\n".join(lines) + "\n"


def parse_measurements(text: str) -> list[NtpMeasurement]:
    """The lines of a measurements.log; chrony states its offset as what the client lacks."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < _FIELDS_MIN or "." not in fields[_SOURCE_FIELD]:
            continue
        try:
            lacks_s, delay_s = float(fields[_OFFSET_FIELD]), float(fields[_PEER_DELAY_FIELD])
        except ValueError:
            continue
        found.append(NtpMeasurement(offset_ns=-lacks_s * 1e9, round_trip_ns=delay_s * 1e9))
    return found


class Chronyd:
    """One running daemon."""

    def __init__(
        self, host: Host, namespace: Namespace, server_ip: int | None, directory: Path
    ) -> None:
        self.host = host
        self._directory = directory
        self._log = directory / "chronyd.log"
        config = directory / "chrony.conf"
        config.write_text(chronyd_config(server_ip, host.ip, directory), encoding="ascii")
        with self._log.open("wb") as log:
            self._process: subprocess.Popen[bytes] = namespace.start(
                [program_path("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)],
                stdout=log,
                stderr=log,
                priority=DAEMON_PRIORITY,
            )

    def measurements(self) -> list[NtpMeasurement]:
        """What it has measured so far."""
        path = self._directory / MEASUREMENTS_FILE
        if not path.exists():
            return []
        return parse_measurements(path.read_text(encoding="ascii"))

    def check(self) -> None:
        """BackendError with its last words if it has ended."""
        code = self._process.poll()
        if code is not None:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BackendError(f"chronyd of {self.host.name} ended with code {code}: {last}")

    def close(self) -> None:
        """End it."""
        end_process(self._process)


def start_chronyd(
    fabric: Fabric,
    namespaces: Mapping[str, Namespace],
    directory: Path,
    stack: contextlib.ExitStack,
) -> dict[str, Chronyd]:
    """Start the daemon of every host, all of them clients of the grandmaster's; `stack` ends them.

    The server comes first, and so is there when the first request is.
    """
    server = fabric.host(fabric.ptp.grandmaster)
    running = {}
    for host in sorted(fabric.hosts, key=lambda one: one is not server):
        own = directory / host.name
        own.mkdir(parents=True, exist_ok=True)
        daemon = Chronyd(host, namespaces[host.name], None if host is server else server.ip, own)
        stack.callback(daemon.close)
        running[host.name] = daemon
    return running
