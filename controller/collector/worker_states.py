# SPDX-License-Identifier: Apache-2.0
"""The pictures of several workers put together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from controller.collector.outputs.output import OutputCounters
from controller.collector.state import (
    SAMPLES_MAX,
    CollectorState,
    LastReports,
    Pairing,
    ReceiveCounters,
)
from controller.telemetry.collector import CollectorCounters, SenderKey
from controller.telemetry.loss import LossCounters
from controller.telemetry.rejected import SAMPLES_PER_NODE

_T = TypeVar("_T", OutputCounters, Pairing, ReceiveCounters)


def merged_state(
    states: Sequence[CollectorState],
    *,
    senders: Mapping[SenderKey, LossCounters],
    run: str,
    started_collector_ns: int,
    now_collector_ns: int,
    last_reports: LastReports,
) -> CollectorState:
    """The picture of all; `senders` are the totals over all workers."""
    counters = merged_counters([state.counters for state in states], senders)
    outputs: dict[str, OutputCounters] = {}
    rejected: dict[int, Sequence[bytes]] = {}
    for state in states:
        for name, output in state.outputs.items():
            outputs[name] = _sum([outputs.get(name, OutputCounters()), output])
        for node_id, payloads in state.rejected_samples.items():
            rejected[node_id] = [*rejected.get(node_id, ()), *payloads][-SAMPLES_PER_NODE:]
    samples = sorted(sample for state in states for sample in state.samples)
    return CollectorState(
        run=run,
        started_collector_ns=started_collector_ns,
        now_collector_ns=now_collector_ns,
        counters=counters,
        receive=_sum([ReceiveCounters(), *(state.receive for state in states)]),
        outputs=outputs,
        pairing=_sum([Pairing(), *(state.pairing for state in states)]),
        last_report_ns=last_reports.see(counters, now_collector_ns),
        decode_cpu_ns=sum(state.decode_cpu_ns for state in states),
        output_ns=sum(state.output_ns for state in states),
        samples=samples[-SAMPLES_MAX:],
        rejected_samples=rejected,
    )


def merged_counters(
    parts: Sequence[CollectorCounters], senders: Mapping[SenderKey, LossCounters]
) -> CollectorCounters:
    """Totals of all; a clock's epoch is one event, seen by several workers."""
    total = sum(senders.values(), LossCounters())
    values: dict[str, Any] = {
        field.name: _added(
            [{} if "Mapping" in str(field.type) else 0]
            + [getattr(part, field.name) for part in parts]
        )
        for field in fields(CollectorCounters)
    }
    values["clock_epochs"] = {
        node_id: max(part.clock_epochs.get(node_id, 0) for part in parts)
        for part in parts
        for node_id in part.clock_epochs
    }
    values.update(
        lost=total.lost,
        reordered=total.reordered,
        restarts=total.restart,
        unconfirmed=total.unconfirmed,
        senders=dict(senders),
    )
    return CollectorCounters(**values)


def _sum(items: Sequence[_T]) -> _T:
    """Field by field: numbers added up, sets united."""
    names = [field.name for field in fields(items[0])]
    merged = {name: _added([getattr(item, name) for item in items]) for name in names}
    return replace(items[0], **merged)


def _added(values: Sequence[Any]) -> Any:  # noqa: ANN401
    if values and isinstance(values[0], Mapping):
        added: Counter[Any] = Counter()
        for value in values:
            if all(isinstance(count, int) for count in value.values()):
                added.update(value)
        return dict(added)
    if values and isinstance(values[0], frozenset):
        return frozenset().union(*values)
    return sum(values)
