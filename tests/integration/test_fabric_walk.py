# SPDX-License-Identifier: Apache-2.0
"""A fabric deployed from its description does to single frames what the description says."""

from collections import Counter
from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

import pytest

from bmv2_lab.switch import SwitchProgram
from controller.client import write_link_delays
from controller.fabric import Fabric, LinkEnd, PtpRole, Watchlist
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import (
    DropReport,
    EthernetPtp,
    QueueReport,
    Reports,
    Syndrome,
    WatchMode,
)
from controller.pipeline import Pipeline, load_pipeline
from controller.ptp_entries import residence_offset_scaled
from controller.telemetry.frames import RoceFlow, icrc_is_valid, roce_ack_frame, roce_frame
from controller.telemetry.ptp import PtpAddresses, parse_ptp, ptp_sync
from tests.support.grpc_loop import in_grpc_loop
from tests.support.walked_fabric import RESIDENCE, Arrivals, WalkedFabric, walked

FABRIC = leaf_spine(leaves=2, spines=2)
ROCE, PTP = FABRIC.watchlists
IN_BAND = LinkEnd(node="leaf2", port=20)
ETHERNET_BYTES = 14


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """The committed artefacts."""
    return load_pipeline()


@pytest.fixture(scope="module")
def program(pipeline: Pipeline) -> SwitchProgram:
    """The committed program, translated once."""
    return SwitchProgram.from_json(pipeline.bmv2_json)


def flow(src: str = "h1", dst: str = "h3", src_port: int = 50_000, version: int = 4) -> RoceFlow:
    """A RoCE flow between two hosts, to the source's leaf."""
    sender, receiver = HOSTS[src], HOSTS[dst]
    leaf = FABRIC.switch(f"leaf{1 + (int(src[1:]) - 1) // 2}")
    return RoceFlow(
        src_mac=sender.mac,
        dst_mac=leaf.mac,
        src_ip=sender.ip if version == 4 else sender.ipv6 or 0,
        dst_ip=receiver.ip if version == 4 else receiver.ipv6 or 0,
        src_port=src_port,
        dest_qp=77,
        ip_version=version,
    )


def with_ipv6(fabric: Fabric) -> Fabric:
    """Addresses fd00:0:LEAF::HOST and a prefix per leaf."""
    return replace(
        fabric,
        hosts=tuple(
            replace(host, ipv6=int(IPv6Address(f"fd00:0:{1 + index // 2}::{1 + index % 2}")))
            for index, host in enumerate(fabric.hosts)
        ),
        switches=tuple(
            replace(switch, ipv6_prefixes=(IPv6Network(f"fd00:0:{switch.node_id}::/64"),))
            if switch.prefixes
            else switch
            for switch in fabric.switches
        ),
    )


HOSTS = {host.name: host for host in with_ipv6(FABRIC).hosts}


def watching(mode: WatchMode, **changes: object) -> Fabric:
    """The fabric with one RoCE watchlist in that mode, and PTP."""
    watch = Watchlist(
        name="roce",
        traffic=ROCE.traffic,
        traffic_class="roce",
        mode=mode,
        instruction_bitmap={WatchMode.XD: 0x7C00, WatchMode.EXEMPT: 0}.get(mode, 0xFC00),
        remaining_hop_count=8 if mode is WatchMode.MD else None,
    )
    return replace(FABRIC, watchlists=(replace(watch, **changes), PTP))  # type: ignore[arg-type]


def payload_of(frame: bytes) -> bytes:
    """UDP payload of an IPv4 frame without options."""
    return frame[ETHERNET_BYTES + 28 :]


def node_ids(arrivals: Arrivals) -> list[int]:
    """Node ids of the reports, in the order of their arrival."""
    return [int.from_bytes(payload_of(frame)[4:8], "big") for _, frame in arrivals.collectors]


