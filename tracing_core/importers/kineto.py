# SPDX-License-Identifier: Apache-2.0
"""Kineto traces (PyTorch profiler): host calls and GPU activities, each on its own clock.

`ts` and `dur` are microseconds relative to `baseTimeNanoseconds`; absolute ns = base + ts * 1000.
The base is the process's start floored to 7,889,238 s, so two ranks may have different ones. Older
files have none and absolute microseconds. Host stamps are on the system clock (a TSC that Kineto
fits to it), GPU stamps on the GPU's timer as the driver converted it: two clocks whose offset is
unknown but for what launches and synchronising calls prove.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tracing_core.clock_domains import (
    SPAN_COMMUNICATOR,
    SPAN_RANK,
    SPAN_SEQUENCE,
    SPAN_TIME_FLAG,
    ClockKind,
    TimeFlag,
    clock_name,
)
from tracing_core.importers.gpu_launches import Launches, join_launches
from tracing_core.importers.ids import span_id, trace_id
from tracing_core.importers.numbers import quantum_of, whole
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Source
from tracing_core.importers.trace_events import (
    HOST_CATEGORIES,
    HOST_ROW,
    LAUNCH_CATEGORIES,
    NO_PARENT,
    UNENDED_NS,
    Event,
    Int64Array,
    TraceEventScan,
    events_with_rows,
    nesting,
)
from tracing_core.importers.values import attributes, label, member, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanKind

FORMAT = "kineto"
BASE = "baseTimeNanoseconds"
PROCESS_GROUP = "Process Group Name"
PROCESS_GROUP_DESCRIPTION = "Process Group Description"
"""Arguments of collectives: together their communicator, as a Flight Recorder dump names it."""
SEQUENCE = "Seq"
"""Argument of collectives: their number in the communicator. Point-to-point operations, which name
one of the peer ranks, are numbered on their own."""
_PEERS = ("Src Rank", "Dst Rank")
UNIX_MIN_NS = 10**18
"""September 2001: smaller stamps count from something else than the Unix epoch."""
ZERO_STAMP = "ts is 0: the profiler had no stamp for it"
BEYOND = "the instant is beyond 2^63 ns"
_MARKERS = frozenset((BASE, "distributedInfo", "deviceProperties", "record_shapes", "with_stack"))


def is_kineto(scan: TraceEventScan) -> bool:
    """Whether a file of trace events is one of PyTorch's profiler."""
    known = HOST_CATEGORIES | LAUNCH_CATEGORIES
    return not _MARKERS.isdisjoint(scan.members) or not known.isdisjoint(scan.categories)


def kineto_spans(
    source: Source, scan: TraceEventScan, options: ImportOptions, report: FileReport
) -> Iterator[Span]:
    """Spans of a scanned file: one trace per step of the profiler, one for what lies outside."""
    report.format = FORMAT
    start, end = scan.column("start_ns"), scan.column("end_ns")
    usable = (start != 0) & (end != UNENDED_NS)
    zero_count = int((start == 0).sum())
    if zero_count:
        report.refuse(ZERO_STAMP, count=zero_count)
    unended_count = int(((end == UNENDED_NS) & (start != 0)).sum())
    if unended_count:
        report.refuse("a begin without its end", count=unended_count)
    lane = np.where(usable & (end >= start), scan.column("lane"), -1)
    launches = join_launches(scan, start, end, usable)
    file = _File.of(scan, options, launches)
    report.counts.update(launches.counts)
    if launches.counts["before_launch"]:
        report.note(
            f"{launches.counts['before_launch']} GPU activities start before their launch, by up to"
            f" {launches.lead_ns_max} ns: GPU and host clock differ by at least as much"
        )
    parent = np.where(launches.launch_row >= 0, launches.launch_row, nesting(start, end, lane))
    steps = _step_numbers(scan, np.where(launches.launch_row >= 0, launches.launch_start_ns, start))
    for row, event in events_with_rows(source, scan):
        if not usable[row]:
            continue
        start_ns, end_ns = file.base_ns + scan.start_ns[row], file.base_ns + scan.end_ns[row]
        if not (0 <= start_ns < 2**63 and 0 <= end_ns < 2**63):
            report.refuse(BEYOND, event.get("name"))
            continue
        flag = launches.flags.get(row)
        if end_ns < start_ns:
            flag = TimeFlag.END_BEFORE_START
        if flag is not None:
            report.flagged[flag.value] += 1
        clock, owner = file.clock_of(scan.device[row], flag, event)
        step = int(steps[row])
        above = int(parent[row])
        span = Span(
            tenant=options.tenant,
            trace_id=file.trace_of(step),
            span_id=span_id(scan.digest, row),
            # A parent in another step would be a parent in another trace.
            parent_span_id=span_id(scan.digest, above)
            if above != NO_PARENT and steps[above] == step and usable[above]
            else "",
            name=text(event.get("name")),
            kind=SpanKind.INTERNAL,
            start_local_ns=start_ns,
            end_local_ns=end_ns,
            clock_domain=clock.name,
            host=file.host,
            service=file.service_of(event),
            attributes=file.attributes_of(event, step, flag),
            resource=owner,
            scope_name=f"tempotrace.import.{FORMAT}",
        )
        yield report.take(span, clock)
    for device, limits in launches.against_host.items():
        use = report.clocks.get((file.gpu_clock(device).name, ClockKind.GPU))
        if use is not None:
            use.against_host = limits


