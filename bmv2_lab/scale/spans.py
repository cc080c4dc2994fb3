# SPDX-License-Identifier: Apache-2.0
"""Spans of a large run as OTLP/JSON, in the conventions of `bmv2_lab.spans`.

Written as text, span by span, without the SDK: a step of 16,384 ranks has a million spans. One line
is one request with up to BATCH_SPANS spans of one NIC, which is a resource of its own since it has
a clock of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.flows import tenant_name
from bmv2_lab.scale.messages import Transfers
from bmv2_lab.scale.span_ids import span_ids, trace_ids
from controller.addresses import format_ip
from tracing_core.sdk import BATCH_SPANS

FLAGS_LOCAL = 0x100
"""OTLP span flags: it is known whether the parent is remote, and it is not."""
FLAGS_REMOTE = 0x300
INTERNAL, PRODUCER, CONSUMER = 1, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Nics:
    """What spans say of NICs, by clock."""

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    ips: tuple[int, ...]


def write_spans(
    path: Path, nics: Nics, seed: int, ranks: NDArray[np.void], transfers: Transfers
) -> int:
    """Write all spans of these ranks and transfers; returns their number."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, line in otlp_lines(nics, seed, ranks, transfers):
            file.write(line)
            file.write("\n")
            count += number
    return count


def otlp_lines(
    nics: Nics, seed: int, ranks: NDArray[np.void], transfers: Transfers
) -> Iterator[tuple[int, str]]:
    """(number of spans, request) NIC by NIC."""
    ids = _Ids(seed, ranks, transfers)
    ranks_of = _rows_by_clock(ranks["clock"])
    sends_of = _rows_by_clock(transfers["src_clock"])
    recvs_of = _rows_by_clock(transfers["dst_clock"])
    for clock in sorted(ranks_of.keys() | sends_of.keys() | recvs_of.keys()):
        spans: list[str] = []
        for row in ranks_of.get(clock, ()):
            spans += ids.rank_spans(row)
        for row in sends_of.get(clock, ()):
            spans.append(ids.transfer_span(row, nics, receives=False))
        for row in recvs_of.get(clock, ()):
            spans.append(ids.transfer_span(row, nics, receives=True))
        job = int(ranks["job"][ranks_of[clock][0]])
        head = _resource(nics.names[clock], nics.hosts[clock], tenant_name(job))
        for first in range(0, len(spans), BATCH_SPANS):
            batch = spans[first : first + BATCH_SPANS]
            yield len(batch), head + ",".join(batch) + "]}]}]}"


def _rows_by_clock(clock: NDArray[np.int32]) -> dict[int, list[int]]:
    order = np.argsort(clock, kind="stable")
    values, first = np.unique(clock[order], return_index=True)
    parts: Iterable[NDArray[np.intp]] = np.split(order, first[1:]) if len(values) else ()
    return {int(value): rows.tolist() for value, rows in zip(values.tolist(), parts, strict=True)}


def _resource(nic: str, host: str, tenant: str) -> str:
    attributes = ",".join(
        _text(key, value)
        for key, value in (
            ("service.name", "trainer"),
            ("host.name", host),
            ("tempotrace.clock.domain", nic),
            ("tempotrace.tenant", tenant),
        )
    )
    return (
        '{"resourceSpans":[{"resource":{"attributes":[' + attributes + ']},"scopeSpans":'
        '[{"scope":{"name":"tempotrace.scale","version":"1"},"spans":['
    )


def _text(key: str, value: str) -> str:
    return f'{{"key":"{key}","value":{{"stringValue":"{value}"}}}}'


def _number(key: str, value: int) -> str:
    return f'{{"key":"{key}","value":{{"intValue":"{value}"}}}}'


