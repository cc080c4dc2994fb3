# SPDX-License-Identifier: Apache-2.0
"""Which PTP exchanges can be true: everything that a row by itself, or among the others, refutes.

One bad number refutes its whole exchange: what else the row says is then not trusted either.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from correction.exchange import CORRECTION_NS_MAX
from correction.jumps import Jump, jump_kinds
from correction.links import JoinCounters, Reject
from correction.model import ClockKind, FabricModel
from correction.records import EXCHANGE_DTYPE, Exchanges
from correction.timebase import NS_PER_S, Bools, Float64s, has_stamp

CORRECTION_BELOW_ZERO_NS_MAX = 10_000
"""A correctionField may be that far below zero: `delayAsymmetry` of a port (sent as its negative in
a Delay_Req) and link delays less a constant. Residence is positive; more is a broken bridge."""
LINK_DELAY_ERROR_NS_MAX = 100
"""Link delays that a transparent clock adds are estimates: the rest of the path may come out
negative by this much."""
ROUND_TRIP_NS_MAX = NS_PER_S
"""Event messages do not take longer there and back; a stamp is wrong instead."""
STAMPS = ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns")
REJECT_OF_JUMP = {
    Jump.OTHER: Reject.EXCHANGE_CLOCK_JUMP,
    Jump.WRAP_32: Reject.EXCHANGE_CLOCK_JUMP_2_32,
    Jump.UTC_TAI: Reject.EXCHANGE_CLOCK_JUMP_UTC_TAI,
    Jump.FROM_1970: Reject.EXCHANGE_STAMP_FROM_1970,
}
_Rejecting = Callable[[Bools, Reject], None]
_IDENTIFYING = [name for name in EXCHANGE_DTYPE.names or () if name not in ("c1_ns", "c2_ns")]

CHOSEN_BY = 2
"""Clients that follow a host which nobody declared: one alone may be wrong."""


def accept_exchanges(exchanges: Exchanges, model: FabricModel, counters: JoinCounters) -> Exchanges:
    """The exchanges that can be true, once each, and that are of the clocks they claim.

    A row names its client three times: by clock index, by address and by the port identity of its
    Delay_Req. t2 and t3 may already have been mapped by the servo log of the clock index, so a row
    whose names disagree is of no clock at all. Refuted rows have no say in what refutes others.
    The order of the result is its own, whatever that of the rows.
    """
    told = np.ones(len(exchanges), np.bool_)

    def reject(bad: Bools, reason: Reject) -> None:
        counters.reject(reason, np.count_nonzero(told & bad))
        told[bad] = False

    reject(~np.all([has_stamp(exchanges[name]) for name in STAMPS], axis=0), _NO_STAMP)
    client = exchanges["client"]
    kinds = (ClockKind.NIC, ClockKind.PTP)
    is_client = np.array([clock.kind in kinds for clock in model.clocks], np.bool_)
    known = (client >= 0) & (client < len(is_client))
    reject(~known | ~is_client[np.where(known, client, 0)], Reject.EXCHANGE_UNKNOWN_CLIENT)
    address = np.array([clock.ip for clock in model.clocks], np.int64)
    claimed = address[np.where(known, client, 0)]
    reject(claimed != exchanges["client_ip"].astype(np.int64), Reject.EXCHANGE_WRONG_CLIENT)
    transmitter = exchanges["time_transmitter_ip"].astype(np.int64)
    serving = address[transmitters(model)]
    chosen = _chosen(exchanges, told & (claimed != transmitter), model)
    known = np.isin(transmitter, serving) | np.isin(transmitter, chosen)
    own = known & (claimed == transmitter)
    reject(~known | own, Reject.EXCHANGE_WRONG_TRANSMITTER)
    _reject_by_delay(exchanges, model, reject)
    reject(_repeated(exchanges, told), Reject.EXCHANGE_DUPLICATE)
    reject(_foreign_identity(exchanges, told), Reject.EXCHANGE_WRONG_IDENTITY)
    accepted = exchanges[told]
    return accepted[np.lexsort([accepted[name] for name in reversed(_IDENTIFYING)])]


def _chosen(exchanges: Exchanges, told: Bools, model: FabricModel) -> NDArray[np.int64]:
    """Addresses of hosts that CHOSEN_BY clients or more name as their time transmitter: one that
    took over from the grandmaster. It ties clocks together; the reference does not move."""
    named = np.stack([exchanges["time_transmitter_ip"], exchanges["client"]])[:, told]
    pairs = np.unique(named.astype(np.int64), axis=1)
    hosts = [clock.ip for clock in model.clocks if clock.kind is ClockKind.NIC]
    addresses, clients = np.unique(pairs[0], return_counts=True)
    chosen: NDArray[np.int64] = addresses[(clients >= CHOSEN_BY) & np.isin(addresses, hosts)]
    return chosen


def transmitters(model: FabricModel) -> NDArray[np.int64]:
    """Clocks that any exchange may name: the reference, or all of several, and boundary clocks."""
    several = [one.clock for one in model.references] or [model.reference]
    several += [n for n, clock in enumerate(model.clocks) if clock.kind is ClockKind.PTP]
    return np.array(several, np.int64)


def _reject_by_delay(exchanges: Exchanges, model: FabricModel, reject: _Rejecting) -> None:
    """Round trips and correctionFields that cannot be.

    round trip = (t4 - t1) - (t3 - t2): differences on one clock each, so no epoch remains in it,
    and one stamp that is off leaves it off by as much.
    """
    c1, c2 = exchanges["c1_ns"], exchanges["c2_ns"]
    below = -CORRECTION_BELOW_ZERO_NS_MAX
    reject((c1 < below) | (c2 < below), Reject.EXCHANGE_CORRECTION_NEGATIVE)
    reject((c1 > CORRECTION_NS_MAX) | (c2 > CORRECTION_NS_MAX), _TOO_LARGE)
    turnaround: Float64s = _difference(exchanges, "t3_local_ns", "t2_local_ns")
    round_trip = _difference(exchanges, "t4_reference_ns", "t1_reference_ns") - turnaround
    rate_slack = np.abs(turnaround) * model.rate_offset_max_ppb * 2e-9
    units = 4 * max((clock.stamp_unit_ns for clock in model.clocks), default=1)
    slack = rate_slack + units
    # a turnaround that is off as well must not excuse it
    slack = np.minimum(slack, ROUND_TRIP_NS_MAX / 2)
    impossible = (round_trip < -slack) | (round_trip > ROUND_TRIP_NS_MAX)
    smallest = np.min([np.abs(exchanges[name]) for name in STAMPS], axis=0)
    kinds = jump_kinds(np.rint(np.clip(round_trip, -(2.0**62), 2.0**62)).astype(np.int64), smallest)
    for kind, reason in REJECT_OF_JUMP.items():
        if kind is not Jump.OTHER:
            reject(impossible & (kinds == kind), reason)
    reject(impossible & (round_trip < 0.0), Reject.EXCHANGE_DELAY_NEGATIVE)
    reject(impossible, Reject.EXCHANGE_DELAY_TOO_LARGE)
    left = round_trip - c1.astype(np.float64) - c2.astype(np.float64)
    reject(left < -(slack + LINK_DELAY_ERROR_NS_MAX), Reject.EXCHANGE_CORRECTION_ABOVE_DELAY)


def _difference(exchanges: Exchanges, later: str, earlier: str) -> Float64s:
    difference: Float64s = (exchanges[later] - exchanges[earlier]).astype(np.float64)
    return difference


def _repeated(exchanges: Exchanges, told: Bools) -> Bools:
    """Rows that an earlier one of `told` equals but for correctionFields: logged twice."""
    rows = np.flatnonzero(told)
    result = np.zeros(len(exchanges), np.bool_)
    columns = [exchanges[name][rows] for name in _IDENTIFYING]
    order = np.lexsort(columns)  # equal rows side by side, the earliest of them first
    again = np.ones(max(len(rows) - 1, 0), np.bool_)
    for column in columns:
        again &= column[order][1:] == column[order][:-1]
    result[rows[order[1:][again]]] = True
    return result


def _foreign_identity(exchanges: Exchanges, told: Bools) -> Bools:
    """Rows whose Delay_Req's clockIdentity is not their client's.

    An identity belongs to the client for which most of the `told` rows use it, and to nobody on a
    tie; the Sync's sender is another clock than the Delay_Req's.
    """
    identity = exchanges["delay_req_clock_identity"]
    foreign: Bools = identity == exchanges["sync_clock_identity"]
    pairs = np.stack([identity, exchanges["client"].astype(np.uint64)], axis=1)
    used, number = np.unique(pairs[told], axis=0, return_counts=True)
    values, users = np.unique(used[:, 0], return_counts=True)
    for value in values[users > 1]:
        mine = used[:, 0] == value
        count, owner = number[mine], used[mine, 1]
        sure = np.count_nonzero(count == count.max()) == 1
        strange = (pairs[:, 1] != owner[np.argmax(count)]) | (not sure)
        foreign |= (identity == value) & strange
    return foreign


_NO_STAMP = Reject.EXCHANGE_NO_STAMP
_TOO_LARGE = Reject.EXCHANGE_CORRECTION_TOO_LARGE
