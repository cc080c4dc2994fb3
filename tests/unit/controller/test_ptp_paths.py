# SPDX-License-Identifier: Apache-2.0
"""Choices that lead PTP and RoCEv2 over symmetric paths, and when predictions are trusted."""

from dataclasses import replace
from ipaddress import IPv6Address, IPv6Network

import numpy as np
import pytest

from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_model import fabric_model
from controller.path_prediction import (
    CHECKED_FLOWS_MIN,
    CHECKED_PACKETS_MIN,
    Header,
    PathPredictor,
    check_hash,
)
from controller.ptp_paths import ptp_candidates, rank_choices, roce_candidates
from correction.flow_paths import Flow, FlowPaths, PathHop
from correction.link_delays import LinkBasis, LinkDelays
from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_PROBE, TRAFFIC_ROCE
from correction.table import CONDITIONAL_SIGMAS
from tests.support.hand_links import HandLimits

FABRIC = leaf_spine(leaves=2, spines=3)
SPINE_NS = (100.0, 220.0, 500.0)
"""One-way delay of every cable of a spine: its number decides how long a path is."""


def delays_of(fabric: Fabric, *, measured: bool = True) -> LinkDelays:
    """Symmetric cables, as long as their spine says."""
    model = fabric_model(fabric)
    half = np.array(
        [
            50.0 if link.access else SPINE_NS[(link.a_port if "leaf" in link.name[:4] else 1) - 1]
            for link in model.links
        ]
    )
    count, zero = len(half), np.zeros(len(half))
    return LinkDelays(
        model=model,
        half_ns=half,
        half_sd_ns=np.ones(count),
        difference_ns=zero,
        cable_a_ns=zero,
        fit_sd_ns=np.zeros(count),
        covariance_ns2=np.eye(count) * 4.0,
        basis=(LinkBasis.MEASURED if measured else LinkBasis.UNMEASURED,) * count,
        doubt=("",) * count,
        widen_ns=zero,
        rate_ppb=np.zeros(len(model.clocks)),
        limits=HandLimits(half, zero, 300.0),  # type: ignore[arg-type]
        sigmas=CONDITIONAL_SIGMAS,
    )


def spines(path: tuple[PathHop, ...]) -> list[int]:
    """Node ids of the spines."""
    return [hop.node_id for hop in path if hop.node_id > 100]


def test_best_source_port_goes_and_comes_over_one_spine() -> None:
    """The same cables both ways: their lengths cancel; the worst are the shortest with the
    longest. Every port is counted, pairs are told once."""
    choices = rank_choices(
        roce_candidates(FABRIC, "h1", "h3", range(0xC000, 0xC100)),
        FABRIC,
        PathPredictor(FABRIC),
        delays_of(FABRIC),
    )
    assert len(choices) == 9
    assert sum(choice.alike for choice in choices) == 256
    for choice in choices[:3]:
        assert choice.asymmetry.same_links
        assert choice.asymmetry.asymmetry.value_ns == 0.0
        assert spines(choice.asymmetry.forward.path) == spines(choice.asymmetry.reverse.path)
    assert not choices[3].asymmetry.same_links
    assert abs(choices[3].asymmetry.asymmetry.value_ns) == 120.0
    assert abs(choices[-1].asymmetry.asymmetry.value_ns) == 400.0
    predictor = PathPredictor(FABRIC)
    best = choices[0].candidate
    assert predictor.path(best.forward) == choices[0].asymmetry.forward.path
    assert (best.forward.src_port, best.forward.dst_port) == (best.reverse.src_port, 4791)


def test_ptp_chooses_among_addresses_with_its_ports_fixed() -> None:
    """Secondary addresses are routed like the client's declared one and hashed as themselves."""
    further = [FABRIC.host("h3").ip + 100 + k for k in range(20)]
    candidates = list(ptp_candidates(FABRIC, "h3", client_addresses=further))
    assert len(candidates) == 21
    assert {(c.forward.src_port, c.forward.dst_port) for c in candidates} == {(319, 319)}
    assert candidates[0].forward.dst_ip == FABRIC.host("h3").ip
    choices = rank_choices(candidates, FABRIC, PathPredictor(FABRIC), delays_of(FABRIC))
    assert choices[0].asymmetry.same_links
    assert sum(choice.alike for choice in choices) == 21
    for choice in choices:
        assert choice.asymmetry.forward.clocks == (0, 2)
        header = choice.candidate.forward
        assert choice.candidate.reverse == Header(
            src_ip=header.dst_ip, dst_ip=header.src_ip, src_port=319, dst_port=319
        )


def test_port_of_the_client_chooses_where_requests_may_come_from_any() -> None:
    """Requests go to 319 from it, answers come back to it."""
    candidates = list(ptp_candidates(FABRIC, "h3", client_ports=(319, 40_000)))
    assert [(c.forward.src_port, c.forward.dst_port) for c in candidates] == [
        (319, 319),
        (319, 40_000),
    ]
    assert (candidates[1].reverse.src_port, candidates[1].reverse.dst_port) == (40_000, 319)


