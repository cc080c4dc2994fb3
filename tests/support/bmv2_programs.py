# SPDX-License-Identifier: Apache-2.0
"""Any compiled program on the embedded switch and on BMv2: the same frames in, the same bytes out.

What P4 leaves open is left out bit by bit (`switch_variants`).
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from finsy import pbutil
from finsy.proto import p4i

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.stf_commands import COMMANDS, StfRun
from bmv2_lab.switch.stf_text import frame_bytes
from tests.support.bmv2_state import read_rows, updates
from tests.support.bmv2_switch import Bmv2Error, Bmv2Switch
from tests.support.parser_walk import ProgramFrames, constants
from tests.support.random_entries import add_random_entries
from tests.support.switch_variants import (
    Frames,
    StaleVariant,
    Variant,
    agree,
    shape,
    text_of,
)

TOGETHER = 16
"""Frames on their way in BMv2 at once: its queues hold 64."""
READY_TRIES = 100
FATAL_MAX = 20
"""A program that ends BMv2 this often is given up."""
NOT_MIRRORED = ("meter_set_rates", "meter_array_set_rates")
"""Rates in wall time: without them all packets are green on both switches."""


class Unsuitable(Exception):
    """Why a program cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledProgram:
    """What p4c wrote of one program, and a switch test for it, which may be empty."""

    name: str
    text: bytes
    p4info: p4i.P4Info
    stf: str = ""
    setup: Callable[[EmbeddedSwitch], None] | None = None
    random_entries: bool = False

    @classmethod
    def read(
        cls,
        path: Path,
        stf_folder: Path | None = None,
        *,
        setup: Callable[[EmbeddedSwitch], None] | None = None,
        random_entries: bool = False,
    ) -> "CompiledProgram":
        """NAME.json, beside it NAME.p4info.txt, and NAME.stf where there is one."""
        name = path.name.removesuffix(".json")
        p4info = path.with_name(f"{name}.p4info.txt")
        test = (stf_folder or path.parent) / f"{name}.stf"
        return cls(
            name=name,
            text=path.read_bytes(),
            p4info=pbutil.from_text(p4info.read_text(encoding="utf-8"), p4i.P4Info),
            stf=test.read_text(encoding="utf-8") if test.is_file() else "",
            setup=setup,
            random_entries=random_entries,
        )

    def commands(self) -> list[tuple[str, str]]:
        """First word and rest of every line of the test."""
        lines = [line.split("#", 1)[0].strip() for line in self.stf.splitlines()]
        return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines if line]

    def samples(self) -> Frames:
        """The packets of the test."""
        rows = [rest.partition(" ") for word, rest in self.commands() if word == "packet"]
        found = [(int(port, 0), frame_bytes(digits)) for port, _, digits in rows]
        return [row for row in found if row[1]]

    def frames(self, seed: int | str) -> ProgramFrames:
        """Random frames."""
        return ProgramFrames(json.loads(self.text), seed, self.samples())

    def switch(self) -> EmbeddedSwitch:
        """An embedded switch with everything that `setup` and the test write into it."""
        switch = EmbeddedSwitch(SwitchProgram.from_json(self.text))
        if self.setup is not None:
            self.setup(switch)
        run = StfRun(switch)
        for word, rest in self.commands():
            if word in COMMANDS and word not in NOT_MIRRORED:
                COMMANDS[word](run, rest)
        if self.random_entries:
            info = PipelineInfo.build(self.p4info, switch.program)
            add_random_entries(switch, info, self.name, sorted(constants(switch.program.document)))
        return switch


def wait_until_ready(bmv2: Bmv2Switch) -> None:
    """The data plane begins a little after the first push was answered."""
    for _ in range(READY_TRIES):
        try:
            bmv2.send_all([])
        except Bmv2Error as error:
            if "not ready" not in str(error):
                raise
        else:
            return


