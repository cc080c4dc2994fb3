# SPDX-License-Identifier: Apache-2.0
"""ECMP buckets: shares by weight, and failures that move nothing but the failed port's flows."""

from itertools import combinations, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.ecmp import (
    APART_GROUP_ID_BASE,
    BUCKET_COUNT_MAX,
    COLLECTOR_MEMBER_ID_BASE,
    GROUP_ID_BASE,
    GROUP_ID_MAX,
    PORT_MEMBER_ID_MAX,
    apart_group_ids,
    base_buckets,
    bucket_member_id,
    buckets_in_use,
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
def test_only_buckets_of_the_ports_that_changed_move(
    case: tuple[dict[int, int], set[int], set[int], int],
) -> None:
    """From any failed ports to any others: a bucket stays unless its port failed or a port that it
    prefers came back; it leads to a working port always."""
    weights, first, second, count = case
    before = buckets_in_use(weights, weights.keys() - first, count)
    after = buckets_in_use(weights, weights.keys() - second, count)
    if weights.keys() in (first, second):
        return
    for was, now in zip(before, after, strict=True):
        assert was not in first
        assert now not in second
        assert now == was or was in second - first or now in first - second


@given(weights=WEIGHTS, count=COUNTS)
def test_without_failures_or_without_ports_the_base_holds(
    weights: dict[int, int], count: int
) -> None:
    """All ports: every bucket at home. None: nothing is better."""
    base = base_buckets(weights, count)
    assert buckets_in_use(weights, weights, count) == base
    assert buckets_in_use(weights, (), count) == base


@given(weights=WEIGHTS, count=COUNTS, data=st.data())
def test_one_failed_port_is_shared_out_by_weight(
    weights: dict[int, int], count: int, data: st.DataObject
) -> None:
    """Each survivor gets its exact part of the failed port's buckets, rounded up or down."""
    failed = data.draw(st.sampled_from(sorted(weights)))
    rest = {port: weight for port, weight in weights.items() if port != failed}
    if not rest:
        return
    base = base_buckets(weights, count)
    now = buckets_in_use(weights, rest, count)
    for port, weight in rest.items():
        exact = base.count(failed) * weight / sum(rest.values())
        assert abs(now.count(port) - base.count(port) - exact) < 1


@pytest.mark.parametrize(("port_count", "factor"), [(4, 1.1), (8, 1.4), (16, 1.9)])
def test_survivors_of_many_failures_are_even_within_a_factor(
    port_count: int, factor: float
) -> None:
    """Up to half of equal ports down: no survivor has more than `factor` times its share of 64."""
    weights = dict.fromkeys(range(1, port_count + 1), 100)
    for failed_count in range(1, port_count // 2 + 1):
        for failed in islice(combinations(weights, failed_count), 200):
            now = buckets_in_use(weights, weights.keys() - set(failed), 64)
            share = 64 / (port_count - failed_count)
            assert max(now.count(port) for port in weights) <= factor * share


def test_many_small_weights_do_not_send_everything_to_one_port() -> None:
    """33 ports, one of double weight, ten down: the big one gets no more than three of their 19
    buckets, though it has the largest remainder of every single share."""
    weights = {1: 4} | dict.fromkeys(range(2, 34), 2)
    base = base_buckets(weights, 64)
    now = buckets_in_use(weights, weights.keys() - set(range(10, 20)), 64)
    assert now.count(1) - base.count(1) <= 3


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
    assert max(ids.values()) < APART_GROUP_ID_BASE


def test_groups_of_the_same_contents_have_the_same_id_wherever_they_are() -> None:
    """What else is set apart does not matter, and ids leave room for members of 32 bits."""
    contents = [(2, 0, port) for port in range(1, 500)]
    every = apart_group_ids(contents)
    assert apart_group_ids(contents[10:20]) == {one: every[one] for one in contents[10:20]}
    assert len(set(every.values())) == len(contents)
    assert min(every.values()) >= APART_GROUP_ID_BASE
    assert max(every.values()) <= GROUP_ID_MAX


def test_group_id_is_next_to_the_node_id() -> None:
    """An operator who reads `group 18` on a switch finds node 2."""
    assert group_ids([2, 101]) == {2: 18, 101: 117}
