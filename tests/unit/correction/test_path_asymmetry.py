# SPDX-License-Identifier: Apache-2.0
"""Delays of paths and their asymmetry: signs, factor, uncertainties and causes by hand."""

from dataclasses import replace

import numpy as np
import pytest

from correction.asymmetry_causes import CauseKind, Travel
from correction.exchange import estimate_offset
from correction.flow_paths import PathHop
from correction.link_delays import ACROSS_CUT, LinkBasis, LinkDelays
from correction.links import port_index
from correction.path_asymmetry import PathAsymmetry, change_of, path_asymmetry
from correction.path_delays import PathDelay, PathError, path_delay, port_delays
from correction.residences import Residence
from tests.support.hand_links import BACK1, BACK2, H1, H2, TWO_SPINES, UP1, UP2, hand_fabric


def one_way(delays, path, residences=()) -> PathDelay:
    return path_delay(path, delays, port_index(delays.model), residences=residences)


def pair(delays: LinkDelays, there, back, stays=((), ())) -> PathAsymmetry:
    return path_asymmetry(one_way(delays, there, stays[0]), one_way(delays, back, stays[1]), delays)


def stay(*median_ns: float) -> tuple[Residence, ...]:
    return tuple(
        Residence(count=1, least_ns=one, median_ns=one, p99_ns=one, most_ns=one)
        for one in median_ns
    )


def test_ten_microseconds_there_and_four_back_are_plus_three():
    """clocks.md 1.1: A is half the difference, positive where reference -> client is slower; and
    it is what an exchange over these delays needs to find equal clocks."""
    delays = hand_fabric({"h1-s": (4_000.0, 2_000.0), "h2-s": (2_000.0, 6_000.0)})
    result = pair(delays, (PathHop(1, H1, H2),), (PathHop(1, H2, H1),))
    assert result.forward.link_delay.value_ns == 10_000.0
    assert result.reverse.link_delay.value_ns == 4_000.0
    assert result.asymmetry.value_ns == 3_000.0
    estimate = estimate_offset(
        t1_reference_ns=0,
        t2_local_ns=10_000,
        t3_local_ns=20_000,
        t4_reference_ns=24_000,
        delay_asymmetry_ns=result.asymmetry.value_ns,
    )
    assert estimate.offset_ns == 0.0


def test_residences_count_beside_the_links():
    """Totals contain them, the asymmetry of the links does not: correctionFields take them out."""
    delays = hand_fabric({"h1-s": (4_000.0, 2_000.0), "h2-s": (2_000.0, 6_000.0)})
    hops = (PathHop(1, H1, H2),), (PathHop(1, H2, H1),)
    result = pair(delays, *hops, (stay(9_000.0), stay(1_000.0)))
    assert result.forward.total_ns == 19_000.0
    assert result.asymmetry.value_ns == 3_000.0
    assert result.residence_asymmetry_ns == 4_000.0
    assert result.whole_ns == 7_000.0
    (share,) = result.hop_shares
    assert (share.kind, share.subject, share.travel) == (CauseKind.HOP, "s", Travel.BOTH)
    assert share.contribution_ns == 4_000.0


def test_a_cable_used_both_ways_leaves_its_own_asymmetry_only():
    """Round trips cancel, however badly they are known; a_uv enters once, with the sign of the
    forward direction."""
    delays = hand_fabric(
        TWO_SPINES | {"leaf2-spine1": (70.0, 130.0)}, sd_ns=5.0, half_sd_ns=1_000.0
    )
    result = pair(delays, UP1, BACK1)
    assert result.same_links
    assert result.asymmetry.value_ns == 30.0  # spine1 -> leaf2 takes 130, back 70
    assert result.asymmetry.sd_ns == pytest.approx(np.sqrt(4) * 5.0)
    assert result.forward.link_delay.sd_ns == pytest.approx(np.sqrt(4 * 1_000.0**2 + 4 * 5.0**2))


