# SPDX-License-Identifier: Apache-2.0
"""Attribution of slow transfers in a world whose culprits are known."""

import numpy as np
import pytest

from tests.support.tracing_world import Fault, World, build
from tracing_core.analysis import Analysis
from tracing_core.attribution import Attribution, VerdictKind
from tracing_core.attribution.verdict import decide
from tracing_core.store import Store

SLOW = 100


def answer(store: Store, world: World, transfer: int = SLOW) -> Attribution:
    world.fill(store)
    index = Analysis(store).attribution()
    row = index.find(*world.ids[transfer])
    assert row is not None
    return index.attribute(row)


def expected(world: World, kind: str, place: int) -> tuple[VerdictKind, str]:
    src_leaf, spine, dst_leaf, spine_number = world.paths[SLOW]
    sender, receiver = world.hosts[SLOW]
    src_port, dst_port = 11 + (int(sender[1:]) - 1) % 2, 11 + (int(receiver[1:]) - 1) % 2
    links = (
        f"{sender}:1->{src_leaf}:{src_port}",
        f"{src_leaf}:{spine_number}->{spine}:{src_leaf[-1]}",
        f"{spine}:{dst_leaf[-1]}->{dst_leaf}:{spine_number}",
        f"{dst_leaf}:{dst_port}->{receiver}:1",
    )
    hops = (f"{src_leaf}:{spine_number}", f"{spine}:{dst_leaf[-1]}", f"{dst_leaf}:{dst_port}")
    match kind:
        case "sender" | "nic":
            return VerdictKind.HOST, sender
        case "receiver":
            return VerdictKind.HOST, receiver
        case "hop":
            return VerdictKind.HOP, hops[place]
        case _:
            return VerdictKind.LINK, links[place]


CAUSES = [("sender", 0), ("nic", 0), ("receiver", 0)] + [
    (kind, place) for kind, count in (("hop", 3), ("link", 4)) for place in range(count)
]


@pytest.mark.parametrize(("kind", "place"), CAUSES)
def test_the_culprit_is_named(store: Store, kind: str, place: int) -> None:
    """Each kind of culprit at each place of the path is named, explaining nearly all excess."""
    world = build(11, faults=(Fault(transfer=SLOW, kind=kind, place=place, extra_ns=5_000),))
    verdict = answer(store, world)
    assert (verdict.kind, verdict.entity_id) == expected(world, kind, place), verdict.reason
    assert verdict.share is not None
    assert verdict.share > 0.9
    assert verdict.transfer.slow


def test_components_add_up_to_the_corrected_latency(store: Store) -> None:
    """The decomposition leaves nothing over: the sum is recv.end - send.start, corrected."""
    world = build(12)
    world.fill(store)
    index = Analysis(store).attribution()
    for row in range(0, len(index.transfers), 37):
        verdict = index.attribute(row)
        total = sum(part.value_ns or 0.0 for part in verdict.components)
        assert total == verdict.transfer.latency_corrected_ns


def test_a_usual_transfer_is_not_blamed_on_anything(store: Store) -> None:
    """Without a fault no transfer is slow, and asking for one names nothing."""
    verdict = answer(store, build(13))
    assert (verdict.kind, verdict.entity) == (VerdictKind.NONE, "")
    assert "not slow" in verdict.reason
    assert Analysis(store).attribution().slow_rows() == []


def test_two_equal_culprits_are_not_decided(store: Store) -> None:
    """Excess shared by two components abstains and says which two."""
    faults = tuple(Fault(transfer=SLOW, kind=kind, place=0, extra_ns=4_000) for kind in ("sender",))
    world = build(14, faults=faults)
    first = 3 * 2 * SLOW + 3  # the last packet's hops
    world.hops["egress_tstamp_local_ns"][first] += 3_900
    for hop in (1, 2):
        for name in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
            world.hops[name][first + hop] += 3_900
    verdict = answer(store, world)
    assert verdict.kind is VerdictKind.NONE
    assert "sender" in verdict.reason


def test_wide_bounds_keep_a_link_from_being_blamed(store: Store) -> None:
    """5 us on a link are not named when the clocks are only good to 4 us each."""
    fault = Fault(transfer=SLOW, kind="link", place=1, extra_ns=5_000)
    verdict = answer(store, build(15, faults=(fault,), bound_ns=4_000))
    assert verdict.kind is VerdictKind.NONE
    assert "within its uncertainty" in verdict.reason


def test_one_clock_components_need_no_correction_to_be_blamed(store: Store) -> None:
    """A hop's residence is on one clock: wide bounds do not hide 20 us in a queue."""
    fault = Fault(transfer=SLOW, kind="hop", place=1, extra_ns=20_000)
    world = build(16, faults=(fault,), bound_ns=4_000)
    verdict = answer(store, world)
    assert (verdict.kind, verdict.entity_id) == expected(world, "hop", 1)


