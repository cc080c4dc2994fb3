# SPDX-License-Identifier: Apache-2.0
"""Which frames are sent, and for how long what was heard holds."""

from dataclasses import replace

import pytest

from controller.cabling.check import Cabling, FindingKind
from controller.cabling.lldp import LldpFrame, encode_lldp
from controller.cabling.rounds import NEIGHBOURS_MAX, Rounds, checked_ports, punts_lldp
from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import PuntRule

NS_PER_S = 1_000_000_000


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """A leaf with a host, and a spine."""
    return leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])


def run_round(rounds: Rounds, fabric: Fabric, *, lost: str | None = None) -> Cabling | None:
    """A round over cables as in the file; what leaves the port `lost` does not arrive."""
    rounds.begin()
    cables = cabling(fabric)
    for port, frame in rounds.frames():
        rounds.sent(port)
        if str(port) != lost:
            rounds.hear(cables[port], frame, 0)
    return rounds.judge(0)


def stranger(ttl_s: int, name: str = "printer") -> bytes:
    """LLDP of somebody who is not in the file."""
    return encode_lldp(
        LldpFrame(
            src_mac=0x0200DEADBEEF,
            chassis_subtype=7,
            chassis_id=b"x",
            port_subtype=7,
            port_id=b"1",
            ttl_s=ttl_s,
            system_name=name,
        )
    )


def test_every_cabled_switch_port_sends(fabric: Fabric) -> None:
    """Those to hosts too, so that hosts can see where they are."""
    assert [str(port) for port in checked_ports(fabric)] == ["leaf1:1", "leaf1:11", "spine1:1"]
    rounds = Rounds(fabric, ttl_s=1)
    assert {port for port, _ in rounds.frames()} == set(checked_ports(fabric))


def test_one_round_says_nothing_and_one_lost_frame_neither(fabric: Fabric) -> None:
    """A judgement needs two rounds, and a finding silence in both."""
    rounds = Rounds(fabric, ttl_s=1)
    assert run_round(rounds, fabric) is None
    lost = run_round(rounds, fabric, lost="spine1:1")
    assert lost is not None
    assert not lost.findings
    again = run_round(rounds, fabric, lost="spine1:1")
    assert again is not None
    assert [one.kind for one in again.findings] == [FindingKind.ONE_WAY]
    well = run_round(rounds, fabric)
    assert well is not None
    assert not well.findings


def test_switch_that_was_away_is_judged_after_two_rounds(fabric: Fabric) -> None:
    """It may have lost its entries in between, so its silence says nothing."""
    rounds = Rounds(fabric, ttl_s=1)
    for _ in range(2):
        run_round(rounds, fabric)
    rounds.deaf("leaf1")
    outcomes = [run_round(rounds, fabric, lost="spine1:1") for _ in range(3)]
    assert [bool(one and one.findings) for one in outcomes] == [False, True, True]


def test_cable_that_is_moved_within_a_round_is_no_second_neighbour() -> None:
    """The last one heard counts; two that stay for two rounds are a bridge in between."""
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    rounds = Rounds(fabric, ttl_s=1)
    for _ in range(2):
        run_round(rounds, fabric)
    spine, frames = LinkEnd(node="spine1", port=1), dict(rounds.frames())
    kinds = []
    for _ in range(2):
        run_round(rounds, fabric)
        rounds.hear(spine, frames[LinkEnd(node="leaf2", port=1)], 0)
        judged = rounds.judge(0)
        assert judged is not None
        kinds.append([one.kind for one in judged.findings if spine in one.ports])
    assert kinds == [[FindingKind.MISCABLED], [FindingKind.SHARED]]


def test_what_others_say_holds_for_their_time_to_live(fabric: Fabric) -> None:
    """120 s, or until they say goodbye with a time to live of 0."""
    rounds = Rounds(fabric, ttl_s=1)
    port = LinkEnd(node="leaf1", port=11)
    for _ in range(2):
        run_round(rounds, fabric)
    rounds.hear(port, stranger(120), 0)
    kinds = []
    for now_ns in (0, 120 * NS_PER_S - 1, 120 * NS_PER_S):
        judged = rounds.judge(now_ns)
        assert judged is not None
        kinds.append([one.kind for one in judged.findings])
    assert kinds == [[FindingKind.UNKNOWN], [FindingKind.UNKNOWN], []]
    rounds.hear(port, stranger(120), 0)
    rounds.hear(port, stranger(0), 0)
    judged = rounds.judge(0)
    assert judged is not None
    assert not judged.findings


def test_flood_of_names_is_bounded_and_other_frames_are_left_alone(fabric: Fabric) -> None:
    """A port keeps so many senders; ARP is nobody's malformed LLDP."""
    rounds = Rounds(fabric, ttl_s=1)
    port = LinkEnd(node="leaf1", port=11)
    for _ in range(2):
        run_round(rounds, fabric)
    for number in range(100):
        rounds.hear(port, stranger(120, f"n{number}"), number)
    rounds.hear(port, bytes(12) + b"\x08\x06" + bytes(46), 0)
    rounds.hear(port, bytes(12) + b"\x88\xcc", 0)
    judged = rounds.judge(0)
    assert judged is not None
    assert len(judged.findings) == NEIGHBOURS_MAX
    assert rounds.counters.malformed == 1


def test_punt_rules_that_take_lldp(fabric: Fabric) -> None:
    """The usual ones do; a rule for everything does; one for IP does not."""
    assert punts_lldp(fabric)
    assert punts_lldp(replace(fabric, punt=(PuntRule(name="all"),)))
    assert not punts_lldp(replace(fabric, punt=(PuntRule(name="arp", ether_type=0x0806),)))
    assert not punts_lldp(replace(fabric, punt=(PuntRule(name="ospf", protocol=89),)))
