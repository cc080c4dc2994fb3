# SPDX-License-Identifier: Apache-2.0
"""Which bucket of an ECMP group leads to which port, by weight, before and after a failure.

Pure. A group has a fixed number of buckets and a flow's hash picks one, so the group never changes
size: BMv2 would move every flow then. What changes is where a bucket leads. Ports are numbers here;
weights are relative (WCMP).
"""

from collections.abc import Collection, Mapping, Sequence

BUCKET_COUNT_MAX = 64
"""`ECMP_GROUP_SIZE_MAX` of p4src: buckets of one group."""

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
    shares = share_out(weights, bucket_count)
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


def fail_over(
    base: Sequence[int],
    weights: Mapping[int, int],
    failed: Collection[int],
    *,
    current: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The port of every bucket while some ports have failed.

    A bucket of a working port stays with it or returns to it. The others go to the survivor that
    is furthest below its share by weight. With `current`, where the buckets lead now, a bucket that
    an earlier failure moved to a survivor stays there, so that a second failure moves the flows
    of the second port only. Without survivors nothing can be better than the base.

    >>> fail_over((1, 2, 3, 1, 2, 3), {1: 1, 2: 1, 3: 1}, {2})
    (1, 1, 3, 1, 3, 3)
    """
    alive = {port: weight for port, weight in sorted(weights.items()) if port not in failed}
    if not alive:
        return tuple(base)
    homeless = []
    buckets = list(base)
    for index, port in enumerate(base):
        if port in alive:
            continue
        if current is not None and current[index] in alive:
            buckets[index] = current[index]
        else:
            homeless.append(index)
    held = {port: buckets.count(port) for port in alive}
    total = sum(alive.values())
    for index in homeless:
        # deficit = len(base) * weight / total - held, without the division
        neediest = min(alive, key=lambda port: (held[port] * total - len(base) * alive[port], port))
        buckets[index] = neediest
        held[neediest] += 1
    return tuple(buckets)


def group_ids(node_ids: Collection[int]) -> dict[int, int]:
    """The group id that belongs to each node id: next to it where that leaves room for members.

    Node ids above 2^26 are numbered by rank instead, all of them.
    """
    if max(node_ids, default=0) + GROUP_ID_BASE <= GROUP_ID_MAX:
        return {node_id: node_id + GROUP_ID_BASE for node_id in node_ids}
    return {node_id: rank + GROUP_ID_BASE for rank, node_id in enumerate(sorted(node_ids))}


def bucket_member_id(group_id: int, bucket: int) -> int:
    """Member id of one bucket.

    >>> bucket_member_id(18, 63)
    1215
    """
    return group_id * MEMBER_IDS_PER_GROUP + bucket
