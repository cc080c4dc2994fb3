# SPDX-License-Identifier: Apache-2.0
"""The collector's bench as one result: what was measured, and what it says together."""

from collections.abc import Callable
from dataclasses import dataclass

from controller.collector.bench import (
    SECONDS,
    Pipeline,
    from_memory_per_s,
    payloads,
    peak_mib,
    per_s,
)
from controller.collector.bench_loopback import LoopbackRun, Overload
from controller.collector.bench_plain import decode_with_struct, scapy_per_s
from controller.collector.bench_reports import ReportKind, bench_fabric

BENCH_STEPS = 13
"""How often `run_bench` tells what comes next."""
_PLAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KindResult:
    """Reports of one kind, through the whole collector."""

    reports_per_packet: int
    decode_per_s: float
    collect_per_s: float
    end_to_end_cpu_ns: float
    kernel_drop_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateResult:
    """Nothing coalesced: each report costs the kernel a message."""

    receive_only_cpu_ns: float
    end_to_end_cpu_ns: float
    ratio: float
    kernel_drop_shares: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingResult:
    """Reports one by one through an AF_PACKET ring. What the kernel does for it while it handles
    the interrupt is not in these times, and the sender cannot overload it."""

    receive_only_cpu_ns: float
    end_to_end_cpu_ns: float
    kernel_drop_shares: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorBench:
    """INT-MD reports of three hops, unless a key says otherwise; `_per_s` is of one core."""

    decode_per_s: float
    """From memory: decoded, duplicates and sequence numbers looked at, joined into packets."""
    collect_per_s: float
    """The same up to link samples."""
    struct_per_s: float
    """A plain decoder with `struct`, which joins nothing."""
    scapy_per_s: float | None
    """A plain decoder with scapy; None where it is not installed."""
    times_struct: float
    times_scapy: float | None
    receive_only_cpu_ns: float
    end_to_end_cpu_ns: float
    ratio: float
    """receive_only_cpu_ns / end_to_end_cpu_ns."""
    added_cpu_ns: float
    """end_to_end_cpu_ns - receive_only_cpu_ns."""
    kernel_drop_shares: tuple[float, float]
    """Of the bare receive loop and of the whole collector."""
    separate: SeparateResult
    ring: RingResult | None
    """None without CAP_NET_RAW."""
    kinds: dict[str, KindResult]
    peak_mib: float
    """Of the whole process with compiler and libraries, after the runs over loopback."""
    overloaded: bool
    """Whether the kernel had to drop more than 5 % in every run over loopback: only then was the
    receiver never idle, and its cost is that of a receiver at work."""


def run_bench(
    *, seconds: float = SECONDS, step: Callable[[str], None] = lambda name: None
) -> CollectorBench:
    """Measure everything; `step` is told what comes next."""
    step("receive only")
    stack = Overload(kind=ReportKind.STACK, seconds=seconds)
    bare = stack.receive_only()
    step("end to end")
    whole = stack.end_to_end()
    step("receive only, nothing coalesced")
    alone = Overload(kind=ReportKind.STACK, coalesce=False, seconds=seconds)
    bare_alone = alone.receive_only()
    step("end to end, nothing coalesced")
    whole_alone = alone.end_to_end()
    step("through a ring")
    ring = _through_ring(alone)
    runs = [bare, whole, bare_alone, whole_alone]
    loopback: dict[ReportKind, LoopbackRun] = {ReportKind.STACK: whole}
    for kind in list(ReportKind)[1:]:
        step(f"end to end: {kind.value}")
        loopback[kind] = Overload(kind=kind, seconds=seconds).end_to_end()
        runs.append(loopback[kind])
    peak = peak_mib()
    kinds = {}
    for kind in ReportKind:
        step(f"from memory: {kind.value}")
        decode_per_s, collect_per_s = from_memory_per_s(kind, seconds=seconds)
        kinds[kind.value] = KindResult(
            reports_per_packet=kind.reports_per_packet,
            decode_per_s=decode_per_s,
            collect_per_s=collect_per_s,
            end_to_end_cpu_ns=loopback[kind].cpu_ns,
            kernel_drop_share=loopback[kind].kernel_drop_share,
        )
    step("plain decoders")
    reports = payloads(ReportKind.STACK)
    struct_rate = per_s(decode_with_struct, reports, seconds=_PLAIN_SECONDS)
    scapy_rate = scapy_per_s(reports, seconds=_PLAIN_SECONDS)
    decode_per_s = kinds[ReportKind.STACK.value].decode_per_s
    return CollectorBench(
        decode_per_s=decode_per_s,
        collect_per_s=kinds[ReportKind.STACK.value].collect_per_s,
        struct_per_s=struct_rate,
        scapy_per_s=scapy_rate,
        times_struct=decode_per_s / struct_rate,
        times_scapy=None if scapy_rate is None else decode_per_s / scapy_rate,
        receive_only_cpu_ns=bare.cpu_ns,
        end_to_end_cpu_ns=whole.cpu_ns,
        ratio=bare.cpu_ns / whole.cpu_ns,
        added_cpu_ns=whole.cpu_ns - bare.cpu_ns,
        kernel_drop_shares=(bare.kernel_drop_share, whole.kernel_drop_share),
        separate=SeparateResult(
            receive_only_cpu_ns=bare_alone.cpu_ns,
            end_to_end_cpu_ns=whole_alone.cpu_ns,
            ratio=bare_alone.cpu_ns / whole_alone.cpu_ns,
            kernel_drop_shares=(bare_alone.kernel_drop_share, whole_alone.kernel_drop_share),
        ),
        ring=ring,
        kinds=kinds,
        peak_mib=peak,
        overloaded=all(run.is_overloaded for run in runs),
    )


def _through_ring(load: Overload) -> RingResult | None:
    bare = load.through_ring(None)
    whole = load.through_ring(Pipeline(bench_fabric()))
    if bare is None or whole is None:
        return None
    return RingResult(
        receive_only_cpu_ns=bare.cpu_ns,
        end_to_end_cpu_ns=whole.cpu_ns,
        kernel_drop_shares=(bare.kernel_drop_share, whole.kernel_drop_share),
    )
