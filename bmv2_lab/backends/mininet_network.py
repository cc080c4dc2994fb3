# SPDX-License-Identifier: Apache-2.0
"""Builds a network with Mininet and starts a BMv2 per switch; runs under the system's Python.

Debian's Mininet belongs to /usr/bin/python3, this project to an environment of its own, so this
file imports nothing of the project and is run as a script, inside a network namespace that its
parent made: Mininet's "root" is that namespace, and nothing of it is seen outside. A line of JSON
comes in, a line of JSON goes out, and when standard input ends everything is stopped.
Further lines stop one switch and start it again.

In:  {"switches": [{"name", "arguments"}], "hosts": [name], "links": [[node, interface, wire_side]],
      "captures": [[switch, interface, capture_side]]}
Out: {"hosts": {name: pid}} or {"error": text}
In:  {"stop": switch} or {"start": switch}, any number of times
Out: {"done": switch}
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

WIRES = "wires"
"""The node that stands between the ends of every cable."""
NO_DATAPATH_ID = "1"
"""OpenFlow's; Mininet wants one of every switch."""
REAL_TIME_PRIORITY = "5"
"""Of SCHED_RR; a packet wakes four threads of BMv2 one after the other on its way through."""
END_DEADLINE_S = 5.0


def mininet_classes() -> tuple[Any, Any, Any]:
    """The classes, made when Mininet is known to be there."""
    from mininet.net import Mininet  # type: ignore[import-not-found]  # Debian's, without types
    from mininet.node import Switch  # type: ignore[import-not-found]

    Mininet.inited = True  # it would raise limits of the whole machine

    class Bmv2(Switch):  # type: ignore[misc]
        """A simple_switch_grpc process whose ports are this node's interfaces."""

        def __init__(self, name: str, arguments: list[str], **options: Any) -> None:  # noqa: ANN401
            super().__init__(name, **options)
            self.arguments = arguments
            self.process: subprocess.Popen[bytes] | None = None

        def start(self, _controllers: object) -> None:
            """Start the process; it dies with this one, and wakes up in time."""
            dies_with_us = ["setpriv", "--pdeathsig", "KILL", "--"]
            punctual = ["chrt", "--rr", REAL_TIME_PRIORITY]
            self.process = self.popen(
                [*dies_with_us, *punctual, *self.arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None,
            )

        def end(self) -> None:
            """End the process, before Mininet takes its interfaces away."""
            if self.process is None:
                return
            self.process.terminate()
            try:
                self.process.wait(END_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    class Wires(Switch):  # type: ignore[misc]
        """No process: the parent's forwarder uses the interfaces."""

        def start(self, _controllers: object) -> None:
            """Nothing to do."""

        def end(self) -> None:
            """Nothing to do."""

    return Mininet, Bmv2, Wires


def build(plan: dict[str, Any]) -> Any:  # noqa: ANN401
    """The running network."""
    network_class, bmv2_class, wires_class = mininet_classes()
    net = network_class(topo=None, build=False, controller=None, inNamespace=False)
    try:
        wires = net.addSwitch(WIRES, cls=wires_class, dpid=NO_DATAPATH_ID)
        nodes = {name: net.addHost(name, ip=None) for name in plan["hosts"]}
        for switch in plan["switches"]:
            nodes[switch["name"]] = net.addSwitch(
                switch["name"],
                cls=bmv2_class,
                dpid=NO_DATAPATH_ID,
                arguments=switch["arguments"],
            )
        for node, interface, side in plan["links"] + plan["captures"]:
            net.addLink(nodes[node], wires, intfName1=interface, intfName2=side)
        net.build()
        net.start()
    except BaseException:
        tear_down(net)
        raise
    return net


def tear_down(net: Any) -> None:  # noqa: ANN401
    """End the switches, then everything that Mininet made."""
    for switch in net.switches:
        switch.end()
    net.stop()


def obey(net: Any, command: dict[str, str]) -> None:  # noqa: ANN401
    """Stop or start a switch's process; its interfaces stay."""
    ((verb, name),) = command.items()
    if verb == "stop":
        net[name].end()
    else:
        net[name].start([])
    print(json.dumps({"done": name}), flush=True)


def main() -> int:
    """One network, from the plan on standard input until standard input ends."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    plan = json.loads(sys.stdin.readline())
    try:
        net = build(plan)
    except Exception as error:  # whatever Mininet raises, the parent tells it in one line
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    try:
        print(json.dumps({"hosts": {host.name: host.pid for host in net.hosts}}), flush=True)
        while line := sys.stdin.readline():
            obey(net, json.loads(line))
    finally:
        tear_down(net)
    return 0


if __name__ == "__main__":
    sys.exit(main())
