# SPDX-License-Identifier: Apache-2.0
"""Boundary clocks: a switch has a PTP clock besides its INT clock, and both are unknowns.

    host NIC ----- cable ----- PTP clock of the leaf === (no way) === INT clock of the leaf

An exchange with a switch crosses one cable, and is an edge between two PTP clocks, or a NIC and a
PTP clock. Where a report shows the same packet, the PTP stamp and the INT stamp of that packet are
two readings of one instant, the packet's on the wire: a tie of both clocks of one switch, as good
as their stamp points are known. One direction is enough for it: switches report what leaves their
CPU, not what is punted to it. A cable that INT stamps of its own measure both ways, between clocks
that are tied, needs no second edge: that would count its asymmetry twice.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from correction.exchange_accept import accept_exchanges
from correction.exchange_join import DELAY_REQ, MESSAGES, SYNC, join_to_packets
from correction.links import JoinCounters, PortIndex, port_index
from correction.model import ClockKind, FabricModel, Link, StampPoint, link_ends
from correction.priors import UNIFORM_SD
from correction.records import (
    LINK_SAMPLE_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    Hops,
    LinkSamples,
    Packets,
)
from correction.servo import ServoLog
from correction.ties import capture_times, joined, readings, tie, tie_samples
from correction.timebase import Bools, Int64s, has_stamp

PTP_SUFFIX = "/ptp"
"""A switch's PTP clock is the clock SWITCH/ptp."""
PTP_BYTES = 90
"""Frame of an event message over UDP and IPv4, for serialisation, where no report tells it."""


def with_boundary_clocks(model: FabricModel) -> FabricModel:
    """The model with a PTP clock per switch of `boundary_clocks`, tied to its INT clock, and with a
    link beside each cable of theirs for the exchanges themselves."""
    if not model.boundary_clocks:
        return model
    first = len(model.clocks)
    ptp_of = {one.switch: first + number for number, one in enumerate(model.boundary_clocks)}
    clocks = tuple(
        replace(
            model.clocks[one.switch],
            name=model.clocks[one.switch].name + PTP_SUFFIX,
            kind=ClockKind.PTP,
            node_id=0,
            ip=one.ip,
            stamp_bits=64,
        )
        for one in model.boundary_clocks
    )
    links = [_inside(model, switch, ptp) for switch, ptp in ptp_of.items()]
    for cable in model.links:
        a, b = ptp_of.get(cable.a), ptp_of.get(cable.b)
        a_nic, b_nic = (model.clocks[end].kind is ClockKind.NIC for end in (cable.a, cable.b))
        if (a is None and not a_nic) or (b is None and not b_nic) or (a is None and b is None):
            continue
        links.append(_beside(cable, a, b))
    return replace(model, clocks=model.clocks + clocks, links=model.links + tuple(links))


def boundary_samples(
    exchanges: Exchanges, packets: Packets, hops: Hops, samples: LinkSamples, model: FabricModel
) -> LinkSamples:
    """Samples between the clocks of one switch, and of the exchanges with them.

    `samples`: those of the cables.
    """
    is_ptp = np.array([clock.kind is ClockKind.PTP for clock in model.clocks], np.bool_)
    if not is_ptp.any():
        return joined([])
    accepted = accept_exchanges(exchanges, model, JoinCounters())
    giver = _givers(accepted, model)
    client = accepted["client"].astype(np.int64)
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    index = port_index(model)
    parts: list[LinkSamples] = []
    for message in MESSAGES if len(ptp) else ():
        row, candidate = join_to_packets(accepted, ptp, message, JoinCounters())
        for sending in (True, False):
            end = giver if (message.message_type == SYNC) == sending else client
            mine = is_ptp[end[row]]
            found = ptp[candidate[mine]]
            stamp = accepted[message.sent if sending else message.received][row[mine]]
            clock = end[row[mine]]
            parts.append(_inner(found, hops, stamp, clock, model, index, sending=sending))
    inner = joined(parts)
    beside = _links_of(accepted, client, giver, inner, samples, model)
    direct = _direct(accepted[beside >= 0], beside[beside >= 0], client[beside >= 0], model)
    return joined([inner, _timed(direct, joined([samples, inner]), model)])


