# SPDX-License-Identifier: Apache-2.0
"""What the virtual fabric tells its switches: its time, and whether a port has a signal."""

import asyncio
from dataclasses import replace

import pytest
from finsy.proto import p4r

from bmv2_lab.draw import draw_fabric
from bmv2_lab.lab_run import make_switches
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.scenarios.disturbances import Event, LinkFlap, SwitchRestart
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.virtual_fabric import VirtualFabric
from bmv2_lab.staging import stage
from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller.fabric import Fabric
from controller.pipeline import load_pipeline
from tests.support.grpc_loop import in_grpc_loop
from tests.support.p4runtime_peer import INSERT, Peer, Program, exact
from tests.unit.bmv2_lab.switch.bmv2_json import send

pytestmark = pytest.mark.enable_socket

CONTROL = Program.load("control")
MS = 1_000_000
TTL_NS = 50 * MS


def aged(key: bytes) -> p4r.Entity:
    """An entry that ages."""
    action = CONTROL.direct("to_port", b"\1")
    return CONTROL.entry("aged", exact(key), action=action, idle_timeout_ns=TTL_NS)


@in_grpc_loop
async def test_timeouts_happen_at_their_instants_of_virtual_time() -> None:
    """In one run of the engine: an entry is idle, is hit, and is idle again; the other one, whose
    timeout is asked for later but ends sooner, is named in between."""
    engine = Engine()
    switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
    server = await serve([switch], clock_ns=lambda: engine.now_ns, call_at=engine.at)
    async with Peer(server.addresses[1]) as peer:
        await peer.become_primary()
        await peer.push(CONTROL.config())
        engine.run(7 * MS)
        await peer.write((INSERT, aged(b"\1")))
        short = aged(b"\2")
        short.table_entry.idle_timeout_ns = 20 * MS
        await peer.write((INSERT, short))
        engine.at(80 * MS, lambda: send(switch, b"\1" + bytes(4)))
        engine.run(135 * MS)
        heard = []
        while not heard or heard[-1][0] < 130 * MS:
            message = (await asyncio.wait_for(peer.hear(), 10)).idle_timeout_notification
            keys = [entry.match[0].exact.value for entry in message.table_entry]
            heard.append((message.timestamp, keys))
    await server.stop()
    one, two = [b"\1"], [b"\2"]
    assert heard == [
        (27 * MS, two),
        (47 * MS, two),
        (57 * MS, one),
        (67 * MS, two),
        (87 * MS, two),
        (107 * MS, two),
        (127 * MS, two),
        (130 * MS, one),
    ]


def staged(event: Event) -> tuple[VirtualFabric, Fabric]:
    """A fabric in which only this happens."""
    scenario = replace(SCENARIOS["link-flap"], events=(event,))
    drawn = draw_fabric(scenario, 1)
    lab = VirtualFabric(scenario, 1, drawn, make_switches(drawn.fabric, load_pipeline()))
    stage(lab, drawn.fabric, 1)
    return lab, drawn.fabric


def down_ports(lab: VirtualFabric) -> dict[str, set[int]]:
    """Switches with a port that is down."""
    found = {name: set(node.switch.down_ports) for name, node in lab.switch_nodes.items()}
    return {name: ports for name, ports in found.items() if ports}


def test_both_ends_of_a_broken_cable_are_down_while_it_is() -> None:
    """So selector members that watch the port are left out before any controller knows."""
    lab, _ = staged(LinkFlap(end="leaf1:2", down_ns=1_000, up_ns=3_000, detect_ns=500))
    found = []
    for at_ns in (999, 1_000, 2_999, 3_000):
        lab.run_until(at_ns)
        found.append(down_ports(lab))
    broken = {"leaf1": {2}, "spine2": {1}}
    assert found == [{}, broken, broken, {}]


def test_cables_of_a_switch_that_boots_have_no_signal_at_their_far_ends() -> None:
    """Until it is back; a cable that broke meanwhile stays down for the new process."""
    event = SwitchRestart(switch="spine2", at_ns=1_000, detect_ns=500, boot_ns=2_000, uptime_ns=5)
    lab, fabric = staged(event)
    leaves = [link.a.node for link in fabric.links if link.b.node == "spine2"]
    assert leaves
    lab.run_until(1_000)
    assert down_ports(lab) == {leaf: {2} for leaf in leaves}
    cable = next(link for link in fabric.links if link.b.node == "spine2")
    lab.run_until(3_000)
    assert down_ports(lab) == {}
    lab.set_cable(cable, False)
    new = make_switches(fabric, load_pipeline())["spine2"]
    lab.switch_nodes["spine2"].restart(new)
    assert lab.switch_nodes["spine2"].switch is new
    assert new.down_ports == {cable.b.port}
