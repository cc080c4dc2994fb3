# SPDX-License-Identifier: Apache-2.0
"""Predicted paths are those of the compiled program in deployed switches."""

from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

from bmv2_lab.switch import SwitchProgram
from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_generate import leaf_spine
from controller.path_prediction import Header, PathPredictor
from controller.pipeline import load_pipeline
from controller.telemetry.frames import RoceFlow, roce_frame
from correction.flow_paths import Path, PathHop
from tests.support.grpc_loop import in_grpc_loop
from tests.support.walked_fabric import walked

PORTS = range(0xC000, 0xC000 + 24)


def with_ipv6(fabric: Fabric, *, hash_flow_label: bool) -> Fabric:
    """Addresses fd00:0:LEAF::HOST, a prefix per leaf."""
    hosts = tuple(
        replace(host, ipv6=int(IPv6Address(f"fd00:0:{1 + index // 2}::{1 + index % 2}")))
        for index, host in enumerate(fabric.hosts)
    )
    switches = tuple(
        replace(switch, ipv6_prefixes=(IPv6Network(f"fd00:0:{switch.node_id}::/64"),))
        if switch.prefixes
        else switch
        for switch in fabric.switches
    )
    ecmp = replace(fabric.ecmp, hash_flow_label=hash_flow_label, seed=0xFFFF_FFF0)
    return replace(fabric, hosts=hosts, switches=switches, ecmp=ecmp, watchlists=())


def uneven(fabric: Fabric) -> Fabric:
    """One uplink with triple weight, one drained."""
    links = list(fabric.links)
    links[0] = replace(links[0], weight=300)
    links[4] = replace(links[4], drained=True)
    return replace(fabric, links=tuple(links))


def taken(fabric: Fabric, sent_from: str, hops: list[LinkEnd]) -> Path:
    """The path in its reported form: the ports that a frame left by, and those it came in by."""
    ends = cabling(fabric)
    at = ends[LinkEnd(node=sent_from, port=1)]
    path = []
    for hop in hops:
        assert hop.node == at.node
        path.append(PathHop(fabric.switch(hop.node).node_id, at.port, hop.port))
        at = ends[hop]
    return tuple(path)


async def compare(fabric: Fabric, *, ipv6: bool) -> int:
    """24 source ports from h1 to h5 and back; how many different paths there were."""
    pipeline = load_pipeline()
    predictor = PathPredictor(fabric)
    seen = set()
    async with walked(fabric, SwitchProgram.from_json(pipeline.bmv2_json), pipeline) as network:
        for source, target in (("h1", "h5"), ("h5", "h1")):
            sender, receiver = fabric.host(source), fabric.host(target)
            leaf = fabric.switch(cabling(fabric)[LinkEnd(node=source, port=1)].node)
            addresses = (sender.ip, receiver.ip)
            if ipv6:
                assert sender.ipv6 is not None
                assert receiver.ipv6 is not None
                addresses = (sender.ipv6, receiver.ipv6)
            for port in PORTS:
                flow = RoceFlow(
                    src_mac=sender.mac,
                    dst_mac=leaf.mac,
                    src_ip=addresses[0],
                    dst_ip=addresses[1],
                    src_port=port,
                    dest_qp=7,
                    ip_version=6 if ipv6 else 4,
                )
                path = taken(fabric, source, network.send(source, roce_frame(flow, psn=1)).hops)
                header = Header(
                    src_ip=addresses[0],
                    dst_ip=addresses[1],
                    src_port=port,
                    dst_port=4791,
                    ipv6=ipv6,
                )
                assert predictor.path(header) == path
                seen.add(path)
    return len(seen)


@in_grpc_loop
async def test_ipv4_flows_go_where_the_hash_says() -> None:
    """Weights, a drained link and a seed that overflows with node ids included."""
    fabric = uneven(with_ipv6(leaf_spine(leaves=3, spines=3), hash_flow_label=False))
    assert await compare(fabric, ipv6=False) >= 4


@in_grpc_loop
async def test_ipv6_flows_go_where_the_hash_says() -> None:
    """By ports."""
    fabric = with_ipv6(leaf_spine(leaves=3, spines=3), hash_flow_label=False)
    assert await compare(fabric, ipv6=True) >= 4


@in_grpc_loop
async def test_flow_label_in_place_of_ports_fixes_the_path() -> None:
    """With equal labels all source ports take one path each way."""
    fabric = with_ipv6(leaf_spine(leaves=3, spines=3), hash_flow_label=True)
    assert await compare(fabric, ipv6=True) == 2
