# SPDX-License-Identifier: Apache-2.0
"""The switches of a fabric on a network that exists: embedded ones, or BMv2 in Mininet."""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.backends.bmv2 import MininetNetwork, limit_queues, switch_epochs_ns
from bmv2_lab.backends.network import Network, build_network
from bmv2_lab.backends.process import Child
from bmv2_lab.backends.real_time_fabric import ReadSwitch
from bmv2_lab.backends.switches import SwitchesPlan
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.backends.variant import SCALES
from bmv2_lab.draw import DrawnFabric


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSwitches:
    """Running, and waiting for the controller."""

    network: Network
    addresses: Mapping[str, str]
    """P4Runtime, by switch."""
    forward: Callable[[TimeBase], ReadSwitch]
    """Have them forward from now on; tells how to read their clocks."""
    check: Callable[[], None]
    """BackendError if one has ended."""


def start_switches(
    backend: str, drawn: DrawnFabric, directory: Path, stack: contextlib.ExitStack
) -> RunningSwitches:
    """Build the network and start its switches; `stack` takes everything down."""
    if backend == "bmv2":
        return _start_bmv2(drawn, directory, stack)
    return _start_embedded(drawn, stack)


def _start_embedded(drawn: DrawnFabric, stack: contextlib.ExitStack) -> RunningSwitches:
    network = build_network(drawn.fabric)
    stack.callback(network.close)
    child = Child(
        "bmv2_lab.backends.switches",
        SwitchesPlan(
            fabric=drawn.fabric,
            oscillators=drawn.oscillators,
            interfaces=network.interfaces.ports,
            namespace=network.namespace.path,
        ),
    )
    stack.callback(child.close)

    def forward(time_base: TimeBase) -> ReadSwitch:
        child.send(time_base)
        return lambda name, true_ns: drawn.oscillators[name].read_ns(true_ns)

    return RunningSwitches(
        network=network,
        addresses=json.loads(child.line()),
        forward=forward,
        check=child.check,
    )


def _start_bmv2(
    drawn: DrawnFabric, directory: Path, stack: contextlib.ExitStack
) -> RunningSwitches:
    mininet = MininetNetwork(drawn.fabric, directory)
    stack.callback(mininet.close)

    def forward(time_base: TimeBase) -> ReadSwitch:
        if SCALES["bmv2"].queue_rate_pps:
            limit_queues(drawn.fabric, mininet.connect_thrift, SCALES["bmv2"].queue_rate_pps)
        epochs_ns = switch_epochs_ns(drawn.fabric, mininet.connect_thrift, time_base)
        return lambda name, true_ns: true_ns + epochs_ns[name]

    return RunningSwitches(
        network=mininet.network,
        addresses=mininet.addresses(),
        forward=forward,
        check=mininet.check,
    )
