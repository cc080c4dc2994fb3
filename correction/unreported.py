# SPDX-License-Identifier: Apache-2.0
"""Clients whose PTP packets no switch reports: their exchanges themselves, as one edge each.

Where packets are reported, an exchange measures two cables, and this module has nothing to do. A
client behind a switch without telemetry has only t1..t4 and correctionFields, which make one edge
between its clock and its time transmitter's. What that edge is worth depends on the path:

- predicted by a hash model that may be trusted (`predict`): the asymmetry of its links is taken
  off, as the solve of the others knows it;
- of what is known of no link, nothing is known of how it is shared out: without a path the least
  round trip, on a path what queues leave beyond its links. Half of it, either way, is a limit
  (clocks.md 2.2), and the edge's deviation that of a value that is anywhere within.

Residence is taken once: from the correctionField where it is that of every switch on the way,
which are then all declared transparent clocks, or of the predicted path's; else it stays in, and
the lower envelope of a window is all there is against it.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from correction.delay_sum import DelaySum, likely, sum_of_links
from correction.exchange_join import MESSAGES, SYNC, usable_exchanges
from correction.flow_delays import Predict
from correction.flow_paths import Flow, Path
from correction.injected import SCALED_PER_NS, Injected
from correction.link_delays import LinkBasis, LinkDelays
from correction.links import JoinCounters, port_index
from correction.model import ClockKind, FabricModel, Link, link_ends
from correction.path_delays import PTP_EVENT_BYTES, PathError, links_of_path
from correction.priors import UNIFORM_SD
from correction.records import (
    LINK_SAMPLE_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    LinkSamples,
    Packets,
)
from correction.sources import Gathered
from correction.ties import capture_times, joined, readings
from correction.timebase import Int64s

PTP_EVENT_PORT = 319


def unreported_exchanges(gathered: Gathered, packets: Packets, exchanges: Exchanges) -> Exchanges:
    """Exchanges that can be true, of clients whose clock no sample shows, with a transmitter that
    some sample does show."""
    ptp = packets[(packets["traffic"] == TRAFFIC_PTP) & (packets["hop_count"] > 0)]
    accepted = usable_exchanges(exchanges, ptp, gathered.model, JoinCounters())
    seen = np.zeros(len(gathered.model.clocks), np.bool_)
    seen[np.unique(link_ends(gathered.model)[gathered.samples["link"]])] = True
    nic = np.array([clock.kind is ClockKind.NIC for clock in gathered.model.clocks])
    transmitter = _transmitters(accepted, gathered.model)
    client = accepted["client"]
    wanted = nic[client] & ~seen[client] & nic[transmitter] & seen[transmitter]
    found: Exchanges = accepted[wanted]
    return found


def with_unreported(
    gathered: Gathered,
    exchanges: Exchanges,
    *,
    delays: LinkDelays | None = None,
    predict: Predict | None = None,
    injected: Injected | None = None,
) -> Gathered:
    """The model and samples with an edge per client of `exchanges` (`unreported_exchanges`).

    delays, predict: what a solve of the others says of their links, and a hash model that may be
    trusted; without either no path is known. `injected` is taken off along predicted paths.
    """
    model = gathered.model
    transmitter = _transmitters(exchanges, model)
    links: list[Link] = []
    parts: list[LinkSamples] = []
    pairs = np.unique(np.stack([exchanges["client"], transmitter], axis=1), axis=0)
    for client, giver in pairs.tolist():
        mine = exchanges[(exchanges["client"] == client) & (transmitter == giver)]
        cables = [_cable_of(model, clock) for clock in (client, giver)]
        if None in cables:
            continue
        ways = None if predict is None or delays is None else _ways(model, client, giver, predict)
        mine, capture = _timed(mine, gathered, giver)
        if not len(mine):
            continue
        fields = [
            _residence_in_field(mine[one.correction], path, when, model, injected or Injected())
            for one, path, when in zip(MESSAGES, ways or (None, None), capture, strict=True)
        ]
        edge = _edge(model, client, giver)
        half_ns = _half_round_trip_ns(mine, fields)
        if ways is not None and delays is not None:
            edge = _on_path(edge, ways, delays, half_ns)
        else:
            edge = replace(edge, asymmetry_sd_ns=UNIFORM_SD * half_ns)
        parts.append(_samples(mine, len(model.links) + len(links), capture, fields))
        links.append(edge)
    return replace(
        gathered,
        model=replace(model, links=model.links + tuple(links)),
        samples=joined([gathered.samples, *parts]),
    )


def _transmitters(exchanges: Exchanges, model: FabricModel) -> Int64s:
    """The time transmitter's clock of each accepted exchange."""
    of_ip = {clock.ip: number for number, clock in enumerate(model.clocks) if clock.ip}
    found = [of_ip[int(ip)] for ip in exchanges["time_transmitter_ip"]]
    return np.array(found, np.int64)


