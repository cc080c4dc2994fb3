# SPDX-License-Identifier: Apache-2.0
"""A collector killed with SIGKILL under load and started again continues, and keeps its word.

Reports come all the time; nobody tells the sender of the kill. What the collector had reported as
acknowledged before it was killed is in the stream, every packet once; what came while it was down
is unknown, and nothing in its counts is negative.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from controller.collector.outputs.file_output import read_folder
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric
from controller.fabric_generate import leaf_spine
from tests.support.load_sender import PathSender
from tests.support.nats_server import nats_server

COMMAND = (sys.executable, "-m", "tempotrace.entry", "collect")
SUBJECT = "fabric.packets"
PARTS_BEFORE_KILL = 5
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class _Collector:
    """`tempotrace collect --listen` as a process, with its HTTP endpoint."""

    def __init__(self, fabric: Path, port: int, output: str, *, workers: int = 1) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "-f", str(fabric), "--listen", f"127.0.0.1:{port}", "--json",
             "--output", output, "--metrics", "127.0.0.1:0", "--workers", str(workers)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.match(r"listening on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
            if found := re.match(r"metrics on (http://\S+)/metrics", line):
                self.url = found[1]
        raise AssertionError(self.lines)

    def get(self, page: str) -> str:
        with urllib.request.urlopen(f"{self.url}/{page}", timeout=10) as answer:
            return answer.read().decode()

    def metric(self, name: str) -> float:
        values = [
            float(line.rpartition(" ")[2])
            for line in self.get("metrics").splitlines()
            if line.startswith(f"tempotrace_collector_{name}_total{{")
        ]
        return sum(values)

    def status(self) -> dict:
        return json.loads(self.get("status"))["collector"]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> dict:
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return json.loads(out)


def _wait_until(collector: _Collector, acknowledged: int) -> dict:
    """The first status with so many acknowledged parts."""
    while True:
        assert collector.process.poll() is None
        status = collector.status()
        outputs = status["outputs"].values()
        if sum(output["acknowledged_parts"] for output in outputs) >= acknowledged:
            return status


@pytest.fixture(name="load")
def _load(tmp_path):
    """fabric.yaml, and a thread that sends reports of it to a port until the test ends."""
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(leaf_spine(leaves=2, spines=1, hosts_per_leaf=2)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sender = PathSender(load_fabric(path), port)
    ended = threading.Event()
    thread = threading.Thread(target=sender.send_until, args=(ended,))
    thread.start()
    yield path, port, sender
    ended.set()
    thread.join()


def _check_counts(first: dict, summary: dict) -> None:
    """Of the second run: never negative, and the sender's numbers begin where they were."""
    assert min(summary[key] for key in ("lost", "reordered", "restarts", "unconfirmed")) >= 0
    assert all(sender["lost"] >= 0 for sender in summary["senders"].values())
    assert summary["packets_complete"] > 0
    assert first["loss_before_start"] == "unknown"


def test_with_jetstream_what_was_acknowledged_is_there_once(load, tmp_path):
    """Message ids and packets in the stream are unique, and none that was confirmed is missing."""
    fabric, port, _sender = load
    with nats_server(tmp_path / "nats") as server:
        output = f"{server.url}/{SUBJECT}"
        first = _Collector(fabric, port, output)
        before = _wait_until(first, PARTS_BEFORE_KILL)
        first.kill()
        second = _Collector(fabric, port, output)
        after = _wait_until(second, PARTS_BEFORE_KILL)
        summary = second.end()
        stored = server.parts(SUBJECT)
    by_run = Counter(part.run for _id, part in stored)
    (promised,) = before["outputs"].values()
    (kept,) = summary["outputs"].values()
    assert before["run"] != after["run"]
    assert by_run.keys() == {before["run"], after["run"]}
    assert by_run[before["run"]] >= promised["acknowledged_parts"]
    assert by_run[after["run"]] == kept["acknowledged_parts"]
    packets = Counter(
        int(psn) for _id, part in stored if "packets" in part.arrays
        for psn in part.arrays["packets"]["psn"]
    )  # fmt: skip
    first_run = sum(part.packet_count for _id, part in stored if part.run == before["run"])
    assert first_run >= promised["acknowledged_packets"]
    assert set(packets.values()) == {1}
    assert len({message_id for message_id, _part in stored}) == len(stored)
    for run, count in by_run.items():
        assert sorted(part.number for _id, part in stored if part.run == run) == [*range(count)]
    _check_counts(after, summary)


def test_with_files_what_was_acknowledged_is_there_once(load, tmp_path):
    """The killed run's file is read up to its last whole part; the next run has its own."""
    fabric, port, _sender = load
    folder = tmp_path / "parts"
    first = _Collector(fabric, port, f"file:{folder}")
    before = _wait_until(first, PARTS_BEFORE_KILL)
    first.kill()
    second = _Collector(fabric, port, f"file:{folder}")
    after = _wait_until(second, PARTS_BEFORE_KILL)
    assert second.metric("reports") > 0
    summary = second.end()
    parts = list(read_folder(folder))
    by_run = Counter(part.run for part in parts)
    (promised,) = before["outputs"].values()
    (kept,) = summary["outputs"].values()
    assert by_run[before["run"]] >= promised["acknowledged_parts"]
    assert by_run[after["run"]] == kept["acknowledged_parts"]
    packets = Counter(int(psn) for part in parts for psn in part.arrays["packets"]["psn"])
    assert set(packets.values()) == {1}
    _check_counts(after, summary)


def test_workers_end_with_their_parent_and_keep_what_they_acknowledged(load, tmp_path):
    """SIGKILL of the parent: workers hand over what they have and end; the next start takes over
    the port at once, and every report's hop is in the files once. (A packet whose reports came
    while both had the port is in two pieces.)"""
    fabric, port, _sender = load
    folder = tmp_path / "parts"
    first = _Collector(fabric, port, f"file:{folder}", workers=2)
    before = _wait_until(first, PARTS_BEFORE_KILL)
    first.kill()
    second = _Collector(fabric, port, f"file:{folder}", workers=2)
    after = _wait_until(second, PARTS_BEFORE_KILL)
    summary = second.end()
    parts = list(read_folder(folder))
    promised = sum(output["acknowledged_parts"] for output in before["outputs"].values())
    assert sum(part.run.startswith(before["run"]) for part in parts) >= promised
    kept = sum(output["acknowledged_parts"] for output in summary["outputs"].values())
    assert sum(part.run.startswith(after["run"]) for part in parts) == kept
    hops = Counter(
        (int(packet["psn"]), int(node_id))
        for part in parts
        for packet in part.arrays["packets"]
        for node_id in part.arrays["hops"]["node_id"][packet["first_hop"] :][: packet["hop_count"]]
    )
    assert set(hops.values()) == {1}
    _check_counts(after, summary)
