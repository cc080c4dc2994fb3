# SPDX-License-Identifier: Apache-2.0
"""`serve --listen`: reports over loopback correct the spans that the service is sent."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from controller.telemetry.pcap import read_pcap
from tests.support.short_lab import short_run
from tracing_core.sdk import OtlpExport

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

COMMAND = (sys.executable, "-m", "tempotrace.entry")
UDP_HEADERS_BYTES = 42
WINDOWS = 3


def get(url: str, page: str) -> dict:
    with urllib.request.urlopen(f"{url}{page}", timeout=20) as answer:
        return json.loads(answer.read())


def send(frames: list[tuple[int, bytes]], port: int) -> None:
    """Report datagrams, as far apart as they were captured."""
    start, first = time.monotonic_ns(), frames[0][0]
    pace = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for at_ns, frame in frames:
            wait_ns = (at_ns - first) - (time.monotonic_ns() - start)
            if wait_ns > 0:
                pace.wait(wait_ns / 1e9)
            sender.sendto(frame[UDP_HEADERS_BYTES:], ("127.0.0.1", port))


@pytest.mark.enable_socket
def test_a_trace_is_corrected_by_what_was_received_meanwhile(tmp_path: Path) -> None:
    """Spans are imported before their windows close; read afterwards they have bounds, and no
    causal pair contradicts them."""
    run = tmp_path / "run"
    lab = short_run(run, "nothing-wrong", windows=WINDOWS)
    service = subprocess.Popen(
        [
            *COMMAND, "serve", "-f", str(run / "fabric.yaml"), "--listen", "127.0.0.1:0",
            "--exchanges", str(run / "exchanges.jsonl"), "--port", "0",
            "--store", str(tmp_path / "store"), "--state", str(tmp_path / "state"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert service.stdout is not None
    try:
        url, port = "", 0
        while not port:
            line = service.stdout.readline()
            assert line, service.stderr.read() if service.stderr else ""
            if line.startswith("page "):
                url = line.split()[1].rstrip("/")
            if line.startswith("telemetry reports on"):
                port = int(line.strip().rpartition(":")[2])
        with OtlpExport(endpoint=f"{url}/v1/traces") as export:
            export.export(lab.spans.spans)
        assert get(url, "/v1/clocks")["correction_version"] == 0
        before = get(url, "/v1/inversions")
        send(list(read_pcap(run / "reports.pcap")), port)
        while get(url, "/v1/clocks")["correction_version"] < WINDOWS:
            assert service.poll() is None
        after = get(url, "/v1/inversions")
        clocks = get(url, "/v1/clocks")["clocks"]
    finally:
        service.send_signal(signal.SIGTERM)
        _, errors = service.communicate(timeout=60)
    assert service.returncode == 0, errors
    assert before["corrected"] == after["corrected"] == 0
    assert before["undecided"] == before["pairs"]
    assert after["undecided"] < after["pairs"] / 2
    known = [one for one in clocks if one["centre"] is not None]
    assert len(known) == 16
    assert (tmp_path / "state").stat().st_size > 0
