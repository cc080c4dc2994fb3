# SPDX-License-Identifier: Apache-2.0
"""The measuring sections of a `fabric.yaml`; used by `fabric_dump.py` only.

Sections that hold nothing but defaults are left out.
"""

from collections.abc import Iterable, Iterator

from controller.addresses import format_ip, format_mac
from controller.fabric_telemetry import (
    DEFAULT_ECMP,
    DEFAULT_PUNT,
    DEFAULT_REPORTS,
    Collector,
    DropReport,
    Ecmp,
    Probes,
    PuntRule,
    QueueReport,
    ReportFilter,
    Reports,
    Watchlist,
    WatchMode,
    WatchTraffic,
)
from controller.yaml_text import Fields, flow, flow_list, item, scalar, truth


def collector_lines(collectors: tuple[Collector, ...]) -> Iterator[str]:
    """`collector` for one with the usual number, `collectors` otherwise."""
    if len(collectors) == 1 and collectors[0].destination_id == 0:
        yield "collector:  # receives the telemetry reports"
        yield from (f"  {key}: {value}" for key, value in _collector_fields(collectors[0], 0))
    else:
        yield "collectors:  # share the telemetry reports, by flow"
        for index, collector in enumerate(collectors):
            yield item(_collector_fields(collector, index))


def _collector_fields(collector: Collector, index: int) -> Fields:
    fields = [
        ("ip", format_ip(collector.ip)),
        ("mac", f'"{format_mac(collector.mac)}"'),
        ("udp_port", str(collector.udp_port)),
    ]
    if collector.attached is not None:
        fields.append(("attached", f'"{collector.attached}"'))
    if collector.destination_id != index:
        fields.append(("destination_id", str(collector.destination_id)))
    return fields


def watchlist_fields(watchlist: Watchlist) -> Fields:
    """One watchlist."""
    fields = [("name", scalar(watchlist.name)), ("traffic", watchlist.traffic.value)]
    if watchlist.traffic is WatchTraffic.PTP:
        fields.append(("message_types", flow_list(map(str, watchlist.message_types))))
        if watchlist.sample_sequence_bits:
            fields.append(("sample_sequence_bits", str(watchlist.sample_sequence_bits)))
    else:
        fields += _roce_fields(watchlist)
    if watchlist.instruction_bitmap:
        fields.append(("instruction_bitmap", f"0x{watchlist.instruction_bitmap:04X}"))
    return fields


def _roce_fields(watchlist: Watchlist) -> Fields:
    assert watchlist.traffic_class is not None
    fields: Fields = []
    if watchlist.mode is not WatchMode.MD:
        fields.append(("mode", watchlist.mode.value))
    fields.append(("class", scalar(watchlist.traffic_class)))
    for key, values in (
        ("tenants", map(scalar, watchlist.tenants)),
        ("sources", map(_peer, watchlist.sources)),
        ("destinations", map(_peer, watchlist.destinations)),
        ("opcodes", (f"0x{opcode:02X}" for opcode in watchlist.opcodes)),
        ("dest_qps", map(str, watchlist.dest_qps)),
        ("syndromes", (syndrome.value for syndrome in watchlist.syndromes)),
    ):
        texts = list(values)
        if texts:
            fields.append((key, flow_list(texts)))
    if watchlist.sample_psn_bits:
        fields.append(("sample_psn_bits", str(watchlist.sample_psn_bits)))
    if watchlist.change_only:
        fields.append(("change_only", "true"))
    if watchlist.remaining_hop_count is not None:
        fields.append(("remaining_hop_count", str(watchlist.remaining_hop_count)))
    return fields


def _peer(peer: object) -> str:
    return scalar(peer) if isinstance(peer, str) else f'"{peer}"'


def ecmp_lines(ecmp: Ecmp) -> Iterator[str]:
    """`ecmp`, and the empty line after it."""
    if ecmp != DEFAULT_ECMP:
        yield "ecmp:"
        yield f"  buckets: {ecmp.buckets}"
        yield f"  seed: {ecmp.seed}"
        yield f"  hash_flow_label: {truth(ecmp.hash_flow_label)}"
        yield ""


def report_lines(reports: Reports) -> Iterator[str]:
    """`reports`, and the empty line after it."""
    if reports == DEFAULT_REPORTS:
        return
    yield "reports:"
    yield f"  dscp: {reports.dscp}"
    yield f"  filter: {flow(_filter_fields(reports.filter))}"
    if reports.queues:
        yield "  queues:  # congestion to report"
        yield from ("  " + item(_queue_fields(queue)) for queue in reports.queues)
    if reports.drops:
        yield "  drops:  # dropped packets to report"
        yield from ("  " + item(_drop_fields(drop)) for drop in reports.drops)
    yield ""


def _filter_fields(chosen: ReportFilter) -> Fields:
    return [
        ("mx", truth(chosen.mx)),
        ("drops", truth(chosen.drops)),
        ("latency_quantum_ns", str(chosen.latency_quantum_ns)),
        ("interval_ns", str(chosen.interval_ns)),
    ]


def _queue_fields(queue: QueueReport) -> Fields:
    fields = [("queue", str(queue.queue))]
    if queue.depth_packets is not None:
        fields.append(("depth_packets", str(queue.depth_packets)))
    if queue.latency_ns is not None:
        fields.append(("latency_ns", str(queue.latency_ns)))
    fields.append(("quota", str(queue.quota)))
    if queue.ports:
        fields.append(("ports", flow_list(f'"{port}"' for port in queue.ports)))
    return fields


def _drop_fields(drop: DropReport) -> Fields:
    fields: Fields = []
    if drop.reasons:
        fields.append(("reasons", flow_list(drop.reasons)))
    if drop.source is not None:
        fields.append(("source", str(drop.source)))
    if drop.destination is not None:
        fields.append(("destination", str(drop.destination)))
    return fields


def probe_lines(probes: Probes | None) -> Iterator[str]:
    """`probes`, and the empty line after it."""
    if probes is not None:
        yield "probes:  # bounce between neighbouring switches"
        yield f"  budget_pps: {probes.budget_pps}"
        yield f"  dscp: {probes.dscp}"
        yield f"  payload_bytes: {probes.payload_bytes}"
        yield f"  report_metadata_bits: 0x{probes.report_metadata_bits:04X}"
        yield ""


def punt_lines(rules: Iterable[PuntRule]) -> Iterator[str]:
    """`punt`, and the empty line after it."""
    chosen = tuple(rules)
    if chosen != DEFAULT_PUNT:
        yield "punt:  # to the CPU port" if chosen else "punt: []  # nothing goes to the CPU port"
        yield from (item(_punt_fields(rule)) for rule in chosen)
        yield ""


def _punt_fields(rule: PuntRule) -> Fields:
    fields = [("name", scalar(rule.name))]
    if rule.ether_type is not None:
        fields.append(("ether_type", f"0x{rule.ether_type:04X}"))
    if rule.protocol is not None:
        fields.append(("protocol", str(rule.protocol)))
    if rule.l4_dst_port is not None:
        fields.append(("l4_dst_port", str(rule.l4_dst_port)))
    if rule.icmp_types:
        fields.append(("icmp_types", flow_list(map(str, rule.icmp_types))))
    if rule.destination is not None:
        fields.append(("destination", f'"{rule.destination}"'))
    return fields
