# SPDX-License-Identifier: Apache-2.0
"""The same datagrams through the reference collector and the compiled one."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np

from controller.collector.batch import batch_of_payloads
from controller.collector.fast_collector import FastCollector
from controller.telemetry.collector import Collection, Collector, CollectorCounters
from controller.telemetry.topology import TelemetryFabric
from tests.support.random_reports import Arriving, RandomReports, random_fabric


def assert_same(expected: Collection, found: Collection) -> None:
    """Both have the same rows in the same order, the same events and the same counters."""
    for field in fields(CollectorCounters):
        expected_value = getattr(expected.counters, field.name)
        assert getattr(found.counters, field.name) == expected_value, field.name
    np.testing.assert_array_equal(found.packets, expected.packets)
    np.testing.assert_array_equal(found.hops, expected.hops)
    assert found.drops == expected.drops
    assert found.congested == expected.congested
    assert found.epochs == expected.epochs
    assert dict(found.addresses) == dict(expected.addresses)


def feed_both(reference: Collector, fast: FastCollector, arriving: Sequence[Arriving]) -> None:
    """Some datagrams one by one, and as one batch."""
    for datagram in arriving:
        reference.feed_payload(
            datagram.payload, datagram.capture_collector_ns, datagram.destination
        )
    fast.feed_batch(
        batch_of_payloads(
            [datagram.payload for datagram in arriving],
            [datagram.capture_collector_ns for datagram in arriving],
            [datagram.destination for datagram in arriving],
        )
    )


def assert_same_results(
    parts: Iterator[Sequence[Arriving]], fabric: TelemetryFabric, *, seed: int
) -> CollectorCounters:
    """Feeds both, drains both now and then, and compares whatever they hand over."""
    chance = random.Random(seed)
    reference, fast = Collector(fabric), FastCollector(fabric)
    for part in parts:
        feed_both(reference, fast, part)
        if chance.random() < 0.3:
            assert_same(reference.drain(), fast.drain())
    last = reference.flush()
    assert_same(last, fast.flush())
    assert dict(fast.rejected_samples) == dict(reference.rejected_samples)
    return last.counters


def random_parts(seed: int, count: int, *, damage: float) -> Iterator[list[Arriving]]:
    """`count` random datagrams in batches of random sizes."""
    chance = random.Random(seed + 1)
    generator = RandomReports(seed, damage=damage)
    while count > 0:
        part = generator.take(min(count, chance.choice((1, 7, 100, 1000, 3000))))
        yield part
        count -= len(part)


def compare_random(seed: int, count: int, *, damage: float) -> CollectorCounters:
    """Random datagrams through both; the counters that both have at the end."""
    return assert_same_results(random_parts(seed, count, damage=damage), random_fabric(), seed=seed)