def with_collectors(fabric: Fabric, *attached: LinkEnd | None) -> Fabric:
    """The fabric with these collectors: cabled to a port, or out of band."""
    first = fabric.collector
    return replace(
        fabric,
        collectors=tuple(
            replace(
                first,
                ip=first.ip + index,
                mac=first.mac + index,
                udp_port=first.udp_port + index,
                destination_id=index,
                attached=end,
            )
            for index, end in enumerate(attached)
        ),
    )


@pytest.mark.parametrize(
    ("mode", "reports"),
    [
        # MD: stack and own hop of the sink. MX, XD: a postcard per hop.
        (WatchMode.MD, [2, 2]),
        (WatchMode.MX, [1, 2, "spine"]),
        (WatchMode.XD, [1, 2, "spine"]),
        (WatchMode.EXEMPT, []),
    ],
)
@pytest.mark.parametrize("attached", [None, IN_BAND])
@in_grpc_loop
async def test_each_mode_reports_every_hop_and_leaves_the_packet_whole(
    mode: WatchMode,
    reports: list[int | str],
    attached: LinkEnd | None,
    pipeline: Pipeline,
    program: SwitchProgram,
) -> None:
    """The host gets what was sent; the collector gets the mode's reports, in band or out of it."""
    fabric = with_collectors(watching(mode), attached)
    sent = roce_frame(flow(), psn=5, payload=b"x" * 200)
    async with walked(fabric, program, pipeline) as network:
        arrivals = network.send("h1", sent)
    ((host, received),) = arrivals.hosts
    assert host == "h3"
    assert icrc_is_valid(received)
    assert payload_of(received) == payload_of(sent)
    assert len(received) == len(sent)
    named = [node if node < 100 else "spine" for node in node_ids(arrivals)]
    assert sorted(map(str, named)) == sorted(map(str, reports))
    for port, frame in arrivals.collectors:
        assert port == attached or (attached is None and port.port == 60)
        assert frame[:6] == fabric.collector.mac.to_bytes(6, "big")
    assert arrivals.cpus == []


