# SPDX-License-Identifier: Apache-2.0
"""Interfaces of a fabric, and the commands that make, join and delay them."""

from pathlib import Path

import pytest

from bmv2_lab.backends import bmv2
from bmv2_lab.backends.bmv2 import mininet_plan
from bmv2_lab.backends.cable_delays import directions, netem_commands
from bmv2_lab.backends.network import HOST_INTERFACE, host_commands, interfaces_of, link_commands
from bmv2_lab.truth import TrueLink
from controller.fabric_generate import leaf_spine

FABRIC = leaf_spine(leaves=2, spines=2)
INTERFACES = interfaces_of(FABRIC)
LINKS = tuple(
    TrueLink(name=link.name, a_to_b_ns=1_000 + number, b_to_a_ns=2_500_000 + number, bad=False)
    for number, link in enumerate(FABRIC.links)
)
IFNAMSIZ = 16
"""Linux: a name and its terminating zero."""


def test_names_fit_and_are_unique() -> None:
    """All names but the hosts' own interface stand once in one namespace."""
    names = [
        name
        for cable in INTERFACES.cables
        for name in (cable.interface_a, cable.wire_a, cable.wire_b, cable.interface_b)
        if name != HOST_INTERFACE
    ]
    names += [n for one in INTERFACES.captures.values() for n in (one.port, one.capture)]
    assert len(names) == len(set(names))
    assert all(len(name) < IFNAMSIZ for name in names)


def test_every_switch_port_has_an_interface() -> None:
    """Ports of all cables and the report port, as the fabric numbers them."""
    assert INTERFACES.ports["leaf1"] == {
        1: "s1p1",
        2: "s1p2",
        11: "s1p11",
        12: "s1p12",
        60: "s1p60",
    }
    assert INTERFACES.ports["spine2"] == {1: "s4p1", 2: "s4p2", 60: "s4p60"}


def test_a_hosts_end_is_made_in_its_namespace() -> None:
    """The peer of the wire's side goes straight to the host's namespace."""
    lines = link_commands(INTERFACES, {host.name: f"/ns/{host.name}" for host in FABRIC.hosts})
    (line,) = [line for line in lines if line.endswith("netns /ns/h3")]
    assert line == "link add name w7b mtu 9216 type veth peer name eth0 mtu 9216 netns /ns/h3"
    assert sum("link add" in line for line in lines) == 2 * len(FABRIC.links) + 4


def test_a_host_sends_everything_to_its_switch() -> None:
    """It has one address, and one neighbour that needs no ARP."""
    lines = host_commands(FABRIC.host("h3"), FABRIC.switch("leaf2"))
    assert "address add 10.0.2.1/32 dev eth0" in lines
    assert "route add default via 10.254.0.2 dev eth0 onlink" in lines
    assert any("10.254.0.2 lladdr 02:00:01:00:00:02 dev eth0 nud permanent" in x for x in lines)


def test_each_direction_has_its_own_delay() -> None:
    """What a's side receives leaves on b's side after the delay from a to b."""
    first, back = directions(INTERFACES.cables, LINKS)[:2]
    assert (first.receives, first.sends, first.delay_ns) == ("w1a", "w1b", 1_000)
    assert (back.receives, back.sends, back.delay_ns) == ("w1b", "w1a", 2_500_000)


def test_netem_stands_at_the_side_that_sends() -> None:
    """A frame from a is copied to where it leaves towards b, and delayed there."""
    lines = netem_commands(INTERFACES.cables, LINKS)
    assert lines[:4] == [
        "qdisc add dev w1b root netem delay 1.000us limit 100000",
        "qdisc add dev w1a ingress",
        "filter add dev w1a ingress matchall action mirred egress mirror dev w1b action drop",
        "qdisc add dev w1a root netem delay 2500.000us limit 100000",
    ]
    assert len(lines) == 6 * len(LINKS)


def test_no_delay_stands_at_an_end() -> None:
    """At a host's own interface it would come before the transmit stamp."""
    sides = {cable.wire_a for cable in INTERFACES.cables}
    sides |= {cable.wire_b for cable in INTERFACES.cables}
    lines = netem_commands(INTERFACES.cables, LINKS)
    assert {line.split()[3] for line in lines} == sides


def test_bmv2_gets_ports_and_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cabled port, P4Runtime on a Unix socket, and a Thrift port of its own."""
    monkeypatch.setattr(bmv2, "program_path", lambda program: f"/bin/{program}")
    plan = mininet_plan(FABRIC, INTERFACES, Path("/run/x"))
    switches = plan["switches"]
    assert isinstance(switches, list)
    arguments = switches[3]["arguments"]
    assert switches[3]["name"] == "spine2"
    assert arguments[:2] == ["/bin/simple_switch_grpc", "--no-p4"]
    assert "1@s4p1" in arguments
    assert "unix:/run/x/p4runtime-102" in arguments
    thrift = [one["arguments"][one["arguments"].index("--thrift-port") + 1] for one in switches]
    assert thrift == ["9090", "9091", "9092", "9093"]
    assert plan["hosts"] == ["h1", "h2", "h3", "h4"]
    links = plan["links"]
    assert isinstance(links, list)
    assert ["leaf1", "s1p1", "w1a"] in links
    assert ["h1", "eth0", "w5b"] in links
