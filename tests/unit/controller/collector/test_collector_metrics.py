# SPDX-License-Identifier: Apache-2.0
"""Metrics and pages of a collector: names, units and labels that dashboards rely on."""

import json
import re
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.collector import metrics as metrics_module
from controller.collector.diagnosis import Evidence
from controller.collector.endpoint import Endpoint
from controller.collector.metrics import metrics_text
from controller.collector.outputs.output import OutputCounters
from controller.collector.state import ReceiveCounters
from controller.collector.status import diagnose
from controller.collector.status_page import status_page
from tests.support.collector_states import small_fabric, state_of, whole_paths

FABRIC = small_fabric()
NAMES = {switch.node_id: switch.name for switch in FABRIC.switches}
DOCS = Path(__file__).parents[4] / "docs"


def _state():
    payloads = whole_paths()[:-1]
    payloads += [(payloads[-1][0], b"no"), payloads[5], payloads[6]]
    return replace(
        state_of(payloads, FABRIC),
        receive=ReceiveCounters(kernel_drops=3, queue_drops=4, cut=5),
        outputs={"file:x": OutputCounters(acknowledged_parts=2, blocked_ns=1_500_000_000)},
        decode_cpu_ns=250_000_000,
    )


def _samples(state):
    text = metrics_text(state, NAMES).decode()
    return {
        (sample.name.removeprefix("tempotrace_collector_"), *sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counts_are_exported_by_outcome_reason_and_sender():
    """The same numbers as the counters, in seconds and bytes where they have a unit."""
    samples = _samples(_state())
    assert samples["reports_total", ("outcome", "decoded")] == 149
    assert samples["reports_total", ("outcome", "duplicate")] == 2
    assert samples["rejected_total", ("reason", "truncated")] == 1
    assert samples["packets_total", ("path", "complete")] == 49
    assert samples["packets_total", ("path", "incomplete")] == 1
    sender = (("destination", "10.255.0.1:32766"), ("hw_id", "1"), ("node", "leaf1"))
    assert samples["sender_received_total", *sender] == 50
    assert samples["sender_lost_total", *sender] == 0
    assert samples["kernel_drops_total",] == 3
    assert samples["queue_drops_total",] == 4
    assert samples["cut_messages_total",] == 5
    assert samples["decode_cpu_seconds_total",] == 0.25
    assert samples["output_parts_total", ("output", "file:x")] == 2
    assert samples["output_blocked_seconds_total", ("output", "file:x")] == 1.5
    assert samples["last_report_timestamp_seconds", ("node", "spine1")] == pytest.approx(1.8e9)


def test_names_follow_the_conventions_and_are_in_the_docs():
    """One prefix, base units, counters end in _total; docs/collector.md lists every name."""
    text = metrics_text(_state(), NAMES).decode()
    page = (DOCS / "collector.md").read_text()
    names = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    assert len(names) > 20
    for name in names:
        assert re.fullmatch(r"tempotrace_collector_[a-z_]+", name)
        assert not re.search(r"_(ns|ms|us|kib|mib)(_|$)", name)
        short = re.sub(r"_(total|info)$", "", name.removeprefix("tempotrace_collector_"))
        assert f"`{short}`" in page, short


def test_the_number_of_series_is_bounded(monkeypatch):
    """Senders beyond the bound are summed, not left out."""
    monkeypatch.setattr(metrics_module, "SENDERS_MAX", 1)
    samples = _samples(_state())
    shares = [value for name, value in samples.items() if name[0] == "sender_received_total"]
    assert len(shares) == 2
    other = ("destination", ""), ("hw_id", ""), ("node", "other")
    assert samples["sender_received_total", *other] == 99


def test_the_endpoint_serves_metrics_status_and_health():
    """Three pages; anything else is 404 with their names."""
    state = _state()
    page = status_page(diagnose(Evidence(fabric=FABRIC, state=state)), state)
    endpoint = Endpoint(
        "127.0.0.1", 0, metrics=lambda: metrics_text(state, NAMES), status=lambda: page
    )
    base = "http://{}:{}".format(*endpoint.address)
    try:
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"tempotrace_collector_reports_total" in answer.read()
        with urllib.request.urlopen(f"{base}/status") as answer:
            status = json.load(answer)
        with urllib.request.urlopen(f"{base}/healthz") as answer:
            assert json.load(answer) == {"alive": True}
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            urllib.request.urlopen(f"{base}/none")
        caught.value.close()
    finally:
        endpoint.close()
    assert status["collector"]["received"] == 152
    assert status["collector"]["loss_before_start"] == "unknown"
    assert {item["cause"] for item in status["diagnoses"]} == {"kernel_drops"}
    assert status["collector"]["outputs"]["file:x"]["acknowledged_parts"] == 2
