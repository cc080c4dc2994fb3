# SPDX-License-Identifier: Apache-2.0
"""The process that runs all embedded switches of a fabric on veth ports, in real time.

Ingress stamps are the kernel's receive stamps, egress stamps are read when egress begins, as in
BMv2; both are converted to the switch's own free-running clock. There is no queue but the kernel's,
so the depth is 0. P4Runtime is served on the host's loopback for the whole run. Reads a pickled
`SwitchesPlan` from standard input, writes its P4Runtime addresses, starts forwarding when it gets
a `TimeBase`, obeys every `StopSwitch` and `BootSwitch`, and ends when standard input does.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict

from bmv2_lab.backends.namespaces import Namespace
from bmv2_lab.backends.packet_port import FRAMES_PER_TURN, PacketPort, open_ports
from bmv2_lab.backends.process import be_punctual, read_value
from bmv2_lab.backends.switch_commands import Booted, BootSwitch, StopSwitch, SwitchesPlan
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.lab_run import make_switch
from bmv2_lab.simulator.clocks import Oscillator
from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.pipeline import load_pipeline


class PortedSwitch:
    """One embedded switch on interfaces."""

    def __init__(
        self, switch: EmbeddedSwitch, oscillator: Oscillator, ports: Mapping[int, PacketPort]
    ) -> None:
        self._switch = switch
        self._oscillator = oscillator
        self._ports = ports
        self._time: TimeBase | None = None
        self._dark = False
        switch.on_packet_out = self._packet_out

    def start(self, time_base: TimeBase, loop: asyncio.AbstractEventLoop) -> None:
        """Forward from now on; frames that came before are lost."""
        self._time = time_base
        for number, port in self._ports.items():
            while port.receive() is not None:
                pass
            loop.add_reader(port.fileno(), self._readable, number, port)

    def stop(self) -> None:
        """Forward nothing more."""
        self._dark = True

    def boot(self, switch: EmbeddedSwitch, uptime_ns: int) -> tuple[int, int]:
        """Forward again, by another switch; true instant, and by how much the clock jumped."""
        assert self._time is not None, "started"
        self._switch = switch
        switch.on_packet_out = self._packet_out
        now_ns = self._time.true_now()
        jump_ns = uptime_ns - self._oscillator.read_ns(now_ns)
        self._oscillator.jump(now_ns, jump_ns)
        self._dark = False
        return now_ns, jump_ns

    def _readable(self, number: int, port: PacketPort) -> None:
        for _ in range(FRAMES_PER_TURN):
            received = port.receive()
            if received is None:
                return
            self._ingress(received.frame, number, received.stamp_ns)

    def _packet_out(self, frame: bytes) -> None:
        self._ingress(frame, self._switch.cpu_port, time.time_ns())

    def _ingress(self, frame: bytes, port: int, realtime_ns: int) -> None:
        if self._time is None or self._dark:
            return
        stamp = self._stamp(realtime_ns)
        for copy in self._switch.ingress(frame, port, stamp):
            self._egress(copy)

    def _egress(self, copy: EgressCopy) -> None:
        stamp = self._stamp(time.time_ns())
        for output in self._switch.egress(
            copy,
            enq_timestamp=stamp,
            enq_qdepth=0,
            deq_timedelta=0,
            deq_qdepth=0,
            egress_tstamp=stamp,
        ):
            if isinstance(output, Emitted):
                port = self._ports.get(output.port)
                if port is not None:
                    port.send(output.frame)
            else:
                self._egress(output)

    def _stamp(self, realtime_ns: int) -> int:
        assert self._time is not None, "started"
        true_ns = self._time.true_of_realtime(realtime_ns)
        return self._oscillator.read_ns(true_ns) // self._switch.stamp_unit_ns


async def _run(plan: SwitchesPlan) -> None:
    program = SwitchProgram.from_json(load_pipeline().bmv2_json)
    switches = {
        switch.name: make_switch(plan.fabric, switch.name, program)
        for switch in plan.fabric.switches
    }
    namespace = Namespace.at(plan.namespace)
    names = [one for ports in plan.interfaces.values() for one in ports.values()]
    ports = open_ports(namespace, names)
    ported = {
        name: PortedSwitch(
            switch,
            plan.oscillators[name],
            {number: ports[one] for number, one in plan.interfaces[name].items()},
        )
        for name, switch in switches.items()
    }
    servers = [await serve(switches.values())]
    try:
        addresses = {name: servers[0].addresses[sw.device_id] for name, sw in switches.items()}
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        try:
            time_base: TimeBase = await loop.run_in_executor(None, read_value)
        except EOFError:
            return
        be_punctual()
        for one in ported.values():
            one.start(time_base, loop)
        while True:
            try:
                command: StopSwitch | BootSwitch = await loop.run_in_executor(None, read_value)
            except EOFError:
                return
            if isinstance(command, StopSwitch):
                ported[command.name].stop()
                continue
            switch = make_switch(plan.fabric, command.name, program)
            servers.append(await serve([switch]))
            at_ns, jump_ns = ported[command.name].boot(switch, command.uptime_ns)
            address = servers[-1].addresses[switch.device_id]
            booted = Booted(address=address, at_true_ns=at_ns, jump_ns=jump_ns)
            sys.stdout.write(json.dumps(asdict(booted)) + "\n")
            sys.stdout.flush()
    finally:
        for server in servers:
            await server.stop()


def main() -> None:
    """Entry point of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan: SwitchesPlan = read_value()
    asyncio.run(_run(plan))


if __name__ == "__main__":
    main()
