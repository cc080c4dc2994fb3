# SPDX-License-Identifier: Apache-2.0
"""The controller that stays, over real BMv2 switches: backups, restarts, pipeline changes."""

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from controller.client import compare, deploy
from controller.entries import CloneSession
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.keeper.events import EventKind
from controller.keeper.phases import Phase
from controller.rollout import PipelineChange
from controller.session import open_session
from controller.telemetry.frames import RoceFlow, roce_frame
from tests.support.bmv2_switch import DEADLINE_S, PROGRAM, Bmv2Switch, bmv2_path, free_ports
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import PIPELINE, SCHEMA, kept

FABRIC = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
OTHER = replace(PIPELINE, bmv2_json=PIPELINE.bmv2_json + "\n")


@dataclass
class Bmv2Park:
    """BMv2 processes by switch name, each on a port that it keeps over restarts."""

    fabric: Fabric
    addresses: dict[str, str] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """An empty switch; it answers a little later."""
        path = bmv2_path()
        assert path is not None, f"{PROGRAM} is on the PATH"
        ports = free_ports(3)
        self.addresses.setdefault(name, f"127.0.0.1:{ports[0]}")
        device_id = self.fabric.switch(name).device_id
        self.processes[name] = subprocess.Popen(
            [
                *(path, "--no-p4", "--device-id", str(device_id), "--thrift-port", str(ports[1])),
                *("--", "--grpc-server-addr", self.addresses[name]),
                *("--dp-grpc-server-addr", f"127.0.0.1:{ports[2]}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, name: str) -> None:
        """The process is gone."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(DEADLINE_S)


@contextmanager
def bmv2_park() -> Iterator[Bmv2Park]:
    """All switches of the fabric."""
    park = Bmv2Park(FABRIC)
    try:
        for switch in FABRIC.switches:
            park.start(switch.name)
        yield park
    finally:
        for name in [*park.processes]:
            park.kill(name)


async def clone_replicas(park: Bmv2Park, name: str) -> list[int]:
    """How many replicas each clone session has, as the server tells."""
    async with open_session(
        name=name,
        address=park.addresses[name],
        device_id=FABRIC.switch(name).device_id,
        schema=SCHEMA,
    ) as session:
        entries = await session.read_entries()
    return [len(one.replicas) for one in entries if isinstance(one, CloneSession)]


@pytest.mark.usefixtures("bmv2_mirror")
@in_grpc_loop
async def test_backup_takes_over_and_restarted_switches_are_provisioned() -> None:
    """BMv2 promotes the backup by itself; a process that starts again is filled again."""
    with bmv2_park() as park:
        async with kept(park, election_id=20) as first:
            await first.in_phase(Phase.IN_SYNC)
            async with kept(park, election_id=10) as second:
                await second.in_phase(Phase.BACKUP)
                park.kill("leaf1")
                await first.in_phase(Phase.WAITING, "leaf1")
                park.start("leaf1")
                await first.until(lambda: len(first.told(EventKind.PIPELINE_PUSHED)) == 5)
                await first.in_phase(Phase.IN_SYNC, "leaf2", "spine1", "spine2")
                await first.stop()
                await second.in_phase(Phase.IN_SYNC)
        assert (await compare(FABRIC, park.addresses, PIPELINE)).in_sync


@pytest.mark.usefixtures("bmv2_mirror")
@in_grpc_loop
async def test_pipeline_change_and_its_way_back() -> None:
    """All switches get another pipeline; one that fails its gate gets the old one back, whole."""
    with bmv2_park() as park:
        async with kept(park) as running:
            await running.in_phase(Phase.IN_SYNC)
        changed = await deploy(
            FABRIC, park.addresses, OTHER, pipeline_change=PipelineChange(settle_s=0)
        )
        assert changed.ok, changed.errors
        back = await deploy(
            FABRIC,
            park.addresses,
            PIPELINE,
            pipeline_change=PipelineChange(settle_s=0, health_check="false"),
        )
        assert "health check" in str(back.errors)
        assert (await compare(FABRIC, park.addresses, OTHER)).in_sync
        assert await clone_replicas(park, "spine1") == [1, 1]


@pytest.mark.usefixtures("bmv2_mirror")
@in_grpc_loop
async def test_twenty_restarts_leave_one_report_per_packet() -> None:
    """Restarts and pipeline changes add no replica to BMv2's clone sessions: it sends as before."""
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    flow = RoceFlow(
        src_mac=0x020000000101,
        dst_mac=0x0200000001FE,
        src_ip=0x0A000101,
        dst_ip=0x0A000201,
        src_port=0xC123,
        dest_qp=17,
    )
    with contextlib.ExitStack() as stack:
        running = {
            switch.name: Bmv2Switch(switch.device_id, primary=False) for switch in fabric.switches
        }
        for one in running.values():
            stack.callback(one.close)
        park = RunningPark(fabric, {name: one.address for name, one in running.items()})
        counts = []
        for run in range(20):
            pipeline = OTHER if run % 4 == 3 else PIPELINE
            change = PipelineChange(settle_s=0)
            async with kept(
                park, fabric=fabric, pipeline=pipeline, pipeline_change=change
            ) as keeper:
                await keeper.in_phase(Phase.IN_SYNC)
            frames = running["leaf1"].send(roce_frame(flow, psn=run, payload=bytes(64)), 11)
            into_fabric = [frame for port, frame in frames if port == 1]
            assert len(into_fabric) == 1
            sunk = running["leaf2"].send(into_fabric[0], 1)
            counts.append((len(frames), sorted(port for port, _ in sunk)))
        assert counts == [counts[0]] * 20
        assert counts[0][1].count(11) == 1


@dataclass
class RunningPark:
    """Switches that somebody else has started."""

    fabric: Fabric
    addresses: dict[str, str]
