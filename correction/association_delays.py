# SPDX-License-Identifier: Apache-2.0
"""Asymmetry of PTP associations, on the paths that their own event messages took.

Every exchange is joined to the reported hops of its Sync and its Delay_Req. Exchanges in a row on
the same pair of paths are one span; where a span ends, ECMP has sent the association elsewhere.

Residences are known per message, so what a correctionField holds beyond them shows: delays that
transparent clocks were told to add (`injected`), or a configured `delayAsymmetry`. They are taken
off for the path's own asymmetry; `left_ns` is what remains for a client that trusts its
correctionFields as they are.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from correction.delay_sum import DelayEstimate
from correction.exchange_join import MESSAGES, join_to_packets, usable_exchanges
from correction.flow_delays import Predict
from correction.flow_paths import Flow, Path, PathHop
from correction.injected import Accounted, Injected, account
from correction.link_delays import LinkDelays
from correction.links import JoinCounters, port_index
from correction.model import ClockKind
from correction.path_asymmetry import PathAsymmetry, change_of, path_asymmetry
from correction.path_delays import PTP_EVENT_BYTES, PathDelay, PathSource, path_delay
from correction.records import TRAFFIC_PTP, Exchanges, Hops, Packets
from correction.residences import residence_matrix, residences_of_packets
from correction.timebase import Bools, Float64s, Int64s

SPANS_MAX = 1_000
"""Of one association; a client whose messages change path with every exchange is sprayed, and its
newest spans say so."""

NO_EXCHANGE = "no exchange was accepted"
NOT_FOLLOWED = "no exchange's two messages were both reported whole"
PTP_EVENT_PORT = 319
"""Source and destination port of event messages over UDP (IEEE 1588-2019 annex C)."""
NOTHING_INJECTED = Injected()


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationSpan:
    """Exchanges in a row whose messages took the same two paths."""

    asymmetry: PathAsymmetry
    """Forward: reference -> client. Residences are those of the span's own messages."""
    exchanges: int
    first_reference_ns: int
    """t1 of the first exchange."""
    last_reference_ns: int
    first_collector_ns: int
    """When the reports of its first Sync were complete."""
    carried_ns: tuple[float, float]
    """Medians of c1 and c2 beyond the residences: link delays, a configured asymmetry."""
    injected_ns: tuple[float, float]
    """Of that, what is known to have been written to the ports, residence offsets included."""
    left_ns: float
    """Half the one-way difference with each exchange's c1 and c2 taken off: a servo that trusts
    them leaves the client that far behind (negative: ahead)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssociationShift:
    """The change from one span to the next: later less earlier."""

    at_collector_ns: int
    before: PathAsymmetry
    after: PathAsymmetry
    asymmetry_change: DelayEstimate
    """Clocks cancel in it, so that it is known to measurement noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """One client of the reference."""

    client: int
    accepted: int
    """Exchanges that can be true."""
    followed: int
    """Of these, with both paths known."""
    spans: tuple[AssociationSpan, ...]
    shifts: tuple[AssociationShift, ...]
    predicted: PathAsymmetry | None = None
    """On paths that a trusted hash model says, where no message reported its own."""
    reason: str = ""

    @property
    def asymmetry(self) -> PathAsymmetry | None:
        """The newest."""
        return self.spans[-1].asymmetry if self.spans else self.predicted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Followed:
    """Both packets of exchanges, and their paths as numbers."""

    row: Int64s
    """Into the accepted exchanges."""
    packet: tuple[Int64s, Int64s]
    """Into `ptp`: Sync and Delay_Req."""
    path: tuple[Int64s, Int64s]


def associations(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    delays: LinkDelays,
    *,
    injected: Injected = NOTHING_INJECTED,
    predict: Predict | None = None,
    frame_bytes: float = PTP_EVENT_BYTES,
) -> tuple[Association, ...]:
    """Every client that an exchange names, by clock index.

    predict: asked for clients of which no message reported its path; None where it is not trusted.
    """
    model = delays.model
    counters = JoinCounters()
    whole = packets["complete"] & (packets["hop_count"] > 0)
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & whole]
    accepted = usable_exchanges(exchanges, ptp, model, counters)
    accounted = account(packets, hops, exchanges, model, injected)
    paths = _Paths(delays, hops, frame_bytes)
    followed = _follow(accepted, ptp, hops, paths, counters)
    clients = {
        int(client)
        for client in np.unique(exchanges["client"])
        if 0 <= client < len(model.clocks) and model.clocks[client].kind is ClockKind.NIC
    }
    return tuple(
        _predicted(_association(client, accepted, accounted, ptp, followed, paths), predict, paths)
        for client in sorted(clients - {model.reference})
    )


class _Paths:
    """Numbers for paths, and their delays."""

    def __init__(self, delays: LinkDelays, hops: Hops, frame_bytes: float) -> None:
        self.delays = delays
        self.hops = hops
        self._ports = port_index(delays.model)
        self._frame_bytes = frame_bytes
        self._numbers: dict[Path, int] = {}
        self._paths: list[Path] = []

    def number(self, packet: np.void) -> int:
        first = int(packet["first_hop"])
        rows = self.hops[first : first + int(packet["hop_count"])]
        path = tuple(PathHop(*(int(row[name]) for name in PathHop._fields)) for row in rows)
        found = self._numbers.get(path)
        if found is None:
            found = self._numbers[path] = len(self._paths)
            self._paths.append(path)
        return found

    def delay(self, number: int, packets: Packets) -> PathDelay:
        return path_delay(
            self._paths[number],
            self.delays,
            self._ports,
            residences=residences_of_packets(packets, self.hops, self.delays),
            frame_bytes=self._frame_bytes,
        )

    def predicted(self, path: Path) -> PathDelay:
        return path_delay(
            path,
            self.delays,
            self._ports,
            source=PathSource.PREDICTED,
            frame_bytes=self._frame_bytes,
        )


