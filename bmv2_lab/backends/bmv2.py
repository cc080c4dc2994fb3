# SPDX-License-Identifier: Apache-2.0
"""BMv2 in Mininet: a simple_switch_grpc per switch of the fabric, on Mininet's interfaces.

P4Runtime is served on Unix sockets, which no namespace hides; Thrift on loopback ports inside.
"""

import json
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from bmv2_lab.backends import mininet_network
from bmv2_lab.backends.namespaces import Namespace, end_process
from bmv2_lab.backends.needs import BackendError, program_path
from bmv2_lab.backends.network import (
    Interfaces,
    Network,
    configure_hosts,
    interfaces_of,
    quiet,
)
from bmv2_lab.backends.packet_port import MTU_BYTES
from bmv2_lab.backends.thrift import Thrift
from bmv2_lab.backends.time_base import TimeBase
from controller.fabric import Fabric, Switch

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's, which has Debian's Mininet."""
OWN_SYSFS = (
    *("unshare", "--mount", "--", "sh", "-c"),
    *('mount -t sysfs sysfs /sys && exec "$@"', "sh"),
)
"""In front of a command: /sys shows the interfaces of the command's network namespace. BMv2 looks
there for the state of its ports."""
THRIFT_PORT_BASE = 9_090
PRIORITY_QUEUE_COUNT = 8
START_DEADLINE_S = 30.0
THRIFT_DEADLINE_S = 5.0
CLOCK_READINGS = 32
"""The fastest of so many Thrift calls tells the switch's epoch best."""
POLL_S = 0.05


