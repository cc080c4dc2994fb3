# SPDX-License-Identifier: Apache-2.0
"""What ports have heard, compared with the file: each kind of wrong cable by name."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controller.cabling.check import Cabling, FindingKind, LinkState, check_cabling
from controller.cabling.neighbour import Neighbour
from controller.cabling.rounds import checked_ports
from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_generate import leaf_spine


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two leaves with two hosts each, two spines: leaf ports 1 and 2 lead up, 11 and 12 down."""
    return leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, tenants=["t"])


def end(text: str) -> LinkEnd:
    """A port."""
    return LinkEnd.parse(text)


def says(text: str) -> Neighbour:
    """What one of our switches says."""
    port = end(text)
    return Neighbour(nodes=(port.node,), port=port.port, label=text)


def host(name: str) -> Neighbour:
    """What a host of the file says."""
    return Neighbour(nodes=(name,), port=None, label=f"{name} port eth0")


SWITCHES = ("leaf1", "leaf2", "spine1", "spine2")


def check(
    fabric: Fabric,
    changes: Mapping[str, Neighbour | str | None],
    *,
    away: str | None = None,
) -> Cabling:
    """The outcome where every switch port hears as in the file, but for these; a text: the port
    that it hears; None: nothing."""
    heard = {
        port: [says(str(other))]
        for port, other in cabling(fabric).items()
        if port.node in SWITCHES and other.node in SWITCHES
    }
    for port, sender in changes.items():
        heard.pop(end(port), None)
        if sender is not None:
            heard[end(port)] = [says(sender) if isinstance(sender, str) else sender]
    names = {name for name in SWITCHES if name != away}
    heard = {port: who for port, who in heard.items() if port.node in names}
    sent = {port for port in checked_ports(fabric) if port.node in names}
    heard = {p: [w for w in who if away not in w.nodes] for p, who in heard.items()}
    return check_cabling(fabric, heard, sent=sent, listening=names)


def found(outcome: Cabling) -> list[tuple[FindingKind, list[str]]]:
    """Kinds and ports."""
    return [(one.kind, [str(port) for port in one.ports]) for one in outcome.findings]


def test_fabric_as_in_the_file_has_no_finding(fabric: Fabric) -> None:
    """Links of hosts that say nothing are unchecked; the others are right."""
    outcome = check(fabric, {})
    assert not outcome.findings
    assert outcome.count(LinkState.RIGHT) == 4
    assert outcome.count(LinkState.UNCHECKED) == 4


def test_swapped_pair_is_one_finding(fabric: Fabric) -> None:
    """Two cables of a leaf have changed places: both ports, and where they lead."""
    outcome = check(
        fabric,
        {
            "leaf1:1": "spine2:1",
            "leaf1:2": "spine1:1",
            "spine1:1": "leaf1:2",
            "spine2:1": "leaf1:1",
        },
    )
    assert found(outcome) == [(FindingKind.SWAPPED, ["leaf1:1", "leaf1:2"])]
    assert outcome.findings[0].message == (
        "leaf1:1 and leaf1:2 are swapped: leaf1:1 leads to spine2:1, leaf1:2 to spine1:1"
    )
    assert outcome.links["leaf1:1-spine1:1"] is outcome.links["leaf1:2-spine2:1"] is LinkState.WRONG
    assert outcome.count(LinkState.RIGHT) == 2


def test_swap_at_the_other_end_names_the_ports_there(fabric: Fabric) -> None:
    """Two cables of a spine: the ports that share a switch are named, not those far apart."""
    outcome = check(
        fabric,
        {
            "leaf1:1": "spine1:2",
            "leaf2:1": "spine1:1",
            "spine1:2": "leaf1:1",
            "spine1:1": "leaf2:1",
        },
    )
    assert found(outcome) == [(FindingKind.SWAPPED, ["spine1:1", "spine1:2"])]


def test_swapped_hosts_are_found_by_what_they_say(fabric: Fabric) -> None:
    """h1 and h2 of a leaf, heard at each other's port."""
    outcome = check(fabric, {"leaf1:11": host("h2"), "leaf1:12": host("h1")})
    assert found(outcome) == [(FindingKind.SWAPPED, ["leaf1:11", "leaf1:12"])]


def test_hosts_at_their_places_are_right(fabric: Fabric) -> None:
    """A host that speaks LLDP confirms its link."""
    outcome = check(fabric, {"leaf1:11": host("h1")})
    assert not outcome.findings
    assert outcome.links["leaf1:11-h1:1"] is LinkState.RIGHT