def _cable_of(model: FabricModel, clock: int) -> Link | None:
    """A NIC's own cable, end a at the NIC; None if it has none or several."""
    own = [link for link in model.links if link.cable and clock in (link.a, link.b)]
    if len(own) != 1:
        return None
    (link,) = own
    if link.a == clock:
        return link
    return replace(
        link,
        a=link.b,
        a_port=link.b_port,
        b=link.a,
        b_port=link.a_port,
        a_egress=link.b_egress,
        a_ingress=link.b_ingress,
        b_egress=link.a_egress,
        b_ingress=link.a_ingress,
    )


def _edge(model: FabricModel, client: int, giver: int) -> Link:
    """From NIC to NIC: both NICs' stamp points, and no less delay than their own cables have."""
    near, far = _cable_of(model, client), _cable_of(model, giver)
    assert near is not None
    assert far is not None
    return Link(
        name=f"{model.clocks[client].name}~{model.clocks[giver].name}",
        a=client,
        a_port=0,
        b=giver,
        b_port=0,
        rate_bps=near.rate_bps,
        a_egress=near.a_egress,
        a_ingress=near.a_ingress,
        b_egress=far.a_egress,
        b_ingress=far.a_ingress,
        min_delay_ns=near.min_delay_ns + far.min_delay_ns,
        asymmetry_sd_ns=0.0,
        access=True,
        cable=False,
    )


_Ways = tuple[Path, Path]
"""Of Sync and Delay_Req."""


def _ways(model: FabricModel, client: int, giver: int, predict: Predict) -> _Ways | None:
    """Both predicted paths, if cables explain them."""
    ends = model.clocks[giver].ip, model.clocks[client].ip
    there, back = (
        predict(Flow(TRAFFIC_PTP, *pair, PTP_EVENT_PORT, PTP_EVENT_PORT, 0))
        for pair in (ends, ends[::-1])
    )
    if there is None or back is None:
        return None
    try:
        for path in (there, back):
            links_of_path(path, model, port_index(model))
    except PathError:
        return None
    return there, back


def _on_path(edge: Link, ways: _Ways, delays: LinkDelays, half_round_trip_ns: float) -> Link:
    """The edge without the asymmetry of its links, as far as that is known."""
    model = delays.model
    links = [links_of_path(path, model, port_index(model)) for path in ways]
    there, back = (sum_of_links(one, model, frame_bytes=PTP_EVENT_BYTES) for one in links)
    terms, halves = there.plus(back, -1.0).times(0.5), there.plus(back).times(0.5)
    asymmetry_ns, variance = likely(_measured(terms, delays), delays)
    known_ns, _ = likely(_measured(halves, delays), delays)
    for number in terms.links:
        if delays.basis[number] is LinkBasis.UNMEASURED:
            cable_sd_ns = model.links[number].asymmetry_sd_ns
            variance += (terms.difference.get(number, 0.0) * cable_sd_ns) ** 2
            asymmetry_ns += terms.half.get(number, 0.0) * model.links[number].min_delay_ns
    for number, weight in halves.half.items():
        if delays.basis[number] is LinkBasis.UNMEASURED:
            known_ns += weight * model.links[number].min_delay_ns
    variance += (UNIFORM_SD * max(0.0, half_round_trip_ns - known_ns)) ** 2
    # a is the client: towards the transmitter is the way back
    return replace(
        edge,
        asymmetry_ns=-(asymmetry_ns - _own_points_ns(edge)),
        asymmetry_sd_ns=float(np.sqrt(variance)),
        min_delay_ns=min(sum(model.links[one.link].min_delay_ns for one in way) for way in links),
    )


