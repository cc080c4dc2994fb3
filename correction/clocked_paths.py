# SPDX-License-Identifier: Apache-2.0
"""Delays of PTP associations by corrected clocks: for fabrics of any size.

    delay there = (t2 - theta) - t1 - residences          theta = client - reference
    delay back  = t4 - (t3 - theta) - residences
    A           = half of their difference

Over a path the differences of clocks telescope, so that this is the sum of its links, and nothing
is asked of single links or of how their estimates hang together: bounds are those of theta, and
the noise of stamps. `association_delays` sums links instead, and can say which one is the cause.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from correction.exchange_join import MESSAGES, join_to_packets, usable_exchanges
from correction.flow_paths import Path, PathHop
from correction.links import RESIDENCE_NS_MAX, JoinCounters, residence_time_ns
from correction.model import FabricModel
from correction.records import NO_TSTAMP_NS, TRAFFIC_PTP, Exchanges, Hops, Packets
from correction.table import CONDITIONAL_SIGMAS, UNBOUNDED_NS, CorrectionTable
from correction.timebase import Bools, Float64s

ROUNDING_NS = 1.0
JITTERS = 4
"""So many declared jitters are between two messages' own at most."""
MEDIAN_SD = 1.2533
"""Of a median of many normal values, against that of their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedSpan:
    """Exchanges in a row over the same two paths; delays are medians, links alone."""

    forward: Path
    reverse: Path
    exchanges: int
    first_reference_ns: int
    first_collector_ns: int
    forward_ns: float
    reverse_ns: float
    forward_residence_ns: float
    reverse_residence_ns: float
    asymmetry_ns: float
    """Half of (forward - reverse), positive if reference -> client is slower."""
    bound_conditional_ns: float
    bound_hard_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockedAssociation:
    """One client of the reference."""

    client: int
    spans: tuple[ClockedSpan, ...]

    @property
    def changes_ns(self) -> tuple[float, ...]:
        """Of the asymmetry, from each span to the next."""
        return tuple(after.asymmetry_ns - one.asymmetry_ns for one, after in pairwise(self.spans))


_TIMED_DTYPE = np.dtype(
    [
        ("client", np.int64),
        ("t1_reference_ns", np.int64),
        ("capture_collector_ns", np.int64),
        ("path", np.int64, (2,)),
        ("delay_ns", np.float64, (2,)),
        ("residence_ns", np.float64, (2,)),
        ("bound_hard_ns", np.float64),
        ("bound_conditional_ns", np.float64),
    ]
)


class ClockedPaths:
    """Takes windows one after the other; what a later one says of an exchange stays."""

    def __init__(self, model: FabricModel) -> None:
        self._model = model
        self._numbers: dict[Path, int] = {}
        self._paths: list[Path] = []
        self._timed: dict[tuple[int, int], tuple[object, ...]] = {}
        self._jitter_ns = max((clock.stamp_jitter_ns for clock in model.clocks), default=0)

    def add(
        self, packets: Packets, hops: Hops, exchanges: Exchanges, table: CorrectionTable
    ) -> None:
        """Exchanges as read, with the corrections that cover their stamps."""
        whole = packets["complete"] & (packets["hop_count"] > 0)
        ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & whole]
        accepted = usable_exchanges(exchanges, ptp, self._model, JoinCounters())
        mine = accepted["time_transmitter_ip"] == self._model.clocks[self._model.reference].ip
        accepted = accepted[mine]
        if not len(accepted) or not len(ptp):
            return
        packet = np.full((2, len(accepted)), -1, np.int64)
        for column, message in enumerate(MESSAGES):
            row, found = join_to_packets(accepted, ptp, message, JoinCounters())
            packet[column, row] = found
        joined = np.flatnonzero(np.all(packet >= 0, axis=0))
        accepted, packet = accepted[joined], packet[:, joined]
        residence, sound = _residences(ptp, hops, self._model)
        timed = np.zeros(len(accepted), _TIMED_DTYPE)
        known = sound[packet].all(axis=0) & self._delays(timed, accepted, table)
        timed["residence_ns"] = residence[packet].T
        timed["delay_ns"] -= timed["residence_ns"]
        timed["client"], timed["t1_reference_ns"] = accepted["client"], accepted["t1_reference_ns"]
        timed["capture_collector_ns"] = ptp["capture_collector_ns"][packet[0]]
        for number in np.flatnonzero(known).tolist():
            both = packet[:, number].tolist()
            timed["path"][number] = [self._number(ptp[one], hops) for one in both]
            key = int(timed["client"][number]), int(timed["t1_reference_ns"][number])
            self._timed[key] = tuple(timed[number].tolist())

    def associations(self) -> tuple[ClockedAssociation, ...]:
        """Every client with an exchange that could be followed, by clock index."""
        rows = np.array(list(self._timed.values()), _TIMED_DTYPE)
        rows = rows[np.lexsort((rows["t1_reference_ns"], rows["client"]))]
        return tuple(
            ClockedAssociation(
                client=client, spans=tuple(self._spans(rows[rows["client"] == client]))
            )
            for client in np.unique(rows["client"]).tolist()
        )

    def _delays(self, timed: np.ndarray, accepted: Exchanges, table: CorrectionTable) -> Bools:
        """Fill in delays with residence, and bounds; where the client's clock is bounded."""
        known = np.zeros(len(accepted), np.bool_)
        for client in np.unique(accepted["client"]).tolist():
            mine = np.flatnonzero(accepted["client"] == client)
            rows = accepted[mine]
            arrived = table.convert(rows["t2_local_ns"], client)
            left = table.convert(rows["t3_local_ns"], client)
            ends = (arrived, left)
            hard = np.max([one.bound_hard_ns for one in ends], axis=0)
            likely = np.max([one.bound_conditional_ns for one in ends], axis=0)
            good = (hard != UNBOUNDED_NS) & np.all(
                [one.reference_ns != NO_TSTAMP_NS for one in ends], axis=0
            )
            known[mine] = good
            there = np.where(good, arrived.reference_ns - rows["t1_reference_ns"], 0)
            back = np.where(good, rows["t4_reference_ns"] - left.reference_ns, 0)
            timed["delay_ns"][mine] = np.stack([there, back], axis=1)
            timed["bound_hard_ns"][mine], timed["bound_conditional_ns"][mine] = hard, likely
        return known

    def _number(self, packet: np.void, hops: Hops) -> int:
        first = int(packet["first_hop"])
        rows = hops[first : first + int(packet["hop_count"])]
        path = tuple(PathHop(*(int(row[name]) for name in PathHop._fields)) for row in rows)
        number = self._numbers.setdefault(path, len(self._paths))
        if number == len(self._paths):
            self._paths.append(path)
        return number

    def _spans(self, rows: np.ndarray) -> Iterator[ClockedSpan]:
        begins = np.flatnonzero(np.r_[True, (rows["path"][1:] != rows["path"][:-1]).any(axis=1)])
        for start, end in pairwise([*begins.tolist(), len(rows)]):
            yield self._span(rows[start:end])

    def _span(self, rows: np.ndarray) -> ClockedSpan:
        delay, residence = rows["delay_ns"], rows["residence_ns"]
        half = (delay[:, 0] - delay[:, 1]) / 2
        middle = float(np.median(half))
        spread = np.abs(half - middle)
        noise = MEDIAN_SD * float(np.sqrt(np.mean(spread**2) / len(half)))
        forward, reverse = (self._paths[number] for number in rows["path"][0].tolist())
        return ClockedSpan(
            forward=forward,
            reverse=reverse,
            exchanges=len(rows),
            first_reference_ns=int(rows["t1_reference_ns"][0]),
            first_collector_ns=int(rows["capture_collector_ns"][0]),
            forward_ns=float(np.median(delay[:, 0])),
            reverse_ns=float(np.median(delay[:, 1])),
            forward_residence_ns=float(np.median(residence[:, 0])),
            reverse_residence_ns=float(np.median(residence[:, 1])),
            asymmetry_ns=middle,
            bound_conditional_ns=float(np.median(rows["bound_conditional_ns"]))
            + CONDITIONAL_SIGMAS * noise
            + ROUNDING_NS,
            # each exchange bounds it alone, but for its own jitter
            bound_hard_ns=float(np.min(rows["bound_hard_ns"] + spread))
            + ROUNDING_NS
            + JITTERS * self._jitter_ns,
        )


def _residences(ptp: Packets, hops: Hops, model: FabricModel) -> tuple[Float64s, Bools]:
    """[packet]: sum over its switches, and whether all are timed."""
    each = residence_time_ns(hops, model)
    wrong = (each < 0) | (each > RESIDENCE_NS_MAX)
    total = np.concatenate([[0], np.cumsum(np.where(wrong, 0, each))])
    missing = np.concatenate([[0], np.cumsum(wrong)])
    first = ptp["first_hop"]
    last = first + ptp["hop_count"]
    sums = (total[last] - total[first]).astype(np.float64)
    return sums, np.asarray(missing[last] == missing[first], np.bool_)