def free_running_transmitters(
    exchanges: Exchanges, servos: Mapping[int, ServoLog], model: FabricModel
) -> Exchanges:
    """The exchanges with t1 and t4 of steered clocks in free-running time; servos by clock.

    Boundary clocks are steered, and a host that took over from the grandmaster was.
    """
    result = exchanges.copy()
    of_ip = _clock_of_ip(model)
    addresses, which = np.unique(exchanges["time_transmitter_ip"], return_inverse=True)
    giver = np.array([of_ip.get(ip, -1) for ip in addresses.tolist()], np.int64)[which]
    for clock, log in servos.items():
        mine = giver == clock
        for stamp in ("t1_reference_ns", "t4_reference_ns"):
            result[stamp][mine] = log.to_free_ns(result[stamp][mine])
    return result


def _clock_of_ip(model: FabricModel) -> dict[int, int]:
    return {clock.ip: number for number, clock in enumerate(model.clocks) if clock.ip}


def _givers(exchanges: Exchanges, model: FabricModel) -> Int64s:
    """The time transmitter's clock of each accepted exchange."""
    of_ip = _clock_of_ip(model)
    return np.array([of_ip[int(ip)] for ip in exchanges["time_transmitter_ip"]], np.int64)


def _inner(
    found: Packets,
    hops: Hops,
    stamp_ns: Int64s,
    clock: Int64s,
    model: FabricModel,
    index: PortIndex,
    *,
    sending: bool,
) -> LinkSamples:
    """INT stamp against PTP stamp of one packet, where its outer hop is the PTP clock's switch."""
    last = found["hop_count"].astype(np.int64) - 1
    hop = hops[found["first_hop"] + (0 if sending else last)]
    tie_of, node_of = _ties(model)
    int_ns = hop["egress_tstamp_local_ns" if sending else "ingress_tstamp_local_ns"]
    after_ns, cabled = _wire_after_stamp_ns(hop, model, index, sending=sending)
    own = hop["node_id"] == node_of[clock]
    good = own & cabled & has_stamp(int_ns) & has_stamp(stamp_ns)
    return tie_samples(
        tie_of[clock[good]],
        int_ns[good] + after_ns[good],
        stamp_ns[good],
        found["capture_collector_ns"][good],
    )


def _ties(model: FabricModel) -> tuple[Int64s, Int64s]:
    """[clock]: of a PTP clock, the tie to its switch's INT clock and the switch's node id."""
    tie_of, node_of = np.full((2, len(model.clocks)), -1, np.int64)
    for number, link in enumerate(model.links):
        near, far = model.clocks[link.a], model.clocks[link.b]
        if near.kind is ClockKind.SWITCH and far.kind is ClockKind.PTP:
            tie_of[link.b], node_of[link.b] = number, near.node_id
    return tie_of, node_of


def _wire_after_stamp_ns(
    hop: Hops, model: FabricModel, index: PortIndex, *, sending: bool
) -> tuple[Int64s, Bools]:
    """(from each hop's INT stamp to its frame's first bit on the wire, whether a cable is there).

    Where PTP's timestamp point is: IEEE 1588-2019 clause 7.3.4.1.
    """
    position = index.find(hop["node_id"], hop["egress_port" if sending else "ingress_port"])
    frame_bytes = hop["egress_bytes" if sending else "ingress_bytes"].astype(np.float64)
    after_ns = np.zeros(len(hop), np.int64)
    for one in np.unique(position[position >= 0]).tolist():
        mine = position == one
        link = model.links[index.link[one]]
        egress, ingress = _points(link, at_a=bool(index.at_a[one]))
        point = egress if sending else ingress
        serialised_ns = np.rint(point.at_frame_end * 8e9 / link.rate_bps * frame_bytes[mine])
        latency_ns = point.latency_ns if sending else -point.latency_ns
        after_ns[mine] = latency_ns - serialised_ns.astype(np.int64)
    return after_ns, position >= 0


