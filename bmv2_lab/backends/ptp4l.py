# SPDX-License-Identifier: Apache-2.0
"""The real ptp4l on every host: unicast over UDP/IPv4, software stamps, steering nothing.

`free_running 1` matters: with software stamps ptp4l would steer the machine's own clock.
"""

import contextlib
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.backends.namespaces import DAEMON_PRIORITY, Namespace, end_process
from bmv2_lab.backends.needs import BackendError, program_path, ptp4l_major_version
from bmv2_lab.backends.network import HOST_INTERFACE
from bmv2_lab.backends.ptp_events import PtpEventError, TimingEvent, parse_timing_events
from controller.addresses import format_ip
from controller.fabric import Fabric, Host

MAJOR_OF_NEW_NAMES = 4
"""From this version on: clientOnly in place of slaveOnly, and a read-only management socket."""
TX_TIMESTAMP_TIMEOUT_MS = 200
ANNOUNCE_LOG2_S, QUERY_LOG2_S = -3, -1
"""Eight Announces a second, a request for messages every half: the client follows within 3 s."""
TRANSMITTER_PATIENCE, CLIENT_PATIENCE, SUCCESSOR_PATIENCE = 4, 24, 12
"""Missing Announces: the time transmitter takes over after half a second, as nobody else does; a
client gives up after three, which a busy machine does not reach; where there is a successor it
takes over after one and a half."""
DATAGRAM_BYTES_MAX = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptp4lPlan:
    """What one host's daemon is told."""

    domain: int
    transmitter_ips: tuple[int, ...]
    """Of the time transmitters that it may follow; none: it is the time transmitter."""
    may_transmit: bool
    """It becomes time transmitter when it hears no better one."""
    patience: int
    """Missing Announces after which it gives its time transmitter up."""
    sync_interval_log2_s: int
    """Sync and Delay_Req are sent every 2^this seconds."""
    dscp: int
    directory: Path
    """For its sockets."""
    major_version: int


def ptp4l_config(plan: Ptp4lPlan) -> str:
    """The configuration file."""
    client = bool(plan.transmitter_ips)
    new_names = plan.major_version >= MAJOR_OF_NEW_NAMES
    options: dict[str, str | int] = {
        "domainNumber": plan.domain,
        "free_running": 1,
        "time_stamping": "software",
        "network_transport": "UDPv4",
        "delay_mechanism": "E2E",
        "inhibit_multicast_service": 1,
        "logAnnounceInterval": ANNOUNCE_LOG2_S,
        "logSyncInterval": plan.sync_interval_log2_s,
        "logMinDelayReqInterval": plan.sync_interval_log2_s,
        "announceReceiptTimeout": plan.patience,
        "tx_timestamp_timeout": TX_TIMESTAMP_TIMEOUT_MS,
        "dscp_event": plan.dscp,
        "dscp_general": plan.dscp,
        "udp_ttl": 64,
        "uds_address": str(plan.directory / "ptp4l"),
        "summary_interval": 0,
    }
    if new_names:
        options["uds_ro_address"] = str(plan.directory / "ptp4lro")
    if client:
        options["unicast_req_duration"] = 60
        options["slave_event_monitor"] = str(plan.directory / "events")
    if not plan.may_transmit:
        options["clientOnly" if new_names else "slaveOnly"] = 1
    else:
        options["unicast_listen"] = 1
    if not client:
        options["priority1"] = 1
        options["serverOnly" if new_names else "masterOnly"] = 1
    lines = ["[global]", *(f"{name} {value}" for name, value in options.items())]
    if client:
        lines += ["[unicast_master_table]", "table_id 1", f"logQueryInterval {QUERY_LOG2_S}"]
        lines += [f"UDPv4 {format_ip(ip)}" for ip in plan.transmitter_ips]
        lines += [f"[{HOST_INTERFACE}]", "unicast_master_table 1"]
    return "\n".join(lines) + "\n"


class Ptp4l:
    """One running daemon; `fileno()` is readable when `events()` has some."""

    def __init__(self, host: Host, namespace: Namespace, plan: Ptp4lPlan) -> None:
        self.host = host
        self._killed = False
        self.bad_events = 0
        """Datagrams that could not be read."""
        self._log = plan.directory / "ptp4l.log"
        config = plan.directory / "ptp4l.conf"
        config.write_text(ptp4l_config(plan), encoding="ascii")
        self._events = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._events.bind(str(plan.directory / "events"))
            self._events.setblocking(False)
            with self._log.open("wb") as log:
                self._process: subprocess.Popen[bytes] = namespace.start(
                    [program_path("ptp4l"), "-f", str(config), "-i", HOST_INTERFACE, "-m"],
                    stdout=log,
                    stderr=log,
                    priority=DAEMON_PRIORITY,
                )
        except BaseException:
            self._events.close()
            raise

    def fileno(self) -> int:
        """For select."""
        return self._events.fileno()

    def events(self) -> list[TimingEvent]:
        """What it has told since the last call."""
        found: list[TimingEvent] = []
        while True:
            try:
                datagram = self._events.recv(DATAGRAM_BYTES_MAX)
            except BlockingIOError:
                return found
            try:
                found += parse_timing_events(datagram)
            except PtpEventError:
                self.bad_events += 1

    def kill(self) -> None:
        """End it without a last word to others."""
        self._killed = True
        self._process.kill()

    def check(self) -> None:
        """BackendError with its last words if it has ended of itself."""
        code = self._process.poll()
        if code is not None and not self._killed:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise BackendError(f"ptp4l of {self.host.name} ended with code {code}: {last}")

    def close(self) -> None:
        """End it."""
        end_process(self._process)
        self._events.close()


def start_ptp4l(
    fabric: Fabric,
    namespaces: Mapping[str, Namespace],
    directory: Path,
    *,
    interval_ns: int,
    dscp: int,
    successors: Sequence[str] = (),
    stack: contextlib.ExitStack,
) -> dict[str, Ptp4l]:
    """Start the daemon of every host; `stack` ends them.

    successors: hosts that become time transmitters when they hear of none.
    """
    major_version = ptp4l_major_version()
    grandmaster = fabric.ptp.grandmaster
    transmitters = [fabric.host(name) for name in (grandmaster, *successors)]
    running = {}
    for host in fabric.hosts:
        own = directory / host.name
        own.mkdir(parents=True, exist_ok=True)
        plan = Ptp4lPlan(
            domain=fabric.ptp.domain,
            transmitter_ips=(
                ()
                if host.name == grandmaster
                else tuple(one.ip for one in transmitters if one is not host)
            ),
            may_transmit=host in transmitters,
            patience=_patience(host, grandmaster, successors),
            sync_interval_log2_s=sync_interval_log2_s(interval_ns),
            dscp=dscp,
            directory=own,
            major_version=major_version,
        )
        daemon = Ptp4l(host, namespaces[host.name], plan)
        stack.callback(daemon.close)
        running[host.name] = daemon
    return running


def _patience(host: Host, grandmaster: str, successors: Sequence[str]) -> int:
    if host.name == grandmaster:
        return TRANSMITTER_PATIENCE
    return SUCCESSOR_PATIENCE if successors else CLIENT_PATIENCE


def sync_interval_log2_s(interval_ns: int) -> int:
    """The longest interval that PTP can state and that is not longer than this one."""
    log2_s = 0
    while log2_s > -7 and interval_ns < 2.0**log2_s * 1e9:
        log2_s -= 1
    return log2_s
