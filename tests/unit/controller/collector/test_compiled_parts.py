# SPDX-License-Identifier: Apache-2.0
"""The parts of the compiled collector against the plain ones, and what memory they touch."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from controller.collector import sequence_numbers as s
from controller.collector.columns import ReasonCode, reason_of
from controller.collector.loads import address_of
from controller.collector.seen_table import CompiledSeen
from controller.collector.senders import CompiledTracker
from controller.telemetry.codec import DecodeReason
from controller.telemetry.loss import SequenceTracker
from controller.telemetry.seen import SeenReports


def _numbers(seed: int, count: int) -> list[tuple[int, bool]]:
    """Sequence numbers with gaps, swaps, repetitions, jumps, restarts and strays."""
    chance = random.Random(seed)
    number = chance.choice((0, 2**22 - 50, 12_345))
    numbers: list[tuple[int, bool]] = []
    while len(numbers) < count:
        pick = chance.random()
        if pick < 0.01:
            number += chance.choice((2, 60, 64, 65, 70, 200, 5_000, 16_383, 16_384, 20_000, 70_000))
        elif pick < 0.014:
            number = chance.choice((0, 1, 1_000, number - 100, number - 3_000, number - 16_384))
        elif pick < 0.016:
            number = chance.randrange(2**22)
        else:
            number += 1
        numbers.append((number % 2**22, chance.random() < 0.01))
        if chance.random() < 0.01:
            numbers.append((chance.randrange(2**22), False))  # damaged
        if chance.random() < 0.02:
            numbers.append(((number - chance.randrange(80)) % 2**22, chance.random() < 0.5))
        if chance.random() < 0.05 and len(numbers) > 3:
            a = -1 - chance.randrange(3)
            numbers[-1], numbers[a] = numbers[a], numbers[-1]
    return numbers[:count]


@pytest.mark.parametrize("seed", range(40))
def test_sequence_numbers_are_counted_alike(seed: int) -> None:
    """Every counter agrees after every report, whatever the order of the numbers."""
    plain, compiled = SequenceTracker(), CompiledTracker()
    for place, (number, repeated) in enumerate(_numbers(seed, 1_500)):
        plain.observe(number, repeated=repeated)
        compiled.observe(number, repeated=repeated)
        assert compiled.counters == plain.counters, place
    assert compiled.row[s.S_NEWEST] >= 0


def test_numbers_in_one_call_are_counted_alike() -> None:
    """Many numbers at once, as a batch has them; the row has no room for what it never holds."""
    numbers = _numbers(99, 200_000)
    plain, compiled = SequenceTracker(), CompiledTracker()
    for number, repeated in numbers:
        plain.observe(number, repeated=repeated)
    values = np.array([number for number, _ in numbers], np.int64)
    flags = np.array([repeated for _, repeated in numbers], np.int64)
    s.observe_many(address_of(compiled.row), address_of(values), address_of(flags), len(numbers))
    assert compiled.counters == plain.counters


@pytest.mark.parametrize("seed", range(5))
def test_seen_reports_are_known_alike(seed: int) -> None:
    """Repetitions and replicas are told apart alike, over several generations."""
    chance = random.Random(seed)
    plain, compiled = SeenReports(remembered=50), CompiledSeen(remembered=50, seed=12_345)
    for _ in range(3_000):
        content = bytes([0x20, 0, 0, chance.randrange(3)]) + chance.randbytes(1) * 9
        if chance.random() < 0.5:
            content += chance.randbytes(2)
        assert compiled.look(content) is plain.look(content)
        assert len(compiled) == len(plain)


def test_every_reason_has_a_number() -> None:
    """A rejection of the compiled decoder is one of the plain one's."""
    assert {code.name for code in ReasonCode} == set(DecodeReason.__members__)
    assert all(reason_of(code).name == code.name for code in ReasonCode)


_AT_THE_EDGE = """
import ctypes, mmap, random
import numpy as np
from controller.collector import decode_reports as d
from controller.collector.fabric_tables import fabric_tables
from controller.collector.loads import address_of
from tests.support.random_reports import RandomReports, random_fabric

PAGE = mmap.PAGESIZE
memory = mmap.mmap(-1, 3 * PAGE)
base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
libc = ctypes.CDLL(None, use_errno=True)
for forbidden in (base, base + 2 * PAGE):
    assert libc.mprotect(ctypes.c_void_p(forbidden), PAGE, 0) == 0
arrays, rows = fabric_tables(random_fabric(), seed=12345), d.decoded_arrays()
start, size = np.zeros(1, np.int64), np.zeros(1, np.int32)
totals, batch = np.zeros(4, np.int64), np.zeros(d.BATCH_COLUMNS, np.int64)
chance = random.Random(1)
for datagram in RandomReports(8, damage=0.3).take(600):
    payload = datagram.payload[:PAGE]
    ends = {len(payload), *(chance.randrange(len(payload) + 1) for _ in range(12))}
    for end in ends:
        for place in (2 * PAGE - end, PAGE):  # against the page behind, and the one in front
            ctypes.memmove(base + place, payload[:end], end)
            size[0] = end
            at = address_of(start)
            batch[:] = base + place, at, address_of(size), at, 0, 1, PAGE
            d.decode_all(
                d.DECODE.address,
                address_of(batch),
                arrays.addresses.at,
                address_of(rows.row),
                address_of(totals),
            )
print(int(totals[:3].sum()), int(totals[0] > 500))
"""


def test_decoder_reads_nothing_outside_the_datagram() -> None:
    """Between two pages that must not be touched, every cut and damaged report decodes."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_THE_EDGE],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    count, enough = map(int, done.stdout.split())
    assert count > 10_000
    assert enough
