# SPDX-License-Identifier: Apache-2.0
"""A deployed fabric of embedded switches through which single frames are followed to their ends.

No queues and no time but a counter: every pass through a switch takes `RESIDENCE` stamp units.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.client import deploy
from controller.fabric import Fabric, LinkEnd, cabling
from controller.pipeline import Pipeline

RESIDENCE = 1_500
PASSES_MAX = 200
"""More passes than this through switches is a loop."""


@dataclass
class Arrivals:
    """Where the copies of one frame ended."""

    hosts: list[tuple[str, bytes]] = field(default_factory=list)
    collectors: list[tuple[LinkEnd, bytes]] = field(default_factory=list)
    """The switch port that led to the collector, and the report."""
    cpus: list[tuple[str, bytes]] = field(default_factory=list)
    hops: list[LinkEnd] = field(default_factory=list)
    """Every port of a switch that sent something, in order."""


@dataclass
class WalkedFabric:
    """Switches by name, joined by the cables of the fabric."""

    fabric: Fabric
    switches: dict[str, EmbeddedSwitch]
    addresses: dict[str, str]
    now: int = 1_000_000

    def send(self, host: str, frame: bytes) -> Arrivals:
        """Follow a frame that a host sends, and everything that comes of it."""
        ends = cabling(self.fabric)
        arrivals = Arrivals()
        self.now += 100_000
        waiting = [(ends[LinkEnd(node=host, port=1)], frame, self.now)]
        for _ in range(PASSES_MAX):
            if not waiting:
                return arrivals
            at, received, when = waiting.pop(0)
            for output in self._pass(at, received, when):
                sender = LinkEnd(node=at.node, port=output.port)
                arrivals.hops.append(sender)
                far = ends.get(sender)
                if far is None:
                    self._end(sender, output.frame, arrivals)
                elif far.node in self.switches:
                    waiting.append((far, output.frame, when + 10_000))
                else:
                    arrivals.hosts.append((far.node, output.frame))
        raise AssertionError("a frame goes in circles")

    def _pass(self, at: LinkEnd, frame: bytes, when: int) -> list[Emitted]:
        switch = self.switches[at.node]
        copies: list[EgressCopy] = list(switch.ingress(frame, at.port, when))
        emitted = []
        while copies:
            copy = copies.pop(0)
            for output in switch.egress(
                copy,
                enq_timestamp=when,
                enq_qdepth=0,
                deq_timedelta=0,
                deq_qdepth=0,
                egress_tstamp=when + RESIDENCE,
            ):
                if isinstance(output, Emitted):
                    emitted.append(output)
                else:
                    copies.append(output)
        return emitted

    def _end(self, sender: LinkEnd, frame: bytes, arrivals: Arrivals) -> None:
        switch = self.fabric.switch(sender.node)
        if sender.port == switch.cpu_port:
            arrivals.cpus.append((sender.node, frame))
        else:
            attached = {collector.attached for collector in self.fabric.collectors}
            assert sender.port == switch.report_port or sender in attached, sender
            arrivals.collectors.append((sender, frame))


@asynccontextmanager
async def walked(
    fabric: Fabric, program: SwitchProgram, pipeline: Pipeline
) -> AsyncIterator[WalkedFabric]:
    """The fabric, deployed over P4Runtime."""
    switches = {
        switch.name: EmbeddedSwitch(program, device_id=switch.device_id)
        for switch in fabric.switches
    }
    server = await serve(list(switches.values()))
    try:
        addresses = {switch.name: server.addresses[switch.device_id] for switch in fabric.switches}
        result = await deploy(fabric, addresses, pipeline)
        assert result.ok, result.errors
        yield WalkedFabric(fabric=fabric, switches=switches, addresses=addresses)
    finally:
        await server.stop()
