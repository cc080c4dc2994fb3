# SPDX-License-Identifier: Apache-2.0
"""Runs one scenario: draw, start and program the switches, simulate, write the files.

The files are those of the design's contract: `fabric.yaml`, `reports.pcap`, `exchanges.jsonl` and
`truth.json` here, `spans.otlp.jsonl` and `summary.json` by the caller that exports and scores.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bmv2_lab.backends.record import RealTimeRecord
from bmv2_lab.closed_loop import ClosedLoop, LoopRecord, without_transparent_clocks
from bmv2_lab.draw import DrawnFabric, draw_fabric
from bmv2_lab.ran_fabric import RanFabric
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from bmv2_lab.spans import RecordedSpans, record_spans
from bmv2_lab.staging import ControllerSide, NotProgrammed, serve_in_lab, stage
from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.client import DeployResult, Findings, deploy
from controller.clock_pairs import write_clock_pairs
from controller.fabric import Fabric
from controller.fabric_dump import dump_fabric
from controller.pipeline import Pipeline, load_pipeline
from controller.ptp_log import write_ptp_log
from controller.telemetry.pcap import write_pcap
from controller.written_delays import write_link_delays

FABRIC_FILE = "fabric.yaml"
REPORTS_FILE = "reports.pcap"
EXCHANGES_FILE = "exchanges.jsonl"
CLOCK_PAIRS_FILE = "clock_pairs.jsonl"
LINK_DELAYS_FILE = "link_delays.jsonl"
SPANS_FILE = "spans.otlp.jsonl"
TRUTH_FILE = "truth.json"
SUMMARY_FILE = "summary.json"

Progress = Callable[[str, float], None]
"""`progress(stage, share_done)`."""


@dataclass(slots=True, kw_only=True)
class LabRun:
    """One finished run."""

    scenario: Scenario
    seed: int
    drawn: DrawnFabric
    lab: RanFabric
    deployment: DeployResult
    spans: RecordedSpans
    loop: LoopRecord | None = None
    """Of a scenario whose transparent clocks the engine feeds."""
    real_time: RealTimeRecord | None = None
    """Of a real-time backend."""


def run_lab(scenario: Scenario, seed: int, progress: Progress) -> LabRun:
    """Run a scenario in virtual time with switches that the controller programmed."""
    return asyncio.run(run_lab_here(scenario, seed, progress))


async def run_lab_here(scenario: Scenario, seed: int, progress: Progress) -> LabRun:
    """The same in the caller's loop, which does nothing else meanwhile."""
    progress("draw", 0.0)
    drawn = draw_fabric(scenario, seed)
    progress("deploy", 0.0)
    pipeline = load_pipeline()
    switches = make_switches(drawn.fabric, pipeline)
    lab = VirtualFabric(scenario, seed, drawn, switches)
    loop = None
    if scenario.closed_loop is None:
        deployment = await run_staged(scenario, seed, drawn, switches, pipeline, lab, progress)
    else:
        deployment, loop = await run_closed_loop(scenario, drawn, switches, pipeline, lab, progress)
    progress("simulate", 1.0)
    return LabRun(
        scenario=scenario,
        seed=seed,
        drawn=drawn,
        lab=lab,
        deployment=deployment,
        spans=record_spans(lab, seed),
        loop=loop,
    )


async def run_staged(
    scenario: Scenario,
    seed: int,
    drawn: DrawnFabric,
    switches: dict[str, EmbeddedSwitch],
    pipeline: Pipeline,
    lab: VirtualFabric,
    progress: Progress,
) -> DeployResult:
    """Program the switches and run, with what the scenario has happen meanwhile."""

    def on_progress(now_ns: int) -> None:
        progress("simulate", now_ns / scenario.duration_ns)

    def make_switch(name: str) -> EmbeddedSwitch:
        return make_switches(drawn.fabric, pipeline)[name]

    side = ControllerSide(drawn.fabric, lab, switches, pipeline, make_switch)
    await side.start()
    try:
        deployment = await side.deploy(miscalibrated(drawn.fabric, scenario))
        await side.configure_routers()
        progress("deploy", 1.0)
        for turn in stage(lab, drawn.fabric, seed):
            lab.run_until(turn.at_ns, on_progress)
            await turn.act(side)
        lab.run(on_progress)
    finally:
        await side.stop()
    return deployment