def test_flow_labels_choose_where_switches_hash_them() -> None:
    """And choose nothing where they do not."""
    hosts = tuple(
        replace(host, ipv6=int(IPv6Address(f"fd00:0:{1 + index // 2}::{1 + index % 2}")))
        for index, host in enumerate(FABRIC.hosts)
    )
    switches = tuple(
        replace(switch, ipv6_prefixes=(IPv6Network(f"fd00:0:{switch.node_id}::/64"),))
        if switch.prefixes
        else switch
        for switch in FABRIC.switches
    )
    fabric = replace(FABRIC, hosts=hosts, switches=switches)
    for by_label, pairs in ((True, 9), (False, 1)):
        hashed = replace(fabric, ecmp=replace(fabric.ecmp, hash_flow_label=by_label))
        choices = rank_choices(
            ptp_candidates(hashed, "h3", flow_labels=range(128)),
            hashed,
            PathPredictor(hashed),
            delays_of(hashed),
        )
        assert len(choices) == pairs
        assert sum(choice.alike for choice in choices) == 128


def test_unmeasured_links_give_no_choice() -> None:
    """Nothing is recommended of which nothing is known."""
    choices = rank_choices(
        roce_candidates(FABRIC, "h1", "h3", range(0xC000, 0xC010)),
        FABRIC,
        PathPredictor(FABRIC),
        delays_of(FABRIC, measured=False),
    )
    assert choices == ()


def flows_of(fabric: Fabric, count: int, packets: int, *, wrong: int = 0) -> FlowPaths:
    """`count` flows with so many packets each on their predicted paths, `wrong` packets of the
    first elsewhere."""
    predictor = PathPredictor(fabric)
    rows = np.zeros(count * packets, PACKET_DTYPE)
    hops: list[PathHop] = []
    for number, row in enumerate(rows):
        ends = fabric.host("h1").ip, fabric.host("h3").ip
        flow = Flow(TRAFFIC_ROCE, *ends, 0xC000 + number // packets, 4791, 7)
        path = predictor.path_of(flow)
        assert path is not None
        if number < wrong:
            path = (path[0]._replace(egress_port=path[0].egress_port % 3 + 1), *path[1:])
        row["first_hop"], row["hop_count"], row["complete"] = len(hops), len(path), True
        for name, value in flow._asdict().items():
            row[name] = value
        row["capture_collector_ns"] = number
        hops += path
    table = np.zeros(len(hops), HOP_DTYPE)
    for name in PathHop._fields:
        table[name] = [getattr(hop, name) for hop in hops]
    paths = FlowPaths()
    paths.add(rows, table)
    return paths


@pytest.mark.parametrize(
    ("count", "packets", "wrong", "trusted"),
    [
        (20, 100, 2, True),  # 99.9 %
        (20, 100, 3, False),
        (CHECKED_FLOWS_MIN, CHECKED_PACKETS_MIN // CHECKED_FLOWS_MIN, 0, True),
        (CHECKED_FLOWS_MIN - 1, CHECKED_PACKETS_MIN, 0, False),
        (CHECKED_FLOWS_MIN, CHECKED_PACKETS_MIN // CHECKED_FLOWS_MIN - 1, 0, False),
    ],
)
def test_hash_is_trusted_from_999_of_1000_packets_on(
    count: int, packets: int, wrong: int, trusted: bool
) -> None:
    """Of enough packets and flows; otherwise the reason says what is missing."""
    check = check_hash(PathPredictor(FABRIC), flows_of(FABRIC, count, packets, wrong=wrong))
    assert (check.packets, check.agreed) == (count * packets, count * packets - wrong)
    assert check.trusted is trusted
    assert bool(check.reason) is not trusted


def test_probes_do_not_count_for_the_hash() -> None:
    """They are sent out of a port, not routed."""
    rows, table = np.zeros(1, PACKET_DTYPE), np.zeros(3, HOP_DTYPE)
    rows["hop_count"], rows["complete"], rows["traffic"] = 3, True, TRAFFIC_PROBE
    rows["dst_port"] = 4791
    paths = FlowPaths()
    paths.add(rows, table)
    assert check_hash(PathPredictor(FABRIC), paths).packets == 0


def test_what_does_not_follow_from_the_fabric_is_not_predicted() -> None:
    """Unknown hosts, hosts with two cables, switches of another program."""
    h1, h3 = FABRIC.host("h1").ip, FABRIC.host("h3").ip
    header = Header(src_ip=h1, dst_ip=h3, src_port=50_000, dst_port=4791)
    assert PathPredictor(FABRIC).path(header) is not None
    assert PathPredictor(FABRIC).path(replace(header, src_ip=1)) is None
    assert PathPredictor(FABRIC).path(replace(header, dst_ip=1)) is None
    models = tuple(replace(model, target="tofino") for model in FABRIC.models)
    assert PathPredictor(replace(FABRIC, models=models)).path(header) is None
    access = next(link for link in FABRIC.links if link.b.node == "h1")
    second = replace(
        access, a=replace(access.a, node="leaf2", port=30), b=replace(access.b, port=2)
    )
    doubled = replace(FABRIC, links=(*FABRIC.links, second))
    assert PathPredictor(doubled).path(header) is None


def test_failed_link_moves_the_flows_of_its_buckets_only() -> None:
    """Prediction knows the same buckets as the switches' groups."""
    usual = PathPredictor(FABRIC)
    failed = PathPredictor(FABRIC, [FABRIC.links[0].name])
    h1, h3 = FABRIC.host("h1").ip, FABRIC.host("h3").ip
    moved = 0
    for port in range(0xC000, 0xC040):
        header = Header(src_ip=h1, dst_ip=h3, src_port=port, dst_port=4791)
        before, after = usual.path(header), failed.path(header)
        assert before is not None
        assert after is not None
        assert after[0].egress_port != 1
        if before[0].egress_port != 1:
            assert after == before
        moved += before != after
    assert moved > 10