class ProgramPair:
    """One program on both switches."""

    def __init__(self, compiled: CompiledProgram, bmv2: Bmv2Switch) -> None:
        if "modify_field_rng_uniform" in json.dumps(json.loads(compiled.text)["actions"]):
            raise Unsuitable("draws random numbers")
        self._bmv2 = bmv2
        self._variants = [
            Variant(compiled.switch(), None, 0),
            Variant(compiled.switch(), None, -1),
            Variant(compiled.switch(), random.Random(compiled.name), 0),
        ]
        self._stale = StaleVariant(compiled.switch())
        self.frames = self.undefined = 0
        """Frames out, and packets whose way depends on what is left open."""
        bmv2.push(compiled.p4info, compiled.text)
        wait_until_ready(bmv2)
        switch = self._variants[0].switch
        info = PipelineInfo.build(compiled.p4info, switch.program)
        for batch in updates(read_rows(switch, info), {}):
            bmv2.write(batch)
        for name, cells in switch.state.registers.items():
            for index, value in enumerate(cells):
                if value:
                    bmv2.thrift.write_register(name, index, value)

    def compare(self, port: int, frame: bytes) -> None:
        """One frame into both; AssertionError tells what differs."""
        results = [variant.send(port, frame) for variant in self._variants]
        stale = self._stale.send(port, frame)
        theirs = self._bmv2.send(frame, port)
        self.frames += len(theirs)
        if any(shape(other) != shape(results[0]) for other in results):
            self.undefined += 1
        elif not agree(results, theirs):
            said = f"ours {text_of(results[0])}\n    BMv2 {text_of(theirs)}"
            assert sorted(stale) == sorted(theirs), (
                f"frame {frame.hex()} on port {port}\n    {said}"
            )
            self.undefined += 1

    def compare_together(self, rows: Frames) -> None:
        """Frames back to back, which is quicker; AssertionError does not tell where they differ."""
        results: list[Frames] = []
        for variant in self._variants:
            results.append([one for port, frame in rows for one in variant.send(port, frame)])
        theirs = self._bmv2.send_all(rows)
        self.frames += len(theirs)
        assert all(shape(other) == shape(results[0]) for other in results)
        assert agree(results, theirs)


@dataclass(slots=True)
class Comparison:
    """What a comparison of one program found; a difference is an AssertionError instead."""

    packets: int = 0
    frames: int = 0
    undefined: int = 0
    fatal: list[str] = field(default_factory=list)
    """Packets that ended BMv2, and what it said."""


def compare_program(compiled: CompiledProgram, count: int, seed: int | str) -> Comparison:
    """So many random frames through one program on both switches.

    Several at a time, and all over again one by one if the outputs are not the same.
    """
    try:
        return _together(compiled, count, seed)
    except (AssertionError, Bmv2Error):
        return _one_by_one(compiled, count, seed)


def _together(compiled: CompiledProgram, count: int, seed: int | str) -> Comparison:
    frames, bmv2 = compiled.frames(seed), Bmv2Switch()
    try:
        pair = ProgramPair(compiled, bmv2)
        for start in range(0, count, TOGETHER):
            pair.compare_together([frames.next() for _ in range(min(TOGETHER, count - start))])
        return Comparison(packets=count, frames=pair.frames)
    finally:
        bmv2.close()


def _one_by_one(compiled: CompiledProgram, count: int, seed: int | str) -> Comparison:
    found, frames = Comparison(), compiled.frames(seed)
    while found.packets < count and len(found.fatal) < FATAL_MAX:
        bmv2 = Bmv2Switch()
        try:
            pair = ProgramPair(compiled, bmv2)
            while found.packets < count:
                port, frame = frames.next()
                found.packets += 1
                try:
                    pair.compare(port, frame)
                except Bmv2Error as error:
                    found.fatal.append(f"frame {frame.hex()} on port {port}: {error}")
                    break
            found.frames += pair.frames
            found.undefined += pair.undefined
        finally:
            bmv2.close()
    return found
