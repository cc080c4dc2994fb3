# SPDX-License-Identifier: Apache-2.0
"""The collector's state as Prometheus metrics: base units, totals since the start.

Names and labels are a contract with dashboards; docs/collector.md lists them.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector as MetricsSource

from controller.collector.outputs.output import OutputCounters
from controller.collector.state import CollectorState

SENDERS_MAX = 4096
"""Series per metric of senders; beyond it the rest is summed under `other`."""
_PREFIX = "tempotrace_collector_"
_NS_PER_S = 1_000_000_000
_OTHER = ("other", "", "")

_SENDER_METRICS = {
    "sender_received": ("received", "Distinct sequence numbers received."),
    "sender_lost": ("lost", "Sequence numbers that never arrived."),
    "sender_reordered": ("reordered", "Reports that came after one with a higher number."),
    "sender_duplicates": ("duplicate", "Reports whose content had come before."),
    "sender_restarts": ("restart", "Times that the sender began its sequence anew."),
    "sender_unconfirmed": ("unconfirmed", "Reports whose number fits no run."),
}
_OUTPUT_METRICS = {
    "output_parts": ("acknowledged_parts", "Parts where they belong: confirmed."),
    "output_packets": ("acknowledged_packets", "Packets in confirmed parts."),
    "output_bytes": ("acknowledged_bytes", "Bytes of confirmed parts."),
    "output_dropped_packets": ("dropped_packets", "Packets dropped for want of room."),
    "output_failed_packets": ("failed_packets", "Packets refused, or unconfirmed at the end."),
    "output_repeats": ("repeated", "Attempts beyond the first."),
    "output_duplicates": ("duplicates", "Parts that the receiver had already."),
}


class StateMetrics(MetricsSource):
    """A Prometheus source that asks for the state at each scrape."""

    def __init__(self, state: Callable[[], CollectorState], node_names: Mapping[int, str]) -> None:
        self._state = state
        self._node_names = node_names

    def collect(self) -> Iterator[Metric]:
        """All metrics of one picture."""
        return metric_families(self._state(), self._node_names)


def metrics_text(state: CollectorState, node_names: Mapping[int, str]) -> bytes:
    """The Prometheus text format of one picture."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StateMetrics(lambda: state, node_names))
    return generate_latest(registry)


def metric_families(state: CollectorState, node_names: Mapping[int, str]) -> Iterator[Metric]:
    """Every metric of the collector; a node that has no name is named by its id."""
    counters = state.counters
    yield InfoMetricFamily(f"{_PREFIX}run", "This start of the collector.", {"run": state.run})
    yield _gauge(
        "start_time_seconds", "When it started, since 1970.", state.started_collector_ns / _NS_PER_S
    )
    yield _by_label(
        "reports",
        "Report datagrams, by what became of them.",
        "outcome",
        {
            "decoded": counters.decoded,
            "duplicate": counters.duplicates,
            "replica": counters.replicas,
            "rejected": counters.rejected_total,
        },
    )
    yield _by_label(
        "rejected",
        "Datagrams and frames refused, by reason.",
        "reason",
        {reason.value: count for reason, count in counters.rejected.items()},
    )
    yield _by_label(
        "invalid_tstamps",
        "Stamps that are not available or impossible, by field and fault.",
        "field",
        counters.invalid_tstamps,
    )
    yield _by_label(
        "packets",
        "Packets handed over, by whether their path is whole.",
        "path",
        {"complete": counters.complete, "incomplete": counters.incomplete},
    )
    yield _counter("packets_resent", "Packets that were sent more than once.", counters.resent)
    yield _by_label("drops", "Drop reports, by reason.", "reason", counters.dropped)
    yield _counter("congestion_reports", "Reports of congested queues.", counters.congested)
    receive = state.receive
    yield _counter(
        "kernel_drops", "Messages that found a socket's buffer full.", receive.kernel_drops
    )
    yield _counter(
        "queue_drops",
        "Reports that found the queue to the decoder full.",
        receive.queue_drops,
    )
    yield _counter("worker_restarts", "Workers that ended on their own.", state.worker_restarts)
    yield _counter("cut_messages", "Messages longer than the receive buffers.", receive.cut)
    yield _counter(
        "decode_cpu_seconds",
        "Processor time of decoding and joining.",
        state.decode_cpu_ns / _NS_PER_S,
    )
    yield _counter(
        "output_seconds",
        "Time of handing parts to outputs, waiting included.",
        state.output_ns / _NS_PER_S,
    )
    yield from _node_metrics(state, node_names)
    yield from _sender_metrics(state, node_names)
    yield from _output_metrics(state.outputs)


def _node_metrics(state: CollectorState, node_names: Mapping[int, str]) -> Iterator[Metric]:
    epochs = CounterMetricFamily(
        f"{_PREFIX}clock_epochs",
        "Times that a node's clock was set or began anew.",
        labels=["node"],
    )
    for node_id, count in sorted(state.counters.clock_epochs.items()):
        epochs.add_metric([_node_name(node_id, node_names)], count)
    yield epochs
    last = GaugeMetricFamily(
        f"{_PREFIX}last_report_timestamp_seconds",
        "When the node's newest report came, since 1970; to about a second.",
        labels=["node"],
    )
    for node_id, last_ns in sorted(state.last_report_ns.items()):
        last.add_metric([_node_name(node_id, node_names)], last_ns / _NS_PER_S)
    yield last


def _sender_metrics(state: CollectorState, node_names: Mapping[int, str]) -> Iterator[Metric]:
    for name, (attribute, doc) in _SENDER_METRICS.items():
        family = CounterMetricFamily(_PREFIX + name, doc, labels=["node", "hw_id", "destination"])
        rest = 0
        for index, (key, sender) in enumerate(state.counters.senders.items()):
            count = getattr(sender, attribute)
            if index < SENDERS_MAX:
                node = _node_name(key.node_id, node_names)
                family.add_metric([node, str(key.hw_id), str(key.destination)], count)
            else:
                rest += count
        if len(state.counters.senders) > SENDERS_MAX:
            family.add_metric(_OTHER, rest)
        yield family


def _output_metrics(outputs: Mapping[str, OutputCounters]) -> Iterator[Metric]:
    for name, (attribute, doc) in _OUTPUT_METRICS.items():
        family = CounterMetricFamily(_PREFIX + name, doc, labels=["output"])
        for output, counters in outputs.items():
            family.add_metric([output], getattr(counters, attribute))
        yield family
    waiting = GaugeMetricFamily(
        f"{_PREFIX}output_waiting_parts", "Parts accepted, not confirmed.", labels=["output"]
    )
    blocked = CounterMetricFamily(
        f"{_PREFIX}output_blocked_seconds",
        "How long the collector has waited for room.",
        labels=["output"],
    )
    for output, counters in outputs.items():
        waiting.add_metric([output], counters.waiting_parts)
        blocked.add_metric([output], counters.blocked_ns / _NS_PER_S)
    yield waiting
    yield blocked


def _counter(name: str, doc: str, value: float) -> Metric:
    return CounterMetricFamily(_PREFIX + name, doc, value=value)


def _gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(_PREFIX + name, doc, value=value)


def _by_label(name: str, doc: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, doc, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family


def _node_name(node_id: int, node_names: Mapping[int, str]) -> str:
    return node_names.get(node_id, str(node_id))