@pytest.mark.parametrize("kind", ["hop", "link"])
def test_a_flagged_switch_is_compared_within_its_interval(store: Store, kind: str) -> None:
    """An undetermined offset cancels in the excess; the answer says that it relied on this."""
    fault = Fault(transfer=SLOW, kind=kind, place=1, extra_ns=5_000)
    world = build(17, faults=(fault,), flagged=("spine1",))
    verdict = answer(store, world)
    assert (verdict.kind, verdict.entity_id) == expected(world, kind, 1), verdict.reason
    assert verdict.clock_status["spine1"] == "flagged"
    links = [part for part in verdict.components if "spine1" in part.clocks and part.kind == "link"]
    assert links
    assert all(part.bound_conditional_ns is None for part in links)
    assert all("not determined" in " ".join(part.notes) for part in links)


def test_an_uncorrected_clock_makes_it_abstain(store: Store) -> None:
    """Without a correction of the receiver's clock the excess is unknown, not zero."""
    fault = Fault(transfer=SLOW, kind="sender", place=0, extra_ns=5_000)
    world = build(18, faults=(fault,))
    receiver = world.hosts[SLOW][1]
    world.corrections = [row for row in world.corrections if row.clock != receiver]
    verdict = answer(store, world)
    assert verdict.kind is VerdictKind.NONE
    assert verdict.transfer.excess_ns is None
    assert verdict.transfer.latency_corrected_ns is None
    assert verdict.clock_status[receiver] == "unknown"


def test_a_lost_report_of_the_last_packet_is_bridged(store: Store) -> None:
    """The packet before the last one tells the path; NIC stamps are interpolated and say so."""
    fault = Fault(transfer=SLOW, kind="receiver", place=0, extra_ns=9_000)
    world = build(19, faults=(fault,), lost={SLOW: 1})
    verdict = answer(store, world)
    assert (verdict.kind, verdict.entity_id) == expected(world, "receiver", 0)
    assert any("interpolated" in line for line in verdict.evidence)


def test_without_any_report_hosts_can_still_be_blamed_but_the_network_cannot(
    store: Store,
) -> None:
    """NIC stamps alone separate hosts from the network; which hop or link stays open."""
    faults = (
        Fault(transfer=SLOW, kind="sender", place=0, extra_ns=9_000),
        Fault(transfer=SLOW + 1, kind="hop", place=1, extra_ns=9_000),
    )
    lost = {index: 2 for index in range(0, 400, 3)} | {SLOW: 2, SLOW + 1: 2}
    world = build(20, faults=faults, lost=lost)
    assert answer(store, world).entity_id == world.hosts[SLOW][0]
    index = Analysis(store).attribution()
    row = index.find(*world.ids[SLOW + 1])
    assert row is not None
    verdict = index.attribute(row)
    assert verdict.kind is VerdictKind.NONE
    assert "reported completely" in verdict.reason


def test_a_host_that_is_always_slow_is_held_to_its_peers(store: Store) -> None:
    """A host whose every send takes 6 us more is named although that is usual for it."""
    world = build(21, slow_host=("h3", 6_000))
    world.fill(store)
    index = Analysis(store).attribution()
    rows = index.slow_rows()
    sent = [i for i, (sender, _) in enumerate(world.hosts) if sender == "h3"]
    assert len(rows) == len(sent)
    assert {index.attribute(row).entity_id for row in rows} == {"h3"}


def test_a_reused_sequence_number_is_told_apart_by_time(store: Store) -> None:
    """A later packet with the same flow and PSN is not taken for the transfer's."""
    fault = Fault(transfer=SLOW, kind="hop", place=0, extra_ns=5_000)
    world = build(22, faults=(fault,))
    copies = world.packets[2 * SLOW : 2 * SLOW + 2].copy()
    hops = world.hops[6 * SLOW : 6 * SLOW + 6].copy()
    for name in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        hops[name] += 5_000_000_000
    copies["first_hop"] = len(world.hops) + np.array([0, 3])
    world.hops = np.concatenate([world.hops, hops])
    world.packets = np.concatenate([world.packets, copies])
    verdict = answer(store, world)
    assert (verdict.kind, verdict.entity_id) == expected(world, "hop", 0)
    assert not any("repeatedly" in line for line in verdict.evidence)


def test_slow_transfers_are_listed_by_job_and_step(store: Store) -> None:
    """The list holds exactly the struck transfers, the slowest first, and can be narrowed."""
    faults = (
        Fault(transfer=40, kind="sender", place=0, extra_ns=5_000),
        Fault(transfer=200, kind="hop", place=2, extra_ns=8_000),
    )
    world = build(23, faults=faults)
    world.fill(store)
    index = Analysis(store).attribution()
    listed = [index.transfer(row).send_span_id for row in index.slow_rows()]
    assert listed == [world.ids[200][1], world.ids[40][1]]
    assert len(index.slow_rows(job="job-1", step=40 // 16)) == 1
    assert index.slow_rows(tenant="beta") == []


def test_the_index_of_an_empty_store_is_empty(store: Store) -> None:
    """No spans, no packets, no fabric: no transfers and no error."""
    index = Analysis(store).attribution()
    assert len(index.transfers) == 0
    assert index.slow_rows() == []


def test_decide_abstains_on_an_unknown_component() -> None:
    """An unknown excess may hide the cause, so nothing is named."""
    decision = decide(
        np.array([9_000.0, np.nan]),
        np.array([0.0, np.inf]),
        np.array([10.0, 10.0]),
        labels=["a", "b"],
    )
    assert decision.component is None
    assert "b" in decision.reason