@in_grpc_loop
async def test_reports_of_a_flow_go_to_one_of_several_collectors(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Three collectors share 60 flows; all hops of one flow report to the same."""
    fabric = with_collectors(watching(WatchMode.XD), None, IN_BAND, None)
    shares: Counter[int] = Counter()
    async with walked(fabric, program, pipeline) as network:
        for src_port in range(50_000, 50_060):
            arrivals = network.send("h1", roce_frame(flow(src_port=src_port), psn=1))
            assert len(arrivals.collectors) == 3
            (mac,) = {frame[:6] for _, frame in arrivals.collectors}
            (port,) = {frame[36:38] for _, frame in arrivals.collectors}
            index = int.from_bytes(mac, "big") - fabric.collector.mac
            assert int.from_bytes(port, "big") == fabric.collectors[index].udp_port
            shares[index] += 1
    assert shares.keys() == {0, 1, 2}


@in_grpc_loop
async def test_sampling_pairs_and_keys_select(pipeline: Pipeline, program: SwitchProgram) -> None:
    """With two PSN bits every fourth packet is reported by every hop, and only NAKs if asked."""
    async with walked(watching(WatchMode.XD, sample_psn_bits=2), program, pipeline) as network:
        counts = [
            len(network.send("h1", roce_frame(flow(), psn=psn)).collectors) for psn in range(8)
        ]
    assert counts == [3, 0, 0, 0, 3, 0, 0, 0]
    fabric = watching(WatchMode.XD)
    nak = replace(fabric.watchlists[0], syndromes=(Syndrome.NAK,))
    async with walked(replace(fabric, watchlists=(nak,)), program, pipeline) as network:
        counts = [
            len(network.send("h1", roce_ack_frame(flow(), psn=1, msn=1, syndrome=s)).collectors)
            for s in (0x00, 0x1F, 0x20, 0x60, 0x63)
        ]
        counts.append(len(network.send("h1", roce_frame(flow(), psn=1)).collectors))
    assert counts == [0, 0, 0, 3, 3, 0]


@in_grpc_loop
async def test_transparent_clocks_add_wire_to_wire_residence_and_link_delay(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Three switches add stamps' difference plus offset each, and the delays of their ports."""
    clock = replace(FABRIC.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK)
    fabric = replace(FABRIC, models=(clock, FABRIC.models[1]))
    offset = residence_offset_scaled(fabric, fabric.switches[0])
    async with walked(fabric, program, pipeline) as network:
        plain = correction_of(network)
        delays = {"leaf1": {11: 7}, "leaf2": {1: -100, 2: -200}}
        written = await write_link_delays(fabric, delays, network.addresses, pipeline)
        assert written.ok
        corrected = correction_of(network)
    assert plain == 3 * (RESIDENCE * 65_536 + offset)
    assert corrected - plain in (7 - 100, 7 - 200)


def correction_of(network: WalkedFabric) -> int:
    """correctionField of a Sync that went from h1 to h3, 2^-16 ns."""
    sender, receiver = HOSTS["h1"], HOSTS["h3"]
    addresses = PtpAddresses(
        src_mac=sender.mac,
        dst_mac=network.fabric.switch("leaf1").mac,
        src_ip=sender.ip,
        dst_ip=receiver.ip,
    )
    frame = ptp_sync(addresses, domain=0, clock_identity=1, sequence_id=0)
    ((host, received),) = network.send("h1", frame).hosts
    assert host == "h3"
    message = parse_ptp(received)
    assert message is not None
    return message.correction_scaled_ns


@in_grpc_loop
async def test_ipv6_is_routed_and_watched(pipeline: Pipeline, program: SwitchProgram) -> None:
    """A RoCE packet over IPv6 arrives, and every hop of its path reports it."""
    fabric = with_ipv6(watching(WatchMode.XD))
    sent = roce_frame(flow(version=6), psn=1, payload=b"y" * 64)
    async with walked(fabric, program, pipeline) as network:
        arrivals = network.send("h1", sent)
    ((host, received),) = arrivals.hosts
    assert (host, icrc_is_valid(received)) == ("h3", True)
    assert len(arrivals.collectors) == 3


@in_grpc_loop
async def test_ptp_over_ethernet_follows_the_tree(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """A multicast from the grandmaster reaches every other host once, with the tag of the host's
    link whatever the links before it have; peer delay only the CPU."""
    vlans = {"h3:1": 42, "spine1:1": 7, "spine1:2": 8}
    links = tuple(replace(link, vlan=vlans.get(str(link.b))) for link in FABRIC.links)
    ptp = replace(FABRIC.ptp, ethernet=EthernetPtp.TREE)
    fabric = replace(FABRIC, ptp=ptp, links=links, watchlists=())
    body = bytes([0x00, 0x02]) + (44).to_bytes(2, "big") + bytes(40)
    source = HOSTS["h1"].mac.to_bytes(6, "big")
    async with walked(fabric, program, pipeline) as network:
        flooded = network.send("h1", bytes.fromhex("011b19000000") + source + b"\x88\xf7" + body)
        peer = network.send("h1", bytes.fromhex("0180c200000e") + source + b"\x88\xf7" + body)
    frames = dict(flooded.hosts)
    assert sorted(host for host, _ in flooded.hosts) == ["h2", "h3", "h4"]
    assert frames["h3"][12:18] == b"\x81\x00\x00\x2a\x88\xf7"
    assert frames["h2"][12:14] == frames["h4"][12:14] == b"\x88\xf7"
    assert len({frame[-len(body) :] for frame in frames.values()}) == 1
    assert [switch for switch, _ in peer.cpus] == ["leaf1"]
    assert peer.hosts == []


@in_grpc_loop
async def test_neighbours_reach_the_cpu_and_tags_end_at_the_router(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """ARP and LLDP are punted; a tagged host link is tagged on the way out only."""
    links = tuple(
        replace(link, vlan=42) if str(link.b) == "h3:1" else link for link in FABRIC.links
    )
    source = HOSTS["h1"].mac.to_bytes(6, "big")
    async with walked(replace(FABRIC, links=links), program, pipeline) as network:
        for ether_type in (b"\x08\x06", b"\x88\xcc"):
            arrivals = network.send("h1", b"\xff" * 6 + source + ether_type + bytes(46))
            assert [switch for switch, _ in arrivals.cpus] == ["leaf1"]
        ((_, tagged),) = network.send("h1", roce_frame(flow(), psn=1)).hosts
        ((_, plain),) = network.send("h1", roce_frame(flow(dst="h4"), psn=1)).hosts
    assert tagged[12:16] == b"\x81\x00\x00\x2a"
    assert plain[12:14] == b"\x08\x00"


@in_grpc_loop
async def test_drops_and_congestion_are_reported_as_declared(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """A packet without a route makes a drop report, one above the latency a congestion report."""
    chosen = Reports(
        queues=(QueueReport(queue=1, latency_ns=RESIDENCE, quota=2),),
        drops=(DropReport(reasons=("no_route",)),),
    )
    fabric = replace(FABRIC, reports=chosen, watchlists=())
    nowhere = replace(flow(), dst_ip=0x0B000001)
    async with walked(fabric, program, pipeline) as network:
        dropped = network.send("h1", roce_frame(nowhere, psn=1))
        slow = [len(network.send("h1", roce_frame(flow(), psn=n)).collectors) for n in range(4)]
    assert (dropped.hosts, node_ids(dropped)) == ([], [1])
    assert slow == [3, 3, 0, 0]


def three_tiers() -> Fabric:
    """Two leaves below four spines each below four cores that join all spines."""
    pods = leaf_spine(leaves=2, spines=4)
    cores = tuple(
        replace(
            pods.switch("spine1"),
            name=f"core{core}",
            node_id=200 + core,
            device_id=200 + core,
            ip=pods.switch("spine1").ip + 100 + core,
            mac=pods.switch("spine1").mac + 100 + core,
        )
        for core in range(1, 5)
    )
    # Each leaf has spines of its own: leaf1 keeps 1 to 4, leaf2 gets copies 5 to 8.
    copies = tuple(
        replace(
            pods.switch(f"spine{spine}"),
            name=f"spine{spine + 4}",
            node_id=110 + spine,
            device_id=110 + spine,
            ip=pods.switch("spine1").ip + 50 + spine,
            mac=pods.switch("spine1").mac + 50 + spine,
        )
        for spine in range(1, 5)
    )
    links = tuple(
        replace(link, b=replace(link.b, node=f"spine{int(link.b.node[5:]) + 4}"))
        if link.a.node == "leaf2" and link.b.node.startswith("spine")
        else link
        for link in pods.links
    )
    up = tuple(
        replace(
            pods.links[0],
            a=LinkEnd(node=f"core{core}", port=spine),
            b=LinkEnd(node=f"spine{spine}", port=20 + core),
        )
        for core in range(1, 5)
        for spine in range(1, 9)
    )
    return replace(pods, switches=(*pods.switches, *copies, *cores), links=(*links, *up))


@in_grpc_loop
async def test_flows_of_one_spine_use_all_cores_alike(
    pipeline: Pipeline, program: SwitchProgram
) -> None:
    """Tiers hash differently: what leaf1 sends to one spine spreads over its cores within 10 %."""
    fabric = replace(three_tiers(), watchlists=())
    async with walked(fabric, program, pipeline) as network:
        leaf, spine = network.switches["leaf1"], network.switches["spine1"]
        cores: Counter[int] = Counter()
        spines: Counter[int] = Counter()
        for src_port in range(49_152, 49_152 + 8_000):
            frame = roce_frame(flow(src_port=src_port), psn=1)
            (copy,) = leaf.ingress(frame, 11, network.now)
            spines[copy.egress_port] += 1
            if copy.egress_port == 1:
                (onward,) = spine.ingress(frame, 1, network.now)
                cores[onward.egress_port] += 1
    assert sorted(spines) == [1, 2, 3, 4]
    assert sorted(cores) == [21, 22, 23, 24]
    for shares in (spines, cores):
        mean = sum(shares.values()) / 4
        assert max(abs(count - mean) for count in shares.values()) < 0.1 * mean, shares