def miscalibrated(fabric: Fabric, scenario: Scenario) -> Fabric:
    """What the controller believes in whose switches one corrects PTP by too much.

    `fabric.yaml` declares the model that it really is.
    """
    wrong = scenario.wrong_correction
    if wrong is None:
        return fabric
    switch = fabric.switch(wrong.switch)
    model = fabric.model(switch.model)
    believed = replace(
        model,
        name=f"{model.name}-miscalibrated",
        stamp_points=tuple(
            replace(
                points,
                egress=replace(points.egress, latency_ns=points.egress.latency_ns + wrong.error_ns),
            )
            for points in model.stamp_points
        ),
    )
    return replace(
        fabric,
        models=(*fabric.models, believed),
        switches=tuple(
            replace(one, model=believed.name) if one is switch else one for one in fabric.switches
        ),
    )


async def run_closed_loop(
    scenario: Scenario,
    drawn: DrawnFabric,
    switches: dict[str, EmbeddedSwitch],
    pipeline: Pipeline,
    lab: VirtualFabric,
    progress: Progress,
) -> tuple[DeployResult, LoopRecord]:
    """Serve P4Runtime for the whole run, and write link delays while it goes on."""
    server = await serve_in_lab(lab, switches)
    addresses = {name: server.addresses[sw.device_id] for name, sw in switches.items()}

    async def write(fabric: Fabric, link_delays: Mapping[str, Mapping[int, int]]) -> DeployResult:
        result = await deploy(
            fabric, addresses, pipeline, findings=Findings(link_delays=link_delays)
        )
        if not result.ok:
            found = [*map(str, result.errors), f"{result.drift_count} entries differ"]
            raise NotProgrammed(found[0])
        return result

    try:
        await write(without_transparent_clocks(drawn.fabric), {})
        progress("deploy", 1.0)
        driver = ClosedLoop(
            scenario,
            drawn.fabric,
            lab,
            write,
            lambda now_ns: progress("simulate", now_ns / scenario.duration_ns),
        )
        record = await driver.run()
        delays = record.windows[-1].plan.in_force(lab.collector_now_ns())
        return await write(drawn.fabric, delays), record
    finally:
        await server.stop()


def make_switches(fabric: Fabric, pipeline: Pipeline) -> dict[str, EmbeddedSwitch]:
    """One embedded switch per switch of the fabric; the program is translated once."""
    program = SwitchProgram.from_json(pipeline.bmv2_json)
    return {switch.name: make_switch(fabric, switch.name, program) for switch in fabric.switches}


def make_switch(fabric: Fabric, name: str, program: SwitchProgram) -> EmbeddedSwitch:
    """One embedded switch, as it is after it booted: it runs no pipeline yet."""
    switch = fabric.switch(name)
    return EmbeddedSwitch(
        program,
        device_id=switch.device_id,
        stamp_unit_ns=fabric.model(switch.model).stamp_unit_ns,
        cpu_port=switch.cpu_port,
    )


async def program_switches(
    fabric: Fabric, switches: dict[str, EmbeddedSwitch], pipeline: Pipeline
) -> DeployResult:
    """Serve P4Runtime for every switch, let the controller program all, and stop serving."""
    server = await serve(switches.values())
    try:
        addresses = {name: server.addresses[sw.device_id] for name, sw in switches.items()}
        return await deploy(fabric, addresses, pipeline)
    finally:
        await server.stop()


def write_lab_files(run: LabRun, out: Path) -> None:
    """Write what a real fabric would leave, and the truth beside it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / FABRIC_FILE).write_text(dump_fabric(run.drawn.fabric), encoding="utf-8")
    write_pcap(out / REPORTS_FILE, run.lab.result.reports)
    write_ptp_log(out / EXCHANGES_FILE, run.lab.result.ptp_lines)
    if run.lab.result.has_clock_pairs:
        write_clock_pairs(
            out / CLOCK_PAIRS_FILE,
            (stamp for _, stamp in run.lab.result.cross_stamps),
            run.lab.result.clock_pair_lines,
        )
    if run.loop is not None:
        write_link_delays(out / LINK_DELAYS_FILE, run.loop.written)
    run.lab.truth.write(out / TRUTH_FILE)
