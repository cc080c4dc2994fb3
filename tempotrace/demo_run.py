# SPDX-License-Identifier: Apache-2.0
"""The main job, end to end: lab run, service, OTLP export, analysis, answers over HTTP, score.

Spans arrive as OTLP from the OpenTelemetry SDK over HTTP, the analysis reads the files that the lab
wrote, and the score's attribution comes from the HTTP API. Truth enters in `score_run` alone.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from bmv2_lab.backends.event_limits import event_limits
from bmv2_lab.backends.record import RealTimeRecord, Telemetry, check_limits
from bmv2_lab.baseline_score import BaselineScore, message_packets, score_baselines
from bmv2_lab.closed_loop_score import score_closed_loop
from bmv2_lab.lab_run import (
    SPANS_FILE,
    SUMMARY_FILE,
    TRUTH_FILE,
    LabRun,
    run_lab,
    write_lab_files,
)
from bmv2_lab.oracle_score import oracle_errors_ns
from bmv2_lab.own_folder import own_folder
from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.disturbances import LinkFlap
from bmv2_lab.scoring import (
    AttributionVerdict,
    flagged_clocks,
    score_attribution,
    score_links,
    score_sync,
    undecided_far_share,
)
from correction.baselines.compare import baseline_offsets
from correction.servo import free_running_exchanges
from tempotrace.analysis import Analysis, publish
from tempotrace.errors import InputError
from tempotrace.scenario_check import analyse_run, checked_limits
from tempotrace.service import start_service
from tempotrace.strict_json import strict_text, with_reasons
from tracing_core.analysis import Analysis as StoreAnalysis
from tracing_core.sdk import ExportError, OtlpExport
from tracing_core.service.run import ServiceHandle
from tracing_core.store import Store

SUMMARY_VERSION = 1
HTTP_TIMEOUT_S = 60.0
SHORT_FRAME_BYTES = 1_000
"""Between acknowledgements and data."""
EXPORT_STEP_SPANS = 2_048
"""Spans between two reports of progress: four requests of the SDK's batch size."""
DIGITS = 3
"""Decimals of the figures in summary.json."""

Progress = Callable[[str, float], None]
RunScenario = Callable[[Scenario, int, Progress], LabRun]
Summary = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class FinishedDemo:
    """A finished run whose service still answers."""

    summary: Summary
    service: ServiceHandle
    store: Store
    analysis: Analysis
    run: LabRun


@contextmanager
def run_demo(
    scenario: Scenario,
    seed: int,
    out: Path,
    progress: Progress,
    *,
    port: int = 0,
    run_scenario: RunScenario = run_lab,
) -> Iterator[FinishedDemo]:
    """Run everything; the service answers until the context ends, and leaves nothing behind.

    run_scenario: runs the scenario in real time instead of in virtual time.
    """
    started_s = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    (out / SUMMARY_FILE).touch()  # a folder that cannot be written is found out before the run
    with (
        own_folder("tempotrace-store-") as folder,
        Store.open(folder / "store") as store,
        start_service(store, "127.0.0.1", port) as service,
    ):
        run = run_scenario(scenario, seed, progress)
        progress("write files", 0.0)
        write_lab_files(run, out)
        _export_spans(run, out, service, progress)
        progress("analyse", 0.0)
        analysis = analyse_run(run, out)
        progress("store", 0.0)
        publish(analysis, store)
        progress("score", 0.0)
        summary = score_run(run, analysis, store, service)
        run.lab.truth.write(out / TRUTH_FILE)
        summary["wall_s"] = round(time.monotonic() - started_s, 1)
        write_summary(summary, out)
        progress("done", 1.0)
        yield FinishedDemo(
            summary=summary, service=service, store=store, analysis=analysis, run=run
        )


