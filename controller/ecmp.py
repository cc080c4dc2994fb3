# SPDX-License-Identifier: Apache-2.0
"""Which bucket of an ECMP group leads to which port, by weight, before and after a failure.

Pure. A group has a fixed number of buckets and a flow's hash picks one, so the group never changes
size: BMv2 would move every flow then. What changes is where a bucket leads. Ports are numbers here;
weights are relative (WCMP).
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

BUCKET_COUNT_MAX = 64
"""`ECMP_GROUP_SIZE_MAX` of p4src: buckets of one group."""

BASE_COUNT_MAX = 4_096
"""Sets of weights whose buckets are remembered: the switches of a tier have the same ones."""

MEMBER_IDS_PER_GROUP = BUCKET_COUNT_MAX
"""Bucket i of group g is member g * 64 + i, whatever the number of buckets in use."""
PORT_MEMBER_ID_MAX = 511
"""Members up to here are ports: the member of a port that is a route's only next hop."""
COLLECTOR_MEMBER_ID_BASE = 512
"""Plus the destination id (0 to 63): the member that leads straight to a collector."""
GROUP_ID_BASE = 16
"""First group id; the groups below would own the member ids 0 to 1023, which are taken."""
GROUP_ID_MAX = (1 << 32) // MEMBER_IDS_PER_GROUP - 1
"""Last group id whose members still have 32-bit ids."""
APART_GROUP_ID_BASE = (GROUP_ID_MAX + 1) // 2
"""From here on: groups of destinations that failures elsewhere have set apart."""


def share_out(weights: Mapping[int, int], count: int) -> dict[int, int]:
    """`count` things split by weight: each share within one of the exact one (largest remainder).

    >>> share_out({1: 1, 2: 1, 3: 2}, 64)
    {1: 16, 2: 16, 3: 32}
    >>> share_out({1: 1, 2: 1, 3: 1}, 64)
    {1: 22, 2: 21, 3: 21}
    """
    total = sum(weights.values())
    assert total > 0, "nobody to share with"
    shares = {port: count * weight // total for port, weight in sorted(weights.items())}
    by_remainder = sorted(weights, key=lambda port: (-(count * weights[port] % total), port))
    for port in by_remainder[: count - sum(shares.values())]:
        shares[port] += 1
    return shares


def base_buckets(weights: Mapping[int, int], bucket_count: int) -> tuple[int, ...]:
    """The port of every bucket while all ports work, the shares spread evenly over the buckets.

    >>> base_buckets({1: 1, 2: 1, 3: 2}, 8)
    (3, 1, 2, 3, 3, 1, 2, 3)
    """
    return _base_buckets(tuple(weights.items()), bucket_count)


@lru_cache(maxsize=BASE_COUNT_MAX)
def _base_buckets(weights: tuple[tuple[int, int], ...], bucket_count: int) -> tuple[int, ...]:
    shares = share_out(dict(weights), bucket_count)
    credit = dict.fromkeys(shares, 0)
    buckets = []
    for _ in range(bucket_count):
        # Smooth weighted round robin: all gain their share, the richest pays for the bucket.
        for port, share in shares.items():
            credit[port] += share
        richest = min(shares, key=lambda port: (-credit[port], port))
        credit[richest] -= bucket_count
        buckets.append(richest)
    return tuple(buckets)


def buckets_in_use(
    weights: Mapping[int, int], usable: Collection[int], bucket_count: int
) -> tuple[int, ...]:
    """The port of every bucket while only some ports are usable.

    A pure function without memory: each bucket has an order of preference over all ports, and leads
    to the first usable one. So a port that fails moves its own buckets only, one that comes back
    gets just those that it had, whatever failed or came back in between, and every
    switch and every run of the controller finds the same. The first preference is `base_buckets`;
    the buckets of a port that fails are split among the others by weight, each share within one
    bucket of the exact one. After several failures the shares are even on average only: that is
    the price of moving nobody else. Without a usable port nothing can be better than the base.

    >>> buckets_in_use({1: 1, 2: 1, 3: 1}, {1, 3}, 6)
    (1, 1, 3, 1, 3, 3)
    """
    ports = list(base_buckets(weights, bucket_count))
    alive = weights.keys() & set(usable)
    if alive:
        homeless: dict[tuple[int, ...], list[int]] = {}
        for bucket, port in enumerate(ports):
            if port not in alive:
                homeless.setdefault((port,), []).append(bucket)
        while homeless:
            tried, buckets = homeless.popitem()
            left = {port: weight for port, weight in weights.items() if port not in tried}
            for bucket, port in zip(buckets, _next_ports(left, tried, len(buckets)), strict=True):
                ports[bucket] = port
                if port not in alive:
                    homeless.setdefault((*tried, port), []).append(bucket)
    return tuple(ports)


def _next_ports(weights: Mapping[int, int], tried: Sequence[int], count: int) -> list[int]:
    """The next preference of `count` buckets that have had these ports before them.

    Systematic sampling: the ports' shares end to end on a line, in an order drawn by hash, and
    a bucket every 1/count of it from an offset drawn by hash. Each port gets its exact share,
    rounded up or down, and over all `tried` neither ports of small weight nor low numbers suffer.
    """
    order = sorted(weights, key=lambda port: (_drawn(*tried, -1, port), port))
    total, offset = sum(weights.values()), _drawn(*tried)
    ports, reached, index = [], weights[order[0]], 0
    for bucket in range(count):
        # (bucket + offset / 2^64) / count of the line, without the divisions
        while (bucket << 64 | offset) * total >= reached * count << 64:
            index += 1
            reached += weights[order[index]]
        ports.append(order[index])
    return ports


def _drawn(*numbers: int) -> int:
    """64 bits that look random and are the same everywhere."""
    text = ",".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def group_ids(node_ids: Collection[int]) -> dict[int, int]:
    """The group id that belongs to each node id: next to it where that leaves room for members.

    Where a node id exceeds 2^25, all of them are numbered by rank instead.
    """
    if max(node_ids, default=0) + GROUP_ID_BASE < APART_GROUP_ID_BASE:
        return {node_id: node_id + GROUP_ID_BASE for node_id in node_ids}
    return {node_id: rank + GROUP_ID_BASE for rank, node_id in enumerate(sorted(node_ids))}


def apart_group_ids(contents: Collection[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """Ids of groups that exist while links elsewhere have failed, drawn from what they hold.

    A group of other contents has another id, so none is ever rewritten while some destination
    still uses it for what it was.
    """
    ids: dict[tuple[int, ...], int] = {}
    taken: set[int] = set()
    for content in sorted(contents):
        number = _drawn(*content) % APART_GROUP_ID_BASE
        while number in taken:
            number = (number + 1) % APART_GROUP_ID_BASE
        taken.add(number)
        ids[content] = APART_GROUP_ID_BASE + number
    return ids


def bucket_member_id(group_id: int, bucket: int) -> int:
    """Member id of one bucket.

    >>> bucket_member_id(18, 63)
    1215
    """
    return group_id * MEMBER_IDS_PER_GROUP + bucket