def _measured(terms: DelaySum, delays: LinkDelays) -> DelaySum:
    """Without the links that nothing was measured of."""
    known = {e for e in terms.links if delays.basis[e] is not LinkBasis.UNMEASURED}
    return replace(
        terms,
        half={link: weight for link, weight in terms.half.items() if link in known},
        difference={link: weight for link, weight in terms.difference.items() if link in known},
    )


def _own_points_ns(edge: Link) -> float:
    """What both NICs' declared stamp points make of half the difference: the edge takes it off
    already."""
    down = edge.b_egress.latency_ns + edge.a_ingress.latency_ns
    up = edge.a_egress.latency_ns + edge.b_ingress.latency_ns
    return (down - up) / 2


def _timed(rows: Exchanges, gathered: Gathered, giver: int) -> tuple[Exchanges, list[Int64s]]:
    """The rows near some other stamp of the transmitter, and by that the collector's time of both
    of their messages."""
    known = readings(gathered.samples, gathered.model, giver)
    stamps = ("t1_reference_ns", "t4_reference_ns")
    capture, near = zip(*(capture_times(known, rows[name]) for name in stamps), strict=True)
    both = near[0] & near[1]
    return rows[both], [one[both] for one in capture]


def _samples(
    rows: Exchanges, link: int, capture_collector_ns: list[Int64s], fields_ns: list[Int64s]
) -> LinkSamples:
    """Both messages of every exchange, correctionFields taken off where they hold residence."""
    parts = []
    for message, when, field in zip(MESSAGES, capture_collector_ns, fields_ns, strict=True):
        part = np.zeros(len(rows), LINK_SAMPLE_DTYPE)
        part["link"], part["frame_bytes"] = link, PTP_EVENT_BYTES
        part["reverse"] = message.message_type == SYNC
        part["capture_collector_ns"] = when
        part["egress_local_ns"] = rows[message.sent]
        part["ingress_local_ns"] = rows[message.received] - field
        parts.append(part)
    return joined(parts)


def _residence_in_field(
    field_ns: Int64s,
    path: Path | None,
    capture_collector_ns: Int64s,
    model: FabricModel,
    injected: Injected,
) -> Int64s:
    """What may be taken off: the residence of declared transparent clocks, without what the
    controller had them add."""
    correcting = {clock.node_id for clock in model.clocks if clock.transparent}
    if path is None:
        switches = {c.node_id for c in model.clocks if c.kind is ClockKind.SWITCH}
        whole = bool(switches) and correcting >= switches and not len(injected.rows)
        return field_ns if whole else np.zeros(len(field_ns), np.int64)
    if not any(hop.node_id in correcting for hop in path):
        return np.zeros(len(field_ns), np.int64)
    added = np.zeros(len(field_ns))
    for hop in path:
        added += injected.residence_offset_scaled_ns.get(hop.node_id, 0)
        for row in _spans(injected, hop.node_id, hop.ingress_port):
            there = capture_collector_ns >= row["from_collector_ns"]
            there &= capture_collector_ns < row["to_collector_ns"]
            added[there] += row["delay_scaled_ns"]
    taken: Int64s = field_ns - np.rint(added / SCALED_PER_NS).astype(np.int64)
    return taken


def _spans(injected: Injected, node_id: int, port: int) -> Iterable[np.void]:
    rows = injected.rows
    found: Iterable[np.void] = rows[(rows["node_id"] == node_id) & (rows["ingress_port"] == port)]
    return found


def _half_round_trip_ns(rows: Exchanges, fields_ns: list[Int64s]) -> float:
    """The least of all exchanges; differences on one clock each, so that no epoch is in it."""
    turnaround = rows["t3_local_ns"] - rows["t2_local_ns"]
    whole = rows["t4_reference_ns"] - rows["t1_reference_ns"]
    return max(float(np.min(whole - turnaround - sum(fields_ns))) / 2, 1.0)