def _export_spans(run: LabRun, out: Path, service: ServiceHandle, progress: Progress) -> None:
    with (
        (out / SPANS_FILE).open("w", encoding="utf-8", newline="\n") as file,
        OtlpExport(endpoint=f"{service.url}/v1/traces", jsonl=file) as export,
    ):
        spans = run.spans.spans
        for first in range(0, len(spans), EXPORT_STEP_SPANS):
            progress("export spans", first / len(spans))
            try:
                export.export(spans[first : first + EXPORT_STEP_SPANS])
            except ExportError as error:
                raise InputError(
                    f"demo: {error}: the machine is very busy, or its disk full; try again"
                ) from None


def score_run(run: LabRun, analysis: Analysis, store: Store, service: ServiceHandle) -> Summary:
    """The summary of the design's contract; the only place that sees both answer and truth."""
    truth, fabric = run.lab.truth, analysis.fabric
    table = store.corrections.table()
    oracle = oracle_errors_ns(
        truth,
        analysis.solution.measured,
        analysis.servos,
        asymmetry_sd_ns=run.scenario.nuisance.link_asymmetry_sd_ns,
    )
    sync = score_sync(truth, fabric, table, oracle)
    pairs, judged = StoreAnalysis(store).judged_pairs()
    stamps = {name: node.true_of_stamp for name, node in run.lab.host_nodes.items()}
    with httpx.Client(base_url=service.url, timeout=HTTP_TIMEOUT_S, trust_env=False) as client:
        inversions = _get(client, "/v1/inversions")
        verdicts = {
            fault.span_id: attribution_verdict(
                _get(client, f"/v1/attribution/{fault.trace_id}/{fault.span_id}")
            )
            for fault in truth.faults
            if fault.span_id
        }
    counters = analysis.collection.counters
    summary: Summary = {
        "version": SUMMARY_VERSION,
        "scenario": run.scenario.name,
        "seed": run.seed,
        "switches": len(fabric.switches),
        "hosts": len(fabric.hosts),
        "reports": {
            "received": counters.received,
            "decoded": counters.decoded,
            "lost": counters.lost,
            "rejected": counters.rejected_total,
        },
        "sync": _rounded(asdict(sync)),
        "baselines": _rounded(asdict(_baselines(run, analysis, oracle, flagged_clocks(table)))),
        "links": asdict(
            score_links(truth, fabric, store.corrections.links(), flagged_clocks(table))
        ),
        "spans": store.spans.count(),
        "inversions": {
            "raw": inversions["raw"],
            "corrected": inversions["corrected"],
            "undecided": inversions["undecided"],
            "pairs": inversions["pairs"],
            "undecided_far_share": round(
                undecided_far_share(pairs, judged, stamps, sync.corrected_error_ns_rms), 5
            ),
        },
        "attribution": asdict(score_attribution(truth.faults, verdicts)),
        "icrc_errors": sum(e.counters.icrc_errors for e in run.lab.endpoints.values()),
        "transfers_incomplete": run.spans.transfers_incomplete,
        "samples_per_direction_min": _samples_per_direction_min(analysis),
    }
    if run.real_time is not None:
        summary["real_time"] = _real_time(run, run.real_time, summary, analysis)
        # No clock is steered here, so the raw error is that of what the daemons report.
        summary["sync"]["ptp_raw_error_ns_rms"] = summary["real_time"]["ptp_reported_error_ns_rms"]
    elif run.scenario.limits:
        checked = checked_limits(run, analysis)
        summary["limits"] = [_rounded(asdict(result)) for result in checked.telemetry]
        summary["estimate_limits"] = [_rounded(asdict(result)) for result in checked.estimates]
    if run.loop is not None:
        score = score_closed_loop(run.loop, run.scenario, run.drawn, truth)
        summary["transparent_clock"] = _rounded(asdict(score))
    return with_reasons(summary)


