# SPDX-License-Identifier: Apache-2.0
"""Probe planning: quiet links, evenly, never beyond the budget; frames as the switch wants them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from controller.fabric import Fabric, LinkEnd
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import Probes
from controller.probes import PlannedProbe, ProbePlanner, pairs_per_link
from controller.telemetry.codec import decode
from controller.telemetry.datagram import unwrap_udp
from controller.telemetry.layout import PROBE
from correction.records import TRAFFIC_PROBE
from tests.support.synthetic_fabric import Setup, draw

WINDOW_NS = 1_000_000_000


def _fabric(budget_pps: int = 1_000) -> Fabric:
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=("alpha",))
    return replace(fabric, probes=Probes(budget_pps=budget_pps))


def _links(fabric: Fabric, probes: list[PlannedProbe]) -> Counter[str]:
    end_of = {}
    for link in fabric.links:
        end_of[link.a] = end_of[link.b] = link.name
    return Counter(end_of[LinkEnd(node=p.switch, port=p.egress_port)] for p in probes)


def _inner(fabric: Fabric) -> list[str]:
    hosts = {host.name for host in fabric.hosts}
    return [link.name for link in fabric.links if not {link.a.node, link.b.node} & hosts]


def test_a_quiet_fabric_gets_what_every_link_lacks() -> None:
    """20 probes per fabric link, none on access links, all inside the window and in order."""
    fabric = _fabric()
    probes = ProbePlanner(fabric).plan({}, start_ns=5 * WINDOW_NS, window_ns=WINDOW_NS)
    assert _links(fabric, probes) == dict.fromkeys(_inner(fabric), 20)
    times = [probe.at_ns for probe in probes]
    assert times == sorted(times)
    assert 5 * WINDOW_NS <= times[0] < times[-1] < 6 * WINDOW_NS


def test_busy_links_get_none_and_half_busy_ones_the_rest() -> None:
    """Only what is missing to 20 pairs is probed."""
    fabric = _fabric()
    first, second, third, fourth = _inner(fabric)
    pairs = {first: 20, second: 500, third: 13}
    probes = ProbePlanner(fabric).plan(pairs, start_ns=0, window_ns=WINDOW_NS)
    assert _links(fabric, probes) == {third: 7, fourth: 20}


@pytest.mark.parametrize(("budget_pps", "window_ns"), [(1, WINDOW_NS), (10, 2 * WINDOW_NS), (0, 1)])
def test_the_budget_is_never_exceeded(budget_pps: int, window_ns: int) -> None:
    """At most budget x window probes, however much is missing."""
    planner = ProbePlanner(replace(_fabric(), probes=Probes(budget_pps=budget_pps)))
    for window in range(5):
        probes = planner.plan({}, start_ns=window * window_ns, window_ns=window_ns)
        assert len(probes) == budget_pps * window_ns // WINDOW_NS


def test_a_small_budget_reaches_every_link_in_turn() -> None:
    """Three probes a second over four links: after four seconds each has had three."""
    fabric = _fabric(budget_pps=3)
    planner = ProbePlanner(fabric)
    total: Counter[str] = Counter()
    for window in range(4):
        probes = planner.plan({}, start_ns=window * WINDOW_NS, window_ns=WINDOW_NS)
        total += _links(fabric, probes)
    assert total == dict.fromkeys(_inner(fabric), 3)


def test_without_a_probes_section_nothing_is_sent() -> None:
    """Probing is the operator's choice."""
    fabric = replace(_fabric(), probes=None)
    assert ProbePlanner(fabric).plan({}, start_ns=0, window_ns=WINDOW_NS) == []


def test_the_frame_is_one_that_only_a_neighbour_can_have_sent() -> None:
    """TTL 255, no UDP checksum, port 32767 both ways, the sender's node, port and sequence."""
    fabric = _fabric()
    probes = ProbePlanner(fabric).plan({}, start_ns=0, window_ns=WINDOW_NS)
    from_leaf1 = [p for p in probes if (p.switch, p.egress_port) == ("leaf1", 2)]
    for number, probe in enumerate(from_leaf1):
        datagram = unwrap_udp(probe.frame)
        assert (datagram.ip.version, datagram.udp.checksum) == (4, 0)
        assert datagram.udp.src_port == datagram.udp.dst_port == 32767
        assert datagram.ip.src_addr == fabric.switch("leaf1").ip
        assert datagram.ip.dst_addr == fabric.switch("spine2").ip
        assert datagram.ethernet.dst_addr == fabric.switch("spine2").mac
        content = decode(PROBE, probe.frame, datagram.payload_start)
        assert content == (1, 0, 0, 2, fabric.switch("leaf1").node_id, number)
        assert probe.packet_out == (2 << 7).to_bytes(2, "big") + probe.frame
    assert len(from_leaf1) == 10  # the other ten come from the spine's end


def test_pairs_are_counted_per_link_without_probes() -> None:
    """The rarer direction of each queue and length class counts, and probes do not."""
    run = draw(1, Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=1, samples=6, exchanges=1))
    pairs = pairs_per_link(run.packets, run.hops, run.model)
    assert set(pairs) == {link.name for link in run.model.links if not link.access}
    assert min(pairs.values()) >= 12  # two classes of at least six each
    run.packets["traffic"][:] = TRAFFIC_PROBE
    assert not any(pairs_per_link(run.packets, run.hops, run.model).values())
    one_way = run.packets[:1].copy()
    one_way["traffic"] = 1
    assert np.sum(list(pairs_per_link(one_way, run.hops, run.model).values())) == 0