class _Ids:
    """Texts of spans, with the ids of themselves and of their parents."""

    def __init__(self, seed: int, ranks: NDArray[np.void], transfers: Transfers) -> None:
        self._ranks, self._transfers = ranks, transfers
        self._trace: dict[tuple[int, int], str] = {}
        self._root: dict[tuple[int, int], str] = {}
        for step in np.unique(ranks["step"]).tolist():
            jobs = np.unique(ranks["job"][ranks["step"] == step]).astype(np.int64)
            roots = span_ids(seed, step, "step", jobs).tolist()
            for job, trace, root in zip(
                jobs.tolist(), trace_ids(seed, jobs, step), roots, strict=True
            ):
                self._trace[job, step], self._root[job, step] = trace, f"{root:016x}"
        self._allreduce = _by_step(seed, "allreduce", ranks["step"], ranks["clock"])
        steps = transfers["step"]
        self._send = _by_step(seed, "send", steps, transfers["flow"])
        self._recv = _by_step(seed, "recv", steps, transfers["flow"])
        self._parent = _by_step(seed, "allreduce", steps, transfers["src_clock"])

    def rank_spans(self, row: int) -> list[str]:
        """`allreduce` of a rank and, on rank 0, the `step` above it."""
        one = self._ranks[row]
        job, step, rank = int(one["job"]), int(one["step"]), int(one["rank"])
        attributes = ",".join(
            (
                _text("tempotrace.job", f"job-{tenant_name(job)}"),
                _number("tempotrace.step", step),
                _number("tempotrace.rank", rank),
            )
        )
        root = self._root[job, step]
        spans = []
        if rank == 0:
            spans.append(
                _span(
                    self._trace[job, step],
                    root,
                    "",
                    "step",
                    INTERNAL,
                    (int(one["step_start_local_ns"]), int(one["step_end_local_ns"])),
                    FLAGS_LOCAL,
                    attributes,
                )
            )
        spans.append(
            _span(
                self._trace[job, step],
                f"{int(self._allreduce[row]):016x}",
                root,
                "allreduce",
                INTERNAL,
                (int(one["start_local_ns"]), int(one["end_local_ns"])),
                FLAGS_LOCAL if rank == 0 else FLAGS_REMOTE,
                ",".join(
                    (
                        attributes,
                        _text("tempotrace.communicator", "world"),
                        _number("tempotrace.sequence", step),
                    )
                ),
            )
        )
        return spans

    def transfer_span(self, row: int, nics: Nics, *, receives: bool) -> str:
        """`rdma.send` of a transfer, or the `rdma.recv` below it."""
        one = self._transfers[row]
        attributes = ",".join(
            (
                _text("rdma.src_ip", format_ip(nics.ips[one["src_clock"]])),
                _text("rdma.dst_ip", format_ip(nics.ips[one["dst_clock"]])),
                _number("rdma.src_port", int(one["src_port"])),
                _number("rdma.dest_qp", int(one["dest_qp"])),
                _number("rdma.psn_first", int(one["psn_first"])),
                _number("rdma.psn_last", int(one["psn_last"])),
                _number("rdma.bytes", int(one["bytes"])),
            )
        )
        side = "rx" if receives else "tx"
        events = ",".join(
            f'{{"timeUnixNano":"{int(one[f"{side}_{which}_local_ns"])}",'
            f'"name":"nic.{side}_{which}"}}'
            for which in ("first", "last")
        )
        send = f"{int(self._send[row]):016x}"
        start, end = (
            ("rx_first_local_ns", "received_local_ns")
            if receives
            else ("post_local_ns", "acknowledged_local_ns")
        )
        return _span(
            self._trace[int(one["job"]), int(one["step"])],
            f"{int(self._recv[row]):016x}" if receives else send,
            send if receives else f"{int(self._parent[row]):016x}",
            "rdma.recv" if receives else "rdma.send",
            CONSUMER if receives else PRODUCER,
            (int(one[start]), int(one[end])),
            FLAGS_REMOTE if receives else FLAGS_LOCAL,
            attributes,
            events,
        )


def _by_step(
    seed: int, kind: str, steps: NDArray[np.int32], index: NDArray[np.int32]
) -> NDArray[np.uint64]:
    result = np.zeros(len(steps), np.uint64)
    for step in np.unique(steps).tolist():
        mine = steps == step
        result[mine] = span_ids(seed, step, kind, index[mine].astype(np.int64))
    return result


def _span(
    trace_id: str,
    span_id: str,
    parent_id: str,
    name: str,
    kind: int,
    time_local_ns: tuple[int, int],
    flags: int,
    attributes: str,
    events: str = "",
) -> str:
    parent = f'"parentSpanId":"{parent_id}",' if parent_id else ""
    tail = f',"events":[{events}]' if events else ""
    return (
        f'{{"traceId":"{trace_id}","spanId":"{span_id}",{parent}"name":"{name}","kind":{kind},'
        f'"startTimeUnixNano":"{time_local_ns[0]}","endTimeUnixNano":"{time_local_ns[1]}",'
        f'"flags":{flags},"attributes":[{attributes}]{tail}}}'
    )
