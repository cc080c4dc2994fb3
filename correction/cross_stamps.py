# SPDX-License-Identifier: Apache-2.0
"""Cross-stamps: a NIC's PHC and its machine's counter, read at one instant (PCIe PTM, PRECISE).

The counter is one more clock, and every NIC of the machine is tied to it: two NICs are as far apart
as both ties say. So loops go through machines, and the access links of a machine with several NICs
become observable, as well as the ties' own error allows. A tie's error is taken as constant, since
a slower way through the PCIe tree is; what changes from stamp to stamp averages out.

Offsets of the counter come out as well: they bring stamps of the machine's software to reference
time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from correction.jumps import JUMP_NS, Jump, jump_kinds, of_their_time
from correction.links import JoinCounters, Reject
from correction.model import Clock, ClockKind, FabricModel
from correction.priors import UNIFORM_SD
from correction.records import LinkSamples
from correction.servo import ServoLog
from correction.ties import capture_times, joined, readings, tie, tie_samples
from correction.timebase import Bools, Int64s, has_stamp

CROSS_STAMP_DTYPE = np.dtype(
    [
        ("clock", np.int32),  # index of the NIC's clock in the fabric model
        ("machine", np.int32),  # index into `CrossStamps.machines`
        ("phc_local_ns", np.int64),  # free-running, where a servo steers the PHC
        ("counter_local_ns", np.int64),  # the machine's counter
        ("uncertainty_ns", np.int32),  # the readings are at most so far apart in true time
    ]
)
_REJECT_OF_JUMP = {
    Jump.OTHER: Reject.CROSS_STAMP_CLOCK_JUMP,
    Jump.WRAP_32: Reject.CROSS_STAMP_CLOCK_JUMP_2_32,
    Jump.UTC_TAI: Reject.CROSS_STAMP_CLOCK_JUMP_UTC_TAI,
    Jump.FROM_1970: Reject.CROSS_STAMP_FROM_1970,
}
COUNTER_SUFFIX = "/counter"
"""A machine's counter is the clock MACHINE/counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossStamps:
    """A recording's cross-stamps."""

    rows: NDArray[np.void]
    """Array of `CROSS_STAMP_DTYPE`."""
    machines: tuple[str, ...]

    def limit_ns(self, machine: int, clock: int) -> int:
        """What a NIC's tie claims: the median of its stamps' uncertainties.

        Worse ones are left out: a stamp that an interrupt delayed must not widen all others.
        """
        mine = (self.rows["machine"] == machine) & (self.rows["clock"] == clock)
        return int(np.ceil(np.median(self.rows["uncertainty_ns"][mine])))

    def pairs(self) -> list[tuple[int, int]]:
        """(machine, clock) of every tie, in order."""
        return sorted({(int(row["machine"]), int(row["clock"])) for row in self.rows})


def free_running_stamps(stamps: CrossStamps, servos: Mapping[int, ServoLog]) -> CrossStamps:
    """The stamps with every PHC in its free-running time; servos by clock index."""
    rows = stamps.rows.copy()
    for clock, log in servos.items():
        mine = rows["clock"] == clock
        rows["phc_local_ns"][mine] = log.to_free_ns(rows["phc_local_ns"][mine])
    return replace(stamps, rows=rows)


def sound_stamps(stamps: CrossStamps, counters: JoinCounters) -> Bools:
    """[row]: it can be true, and is the first of its kind; PHCs in free-running time.

    A PHC and a counter differ by one number, but for their rates; a stamp that says otherwise is
    damaged, unless several in a row say the same: then the PHC was set.
    """
    rows = stamps.rows
    sound = np.asarray(has_stamp(rows["phc_local_ns"]) & has_stamp(rows["counter_local_ns"]))
    counters.reject(Reject.CROSS_STAMP_NO_STAMP, np.count_nonzero(~sound))
    place = np.flatnonzero(sound)
    _, first = np.unique(rows[place], return_index=True)
    counters.reject(Reject.CROSS_STAMP_DUPLICATE, len(place) - len(first))
    place = place[np.sort(first)]
    rows = rows[place]
    fits, above_ns = of_their_time(
        rows["machine"].astype(np.int64) << 32 | rows["clock"],
        rows["counter_local_ns"] - rows["phc_local_ns"],
        np.arange(len(rows)),
        apart_ns=JUMP_NS,
    )
    kinds = jump_kinds(above_ns[~fits], rows["phc_local_ns"][~fits])
    for kind, reason in _REJECT_OF_JUMP.items():
        counters.reject(reason, np.count_nonzero(kinds == kind))
    result = np.zeros(len(sound), np.bool_)
    result[place[fits]] = True
    return result


