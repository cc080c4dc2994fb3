# SPDX-License-Identifier: Apache-2.0
"""When links are down, up again, and kept down."""

from dataclasses import replace

import pytest

from controller.cabling.check import Cabling, Finding, FindingKind, LinkState
from controller.fabric import LinkEnd
from controller.fabric_generate import leaf_spine
from controller.link_events.damping import (
    HALF_LIFE_NS,
    HOLD_NS,
    KEPT_DOWN_NS_MAX,
    LinkChange,
    LinkDamping,
)
from controller.link_events.lldp_links import LldpLinks

LINK = "leaf1:1-spine1:1"


def test_down_at_once_and_up_when_the_last_source_has_been_silent_for_the_hold_time() -> None:
    """Two sources complain; the second one's withdrawal counts, and nothing is said twice."""
    damping = LinkDamping()
    down = damping.complain(LINK, "gnmi", "DOWN", 0)
    assert down == LinkChange(link=LINK, up=False, reason="DOWN")
    assert damping.complain(LINK, "lldp", "silent", 5) is None
    damping.withdraw(LINK, "gnmi", 10)
    assert damping.wake_ns is None
    damping.withdraw(LINK, "lldp", 20)
    assert damping.wake_ns == 20 + HOLD_NS
    assert damping.due(19 + HOLD_NS) == []
    assert damping.due(20 + HOLD_NS) == [LinkChange(link=LINK, up=True, reason="")]
    assert damping.due(20 + 2 * HOLD_NS) == []
    assert damping.wake_ns is None


def test_complaint_within_the_hold_time_is_no_second_failure() -> None:
    """The link never came up, so it is not told again, and the hold time begins anew."""
    damping = LinkDamping()
    damping.complain(LINK, "gnmi", "DOWN", 0)
    damping.withdraw(LINK, "gnmi", 10)
    assert damping.complain(LINK, "gnmi", "DOWN", 20) is None
    damping.withdraw(LINK, "gnmi", 30)
    assert damping.wake_ns == 30 + HOLD_NS


def flap(damping: LinkDamping, count: int, now_ns: int) -> int:
    """Down and up again as fast as the hold time allows; when the link is wanted up last."""
    for _ in range(count):
        damping.complain(LINK, "gnmi", "DOWN", now_ns)
        damping.withdraw(LINK, "gnmi", now_ns)
        now_ns += HOLD_NS
        if damping.kept_down:
            return now_ns
        assert damping.due(now_ns)
    return now_ns


def test_third_failure_within_seconds_keeps_the_link_down_until_the_penalty_has_halved() -> None:
    """1000 each, half of it gone after 5 s: up again once the sum is down to 1000."""
    damping = LinkDamping()
    now_ns = flap(damping, 3, 0)
    assert damping.kept_down == (LINK,)
    assert now_ns == 3 * HOLD_NS
    wake_ns = damping.wake_ns
    assert wake_ns is not None
    penalty = 1_000 * (1 + 2 ** (-1 / 5) + 2 ** (-2 / 5))
    assert 2 ** ((wake_ns - 2 * HOLD_NS) / HALF_LIFE_NS) * 1_000 == pytest.approx(penalty)
    assert damping.due(wake_ns - 1) == []
    assert damping.due(wake_ns) == [LinkChange(link=LINK, up=True, reason="")]
    assert damping.kept_down == ()


def test_link_that_never_rests_is_up_at_most_so_long_after_its_last_failure() -> None:
    """The penalty is bounded, whatever came before."""
    damping = LinkDamping()
    now_ns = 0
    for _ in range(1_000):
        wake_ns = damping.wake_ns
        now_ns = now_ns + 1 if wake_ns is None else wake_ns
        damping.due(now_ns)
        damping.complain(LINK, "gnmi", "DOWN", now_ns)
        damping.withdraw(LINK, "gnmi", now_ns)
    assert damping.wake_ns is not None
    assert damping.wake_ns - now_ns <= KEPT_DOWN_NS_MAX


def test_links_that_are_gone_are_forgotten() -> None:
    """A file without the link ends everything about it."""
    damping = LinkDamping()
    damping.complain(LINK, "gnmi", "DOWN", 0)
    damping.withdraw(LINK, "gnmi", 0)
    damping.follow(["another"])
    assert damping.wake_ns is None


FABRIC = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
BETWEEN = [link.name for link in FABRIC.links if link.b.node.startswith("spine")]


def cabling(*silent: str, unchecked: tuple[str, ...] = ()) -> Cabling:
    """All links between switches are right, but for these."""
    states = dict.fromkeys(BETWEEN, LinkState.RIGHT)
    states |= dict.fromkeys(silent, LinkState.WRONG)
    states |= dict.fromkeys(unchecked, LinkState.UNCHECKED)
    findings = [
        Finding(
            kind=FindingKind.SILENT,
            ports=(LinkEnd.parse(name.split("-")[0]), LinkEnd.parse(name.split("-")[1])),
            message=name,
        )
        for name in silent
    ]
    return Cabling(findings=tuple(findings), links=states, listening=frozenset())


def test_silence_counts_only_of_a_link_that_was_heard() -> None:
    """A link that never spoke may be one that passes no LLDP."""
    links = LldpLinks(FABRIC)
    assert links.judge(cabling(LINK)) == {}
    assert links.judge(cabling()) == {}
    assert links.judge(cabling(LINK)) == {LINK: f"LLDP: silent: {LINK}"}


def test_dead_link_stays_dead_while_nobody_can_look() -> None:
    """A switch that is away proves nothing; only being heard does."""
    links = LldpLinks(FABRIC)
    links.judge(cabling())
    links.judge(cabling(LINK))
    assert LINK in links.judge(cabling(unchecked=(LINK,)))
    assert links.judge(cabling()) == {}


def test_switch_that_hears_nothing_at_all_fails_no_link() -> None:
    """All links of spine1 at once: it is the way to the controller that is silent."""
    links = LldpLinks(FABRIC)
    links.judge(cabling())
    of_spine = [name for name in BETWEEN if "spine1" in name]
    assert len(of_spine) == 2
    assert links.judge(cabling(*of_spine)) == {}


def test_another_file_forgets_neither_dead_links_nor_those_that_were_heard() -> None:
    """A change of something else puts no dead link back into use; a link that is gone is forgotten,
    and counts as never heard when it comes again."""
    links = LldpLinks(FABRIC)
    links.judge(cabling())
    dead = links.judge(cabling(LINK))
    again = LldpLinks(replace(FABRIC, name="other"), links)
    assert again.judge(cabling(LINK)) == dead
    assert again.judge(cabling()) == {}
    assert again.judge(cabling(LINK)) == dead
    without = replace(FABRIC, links=tuple(one for one in FABRIC.links if one.name != LINK))
    assert LldpLinks(FABRIC, LldpLinks(without, again)).judge(cabling(LINK)) == {}
