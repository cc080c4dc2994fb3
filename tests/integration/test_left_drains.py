# SPDX-License-Identifier: Apache-2.0
"""A pipeline change that is ended half-way leaves drains: they are named, and put right."""

import asyncio
from dataclasses import replace

import pytest

from controller.client import compare, deploy
from controller.deploy_report import format_status
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.findings import Findings
from controller.keeper.phases import Phase
from controller.rollout import PipelineChange
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, PIPELINE, kept, park

NEW = replace(PIPELINE, bmv2_json=PIPELINE.bmv2_json + "\n")
"""The same program with another cookie."""


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with a host each, three spines."""
    return leaf_spine(leaves=2, spines=3, hosts_per_leaf=1, tenants=["t"])


@in_grpc_loop
async def test_apply_that_is_ended_in_the_middle_of_a_change(fabric: Fabric) -> None:
    """At the health gate of the first spine: status names it; apply finishes, without any drain."""
    async with park(fabric) as switches:
        assert (await deploy(fabric, switches.addresses, PIPELINE)).ok
        at_gate = asyncio.Event()

        def note(kind: str, switch: str, message: str) -> None:
            if kind == "pipeline_change_begins":
                at_gate.set()

        applying = asyncio.create_task(
            deploy(
                fabric,
                switches.addresses,
                NEW,
                pipeline_change=PipelineChange(canary="spine2", settle_s=2 * DEADLINE_S),
                note=note,
            )
        )
        async with asyncio.timeout(DEADLINE_S):
            await at_gate.wait()
            while (await compare(fabric, switches.addresses, NEW)).switches[3].pipeline_differs:
                await asyncio.sleep(0.05)
        applying.cancel()
        await asyncio.gather(applying, return_exceptions=True)
        left = await compare(fabric, switches.addresses, PIPELINE)
        assert left.left_drained == ("spine2",)
        assert "spine2: others lead around it" in format_status(left)
        assert (
            await deploy(
                fabric, switches.addresses, NEW, pipeline_change=PipelineChange(settle_s=0)
            )
        ).ok
        after = await compare(fabric, switches.addresses, NEW)
        assert after.in_sync
        assert after.left_drained == ()


@in_grpc_loop
async def test_run_puts_drains_right(fabric: Fabric) -> None:
    """The keeper finds them at its first reading, with one leaf drained and the other not."""
    async with park(fabric) as switches:
        drained = Findings(drained_switches=["spine1"])
        assert (await deploy(fabric, switches.addresses, PIPELINE, findings=drained)).ok
        left = await compare(fabric, switches.addresses, PIPELINE)
        assert left.left_drained == ("spine1",)
        async with kept(switches) as running:
            await running.in_phase(Phase.IN_SYNC)
        assert (await compare(fabric, switches.addresses, PIPELINE)).left_drained == ()
        assert await switches.is_as_desired()


@in_grpc_loop
async def test_other_drift_is_no_drain(fabric: Fabric) -> None:
    """A link that was led around is drift of its two ends, and no switch is named."""
    async with park(fabric) as switches:
        failed = Findings(failed_links=["leaf1:1-spine1:1"])
        assert (await deploy(fabric, switches.addresses, PIPELINE, findings=failed)).ok
        found = await compare(fabric, switches.addresses, PIPELINE)
        assert not found.in_sync
        assert found.left_drained == ()