def with_cross_stamps(model: FabricModel, stamps: CrossStamps) -> FabricModel:
    """The model with a counter per machine and a tie per NIC that has cross-stamps."""
    first = len(model.clocks)
    used = sorted({machine for machine, _ in stamps.pairs()})
    counter = {machine: first + number for number, machine in enumerate(used)}
    clocks = tuple(
        Clock(
            name=stamps.machines[machine] + COUNTER_SUFFIX,
            kind=ClockKind.COUNTER,
            node_id=0,
            ip=0,
            stamp_unit_ns=1,
            stamp_jitter_ns=0,
        )
        for machine in used
    )
    ties = tuple(
        tie(
            name=tie_name(model.clocks[clock].name, stamps.machines[machine]),
            a=clock,
            b=counter[machine],
            sd_ns=UNIFORM_SD * stamps.limit_ns(machine, clock),
            hard_ns=stamps.limit_ns(machine, clock),
        )
        for machine, clock in stamps.pairs()
    )
    return replace(model, clocks=model.clocks + clocks, links=model.links + ties)


def tie_name(nic: str, machine: str) -> str:
    """Name of a NIC's tie to its machine's counter."""
    return f"{nic}-{machine}{COUNTER_SUFFIX}"


def cross_stamp_samples(
    stamps: CrossStamps, samples: LinkSamples, model: FabricModel, counters: JoinCounters
) -> LinkSamples:
    """Samples of the ties; `model` holds them already, `samples` are those of the cables.

    A cross-stamp has no capture time of its own: it gets that of its NIC's packets, or of another
    NIC of the machine by way of the counter.
    """
    number = {link.name: index for index, link in enumerate(model.links)}
    parts: dict[int, list[_Part]] = {}
    for machine, clock in stamps.pairs():
        rows = stamps.rows[(stamps.rows["machine"] == machine) & (stamps.rows["clock"] == clock)]
        wide = rows["uncertainty_ns"] > stamps.limit_ns(machine, clock)
        counters.reject(Reject.CROSS_STAMP_WIDE, np.count_nonzero(wide))
        rows = rows[~wide]
        capture, near = capture_times(readings(samples, model, clock), rows["phc_local_ns"])
        link = number[tie_name(model.clocks[clock].name, stamps.machines[machine])]
        parts.setdefault(machine, []).append(_Part(link, rows, capture, near))
    made = []
    for of_machine in parts.values():
        by_counter = _by_counter(of_machine)
        for link, rows, capture, near in of_machine:
            there, also = capture_times(by_counter, rows["counter_local_ns"])
            known = near | also
            counters.reject(Reject.CROSS_STAMP_OUTSIDE, np.count_nonzero(~known))
            when = np.where(near, capture, there)[known]
            links = np.full(len(when), link, np.int64)
            phc, counter = rows["phc_local_ns"][known], rows["counter_local_ns"][known]
            made.append(tie_samples(links, phc, counter, when))
    return joined(made)


class _Part(NamedTuple):
    """Of one tie: its cross-stamps, their capture times, and where these are known."""

    link: int
    rows: NDArray[np.void]
    capture_collector_ns: Int64s
    near: Bools


def _by_counter(parts: list[_Part]) -> tuple[Int64s, Int64s]:
    """(readings of a machine's counter in order, capture times there)."""
    local = np.concatenate([part.rows["counter_local_ns"][part.near] for part in parts])
    capture = np.concatenate([part.capture_collector_ns[part.near] for part in parts])
    order = np.argsort(local, kind="stable")
    return local[order], capture[order]
