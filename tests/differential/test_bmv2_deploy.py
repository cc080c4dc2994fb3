# SPDX-License-Identifier: Apache-2.0
"""The controller programs real BMv2 switches, and they do what embedded ones do."""

import contextlib

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.client import deploy
from controller.fabric_generate import leaf_spine
from controller.pipeline import load_pipeline
from controller.telemetry.frames import RoceFlow, roce_frame
from tests.support.bmv2_mirror import assert_same, run_frame
from tests.support.bmv2_switch import Bmv2Switch
from tests.support.grpc_loop import in_grpc_loop

HOST_PORT = 11
UPLINK_PORT = 1


@pytest.mark.usefixtures("bmv2_mirror")
@in_grpc_loop
async def test_deployed_fabric_forwards_as_embedded_switches_do() -> None:
    """Entries read back as written; the second deployment writes nothing; frames are the same."""
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=2)
    pipeline = load_pipeline()
    program = SwitchProgram.from_json(pipeline.bmv2_json)
    embedded = {s.name: EmbeddedSwitch(program, device_id=s.device_id) for s in fabric.switches}
    server = await serve(list(embedded.values()))
    with contextlib.ExitStack() as stack:
        bmv2 = {}
        for switch in fabric.switches:
            running = Bmv2Switch(switch.device_id, primary=False)
            stack.callback(running.close)
            bmv2[switch.name] = running
        addresses = {name: running.address for name, running in bmv2.items()}
        first = await deploy(fabric, addresses, pipeline)
        assert first.ok, first
        assert first.entries_written > 0
        again = await deploy(fabric, addresses, pipeline)
        assert again.ok
        assert (again.entries_written, again.pipelines_pushed) == (0, 0)
        local = {s.name: server.addresses[s.device_id] for s in fabric.switches}
        assert (await deploy(fabric, local, pipeline)).ok
        await server.stop()
        flow = RoceFlow(
            src_mac=0x020000000101,
            dst_mac=0x0200000001FE,
            src_ip=0x0A000101,
            dst_ip=0x0A000201,
            src_port=0xC123,
            dest_qp=17,
        )
        for psn in range(8):
            frame, port = roce_frame(flow, psn=psn, payload=bytes(64)), HOST_PORT
            for number, name in enumerate(("leaf1", "spine1", "leaf2")):
                ours = run_frame(embedded[name], frame, port, 1_000_000 * (psn + 1))
                theirs = bmv2[name].send(frame, port)
                assert_same(ours, theirs)
                (frame,) = [f for p, f in theirs if p < 60]
                port = 1 if number == 0 else UPLINK_PORT
            assert frame[34:] == roce_frame(flow, psn=psn, payload=bytes(64))[34:]