class MininetNetwork:
    """A network that Mininet built, with its switches running."""

    def __init__(self, fabric: Fabric, directory: Path) -> None:
        self._fabric = fabric
        self._directory = directory
        interfaces = interfaces_of(fabric)
        namespace = Namespace.create()
        self.network = Network(interfaces=interfaces, namespace=namespace, hosts={})
        self._process: subprocess.Popen[bytes] | None = None
        try:
            namespace.call(quiet)
            namespace.command("ip", "link", "set", "dev", "lo", "up")
            self._process = namespace.start(
                [*OWN_SYSFS, SYSTEM_PYTHON, mininet_network.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
            )
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        process, network = self._process, self.network
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        plan = mininet_plan(self._fabric, network.interfaces, self._directory)
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or '{"error": "ended without a word"}')
        if "error" in answer:
            raise BackendError(f"mininet: {answer['error']}")
        network.hosts = {name: Namespace.of_process(pid) for name, pid in answer["hosts"].items()}
        names = [
            name
            for cable in network.interfaces.cables
            for name in (cable.interface_a, cable.wire_a, cable.wire_b, cable.interface_b)
        ]
        names += [
            n for one in network.interfaces.captures.values() for n in (one.port, one.capture)
        ]
        lines = [f"link set dev {name} mtu {MTU_BYTES}" for name in names if name != "eth0"]
        network.namespace.command("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
        for inside in network.hosts.values():
            inside.call(quiet)
        configure_hosts(self._fabric, network.hosts)

    def addresses(self) -> dict[str, str]:
        """P4Runtime addresses by switch, when all of them are served."""
        return {switch.name: self.address(switch) for switch in self._fabric.switches}

    def address(self, switch: Switch) -> str:
        """P4Runtime address of a switch, when it is served."""
        deadline_s = time.monotonic() + START_DEADLINE_S
        path = socket_path(self._directory, switch)
        while not path.exists():
            self.check()
            if time.monotonic() > deadline_s:
                raise BackendError(f"simple_switch_grpc of {switch.name} does not start")
            time.sleep(POLL_S)
        return f"unix:{path}"

    def stop_switch(self, switch: Switch) -> None:
        """End its process."""
        self._command("stop", switch)
        socket_path(self._directory, switch).unlink(missing_ok=True)

    def start_switch(self, switch: Switch) -> None:
        """Start its process again; `address` waits for it."""
        self._command("start", switch)

    def _command(self, verb: str, switch: Switch) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({verb: switch.name}).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise BackendError("mininet: ended before its network") from None
        if not process.stdout.readline():
            raise BackendError(f"mininet: could not {verb} {switch.name}")

    def connect_thrift(self, switch: Switch) -> Thrift:
        """A connection to the Thrift server of a switch, as soon as it listens."""
        address = ("127.0.0.1", _thrift_port(self._fabric, switch))

        def connect() -> socket.socket:
            connection = socket.create_connection(address, timeout=START_DEADLINE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

        deadline_s = time.monotonic() + THRIFT_DEADLINE_S
        while True:
            try:
                return Thrift(self.network.namespace.call(connect))
            except ConnectionRefusedError:
                if time.monotonic() > deadline_s:
                    raise BackendError(
                        f"simple_switch_grpc of {switch.name} has no Thrift server; "
                        "it must be built with Thrift"
                    ) from None
                time.sleep(POLL_S)

    def check(self) -> None:
        """BackendError if Mininet has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise BackendError(f"mininet: ended with code {self._process.returncode}")

    def close(self) -> None:
        """Stop the switches, and let Mininet take everything down."""
        process = self._process
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(START_DEADLINE_S)
            except subprocess.TimeoutExpired:
                end_process(process)
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        self.network.close()


def mininet_plan(fabric: Fabric, interfaces: Interfaces, directory: Path) -> dict[str, object]:
    """What `mininet_network` reads."""
    links = []
    for cable in interfaces.cables:
        links.append([cable.a.node, cable.interface_a, cable.wire_a])
        links.append([cable.b.node, cable.interface_b, cable.wire_b])
    captures = [[name, one.port, one.capture] for name, one in interfaces.captures.items()]
    return {
        "hosts": [host.name for host in fabric.hosts],
        "switches": [
            {
                "name": switch.name,
                "arguments": bmv2_arguments(
                    switch,
                    interfaces.ports[switch.name],
                    _thrift_port(fabric, switch),
                    socket_path(directory, switch),
                ),
            }
            for switch in fabric.switches
        ],
        "links": links,
        "captures": captures,
    }


def bmv2_arguments(
    switch: Switch, ports: Mapping[int, str], thrift_port: int, socket_file: Path
) -> list[str]:
    """The command line of one switch; the program comes over P4Runtime."""
    arguments = [program_path("simple_switch_grpc"), "--no-p4"]
    for number, interface in ports.items():
        arguments += ["-i", f"{number}@{interface}"]
    arguments += ["--device-id", str(switch.device_id), "--thrift-port", str(thrift_port)]
    arguments += ["--", "--grpc-server-addr", f"unix:{socket_file}"]
    arguments += ["--cpu-port", str(switch.cpu_port)]
    arguments += ["--priority-queues", str(PRIORITY_QUEUE_COUNT)]
    return arguments


def socket_path(directory: Path, switch: Switch) -> Path:
    """Where the switch serves P4Runtime."""
    return directory / f"p4runtime-{switch.device_id}"


def _thrift_port(fabric: Fabric, switch: Switch) -> int:
    return THRIFT_PORT_BASE + fabric.switches.index(switch)


def limit_queues(thrift: Thrift, fabric: Fabric, switch: Switch, packets_per_s: int) -> None:
    """Give every cabled port a rate, so that it has a queue; clones and reports go unhindered."""
    for link in fabric.links:
        for end in (link.a, link.b):
            if end.node == switch.name:
                thrift.set_queue_rate(end.port, packets_per_s)


def switch_epoch_ns(thrift: Thrift, time_base: TimeBase) -> int:
    """A switch's clock minus true time, ns: within half of the fastest call's time.

    BMv2 counts the microseconds of the system's clock since it started: the difference stays.
    """
    best: tuple[int, int] | None = None
    for _ in range(CLOCK_READINGS):
        before_ns = time_base.true_now()
        elapsed_ns = thrift.time_elapsed_us() * 1_000
        after_ns = time_base.true_now()
        if best is None or after_ns - before_ns < best[0]:
            best = (after_ns - before_ns, elapsed_ns - (before_ns + after_ns) // 2)
    assert best is not None, "at least one reading"
    return best[1]
