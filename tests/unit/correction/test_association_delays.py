# SPDX-License-Identifier: Apache-2.0
"""PTP associations on the paths of their own messages; what was injected does not come back."""

from dataclasses import dataclass

import numpy as np
import pytest

from correction.association_delays import NO_EXCHANGE, NOT_FOLLOWED, Association, associations
from correction.engine import solve
from correction.flow_paths import Path, PathHop
from correction.injected import END_OF_TIME_NS, INJECTED_DTYPE, SCALED_PER_NS, Injected
from correction.link_delays import LinkDelays, link_delays
from correction.links import residence_time_ns
from correction.path_delays import PathSource
from correction.records import TRAFFIC_PTP
from tests.support.synthetic_fabric import Run, Setup, draw

SETUP = Setup(leaves=3, spines=4, windows=1, bad_share=0.0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recording and what follows from it."""

    run: Run
    delays: LinkDelays

    def associations(self, **changes) -> dict[int, Association]:
        """By client."""
        given = {"exchanges": self.run.exchanges, "packets": self.run.packets} | changes
        found = associations(given.pop("packets"), self.run.hops, delays=self.delays, **given)
        return {one.client: one for one in found}


@pytest.fixture(scope="module")
def case() -> Case:
    """Three leaves, four spines, six hosts, PTP over fixed paths."""
    run = draw(2, SETUP)
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    return Case(run=run, delays=link_delays(solution))


def path_of(run: Run, packet: np.void) -> Path:
    """As reported."""
    first = int(packet["first_hop"])
    rows = run.hops[first : first + int(packet["hop_count"])]
    return tuple(PathHop(*(int(row[name]) for name in PathHop._fields)) for row in rows)


def exchanges_with(run: Run, injected: Injected, *, residence: bool):
    """Every exchange with the correctionFields that its messages' switches would have made."""
    per_hop = residence_time_ns(run.hops, run.model).astype(np.float64) * residence
    for row in injected.rows:
        here = run.hops["node_id"] == row["node_id"]
        here &= run.hops["ingress_port"] == row["ingress_port"]
        per_hop[here] += row["delay_scaled_ns"] / SCALED_PER_NS
    exchanges = run.exchanges.copy()
    ptp = run.packets[run.packets["traffic"] == TRAFFIC_PTP]
    total = [per_hop[one["first_hop"] : one["first_hop"] + one["hop_count"]].sum() for one in ptp]
    key = {
        (int(p["src_ip"]), int(p["dst_ip"]), int(p["ptp_sequence_id"])): round(float(c))
        for p, c in zip(ptp, total, strict=True)
    }
    for row in exchanges:
        ends = int(row["time_transmitter_ip"]), int(row["client_ip"])
        row["c1_ns"] = key[(*ends, int(row["sync_sequence_id"]))]
        row["c2_ns"] = key[(*ends[::-1], int(row["delay_req_sequence_id"]))]
    return exchanges


def injected_delays(run: Run) -> Injected:
    """20 ns and more at every switch port that anything came in by, from before the recording."""
    ports = np.unique(run.hops[["node_id", "ingress_port"]])
    rows = np.zeros(len(ports), INJECTED_DTYPE)
    rows["node_id"], rows["ingress_port"] = ports["node_id"], ports["ingress_port"]
    rows["delay_scaled_ns"] = (20 + 7 * np.arange(len(ports))) * SCALED_PER_NS
    rows["to_collector_ns"] = END_OF_TIME_NS
    return Injected(rows=rows)


def test_every_client_has_its_own_paths(case: Case) -> None:
    """Those of its own Syncs and Delay_Reqs; the reference is nobody's client."""
    found = case.associations()
    assert sorted(found) == [1, 2, 3, 4, 5]
    ptp = case.run.packets[case.run.packets["traffic"] == TRAFFIC_PTP]
    for client, one in found.items():
        assert one.followed == one.accepted == SETUP.exchanges
        (span,) = one.spans
        ip = case.run.model.clocks[client].ip
        assert span.asymmetry.forward.path == path_of(case.run, ptp[ptp["dst_ip"] == ip][0])
        assert span.asymmetry.reverse.path == path_of(case.run, ptp[ptp["src_ip"] == ip][0])
        assert span.asymmetry.forward.clocks == (0, client)


def test_residences_are_those_of_the_same_messages(case: Case) -> None:
    """Each hop's median over the association's own packets; without transparent clocks half of
    their difference comes on top of what the links leave."""
    (span,) = case.associations()[4].spans
    pair = span.asymmetry
    assert pair.residence_asymmetry_ns is not None
    ptp = case.run.packets[case.run.packets["traffic"] == TRAFFIC_PTP]
    syncs = ptp[ptp["dst_ip"] == case.run.model.clocks[4].ip]
    stays = residence_time_ns(case.run.hops, case.run.model)
    for number, residence in enumerate(pair.forward.residences):
        own = stays[syncs["first_hop"] + number]
        assert residence.count == len(syncs)
        assert residence.median_ns == pytest.approx(np.median(own), rel=1e-4)  # rates: 50 ppm
        assert residence.most_ns == pytest.approx(own.max(), rel=1e-4)
    assert span.carried_ns[0] == pytest.approx(-pair.forward.residence_ns, rel=0.5)


def test_asymmetry_does_not_see_what_was_injected(case: Case) -> None:
    """correctionFields full of link delays change no bit of the path's own asymmetry; what they
    carry beyond residence is the sum over the ports of each path."""
    injected = injected_delays(case.run)
    plain = case.associations()
    exchanges = exchanges_with(case.run, injected, residence=True)
    found = case.associations(exchanges=exchanges, injected=injected)
    at = {
        (int(row["node_id"]), int(row["ingress_port"])): row["delay_scaled_ns"] / SCALED_PER_NS
        for row in injected.rows
    }
    for client, one in found.items():
        (span,) = one.spans
        pair = span.asymmetry
        assert pair.asymmetry == plain[client].spans[0].asymmetry.asymmetry
        for column, path in enumerate((pair.forward.path, pair.reverse.path)):
            written = sum(at[hop.node_id, hop.ingress_port] for hop in path)
            assert span.injected_ns[column] == written
            assert span.carried_ns[column] == pytest.approx(written, abs=1.0)


def test_what_is_left_is_what_correction_fields_do_not_explain(case: Case) -> None:
    """With residence alone the asymmetry of the links; with link delays that much less half of
    their difference; without transparent clocks half of the residences' difference more."""
    injected = injected_delays(case.run)
    residence_alone = case.associations(
        exchanges=exchanges_with(case.run, Injected(), residence=True)
    )
    with_delays = case.associations(
        exchanges=exchanges_with(case.run, injected, residence=True), injected=injected
    )
    for client, one in residence_alone.items():
        (span,) = one.spans
        assert span.left_ns == pytest.approx(span.asymmetry.asymmetry.value_ns, abs=1.0)
        (other,) = with_delays[client].spans
        half = (other.injected_ns[0] - other.injected_ns[1]) / 2
        assert other.left_ns == pytest.approx(span.left_ns - half, abs=1.0)


def test_two_paths_are_two_spans_with_the_change_between_them(case: Case) -> None:
    """Where the Syncs of a client come over another path from some time on."""
    run = case.run
    packets = run.packets.copy()
    ptp = np.flatnonzero(packets["traffic"] == TRAFFIC_PTP)
    ip = run.model.clocks[4].ip
    syncs = ptp[packets["dst_ip"][ptp] == ip]
    syncs = syncs[np.argsort(packets["capture_collector_ns"][syncs])]
    later = syncs[len(syncs) // 2 :]
    now = path_of(run, packets[later[0]])
    other = next(
        int(row)
        for row in np.flatnonzero((packets["traffic"] != TRAFFIC_PTP) & packets["complete"])
        if (path := path_of(run, packets[row]))[0].node_id == now[0].node_id
        and path[-1].node_id == now[-1].node_id
        and path[1].node_id != now[1].node_id
    )
    # the other path, in the ports of these hosts
    hops = run.hops.copy()
    old, new = hops[packets["first_hop"][other] :][:3].copy(), np.zeros(3, hops.dtype)
    new[:] = old
    new["ingress_port"][0], new["egress_port"][2] = now[0].ingress_port, now[-1].egress_port
    packets["first_hop"][later] = len(hops)
    found = associations(packets, np.concatenate([hops, new]), run.exchanges, case.delays)
    one = next(one for one in found if one.client == 4)
    assert [span.exchanges for span in one.spans] == [len(syncs) - len(later), len(later)]
    (shift,) = one.shifts
    assert shift.at_collector_ns == packets["capture_collector_ns"][later].min()
    before, after = (span.asymmetry for span in one.spans)
    assert after.forward.path[1].node_id == new["node_id"][1]
    assert after.reverse.path == before.reverse.path
    assert shift.asymmetry_change.value_ns == pytest.approx(
        after.asymmetry.value_ns - before.asymmetry.value_ns
    )


def test_messages_without_reports_leave_a_reason_or_a_prediction(case: Case) -> None:
    """Unknown, unless a hash model is passed that may be asked."""
    packets = case.run.packets[case.run.packets["traffic"] != TRAFFIC_PTP]
    none = case.associations(packets=packets)
    assert all(one.reason == NOT_FOLLOWED and one.asymmetry is None for one in none.values())
    paths = {
        (pair.forward.path, pair.reverse.path)
        for one in case.associations().values()
        for pair in [one.spans[0].asymmetry]
        if one.client == 4
    }
    ((there, back),) = paths
    ip = case.run.model.clocks[4].ip
    predicted = case.associations(
        packets=packets,
        predict=lambda flow: {flow.dst_ip: there}.get(ip) or (back if flow.src_ip == ip else None),
    )
    asymmetry = predicted[4].asymmetry
    assert asymmetry is not None
    assert asymmetry.forward.source is PathSource.PREDICTED
    assert asymmetry.asymmetry == case.associations()[4].spans[0].asymmetry.asymmetry
    assert predicted[1].asymmetry is None


def test_impossible_exchanges_make_no_association(case: Case) -> None:
    """They are rejected before anything is joined."""
    exchanges = case.run.exchanges.copy()
    exchanges["c1_ns"][exchanges["client"] == 3] = 11_000_000_000
    found = case.associations(exchanges=exchanges)
    assert found[3].reason == NO_EXCHANGE
    assert found[4].followed == SETUP.exchanges
