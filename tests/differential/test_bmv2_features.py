# SPDX-License-Identifier: Apache-2.0
"""The program of tests/data/switch/features.p4 on BMv2: the same bytes come out, packet by packet.

It has one case for each corner of the language and the target, and nothing of it depends on time.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy import pbutil
from finsy.proto import p4i

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.state import CloneSession
from tests.support.bmv2_mirror import Mirror, run_frame
from tests.support.bmv2_state import read_rows, updates
from tests.support.bmv2_switch import Bmv2Switch

DATA = Path(__file__).parents[1] / "data" / "switch"
PACKETS = 1500
PORTS = (0, 1, 5)


class Pair:
    """An embedded switch and a BMv2 with the same program and replication."""

    def __init__(self) -> None:
        text = (DATA / "features.json").read_bytes()
        p4info = pbutil.from_text((DATA / "features.p4info.txt").read_text(), p4i.P4Info)
        program = SwitchProgram.from_json(text)
        self.embedded = EmbeddedSwitch(program)
        state = self.embedded.state
        state.clone_sessions[7] = CloneSession(session_id=7, replicas=((20, 0),))
        state.multicast_groups[3] = ((21, 9), (22, 9), (23, 10))
        self.bmv2 = Bmv2Switch()
        self.bmv2.push(p4info, text)
        for batch in updates(read_rows(self.embedded, PipelineInfo.build(p4info, program)), {}):
            self.bmv2.write(batch)
        self.now = 0

    def compare(self, port: int, frame: bytes) -> None:
        """One frame into both."""
        self.now += 1000
        ours = sorted(run_frame(self.embedded, frame, port, self.now))
        theirs = sorted(self.bmv2.send(frame, port))
        assert ours == theirs, f"frame {frame.hex()} on port {port}"


@pytest.fixture
def pair(bmv2_mirror: Mirror) -> Iterator[Pair]:
    """Both switches, fresh; `bmv2_mirror` is there for its count, and to skip without BMv2."""
    made = Pair()
    yield made
    made.bmv2.close()
    bmv2_mirror.counts.packets += made.now // 1000


def test_packets_worked_by_hand(pair: Pair) -> None:
    """What features.stf expects of the embedded switch (a unit test) is what BMv2 does."""
    packets = 0
    for line in (DATA / "features.stf").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "packet":
            port, _, digits = rest.partition(" ")
            pair.compare(int(port), bytes.fromhex(digits.replace(" ", "")))
            packets += 1
    assert packets >= 70


def random_frame(dice: random.Random) -> bytes:
    """A kind that does something, operands of any size, then labels, unions or anything."""
    kinds = (*range(0x10), *range(0x10, 0x17), *range(0x20, 0x27), 0x30, 0x31, 0x32, 0x33)
    kind = dice.choice(kinds) if dice.random() < 0.95 else dice.randrange(256)
    count = dice.choice((0, 1, 2, 3, dice.randrange(12), dice.randrange(256)))
    nibble_dozen = dice.choice((0, 0x8000, dice.getrandbits(16)))
    words = [dice.choice((0, 3, 0x1001, 0x7FFF, 0xFFFF, dice.getrandbits(16))) for _ in range(2)]
    head = bytes([kind, count]) + nibble_dozen.to_bytes(2, "big")
    head += b"".join(word.to_bytes(2, "big") for word in words) + dice.randbytes(4)
    parts = [
        dice.randbytes(dice.randrange(30)),
        b"".join(dice.randbytes(2) for _ in range(dice.randrange(5))),
        b"".join(
            dice.choice((b"\x01", b"\x02\0\0")) + dice.randbytes(1)
            for _ in range(dice.randrange(5))
        ),
        bytes([dice.randrange(64)]) + dice.randbytes(dice.randrange(64)),
    ]
    frame = head + dice.choice(parts) + dice.randbytes(dice.randrange(4))
    return frame if dice.random() < 0.95 else frame[: dice.randrange(1, 14)]


@pytest.mark.parametrize("seed", range(3))
def test_random_packets(pair: Pair, seed: int) -> None:
    """Registers keep what earlier packets left, on both sides."""
    dice = random.Random(seed)
    for _ in range(PACKETS // 3):
        pair.compare(dice.choice(PORTS), random_frame(dice))