def test_miscabled_port_names_the_cable_and_the_file(fabric: Fabric) -> None:
    """A cable leads to a port that the file gives to another one, which is left alone."""
    outcome = check(
        fabric,
        {"leaf1:1": "spine1:2", "spine1:2": "leaf1:1", "spine1:1": None, "leaf2:1": None},
    )
    assert found(outcome) == [(FindingKind.MISCABLED, ["leaf1:1", "spine1:2"])]
    assert outcome.findings[0].message == (
        "leaf1:1 is cabled to spine1:2; the file has leaf1:1-spine1:1 and leaf2:1-spine1:2"
    )


def test_cable_to_a_port_outside_the_file(fabric: Fabric) -> None:
    """Heard at that port only, since nothing is sent out of ports that the file does not have."""
    outcome = check(fabric, {"spine1:40": "leaf1:1", "leaf1:1": None, "spine1:1": None})
    assert found(outcome) == [(FindingKind.MISCABLED, ["leaf1:1", "spine1:40"])]
    assert outcome.findings[0].message.endswith("the file has leaf1:1-spine1:1")


def test_wrong_cable_that_works_one_way_says_so(fabric: Fabric) -> None:
    """Both ends send and listen, but one of them hears nothing."""
    outcome = check(
        fabric, {"leaf1:1": "spine1:2", "spine1:2": None, "spine1:1": None, "leaf2:1": None}
    )
    assert outcome.findings[0].message.endswith("; spine1:2 hears nothing of it")


def test_one_way_link_names_the_deaf_end(fabric: Fabric) -> None:
    """The spine hears the leaf; nothing comes back."""
    outcome = check(fabric, {"leaf1:1": None})
    assert found(outcome) == [(FindingKind.ONE_WAY, ["leaf1:1", "spine1:1"])]
    assert outcome.findings[0].message == (
        "leaf1:1-spine1:1: spine1:1 hears leaf1:1, but leaf1:1 hears nothing of spine1:1"
    )


def test_missing_cable_is_silent(fabric: Fabric) -> None:
    """Neither end hears anything."""
    outcome = check(fabric, {"leaf2:2": None, "spine2:2": None})
    assert found(outcome) == [(FindingKind.SILENT, ["leaf2:2", "spine2:2"])]
    assert outcome.links["leaf2:2-spine2:2"] is LinkState.WRONG


def test_switch_that_is_away_makes_its_links_unchecked(fabric: Fabric) -> None:
    """Nothing can be said of a link when one end neither sends nor tells what it hears."""
    outcome = check(fabric, {}, away="spine1")
    assert not outcome.findings
    assert outcome.links["leaf1:1-spine1:1"] is LinkState.UNCHECKED
    assert outcome.links["leaf1:2-spine2:1"] is LinkState.RIGHT


def test_unknown_neighbour_is_named(fabric: Fabric) -> None:
    """Somebody at a host's port whom the file does not know."""
    stranger = Neighbour(nodes=(), port=None, label="printer port 1")
    outcome = check(fabric, {"leaf1:11": stranger})
    assert found(outcome) == [(FindingKind.UNKNOWN, ["leaf1:11"])]
    assert outcome.findings[0].message == (
        "leaf1:11 is cabled to printer port 1; the file has h1:1 there"
    )


def test_port_that_hears_itself_is_a_loop(fabric: Fabric) -> None:
    """A loopback plug, or a reflection."""
    outcome = check(fabric, {"leaf1:1": "leaf1:1", "spine1:1": None})
    assert found(outcome) == [(FindingKind.LOOPED, ["leaf1:1"])]


def test_two_neighbours_at_one_port(fabric: Fabric) -> None:
    """The right one and another one: something in between passes LLDP on."""
    heard = {
        port: {says(str(other))}
        for port, other in cabling(fabric).items()
        if port.node in SWITCHES and other.node in SWITCHES
    }
    heard[end("leaf1:1")].add(says("leaf2:1"))
    outcome = check_cabling(fabric, heard, sent=set(checked_ports(fabric)), listening=set(SWITCHES))
    assert found(outcome) == [(FindingKind.SHARED, ["leaf1:1"])]
    assert outcome.findings[0].message == "leaf1:1 hears leaf2:1 besides spine1:1"


def test_host_with_two_cables_is_right_at_both(fabric: Fabric) -> None:
    """Which of its ports a host's name means cannot be told, so either is right."""
    second = replace(fabric.links[0], a=end("h1:2"), b=end("leaf2:13"))
    both = replace(fabric, links=(*fabric.links, second))
    outcome = check(both, {"leaf1:11": host("h1"), "leaf2:13": host("h1")})
    assert not outcome.findings