def _baselines(
    run: LabRun,
    analysis: Analysis,
    oracle_errors: Mapping[str, NDArray[np.float64]],
    flagged: set[str],
) -> BaselineScore:
    """What other methods make of the same recording."""
    solution, servos = analysis.solution, analysis.servos
    messages = message_packets(run.lab.jobs, analysis.model, servos)
    differences_ns = baseline_offsets(
        solution,
        analysis.collection.packets,
        analysis.collection.hops,
        free_running_exchanges(analysis.ptp_log.exchanges, servos),
        messages,
    )
    return score_baselines(
        run.lab.truth,
        solution,
        analysis.table,
        differences_ns,
        oracle_errors,
        left_out=flagged,
        host_packets=len(messages),
    )


def _real_time(
    run: LabRun, record: RealTimeRecord, summary: Summary, analysis: Analysis
) -> dict[str, Any]:
    """What a real-time run says of itself, with its limits."""
    reports = summary["reports"]
    limits = check_limits(
        record,
        Telemetry(
            reports_received=reports["received"],
            reports_lost=reports["lost"],
            reports_rejected=reports["rejected"],
            report_loss_share=run.scenario.report_loss_share,
            cables_fail=any(isinstance(event, LinkFlap) for event in run.scenario.events),
            icrc_errors=summary["icrc_errors"],
            links_sampled_share=_links_sampled_share(analysis),
        ),
    )
    found = [_rounded(asdict(limit)) for limit in (*limits, *event_limits(run))]
    return {**_rounded(asdict(record)), "limits": found}


def _links_sampled_share(analysis: Analysis) -> float:
    """Share of the fabric's directed links with samples in some window."""
    samples = analysis.samples
    inside = np.zeros(len(samples), np.bool_)
    for start_ns, end_ns in analysis.windows.tolist():
        captured_ns = samples["capture_collector_ns"]
        inside |= (captured_ns >= start_ns) & (captured_ns < end_ns)
    links = [index for index, link in enumerate(analysis.declared.links) if not link.access]
    directed = np.unique(2 * samples["link"][inside] + samples["reverse"][inside])
    return float(np.isin(directed // 2, links).sum() / (2 * len(links)))


def attribution_verdict(answer: Mapping[str, Any]) -> AttributionVerdict:
    """The API's verdict in the words of the truth file; an abstention names no entity."""
    kind, entity = answer["kind"], answer["entity_id"]
    if kind == "none":
        return AttributionVerdict(kind=kind, entity="")
    if kind == "host":
        return AttributionVerdict(kind=answer["side"], entity=entity.split("/")[0])
    return AttributionVerdict(kind=kind, entity=entity)


def _samples_per_direction_min(analysis: Analysis) -> int:
    """Fewest samples of any fabric link in one direction, window and RoCE length class."""
    samples = analysis.samples
    fewest: list[int] = []
    roce = samples["queue_id"] > 0
    links = [index for index, link in enumerate(analysis.declared.links) if not link.access]
    for start_ns, end_ns in analysis.windows.tolist():
        inside = (samples["capture_collector_ns"] >= start_ns) & (
            samples["capture_collector_ns"] < end_ns
        )
        for large in (False, True):
            chosen = samples[
                inside & roce & ((samples["frame_bytes"] > SHORT_FRAME_BYTES) == large)
            ]
            counts = np.bincount(
                2 * chosen["link"] + chosen["reverse"], minlength=2 * len(analysis.model.links)
            )
            fewest += [int(counts[2 * i : 2 * i + 2].min()) for i in links]
    return min(fewest, default=0)


def _get(client: httpx.Client, path: str) -> Mapping[str, Any]:
    response = client.get(path)
    response.raise_for_status()
    answer: Mapping[str, Any] = response.json()
    return answer


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in values.items()
    }


def write_summary(summary: Summary, out: Path) -> None:
    """Write summary.json; the same run gives the same bytes but for wall_s."""
    text = strict_text(summary, sort_keys=True)
    (out / SUMMARY_FILE).write_text(text + "\n", encoding="utf-8")