def _follow(
    accepted: Exchanges, ptp: Packets, hops: Hops, paths: _Paths, counters: JoinCounters
) -> _Followed:
    """Exchanges whose two messages were reported whole."""
    packet = np.full((2, len(accepted)), -1, np.int64)
    if len(accepted) and len(ptp):
        for column, message in enumerate(MESSAGES):
            row, found = join_to_packets(accepted, ptp, message, counters)
            packet[column, row] = found
    row = np.flatnonzero((packet >= 0).all(axis=0))
    sync, delay_req = packet[0, row], packet[1, row]
    numbers = [
        np.array([paths.number(ptp[one]) for one in column.tolist()], np.int64)
        for column in (sync, delay_req)
    ]
    return _Followed(row=row, packet=(sync, delay_req), path=(numbers[0], numbers[1]))


def _association(
    client: int,
    accepted: Exchanges,
    accounted: Accounted,
    ptp: Packets,
    followed: _Followed,
    paths: _Paths,
) -> Association:
    count = int(np.count_nonzero(accepted["client"] == client))
    mine = np.flatnonzero(accepted["client"][followed.row] == client)
    mine = mine[np.argsort(accepted["t1_reference_ns"][followed.row[mine]], kind="stable")]
    pair = np.stack([followed.path[0][mine], followed.path[1][mine]])
    begins = np.flatnonzero(np.r_[True, (pair[:, 1:] != pair[:, :-1]).any(axis=0)][: len(mine)])
    bounds = [*begins.tolist(), len(mine)]
    spans, reason = [], ""
    for start, end in list(pairwise(bounds))[-SPANS_MAX:]:
        try:
            spans.append(_span(mine[start:end], accepted, accounted, ptp, followed, paths))
        except ValueError as error:
            reason = str(error)
    if not len(mine):
        reason = NOT_FOLLOWED if count else NO_EXCHANGE
    return Association(
        client=client,
        accepted=count,
        followed=len(mine),
        spans=tuple(spans),
        shifts=_shifts(spans, paths.delays),
        reason=reason,
    )


def _predicted(association: Association, predict: Predict | None, paths: _Paths) -> Association:
    """With the asymmetry of predicted paths, where there is no other."""
    if association.spans or predict is None:
        return association
    clocks = paths.delays.model.clocks
    ends = clocks[paths.delays.model.reference].ip, clocks[association.client].ip
    there, back = (
        predict(Flow(TRAFFIC_PTP, *pair, PTP_EVENT_PORT, PTP_EVENT_PORT, 0))
        for pair in (ends, ends[::-1])
    )
    if there is None or back is None:
        return association
    try:
        asymmetry = path_asymmetry(paths.predicted(there), paths.predicted(back), paths.delays)
    except ValueError as error:
        return replace(association, reason=f"{association.reason}; predicted: {error}")
    return replace(association, predicted=asymmetry)


def _span(
    which: Int64s,
    accepted: Exchanges,
    accounted: Accounted,
    ptp: Packets,
    followed: _Followed,
    paths: _Paths,
) -> AssociationSpan:
    rows = followed.row[which]
    sync, delay_req = (ptp[column[which]] for column in followed.packet)
    asymmetry = path_asymmetry(
        paths.delay(int(followed.path[0][which[0]]), sync),
        paths.delay(int(followed.path[1][which[0]]), delay_req),
        paths.delays,
    )
    residence, sound = _residence_sums(sync, delay_req, paths)
    c = np.stack([accepted["c1_ns"][rows], accepted["c2_ns"][rows]]).astype(np.float64)
    beyond = c - residence
    known: Bools = np.all(accounted.known[rows], axis=1)
    left = asymmetry.asymmetry.value_ns - (beyond[0] - beyond[1]) / 2
    t1 = accepted["t1_reference_ns"][rows]
    return AssociationSpan(
        asymmetry=asymmetry,
        exchanges=len(rows),
        first_reference_ns=int(t1[0]),
        last_reference_ns=int(t1[-1]),
        first_collector_ns=int(sync["capture_collector_ns"][0]),
        carried_ns=(_median(beyond[0], sound), _median(beyond[1], sound)),
        injected_ns=(
            _median(accounted.injected_ns[rows, 0], known),
            _median(accounted.injected_ns[rows, 1], known),
        ),
        left_ns=_median(left, sound),
    )


def _residence_sums(sync: Packets, delay_req: Packets, paths: _Paths) -> tuple[Float64s, Bools]:
    """[direction, exchange]: residence along the message's path, and where both are known."""
    there, sound = residence_matrix(sync, paths.hops, paths.delays)
    back, sound_back = residence_matrix(delay_req, paths.hops, paths.delays)
    return np.stack([there.sum(axis=1), back.sum(axis=1)]), sound & sound_back


def _median(values: Float64s, usable: Bools) -> float:
    """NaN where none is usable."""
    return float(np.median(values[usable])) if usable.any() else np.nan


def _shifts(spans: list[AssociationSpan], delays: LinkDelays) -> tuple[AssociationShift, ...]:
    return tuple(
        AssociationShift(
            at_collector_ns=after.first_collector_ns,
            before=before.asymmetry,
            after=after.asymmetry,
            asymmetry_change=change_of(before.asymmetry.terms, after.asymmetry.terms, delays),
        )
        for before, after in pairwise(spans)
    )