def _step_numbers(scan: TraceEventScan, at_ns: Int64Array) -> Int64Array:
    """The step that each row lies in by its own start or its launch's; -1 outside of all."""
    found = np.full(len(scan), -1, np.int64)
    if scan.steps:
        steps = np.array(sorted(scan.steps), np.int64)
        index = np.searchsorted(steps[:, 0], at_ns, side="right") - 1
        inside = (index >= 0) & (at_ns <= steps[np.maximum(index, 0), 1])
        found[inside] = steps[index[inside], 2]
    return found


@dataclass(slots=True, kw_only=True)
class _File:
    """What all spans of one file share."""

    options: ImportOptions
    digest: bytes
    base_ns: int
    host: str
    owner_label: str
    """Stands in for the host in names of clocks where no host is known."""
    rank: int | None
    job: str
    processes: dict[str, str]
    threads: dict[tuple[str, str], str]
    system: FileClock
    gpu_quantum_ns: int
    gpus: dict[int, FileClock]
    owners: dict[tuple[str, ClockKind, str], Attributes]

    @classmethod
    def of(cls, scan: TraceEventScan, options: ImportOptions, launches: Launches) -> "_File":
        members = scan.members
        base = whole(members.get(BASE))
        rank = whole(member(members, "distributedInfo").get("rank"))
        host = options.host or text(members.get("hostname")) or text(members.get("host_name"))
        short = scan.digest.hex()[:8]
        owner = host or (f"file-{short}" if rank is None else f"rank{rank}-{short}")
        newest_ns = (base or 0) + launches.newest_host_ns
        if base is not None:
            alignment = f"{BASE} + ts, Unix time"
        elif newest_ns >= UNIX_MIN_NS:
            alignment = "ts is Unix time, the file has no base"
        else:
            alignment = "none: ts is relative and the file has no base"
        placed = newest_ns >= UNIX_MIN_NS
        system = host_clock(
            options,
            owner if placed else "",
            kind=ClockKind.SYSTEM if placed else ClockKind.UNKNOWN,
            alignment=alignment,
            quantum_ns=quantum_of(scan.host_gcd.value_ns),
            base_ns=base,
            reason=f"times are relative and {BASE} is missing",
        )
        return cls(
            options=options,
            digest=scan.digest,
            base_ns=base or 0,
            host=host,
            owner_label=owner if placed else "",
            rank=rank,
            job=options.job,
            processes=scan.process_names,
            threads=scan.thread_names,
            system=system,
            gpu_quantum_ns=quantum_of(scan.gpu_gcd.value_ns),
            gpus={},
            owners={},
        )

    def trace_of(self, step: int) -> str:
        if step < 0:
            return trace_id(self.digest, "outside of steps")
        if self.job:
            return trace_id(self.options.tenant, self.job, "step", step)
        return trace_id(self.digest, "step", step)

    def gpu_clock(self, device: int) -> FileClock:
        clock = self.gpus.get(device)
        if clock is None:
            name = clock_name(self.owner_label, ClockKind.GPU, device)
            name = self.options.clocks.get(name, name)
            clock = self.gpus[device] = FileClock(
                name=name,
                kind=ClockKind.GPU,
                alignment=f"{self.system.alignment}; GPU timer as the profiler converted it",
                quantum_ns=self.gpu_quantum_ns,
                base_ns=self.system.base_ns,
                reason="" if name else self.system.reason,
            )
        return clock

    def clock_of(
        self, device: int, flag: TimeFlag | None, event: Event
    ) -> tuple[FileClock, Attributes]:
        """The clock of an event, and the resource of its span."""
        clock = self.system if device == HOST_ROW else self.gpu_clock(device)
        if flag is TimeFlag.IMPOSSIBLE_START:
            clock = FileClock(
                name="",
                kind=clock.kind,
                alignment=clock.alignment,
                quantum_ns=clock.quantum_ns,
                base_ns=clock.base_ns,
                reason="the start lies further before the launch than clocks explain",
            )
        service = self.service_of(event)
        key = (clock.name, clock.kind, service)
        owner = self.owners.get(key)
        if owner is None:
            owner = self.owners[key] = resource(
                self.options, clock, host=self.host, service=service
            )
        return clock, owner

    def service_of(self, event: Event) -> str:
        return self.processes.get(label(event.get("pid"))) or "pytorch"

    def attributes_of(
        self, event: Event, step: int, flag: TimeFlag | None
    ) -> dict[str, AttributeValue]:
        pid, tid = label(event.get("pid")), label(event.get("tid"))
        found: dict[str, AttributeValue] = {
            "profiler.category": text(event.get("cat")),
            "profiler.pid": pid,
            "profiler.tid": tid,
        }
        if (pid, tid) in self.threads:
            found["thread.name"] = self.threads[pid, tid]
        if self.rank is not None:
            found[SPAN_RANK] = self.rank
        if self.job:
            found["tempotrace.job"] = self.job
        if step >= 0:
            found["tempotrace.step"] = step
        if flag is not None:
            found[SPAN_TIME_FLAG] = flag.value
        arguments = member(event, "args")
        found.update(_collective(arguments))
        found.update(attributes(arguments, "arg."))
        return found


def _collective(arguments: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Communicator and sequence number of a collective."""
    name = label(arguments.get(PROCESS_GROUP))
    if not name:
        return {}
    description = text(arguments.get(PROCESS_GROUP_DESCRIPTION))
    found: dict[str, AttributeValue] = {
        SPAN_COMMUNICATOR: f"{name}:{description}" if description else name
    }
    sequence = whole(arguments.get(SEQUENCE))
    peers = [whole(arguments.get(key)) for key in _PEERS]
    if sequence is not None and sequence >= 0 and not any(p is not None and p >= 0 for p in peers):
        found[SPAN_SEQUENCE] = sequence
    return found
