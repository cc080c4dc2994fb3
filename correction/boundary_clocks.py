# SPDX-License-Identifier: Apache-2.0
"""Boundary clocks: a switch has a PTP clock besides its INT clock, and both are unknowns.

    host NIC ----- cable ----- INT clock of the leaf --- (no cable) --- PTP clock of the leaf

An exchange with a switch crosses one cable. Where its packets are reported, the NIC's stamps are
held against the INT stamps at the cable's other end, as with any exchange, and the PTP clock's
stamps against the INT stamps of the same packet: an edge between both clocks of one switch, as long
as their stamp points are apart. Where nothing is reported, the exchange itself is an edge from NIC
(or the PTP clock of the switch below) to PTP clock.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from correction.exchange_join import (
    DELAY_REQ,
    MESSAGES,
    SYNC,
    accept_exchanges,
    join_to_packets,
)
from correction.links import JoinCounters
from correction.model import ClockKind, FabricModel, Link, StampPoint, link_ends
from correction.records import (
    LINK_SAMPLE_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    Hops,
    LinkSamples,
    Packets,
)
from correction.servo import ServoLog
from correction.ties import capture_times, joined, readings
from correction.timebase import Int64s, has_stamp

PTP_SUFFIX = "/ptp"
"""A switch's PTP clock is the clock SWITCH/ptp."""
PTP_BYTES = 90
"""Frame of an event message over UDP and IPv4, for serialisation, where no report tells it."""


def with_boundary_clocks(model: FabricModel) -> FabricModel:
    """The model with a PTP clock per switch of `boundary_clocks`, tied to its INT clock, and with a
    link beside each cable of theirs for exchanges that no report accompanies."""
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
    links: list[Link] = []
    for one in model.boundary_clocks:
        cable = next((link for link in model.links if one.switch in (link.a, link.b)), None)
        if cable is not None:
            links.append(_inside(model, one.switch, ptp_of[one.switch], cable))
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
    """Samples between the clocks of one switch, and of exchanges without reported packets.

    `samples`: those of the cables, for capture times.
    """
    is_ptp = np.array([clock.kind is ClockKind.PTP for clock in model.clocks], np.bool_)
    if not is_ptp.any():
        return joined([])
    accepted = accept_exchanges(exchanges, model, JoinCounters())
    giver = _givers(accepted, model)
    client = accepted["client"].astype(np.int64)
    of_pair = {
        frozenset((link.a, link.b)): number
        for number, link in enumerate(model.links)
        if not link.cable
    }
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    parts: list[LinkSamples] = []
    reported = np.zeros(len(accepted), np.bool_)
    for message in MESSAGES if len(ptp) else ():
        row, candidate = join_to_packets(accepted, ptp, message, JoinCounters())
        reported[row] = True
        for sending in (True, False):
            end = giver if (message.message_type == SYNC) == sending else client
            mine = is_ptp[end[row]]
            found = ptp[candidate[mine]]
            stamp = accepted[message.sent if sending else message.received][row[mine]]
            clock = end[row[mine]]
            parts.append(_inner(found, hops, stamp, clock, model, of_pair, sending=sending))
    direct = [
        _direct(accepted[number], link, int(client[number]), model)
        for number in np.flatnonzero(~reported & (is_ptp[client] | is_ptp[giver])).tolist()
        if (link := of_pair.get(frozenset((int(client[number]), int(giver[number])))))
    ]
    made = joined(parts)
    return joined([made, _timed(joined(direct), joined([samples, made]), model)])


def free_running_transmitters(
    exchanges: Exchanges, servos: Mapping[int, ServoLog], model: FabricModel
) -> Exchanges:
    """The exchanges with t1 and t4 of boundary clocks in free-running time; servos by clock."""
    result = exchanges.copy()
    giver = np.array(
        [_clock_of_ip(model).get(int(ip), -1) for ip in exchanges["time_transmitter_ip"]], np.int64
    )
    for clock, log in servos.items():
        if model.clocks[clock].kind is ClockKind.PTP:
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
    of_pair: dict[frozenset[int], int],
    *,
    sending: bool,
) -> LinkSamples:
    """INT stamp against PTP stamp of one packet, where its outer hop is the PTP clock's switch."""
    last = found["hop_count"].astype(np.int64) - 1
    hop = hops[found["first_hop"] + (0 if sending else last)]
    int_clock = {c.node_id: n for n, c in enumerate(model.clocks) if c.kind is ClockKind.SWITCH}
    pairs = zip(hop["node_id"].tolist(), clock.tolist(), strict=True)
    links = [of_pair.get(frozenset((int_clock.get(node, -1), own)), -1) for node, own in pairs]
    link = np.array(links, np.int64)
    int_ns = hop["egress_tstamp_local_ns" if sending else "ingress_tstamp_local_ns"]
    good = (link >= 0) & has_stamp(int_ns) & has_stamp(stamp_ns)
    part = np.zeros(np.count_nonzero(good), LINK_SAMPLE_DTYPE)
    part["link"] = link[good]
    # leaving, the INT stamp comes before the wire, where PTP stamps; arriving, after it
    part["reverse"] = not sending
    part["egress_local_ns"] = (int_ns if sending else stamp_ns)[good]
    part["ingress_local_ns"] = (stamp_ns if sending else int_ns)[good]
    part["frame_bytes"] = hop["egress_bytes" if sending else "ingress_bytes"][good]
    part["capture_collector_ns"] = found["capture_collector_ns"][good]
    return part


def _direct(row: np.void, link: int, client: int, model: FabricModel) -> LinkSamples:
    """Both messages of one exchange between its two clocks; capture times come later."""
    part = np.zeros(2, LINK_SAMPLE_DTYPE)
    part["link"] = link
    client_is_a = model.links[link].a == client
    for number, message in enumerate(MESSAGES):
        part["egress_local_ns"][number] = row[message.sent]
        part["ingress_local_ns"][number] = row[message.received]
        from_client = message.message_type == DELAY_REQ
        part["reverse"][number] = from_client != client_is_a
    part["frame_bytes"] = PTP_BYTES
    return part


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


def _inside(model: FabricModel, switch: int, ptp: int, cable: Link) -> Link:
    """Between both clocks of one switch: the stamp points of its INT clock, and no way at all."""
    at_a = cable.a == switch
    egress = cable.a_egress if at_a else cable.b_egress
    ingress = cable.a_ingress if at_a else cable.b_ingress
    return Link(
        name=f"{model.clocks[switch].name}-{model.clocks[switch].name}{PTP_SUFFIX}",
        a=switch,
        a_port=0,
        b=ptp,
        b_port=0,
        rate_bps=cable.rate_bps,
        a_egress=egress,
        a_ingress=ingress,
        b_egress=_on_the_wire(egress),
        b_ingress=_on_the_wire(ingress),
        min_delay_ns=0,
        asymmetry_sd_ns=0.0,
        access=False,
        cable=False,
        firm=True,
    )


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
    """Of a PTP clock: its device has taken latencies off, as well as it knows them."""
    return StampPoint(latency_ns=0, uncertainty_ns=point.uncertainty_ns)
