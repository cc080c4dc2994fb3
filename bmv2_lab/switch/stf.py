# SPDX-License-Identifier: Apache-2.0
"""Switch tests in STF, the format that P4's open compiler uses for its v1model samples.

    packet 0 00112233          a packet in hex arrives on port 0
    expect 1 0011**33 $        one leaves port 1; `*` is any digit, `$` forbids more bytes
    add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...) [= $HANDLE]
    setdefault TABLE ACTION(NAME:VALUE, ...)
    check_counter NAME(INDEX or $HANDLE) [packets|bytes] == N
    mirroring_add, mirroring_add_mc, mirroring_delete, mc_mgrp_create, mc_node_create,
    mc_node_associate, counter_write, register_write, register_reset, meter_set_rates,
    meter_array_set_rates, set_crc16_parameters, ... as in BMv2's command line; reads are ignored

The outcome is that of the compiler's own runner: packets of each port in order, none missing and
none too many.
"""

from collections import deque
from dataclasses import dataclass

from bmv2_lab.switch.errors import AssertionFailed, StateError
from bmv2_lab.switch.packets import EgressCopy, Emitted
from bmv2_lab.switch.stf_commands import COMMANDS, StfRun, check_counter
from bmv2_lab.switch.stf_text import StfSyntaxError, frame_bytes, number, pattern
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.translate import SwitchProgram

IGNORED = {
    "wait",
    "no_packet",
    "register_read",
    "counter_read",
    "mirroring_get",
    "meter_get_rates",
    "remove",
}
# A packet that loops through the switch more often than this is a fault of the program.
PASS_LIMIT = 10_000


class StfError(Exception):
    """A line that cannot be understood; names line number and reason."""


@dataclass(slots=True)
class StfResult:
    """Outcome of a test; `difference` is empty if it passed."""

    difference: str
    packets_in: int = 0
    packets_out: int = 0

    @property
    def passed(self) -> bool:
        return not self.difference


def run_stf(program: SwitchProgram, text: str) -> StfResult:
    """Run a test; StfError for a line that is not STF."""
    run = StfRun(EmbeddedSwitch(program))
    for line_number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        word, _, rest = line.partition(" ")
        try:
            difference = _command(run, word, rest.strip())
        except (StateError, AssertionFailed) as error:
            difference = f"{word}: {error}"
        except StfSyntaxError as error:
            raise StfError(f"line {line_number}: {word}: {error}") from None
        if difference:
            return StfResult(f"line {line_number}: {difference}", run.packets_in)
    return StfResult(_compare(run), run.packets_in, len(run.sent))


def run_stf_text(json_text: str, stf_text: str) -> StfResult:
    """Translate and run; ProgramError for a program that cannot be translated."""
    return run_stf(SwitchProgram.from_json(json_text), stf_text)


def _command(run: StfRun, word: str, rest: str) -> str:
    """Run one line; returns a difference or an empty string."""
    if word in COMMANDS:
        COMMANDS[word](run, rest)
    elif word == "packet":
        port, _, data = rest.partition(" ")
        _packet(run, number(port, "port"), frame_bytes(data))
    elif word == "expect":
        port, _, data = rest.partition(" ")
        wanted = pattern(data)
        if wanted:
            run.expected.setdefault(number(port, "port"), []).append(wanted)
        else:
            run.expected_any.add(number(port, "port"))
    elif word == "check_counter":
        return check_counter(run, rest)
    elif word not in IGNORED:
        raise StfSyntaxError("unknown command")
    return ""


def _packet(run: StfRun, port: int, frame: bytes) -> None:
    if not frame:  # no device delivers a frame without bytes
        return
    run.now += 1000
    run.packets_in += 1
    waiting: deque[EgressCopy] = deque(run.switch.ingress(frame, port, run.now))
    for _ in range(PASS_LIMIT):
        if not waiting:
            return
        run.now += 1
        for output in run.switch.egress(
            waiting.popleft(),
            enq_timestamp=run.now - 1,
            enq_qdepth=0,
            deq_timedelta=1,
            deq_qdepth=0,
            egress_tstamp=run.now,
        ):
            if isinstance(output, Emitted):
                run.sent.append(output)
            else:
                waiting.append(output)
    raise StfSyntaxError("the packet does not leave the switch")


def _compare(run: StfRun) -> str:
    """The first difference between sent and expected packets."""
    for port in sorted({output.port for output in run.sent} | run.expected.keys()):
        if port in run.expected_any:
            continue
        frames = [output.frame for output in run.sent if output.port == port]
        patterns = run.expected.get(port, [])
        if len(frames) != len(patterns):
            sent = ", ".join(frame.hex() for frame in frames[:4])
            return f"port {port}: expected {len(patterns)} packets, got {len(frames)} [{sent}]"
        for position, (frame, wanted) in enumerate(zip(frames, patterns, strict=True)):
            difference = _packet_difference(frame.hex(), wanted)
            if difference:
                return f"port {port}, packet {position}: {difference}"
    return ""


def _packet_difference(got: str, wanted: str) -> str:
    exact = wanted.endswith("$")
    wanted = wanted.rstrip("$")
    if len(got) < len(wanted):
        return f"too short: expected {wanted}, got {got}"
    for position, digit in enumerate(wanted):
        if digit not in ("*", got[position]):
            return f"digit {position} differs: expected {wanted}, got {got}"
    if exact and len(got) > len(wanted):
        return f"too long: expected {wanted}, got {got}"
    return ""
