# SPDX-License-Identifier: Apache-2.0
"""The spans that the lab's training jobs report, recorded with the real OpenTelemetry SDK.

One trace per step and tenant: `step` on rank 0, `allreduce` per rank below it, per message an
`rdma.send` on the sender and an `rdma.recv` below it on the receiver. They are PRODUCER and
CONSUMER: the NIC acknowledges without the receiving application, so that a receive may end after
its send. Every stamp is on the PHC of the host that reports the span; ids are seeded, so that a
run's spans are the same bytes every time.
"""

from dataclasses import dataclass

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from bmv2_lab.ran_fabric import RanFabric
from bmv2_lab.simulator.collective import RankRun, StepRun
from bmv2_lab.simulator.rdma import Transfer
from controller.addresses import format_ip
from tracing_core.sdk import HostTracer, SpanRef


@dataclass(slots=True, kw_only=True)
class RecordedSpans:
    """Spans in a fixed order, and the counts of what could not be recorded."""

    spans: list[ReadableSpan]
    steps_incomplete: int
    transfers_incomplete: int


def record_spans(lab: RanFabric, seed: int) -> RecordedSpans:
    """Record all spans of a finished run; writes the ids of struck transfers into the truth."""
    tracers = {
        (host.name, tenant): HostTracer(
            host=host.name, tenant=tenant, clock_domain=host.name, seed=seed
        )
        for tenant in (job.tenant for job in lab.jobs)
        for host in lab.host_nodes_of(tenant)
    }
    recorder = _Recorder(tracers, lab)
    for job in lab.jobs:
        for step in job.steps:
            recorder.step(job.tenant, step)
    spans = [span for tracer in tracers.values() for span in tracer.take()]
    for tracer in tracers.values():
        tracer.shutdown()
    return RecordedSpans(
        spans=spans,
        steps_incomplete=recorder.steps_incomplete,
        transfers_incomplete=recorder.transfers_incomplete,
    )


class _Recorder:
    def __init__(self, tracers: dict[tuple[str, str], HostTracer], lab: RanFabric) -> None:
        self._tracers = tracers
        self._faults = {id(transfer): fault for fault, _, _, transfer in lab.injector.faults}
        self.steps_incomplete = 0
        self.transfers_incomplete = 0

    def step(self, tenant: str, run: StepRun) -> None:
        if run.end_local_ns == 0:  # a packet was lost, or the run ended before the step
            self.steps_incomplete += 1
            return
        attributes: dict[str, str | int] = {
            "tempotrace.job": f"job-{tenant}",
            "tempotrace.step": run.step,
        }
        root = self._tracers[run.ranks[0].host.name, tenant].span(
            "step",
            start_local_ns=run.start_local_ns,
            end_local_ns=run.end_local_ns,
            attributes={**attributes, "tempotrace.rank": 0},
        )
        for rank in run.ranks:
            self._rank(tenant, attributes, root, rank)

    def _rank(
        self, tenant: str, attributes: dict[str, str | int], root: SpanRef, rank: RankRun
    ) -> None:
        tracer = self._tracers[rank.host.name, tenant]
        allreduce = tracer.span(
            "allreduce",
            start_local_ns=rank.start_local_ns,
            end_local_ns=rank.end_local_ns,
            parent=root,
            parent_is_remote=rank.rank != 0,
            attributes={
                **attributes,
                "tempotrace.rank": rank.rank,
                "tempotrace.communicator": "world",
                "tempotrace.sequence": attributes["tempotrace.step"],
            },
        )
        for transfer in rank.transfers:
            if not (transfer.done and transfer.received_local_ns):
                self.transfers_incomplete += 1
                continue
            self._transfer(tenant, tracer, allreduce, transfer)

    def _transfer(
        self, tenant: str, tracer: HostTracer, parent: SpanRef, transfer: Transfer
    ) -> None:
        qp = transfer.qp
        attributes: dict[str, str | int] = {
            "rdma.src_ip": format_ip(qp.local.ip),
            "rdma.dst_ip": format_ip(qp.remote.ip),
            "rdma.src_port": qp.udp_source_port,
            "rdma.dest_qp": qp.remote_qpn,
            "rdma.psn_first": transfer.psn_first,
            "rdma.psn_last": transfer.psn_last,
            "rdma.bytes": transfer.bytes,
        }
        send = tracer.span(
            "rdma.send",
            start_local_ns=transfer.post_local_ns,
            end_local_ns=transfer.acknowledged_local_ns,
            parent=parent,
            kind=SpanKind.PRODUCER,
            attributes=attributes,
            events=(
                ("nic.tx_first", transfer.tx_first_local_ns),
                ("nic.tx_last", transfer.tx_last_local_ns),
            ),
        )
        self._tracers[qp.remote.name, tenant].span(
            "rdma.recv",
            start_local_ns=transfer.rx_first_local_ns,
            end_local_ns=transfer.received_local_ns,
            parent=send,
            parent_is_remote=True,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            events=(
                ("nic.rx_first", transfer.rx_first_local_ns),
                ("nic.rx_last", transfer.rx_last_local_ns),
            ),
        )
        fault = self._faults.get(id(transfer))
        if fault is not None:
            fault.trace_id = send.trace_id_hex
            fault.span_id = send.span_id_hex
