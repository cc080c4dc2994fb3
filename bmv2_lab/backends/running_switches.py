# SPDX-License-Identifier: Apache-2.0
"""The switches of a fabric on a network that exists: embedded ones, or BMv2 in Mininet."""

import contextlib
import json
from pathlib import Path
from typing import Protocol

from bmv2_lab.backends.bmv2 import MininetNetwork, limit_queues, switch_epoch_ns
from bmv2_lab.backends.network import Network, build_network
from bmv2_lab.backends.process import Child
from bmv2_lab.backends.switch_commands import Booted, BootSwitch, StopSwitch, SwitchesPlan
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.backends.variant import SCALES
from bmv2_lab.draw import DrawnFabric
from controller.fabric import Switch


class RunningSwitches(Protocol):
    """Running, and waiting for the controller."""

    @property
    def network(self) -> Network:
        """What they stand in."""

    @property
    def addresses(self) -> dict[str, str]:
        """P4Runtime, by switch; a switch that booted again may have another."""

    def forward(self, time_base: TimeBase) -> None:
        """Have them forward from now on; the drawn oscillators read as their clocks do."""

    def stop(self, name: str) -> None:
        """A switch goes dark at once."""

    def boot(self, name: str, uptime_ns: int) -> tuple[int, int]:
        """It comes back without a pipeline; true instant, and by how much its clock went on then.

        uptime_ns: what its clock reads then, where it can be chosen.
        """

    def check(self) -> None:
        """BackendError if one has ended."""


def start_switches(
    backend: str, drawn: DrawnFabric, directory: Path, stack: contextlib.ExitStack
) -> RunningSwitches:
    """Build the network and start its switches; `stack` takes everything down."""
    if backend == "bmv2":
        return Bmv2Switches(drawn, directory, stack)
    return EmbeddedSwitches(drawn, stack)


class EmbeddedSwitches:
    """All in one process of ours."""

    def __init__(self, drawn: DrawnFabric, stack: contextlib.ExitStack) -> None:
        self.network = build_network(drawn.fabric)
        stack.callback(self.network.close)
        self._oscillators = drawn.oscillators
        self._child = Child(
            "bmv2_lab.backends.switches",
            SwitchesPlan(
                fabric=drawn.fabric,
                oscillators=drawn.oscillators,
                interfaces=self.network.interfaces.ports,
                namespace=self.network.namespace.path,
            ),
        )
        stack.callback(self._child.close)
        self.addresses: dict[str, str] = json.loads(self._child.line())

    def forward(self, time_base: TimeBase) -> None:
        """Have them forward from now on."""
        self._child.send(time_base)

    def stop(self, name: str) -> None:
        """A switch goes dark."""
        self._child.send(StopSwitch(name=name))

    def boot(self, name: str, uptime_ns: int) -> tuple[int, int]:
        """It comes back."""
        self._child.send(BootSwitch(name=name, uptime_ns=uptime_ns))
        booted = Booted(**json.loads(self._child.line()))
        self.addresses[name] = booted.address
        self._oscillators[name].jump(booted.at_true_ns, booted.jump_ns)
        return booted.at_true_ns, booted.jump_ns

    def check(self) -> None:
        """BackendError if the process has ended."""
        self._child.check()


class Bmv2Switches:
    """A process each, started by Mininet."""

    def __init__(self, drawn: DrawnFabric, directory: Path, stack: contextlib.ExitStack) -> None:
        self._mininet = MininetNetwork(drawn.fabric, directory)
        stack.callback(self._mininet.close)
        self._fabric = drawn.fabric
        self._oscillators = drawn.oscillators
        self._time: TimeBase | None = None
        self.network = self._mininet.network
        self.addresses = self._mininet.addresses()

    def forward(self, time_base: TimeBase) -> None:
        """They forward already; have queues, and find out what their clocks read."""
        self._time = time_base
        for switch in self._fabric.switches:
            self._oscillators[switch.name].epoch_ns = self._begin(switch)

    def stop(self, name: str) -> None:
        """End its process."""
        self._mininet.stop_switch(self._fabric.switch(name))

    def boot(self, name: str, uptime_ns: int) -> tuple[int, int]:
        """Start its process again; its clock starts at zero, whatever `uptime_ns` says."""
        assert self._time is not None, "started"
        switch = self._fabric.switch(name)
        self._mininet.start_switch(switch)
        self.addresses[name] = self._mininet.address(switch)
        epoch_ns = self._begin(switch)
        at_ns = self._time.true_now()
        jump_ns = at_ns + epoch_ns - self._oscillators[name].read_ns(at_ns)
        self._oscillators[name].jump(at_ns, jump_ns)
        return at_ns, jump_ns

    def check(self) -> None:
        """BackendError if Mininet has ended."""
        self._mininet.check()

    def _begin(self, switch: Switch) -> int:
        """Give its ports their rates; its clock minus true time."""
        assert self._time is not None, "started"
        thrift = self._mininet.connect_thrift(switch)
        try:
            if SCALES["bmv2"].queue_rate_pps:
                limit_queues(thrift, self._fabric, switch, SCALES["bmv2"].queue_rate_pps)
            return switch_epoch_ns(thrift, self._time)
        finally:
            thrift.close()
