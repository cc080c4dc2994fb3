# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario in real time: builds the network, programs the switches, starts ptp4l, measures.

Whatever ends the run, nothing of it is left: processes die with this one, namespaces go with the
last process in them, and interfaces with their namespaces.
"""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.backends.bmv2 import MininetNetwork, switch_epochs_ns
from bmv2_lab.backends.needs import BackendError, check_needs
from bmv2_lab.backends.network import Network, build_network
from bmv2_lab.backends.process import Child
from bmv2_lab.backends.ptp4l import start_ptp4l
from bmv2_lab.backends.real_time_fabric import ReadSwitch, RealTimeFabric
from bmv2_lab.backends.switches import SwitchesPlan
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.backends.variant import draw_real_time, real_time_variant
from bmv2_lab.backends.wires import READY, Direction, WiresPlan
from bmv2_lab.draw import DrawnFabric
from bmv2_lab.lab_run import LabRun, Progress
from bmv2_lab.scenarios import Scenario
from bmv2_lab.spans import record_spans
from controller.client import deploy
from controller.pipeline import load_pipeline

STEP_NS_MAX = 1_000_000
"""The machine's clock was set during a run if it moved more than this against CLOCK_MONOTONIC."""


def run_real_time(scenario: Scenario, backend: str, seed: int, progress: Progress) -> LabRun:
    """Run a scenario's variant for a backend; BackendError says why it could not be."""
    check_needs(backend)
    progress("draw", 0.0)
    variant = real_time_variant(scenario, backend)
    drawn = draw_real_time(variant, backend, seed)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tempotrace-lab-")))
        progress("network", 0.0)
        start = _start_bmv2 if backend == "bmv2" else _start_embedded
        running = start(drawn, directory, stack)
        wires = Child("bmv2_lab.backends.wires", wires_plan(drawn, running.network))
        stack.callback(wires.close)
        if wires.line() != READY:
            raise BackendError("the wires did not start")
        progress("deploy", 0.0)
        deployment = asyncio.run(deploy(drawn.fabric, running.addresses, load_pipeline()))
        if not deployment.ok:
            raise BackendError(f"deploy: {deployment.errors or deployment.drift_count}")
        time_base = TimeBase.now()
        read_switch = running.forward(time_base)
        network = running.network
        lab = RealTimeFabric(variant, seed, drawn, network, time_base, read_switch)
        stack.callback(lab.close)
        daemons = start_ptp4l(
            drawn.fabric,
            network.hosts,
            directory,
            interval_ns=variant.ptp_interval_ns,
            dscp=variant.ptp_dscp,
            stack=stack,
        )
        lab.follow(daemons)

        def step(now_ns: int) -> None:
            progress("run", now_ns / variant.duration_ns)
            wires.check()
            running.check()
            for daemon in daemons.values():
                daemon.check()

        lab.run(step)
        stepped_ns = time_base.stepped_ns()
        if abs(stepped_ns) > STEP_NS_MAX:
            raise BackendError(f"the machine's clock was set by {stepped_ns} ns during the run")
        progress("run", 1.0)
        return LabRun(
            scenario=variant,
            seed=seed,
            drawn=drawn,
            lab=lab,
            deployment=deployment,
            spans=record_spans(lab, seed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSwitches:
    """The switches of a fabric, running but not yet programmed."""

    network: Network
    addresses: Mapping[str, str]
    """P4Runtime, by switch."""
    forward: Callable[[TimeBase], ReadSwitch]
    """Have them forward from now on; tells how to read their clocks."""
    check: Callable[[], None]
    """BackendError if one has ended."""


def _start_embedded(
    drawn: DrawnFabric, _directory: Path, stack: contextlib.ExitStack
) -> RunningSwitches:
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
        epochs_ns = switch_epochs_ns(drawn.fabric, mininet.connect_thrift, time_base)
        return lambda name, true_ns: true_ns + epochs_ns[name]

    return RunningSwitches(
        network=mininet.network,
        addresses=mininet.addresses(),
        forward=forward,
        check=mininet.check,
    )


def wires_plan(drawn: DrawnFabric, network: Network) -> WiresPlan:
    """Both directions of every cable with their true delays."""
    directions = []
    for cable, link in zip(network.interfaces.cables, drawn.links, strict=True):
        directions += [
            Direction(receives=cable.wire_a, sends=cable.wire_b, delay_ns=link.a_to_b_ns),
            Direction(receives=cable.wire_b, sends=cable.wire_a, delay_ns=link.b_to_a_ns),
        ]
    return WiresPlan(directions=tuple(directions), namespace=network.namespace.path)