def test_other_cables_back_bring_half_of_their_round_trips():
    """Uncertainty of independent halves and differences, each with weight one half."""
    delays = hand_fabric(TWO_SPINES | {"leaf1-spine2": (300.0, 300.0)}, sd_ns=5.0, half_sd_ns=2.0)
    result = pair(delays, UP1, BACK2)
    assert not result.same_links
    assert result.asymmetry.value_ns == -100.0  # (300 - 500) / 2
    cables = 4 * (0.5 * 5.0) ** 2 + 4 * (0.5 * 2.0) ** 2
    assert result.asymmetry.sd_ns == pytest.approx(np.sqrt(cables + 2 * 5.0**2))


def test_correlated_links_cancel_or_add_with_the_signs_of_travel():
    """What a loop says of two links of one path: their sum is known, each alone is not."""
    covariance = np.eye(6) * 1e-6
    # up leaf1-spine1, then down leaf2-spine1 against its listed direction: signs +, -
    covariance[1, 1] = covariance[2, 2] = 400.0
    for together, expected in ((400.0, 0.0), (-400.0, 40.0)):
        covariance[1, 2] = covariance[2, 1] = together
        delays = hand_fabric(TWO_SPINES, covariance_ns2=covariance.copy(), half_sd_ns=0.0)
        assert pair(delays, UP1, BACK1).asymmetry.sd_ns == pytest.approx(expected, abs=0.01)


def test_hard_bound_is_that_of_the_two_clocks():
    """However many links there are: A = what stamps show - (theta_v - theta_u)."""
    delays = hand_fabric(TWO_SPINES, reach_ns=200.0)
    result = pair(delays, UP1, BACK2).asymmetry
    assert result.hard_low_ns == pytest.approx(-200.0, abs=1.01)
    assert result.hard_high_ns == pytest.approx(200.0, abs=1.01)
    assert result.bound_conditional_ns < result.bound_hard_ns


def test_estimate_is_moved_into_its_hard_interval():
    """An estimate outside what causality leaves is not published."""
    delays = hand_fabric(TWO_SPINES | {"leaf1-spine1": (700.0, 100.0)}, reach_ns=0.0)
    moved = replace(delays, difference_ns=delays.difference_ns + 50.0)
    result = pair(moved, UP1, BACK1).asymmetry
    assert result.hard_low_ns <= result.value_ns <= result.hard_high_ns
    assert result.value_ns == pytest.approx(300.0, abs=1.01)


def test_change_of_path_needs_no_clock():
    """Two paths between the same hosts: their difference is measured, with no prior and whatever
    clocks are doing."""
    cables = {"leaf1-spine2": (400.0, 340.0), "leaf2-spine2": (120.0, 180.0)}
    delays = hand_fabric(TWO_SPINES | cables, reach_ns=np.inf)
    before, after = pair(delays, UP1, BACK1), pair(delays, UP2, BACK1)
    one = change_of(before.forward.terms, after.forward.terms, delays)
    assert one.value_ns == 400.0 + 180.0 - 200.0
    assert one.hard_high_ns - one.hard_low_ns <= 2.01
    half = change_of(before.terms, after.terms, delays)
    assert half.value_ns == one.value_ns / 2
    assert half.bound_hard_ns <= 1.01
    assert after.asymmetry.bound_hard_ns == np.inf


def test_shares_add_up_and_the_longest_detour_is_the_cause():
    """A long cable on one side is one cause; what both directions share is judged by its own
    asymmetry."""
    cables = {
        "h1-leaf1": (53.0, 47.0),
        "leaf1-spine2": (600.0, 600.0),
        "leaf2-spine2": (80.0, 80.0),
    }
    result = pair(hand_fabric(TWO_SPINES | cables), UP2, BACK1)
    assert sum(share.contribution_ns for share in result.shares) == pytest.approx(
        result.asymmetry.value_ns
    )
    assert result.asymmetry.value_ns == 3.0 + (680.0 - 200.0) / 2
    assert result.cause is not None
    assert (result.cause.subject, result.cause.travel) == ("leaf1-spine2", Travel.FORWARD)
    assert result.cause.route_ns == (600.0 - 220.0) / 2
    access = next(share for share in result.shares if share.subject == "h1-leaf1")
    assert (access.travel, access.contribution_ns, access.asymmetry_ns) == (Travel.BOTH, 3.0, 3.0)


