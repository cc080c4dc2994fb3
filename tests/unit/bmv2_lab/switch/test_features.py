# SPDX-License-Identifier: Apache-2.0
"""The program of tests/data/switch/features.p4: the language's corners, packet by packet."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.state import CloneSession
from bmv2_lab.switch.stf import run_stf
from tests.unit.bmv2_lab.switch.bmv2_json import send

DATA = Path(__file__).parents[3] / "data" / "switch"


@pytest.fixture(scope="module")
def program() -> SwitchProgram:
    """The compiled program."""
    return SwitchProgram.from_json((DATA / "features.json").read_bytes())


def start(kind: int, count: int = 0, a: int = 0, b: int = 0) -> bytes:
    """The header that every frame of the program begins with."""
    return bytes([kind, count, 0, 0]) + a.to_bytes(2, "big") + b.to_bytes(2, "big") + bytes(4)


def test_every_packet_worked_by_hand(program: SwitchProgram) -> None:
    """Saturation, signs, hashes, keys, registers, clones, stacks, unions, varbit, errors."""
    result = run_stf(program, (DATA / "features.stf").read_text())
    assert result.passed, result.difference
    assert result.packets_in >= 70


def test_digest_holds_values_as_they_were_sent(program: SwitchProgram) -> None:
    """The fields of the struct, in order."""
    switch = EmbeddedSwitch(program)
    lists: list[list[int]] = []
    switch.on_digest = lambda _, values: lists.append(values)
    send(switch, start(0x0A, a=0x1234, b=0x00F0))
    assert lists == [[0x0A, 0x1234, 0xF0]]


def test_log_message_takes_values_in_order(program: SwitchProgram) -> None:
    """`{}` stands for one value."""
    switch = EmbeddedSwitch(program)
    send(switch, start(0x0B, a=5, b=7))
    assert switch.state.log == ["a 5 and b 7"]


def test_value_set_with_exact_and_masked_members(program: SwitchProgram) -> None:
    """A kind in the set is parsed on as labels.

    One byte too few for a label tells both ways apart: only the parser of labels misses it.
    """
    switch = EmbeddedSwitch(program)
    (labelled,) = switch.state.value_sets.values()

    def parsed_as_labels(kind: int) -> bool:
        ((_, frame),) = send(switch, start(kind) + b"\0")
        return frame[8:10] == b"\xe0\x01"

    assert not parsed_as_labels(0x70)
    labelled.add((0x70,))
    assert parsed_as_labels(0x70)
    assert not parsed_as_labels(0x71)
    labelled.add_masked((0x83,), (0xF3,))
    assert [kind for kind in range(0x80, 0x90) if parsed_as_labels(kind)] == [
        0x83,
        0x87,
        0x8B,
        0x8F,
    ]
    labelled.clear()
    assert not any(map(parsed_as_labels, (0x70, 0x83)))


def test_frames_of_any_bytes_never_crash_the_switch(program: SwitchProgram) -> None:
    """0 to 64 random bytes, any port, with clone session and group: no exception."""
    switch = EmbeddedSwitch(program)
    switch.state.clone_sessions[7] = CloneSession(session_id=7, replicas=((20, 0),))
    switch.state.multicast_groups[3] = ((21, 9), (22, 9))

    @settings(max_examples=400, deadline=None)
    @given(st.integers(0, 0x33) | st.integers(0, 255), st.binary(max_size=63), st.integers(0, 511))
    def check(kind: int, rest: bytes, port: int) -> None:
        send(switch, (bytes([kind]) + rest)[: len(rest)], port)

    check()


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=64))
def test_what_is_not_changed_leaves_as_it_came(program: SwitchProgram, data: bytes) -> None:
    """Kinds without an operation: all bytes but the result's upper half, whatever was parsed."""
    switch = EmbeddedSwitch(program)
    frame = b"\x50" + data
    sent = send(switch, frame)
    if len(frame) < 12:
        assert sent == [(6, frame)]
        return
    ((_, out),) = sent
    assert (out[:8], out[10:]) == (frame[:8], frame[10:])
