# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario in real time: builds the network, programs the switches, starts the daemons.

Whatever ends the run, nothing of it is left: processes die with this one, namespaces go with the
last process in them, and interfaces with their namespaces.
"""

import contextlib
from collections.abc import Callable

from bmv2_lab.backends.cable_delays import start_cables
from bmv2_lab.backends.chronyd import start_chronyd
from bmv2_lab.backends.needs import BackendError, check_needs
from bmv2_lab.backends.process import punctual
from bmv2_lab.backends.ptp4l import start_ptp4l
from bmv2_lab.backends.real_time_events import RealTimeController, RealTimeStage, step_clocks
from bmv2_lab.backends.real_time_fabric import RealTimeFabric
from bmv2_lab.backends.record import real_time_record
from bmv2_lab.backends.running_switches import start_switches
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.backends.variant import SCALES, draw_real_time, real_time_variant
from bmv2_lab.lab_run import LabRun, Progress, miscalibrated
from bmv2_lab.own_folder import own_folder
from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.disturbances import GrandmasterFailover
from bmv2_lab.spans import record_spans
from controller.pipeline import load_pipeline

STEP_NS_MAX = 1_000_000
"""The machine's clock was set during a run if it moved more than this against CLOCK_MONOTONIC."""


def run_real_time(scenario: Scenario, backend: str, seed: int, progress: Progress) -> LabRun:
    """Run a scenario's variant for a backend; BackendError says why it could not be."""
    check_needs(backend)
    progress("draw", 0.0)
    variant = real_time_variant(scenario, backend)
    drawn = draw_real_time(variant, backend, seed)
    step_clocks(variant.events, drawn.oscillators)
    successors = [e.successor for e in variant.events if isinstance(e, GrandmasterFailover)]
    transmitters = (drawn.fabric.ptp.grandmaster, *successors)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(own_folder("tempotrace-lab-"))
        progress("network", 0.0)
        switches = start_switches(backend, drawn, directory, stack)
        cables = start_cables(switches.network, drawn.links)
        stack.callback(cables.close)
        progress("deploy", 0.0)
        controller = RealTimeController(drawn.fabric, load_pipeline(), switches)
        stack.callback(controller.close)
        deployment = controller.begin(miscalibrated(drawn.fabric, variant))
        time_base = TimeBase.now()
        switches.forward(time_base)
        hosts = switches.network.hosts
        lab = RealTimeFabric(
            variant,
            seed,
            drawn,
            switches.network,
            time_base,
            software_scale=SCALES[backend].software_scale,
        )
        stack.callback(lab.close)
        ptp = start_ptp4l(
            drawn.fabric,
            hosts,
            directory,
            interval_ns=variant.ptp_interval_ns,
            dscp=variant.ptp_dscp,
            successors=successors,
            stack=stack,
        )
        lab.follow(ptp, transmitters)
        stage = RealTimeStage(lab, drawn.fabric, switches, controller, ptp, time_base)
        stage.schedule(variant.events)
        ntp = start_chronyd(drawn.fabric, hosts, directory, stack)

        checks: list[Callable[[], None]] = [cables.check, switches.check, controller.check]
        checks += [daemon.check for daemon in ptp.values()]
        checks += [daemon.check for daemon in ntp.values()]

        def step(now_ns: int) -> None:
            progress("run", now_ns / variant.duration_ns)
            for check in checks:
                check()

        with punctual():
            lab.run(step)
        controller.finish()
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
            real_time=real_time_record(
                backend=backend,
                cable_delays=cables.method,
                exchanges=lab.result.exchanges,
                clients=[host.name for host in drawn.fabric.hosts if host.name not in transmitters],
                windows=lab.truth.windows,
                window_ns=variant.window_ns,
                ntp={name: daemon.measurements() for name, daemon in ntp.items()},
                transfers=lab.transfers,
                wires=cables.finish(),
                transmit_stamps_lost=lab.transmit_stamps_lost,
            ),
        )