def test_asymmetry_within_its_bound_has_no_cause():
    """What may be zero is nobody's fault."""
    assert pair(hand_fabric(TWO_SPINES, sd_ns=5.0), UP1, BACK2).cause is None


def test_more_links_one_way_are_a_cause_of_their_own():
    """Two spines to cross on the way there, one on the way back."""
    delays = hand_fabric(
        {
            "h1-leaf1": (50.0, 50.0),
            "leaf1-spine1": (100.0, 100.0),
            "leaf2-spine1": (100.0, 100.0),
            "leaf1-spine2": (100.0, 100.0),
            "spine2-spine3": (100.0, 100.0),
            "leaf2-spine3": (100.0, 100.0),
            "h2-leaf2": (50.0, 50.0),
        }
    )
    longer = (PathHop(1, H1, 2), PathHop(4, 1, 2), PathHop(5, 1, 2), PathHop(2, 2, H2))
    result = pair(delays, longer, BACK1)
    assert result.asymmetry.value_ns == 50.0
    assert [share.kind for share in result.shares[:1]] == [CauseKind.MORE_LINKS]
    assert result.shares[0].contribution_ns == 50.0


def test_unmeasured_link_leaves_nothing_known_and_is_named():
    """Unknown is not zero."""
    delays = hand_fabric(TWO_SPINES, basis={"leaf2-spine2": LinkBasis.UNMEASURED})
    result = pair(delays, UP2, BACK1)
    assert not result.asymmetry.known
    assert "leaf2-spine2" in result.asymmetry.reason
    assert result.asymmetry.bound_conditional_ns == np.inf
    assert result.cause is None
    assert pair(delays, UP1, BACK1).asymmetry.known


def test_doubtful_link_leaves_the_hard_bound_and_says_why():
    """Across a cut that the prior does not decide the conditional bound is the hard one; a change
    between two measured paths is as sure as before."""
    delays = hand_fabric(TWO_SPINES, reach_ns=200.0)
    doubtful = replace(delays, doubt=("", ACROSS_CUT, ACROSS_CUT, "", "", ""))
    result = pair(doubtful, UP1, BACK1)
    assert result.asymmetry.bound_conditional_ns == result.asymmetry.bound_hard_ns
    assert result.asymmetry.reason == ACROSS_CUT
    other = pair(doubtful, UP2, BACK2)
    assert other.asymmetry.bound_conditional_ns < 40.0
    assert change_of(result.terms, other.terms, doubtful).bound_conditional_ns <= 1.01


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ((), "no switch"),
        ((PathHop(1, H1, 9), PathHop(3, 1, 2), PathHop(2, 1, H2)), "port 9 of node 1"),
        ((PathHop(1, H1, 1), PathHop(2, 1, H2)), "no cable joins"),
        ((PathHop(3, 1, 2), PathHop(2, 1, H2)), "leads to no host"),
    ],
)
def test_path_that_cables_do_not_explain_is_refused(path, message):
    """With what does not fit."""
    with pytest.raises(PathError, match=message):
        one_way(hand_fabric(TWO_SPINES), path)


def test_way_back_must_join_the_same_hosts():
    """Forward and reverse are of one pair of clocks."""
    delays = hand_fabric(TWO_SPINES)
    with pytest.raises(ValueError, match="way back"):
        pair(delays, UP1, UP2)


def test_port_delays_are_both_directions_of_every_cable():
    """half round trip + a towards b, - a towards a."""
    delays = hand_fabric(TWO_SPINES | {"leaf1-spine1": (130.0, 90.0)})
    told = {(one.link, one.reverse): one.delay.value_ns for one in port_delays(delays)}
    assert len(told) == 2 * len(TWO_SPINES)
    assert (told[1, False], told[1, True]) == (130.0, 90.0)
