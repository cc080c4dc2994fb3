# SPDX-License-Identifier: Apache-2.0
"""ECMP buckets: shares by weight, and failures that move nothing but the failed port's flows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ecmp import (
    BUCKET_COUNT_MAX,
    COLLECTOR_MEMBER_ID_BASE,
    GROUP_ID_BASE,
    GROUP_ID_MAX,
    PORT_MEMBER_ID_MAX,
    base_buckets,
    bucket_member_id,
    fail_over,
    group_ids,
    share_out,
)

WEIGHTS = st.dictionaries(st.integers(1, 510), st.integers(1, 1600), min_size=1, max_size=70)
COUNTS = st.integers(1, BUCKET_COUNT_MAX)


@st.composite
def failures(draw: st.DrawFn) -> tuple[dict[int, int], set[int], set[int], int]:
    """Weights, a first set of failed ports, a second one, and a number of buckets."""
    weights = draw(WEIGHTS)
    ports = st.sets(st.sampled_from(sorted(weights)))
    return weights, draw(ports), draw(ports), draw(COUNTS)


@given(weights=WEIGHTS, count=COUNTS)
def test_shares_are_within_one_bucket_of_the_weights(weights: dict[int, int], count: int) -> None:
    """No port has a whole bucket more or less than its weight says, and none is left over."""
    buckets = base_buckets(weights, count)
    total = sum(weights.values())
    assert len(buckets) == count
    for port, weight in weights.items():
        assert abs(buckets.count(port) - count * weight / total) < 1


@given(weights=WEIGHTS, count=COUNTS)
def test_buckets_depend_on_the_weights_alone(weights: dict[int, int], count: int) -> None:
    """Neither the order of the ports nor a common factor of the weights matters."""
    again = {port: 3 * weights[port] for port in reversed(list(weights))}
    assert base_buckets(again, count) == base_buckets(weights, count)


@given(weights=WEIGHTS, count=COUNTS)
def test_buckets_of_a_port_are_spread(weights: dict[int, int], count: int) -> None:
    """Every half of the buckets has about half of each port's: neighbours rarely repeat."""
    buckets = base_buckets(weights, count)
    for port, share in share_out(weights, count).items():
        first = buckets[: count // 2].count(port)
        assert abs(first - share * (count // 2) / count) <= 2


@given(case=failures())
def test_only_buckets_of_failed_ports_move(
    case: tuple[dict[int, int], set[int], set[int], int],
) -> None:
    """A bucket of a working port leads where it led; the others lead to working ports."""
    weights, failed, _, count = case
    base = base_buckets(weights, count)
    now = fail_over(base, weights, failed)
    if failed == set(weights):
        assert now == base
        return
    for before, after in zip(base, now, strict=True):
        assert after not in failed
        assert before in failed or after == before


@given(case=failures())
def test_second_failure_moves_the_second_ports_flows_only(
    case: tuple[dict[int, int], set[int], set[int], int],
) -> None:
    """What a first failure has moved stays, unless its new port fails or its old one is back."""
    weights, first, second, count = case
    base = base_buckets(weights, count)
    before = fail_over(base, weights, first)
    after = fail_over(base, weights, second, current=before)
    if second == set(weights):
        assert after == base
        return
    for home, was, now in zip(base, before, after, strict=True):
        assert now not in second
        if home not in second:
            assert now == home
        elif was not in second:
            assert now == was


@given(case=failures())
def test_coming_back_restores_the_base(
    case: tuple[dict[int, int], set[int], set[int], int],
) -> None:
    """Without failed ports every bucket is at home again, whatever happened before."""
    weights, first, second, count = case
    base = base_buckets(weights, count)
    worn = fail_over(base, weights, first)
    worn = fail_over(base, weights, second, current=worn)
    assert fail_over(base, weights, set(), current=worn) == base


@given(
    ports=st.sets(st.integers(1, 510), min_size=2, max_size=64),
    failed=st.integers(1, 63),
    count=COUNTS,
)
def test_equal_survivors_share_equally(ports: set[int], failed: int, count: int) -> None:
    """With equal weights no survivor holds two buckets more than another."""
    weights = dict.fromkeys(ports, 5)
    down = set(sorted(ports)[: min(failed, len(ports) - 1)])
    now = fail_over(base_buckets(weights, count), weights, down)
    held = [now.count(port) for port in ports - down]
    assert max(held) - min(held) <= 1


@given(case=failures())
def test_survivors_get_no_more_than_their_share(
    case: tuple[dict[int, int], set[int], set[int], int],
) -> None:
    """Who receives a bucket has less than one bucket more than its weight says."""
    weights, failed, _, count = case
    if failed == set(weights):
        return
    base = base_buckets(weights, count)
    now = fail_over(base, weights, failed)
    total = sum(weight for port, weight in weights.items() if port not in failed)
    for port in weights.keys() - failed:
        if now.count(port) > base.count(port):
            assert now.count(port) < count * weights[port] / total + 1


@pytest.mark.parametrize("largest", [8, 104, 67_108_000, 4_294_967_294])
def test_member_ids_do_not_collide(largest: int) -> None:
    """Ports, collectors and the buckets of all groups have ids of their own, of 32 bits."""
    node_ids = [*range(1, 8), largest]
    ids = group_ids(node_ids)
    assert len(set(ids.values())) == len(node_ids)
    buckets = {bucket_member_id(ids[n], b) for n in node_ids for b in range(BUCKET_COUNT_MAX)}
    assert len(buckets) == len(node_ids) * BUCKET_COUNT_MAX
    assert min(buckets) > COLLECTOR_MEMBER_ID_BASE + 63 > PORT_MEMBER_ID_MAX
    assert max(buckets) < 1 << 32
    assert min(ids.values()) >= GROUP_ID_BASE
    assert max(ids.values()) <= GROUP_ID_MAX


def test_group_id_is_next_to_the_node_id() -> None:
    """An operator who reads `group 18` on a switch finds node 2."""
    assert group_ids([2, 101]) == {2: 18, 101: 117}