def _links_of(
    accepted: Exchanges,
    client: Int64s,
    giver: Int64s,
    inner: LinkSamples,
    samples: LinkSamples,
    model: FabricModel,
) -> Int64s:
    """The link that each exchange is an edge of; -1: of none, or of a cable that needs none."""
    number = {link.name: index for index, link in enumerate(model.links)}
    tie_of, _ = _ties(model)
    tied = (tie_of < 0) | np.isin(tie_of, inner["link"])
    both_ways = np.intersect1d(
        samples["link"][samples["reverse"]], samples["link"][~samples["reverse"]]
    )
    measured = set(both_ways.tolist())
    of_pair: dict[frozenset[int], int] = {}
    for index, link in enumerate(model.links):
        cable = number.get(link.name.removesuffix(PTP_SUFFIX))
        if cable is None or cable == index:
            continue
        if not (cable in measured and tied[link.a] and tied[link.b]):
            of_pair[frozenset((link.a, link.b))] = index
    pairs = zip(client.tolist(), giver.tolist(), strict=True)
    return np.array([of_pair.get(frozenset(pair), -1) for pair in pairs], np.int64)


def _direct(rows: Exchanges, link: Int64s, client: Int64s, model: FabricModel) -> LinkSamples:
    """Both messages of exchanges between their two clocks; capture times come later."""
    parts = []
    client_is_a = link_ends(model)[link, 0] == client
    for message in MESSAGES:
        part = np.zeros(len(rows), LINK_SAMPLE_DTYPE)
        part["link"] = link
        part["egress_local_ns"] = rows[message.sent]
        part["ingress_local_ns"] = rows[message.received]
        part["reverse"] = client_is_a != (message.message_type == DELAY_REQ)
        part["frame_bytes"] = PTP_BYTES
        parts.append(part)
    return joined(parts)


def _timed(made: LinkSamples, known: LinkSamples, model: FabricModel) -> LinkSamples:
    """The samples with capture times by other stamps of their clocks; without those of none.

    What has become known helps the next: from the hosts and leaves upwards, or downwards.
    """
    ends = link_ends(model)
    timed = [np.zeros(0, LINK_SAMPLE_DTYPE)]
    while len(made):
        told = np.zeros(len(made), np.bool_)
        for field, at_receiver in (("egress_local_ns", False), ("ingress_local_ns", True)):
            side = (made["reverse"] != at_receiver).astype(np.int64)
            clock = ends[made["link"], side]
            for one in np.unique(clock[~told]).tolist():
                mine = np.flatnonzero(~told & (clock == one))
                when, near = capture_times(readings(known, model, one), made[field][mine])
                made["capture_collector_ns"][mine[near]] = when[near]
                told[mine[near]] = True
        if not told.any():
            break
        timed.append(made[told])
        known, made = joined([known, made[told]]), made[~told]
    return joined(timed)


def _inside(model: FabricModel, switch: int, ptp: int) -> Link:
    """Between both clocks of one switch, at one instant: what two stamp points may be wrong by."""
    uncertainty_ns = max(
        (
            point.uncertainty_ns
            for link in model.links
            if switch in (link.a, link.b)
            for point in _points(link, at_a=link.a == switch)
        ),
        default=0,
    )
    return tie(
        name=f"{model.clocks[switch].name}-{model.clocks[switch].name}{PTP_SUFFIX}",
        a=switch,
        b=ptp,
        sd_ns=np.sqrt(2.0) * UNIFORM_SD * uncertainty_ns,
        hard_ns=2.0 * uncertainty_ns,
    )


def _points(link: Link, *, at_a: bool) -> tuple[StampPoint, StampPoint]:
    """Egress and ingress stamp point of one end."""
    return (link.a_egress, link.a_ingress) if at_a else (link.b_egress, link.b_ingress)


def _beside(cable: Link, a: int | None, b: int | None) -> Link:
    """The same cable between PTP clocks, which stamp on the wire; None: that end is a NIC."""
    return replace(
        cable,
        name=f"{cable.name}{PTP_SUFFIX}",
        a=cable.a if a is None else a,
        b=cable.b if b is None else b,
        a_egress=cable.a_egress if a is None else _on_the_wire(cable.a_egress),
        a_ingress=cable.a_ingress if a is None else _on_the_wire(cable.a_ingress),
        b_egress=cable.b_egress if b is None else _on_the_wire(cable.b_egress),
        b_ingress=cable.b_ingress if b is None else _on_the_wire(cable.b_ingress),
        cable=False,
    )


def _on_the_wire(point: StampPoint) -> StampPoint:
    """Of a PTP clock: its device has taken latencies off, as well as it knows them. Devices of one
    model are wrong alike, but not necessarily as their INT stamps are."""
    return StampPoint(
        latency_ns=0,
        uncertainty_ns=point.uncertainty_ns,
        group=point.group and point.group + PTP_SUFFIX,
    )
