# SPDX-License-Identifier: Apache-2.0
"""`correct follow` as a command: inputs, outputs, a kill in the middle, a fabric that changes."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

import tempotrace.commands.correct as correct
from controller.collector.outputs.file_output import read_folder
from controller.collector.outputs.part import Part, encode_part
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric
from controller.following.state_file import StateFile
from controller.telemetry.pcap import read_pcap
from tempotrace.cli import app
from tests.support.nats_server import nats_server
from tests.support.short_lab import short_run

WINDOWS = 3
SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
COMMAND = (sys.executable, "-m", "tempotrace.entry")
UDP_HEADERS_BYTES = 42


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a short run."""
    out = tmp_path_factory.mktemp("run")
    short_run(out, "nothing-wrong", windows=WINDOWS)
    return out


def arguments(folder: Path, *more: object) -> list[str]:
    files = ("-f", folder / "fabric.yaml", "--exchanges", folder / "exchanges.jsonl")
    return ["correct", "follow", *map(str, files), *map(str, more)]


def run(folder: Path, *more: object) -> dict[str, Any]:
    """The summary of a run in this process."""
    got = CliRunner().invoke(app, [*arguments(folder, *more), "--json"])
    assert got.exit_code == 0, got.output
    summary: dict[str, Any] = json.loads(got.stdout)
    return summary


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def replayed(folder: Path) -> list[dict[str, Any]]:
    """The lines of a replay of the whole capture."""
    out = folder / "replayed.jsonl"
    summary = run(folder, "--reports", folder / "reports.pcap", "--out", out)
    assert summary["windows"] == len(lines(out)) - 1
    assert summary["late_samples"] == 0
    return lines(out)


def test_lines_fit_their_schema_and_say_what_they_rest_on(replayed: list[dict[str, Any]]) -> None:
    """A header, then one line a window with rows of all clocks, inputs and prior."""
    schema = json.loads((SCHEMAS / "followed.schema.json").read_text(encoding="utf-8"))
    for line in replayed:
        jsonschema.validate(line, schema)
    header, *windows = replayed
    assert header == {"record": "header", "version": 1}
    assert [one["correction_version"] for one in windows] == [*range(1, len(windows) + 1)]
    numbers = [one["window"] for one in windows]
    assert numbers == [*range(numbers[0], numbers[0] + len(windows))]
    fabric_clocks = 16
    assert len({row["clock"] for row in windows[1]["corrections"]}) == fabric_clocks
    assert windows[1]["inputs"]["links_measured"] == 24


def collected(folder: Path, name: str) -> Path:
    """What `collect --statistics` makes of the capture, in a folder of files."""
    parts = folder / name
    command = ["collect", "-f", folder / "fabric.yaml", "--pcap", folder / "reports.pcap"]
    more = ["--statistics", "--output", f"file:{parts}"]
    got = CliRunner().invoke(app, [*map(str, command), *more])
    assert got.exit_code == 0, got.output
    return parts


def as_they_come(parts: Path) -> list[bytes]:
    """The parts with a part for each window's statistics, as a collector at work hands them on."""
    made: list[bytes] = []
    for part in read_folder(parts):
        rows = part.arrays.get("link_windows")
        if rows is None:
            made.append(encode_part(part))
            continue
        for start in np.unique(rows["window_start_collector_ns"]):
            mine = rows[rows["window_start_collector_ns"] == start]
            made.append(encode_part(Part(run=part.run, number=0, arrays={"link_windows": mine})))
    return made


def test_killed_in_the_middle_and_started_again_publishes_each_window_once(
    folder: Path,
) -> None:
    """SIGKILL after the first windows; the next start goes on with what comes then."""
    whole = as_they_come(collected(folder, "kill-whole"))
    uninterrupted = folder / "uninterrupted.jsonl"
    parts, out, state = folder / "growing", folder / "killed.jsonl", folder / "killed.state"
    parts.mkdir()
    file = parts / "collected-00000001.parts"
    file.write_bytes(b"".join(whole))
    run(folder, "--collected", f"file:{parts}", "--once", "--out", uninterrupted)
    file.write_bytes(b"".join(whole[:-2]) + whole[-2][:100])
    more = ("--collected", f"file:{parts}", "--out", out, "--state", state)
    process = subprocess.Popen([*COMMAND, *arguments(folder, *more)], stderr=subprocess.DEVNULL)
    try:
        while not out.exists() or out.read_bytes().count(b"\n") < 2:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    published = lines(out)
    assert published == lines(uninterrupted)[: len(published)]
    with out.open("ab") as stream:
        stream.write(b'{"record": "wind')  # what a kill in the middle of a write leaves
    file.write_bytes(b"".join(whole))
    summary = run(folder, *more, "--once")
    assert lines(out) == lines(uninterrupted)
    # a window that the state had, but the file had not, was counted before
    left = len(lines(out)) - len(published)
    assert summary["windows"] in (left - 1, left)
    again = run(folder, *more, "--once")
    assert again["windows"] == 0
    assert lines(out) == lines(uninterrupted)


def test_a_process_that_dies_before_it_publishes_does_so_on_its_next_start(
    folder: Path, replayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state has been saved with the window; it is published from there, and not made anew."""
    out, state = folder / "died.jsonl", folder / "died.state"
    write = StateFile.write
    calls = []

    def die_behind(self: StateFile, *args: Any, **keywords: Any) -> None:
        write(self, *args, **keywords)
        calls.append(1)
        raise SystemExit(9)

    with monkeypatch.context() as patched:
        patched.setattr(StateFile, "write", die_behind)
        files = ("--reports", folder / "reports.pcap", "--out", out, "--state", state)
        assert CliRunner().invoke(app, arguments(folder, *files)).exit_code == 9
    assert len(lines(out)) == 1
    run(folder, *files)
    assert lines(out) == replayed


def test_parts_of_a_collector_give_the_same_corrections(
    folder: Path, replayed: list[dict[str, Any]]
) -> None:
    """`collect --statistics` into files, then `--collected`: statistics are made there."""
    parts, out = collected(folder, "parts"), folder / "collected.jsonl"
    summary = run(folder, "--collected", f"file:{parts}", "--once", "--out", out)
    assert summary["parts"] > 0
    windows = lines(out)[1:]
    assert len(windows) == len(replayed) - 1
    for one, other in zip(windows, replayed[1:], strict=True):
        offsets = {r["clock"]: int(r["offset_ns"]) for r in other["corrections"]}
        for row in one["corrections"]:
            if row["method"] == "sparse-robust" and row["clock"].startswith(("leaf", "spine")):
                assert abs(int(row["offset_ns"]) - offsets[row["clock"]]) <= 10_000


def test_corrections_go_into_files_of_parts(folder: Path, replayed: list[dict[str, Any]]) -> None:
    """The same rows as arrays, once, also when the capture is followed again with the state."""
    parts, state = folder / "corrections", folder / "parts.state"
    for _ in range(2):
        run(
            folder, "--reports", folder / "reports.pcap", "--out", f"file:{parts}",
            "--state", state,
        )  # fmt: skip
    found = list(read_folder(parts))
    assert [part.number for part in found] == [*range(1, len(replayed))]
    for part, line in zip(found, replayed[1:], strict=True):
        rows = part.arrays["corrections"]
        told = [
            (r["clock"].decode(), int(r["offset_ns"]), int(r["valid_to_local_ns"])) for r in rows
        ]
        assert told == [
            (r["clock"], int(r["offset_ns"]), int(r["valid_to_local_ns"]))
            for r in line["corrections"]
        ]


def test_in_and_out_over_nats(folder: Path, tmp_path: Path) -> None:
    """Parts of a subject, some of them twice, to corrections on another one."""
    whole = [*read_folder(collected(folder, "nats-parts"))]
    with nats_server(tmp_path) as server:
        _publish(server.url, "fabric.collected", [*whole[:2], *whole])
        summary = run(
            folder, "--collected", f"{server.url}/fabric.collected", "--seconds", "6",
            "--out", f"{server.url}/fabric.corrections?stream=CORRECTIONS",
        )  # fmt: skip
        stored = server.parts("fabric.corrections")
    assert summary["parts"] == len(whole) + 2
    assert summary["parts_repeated"] == 2
    assert len(stored) == summary["windows"] > 2
    assert sum(len(part.arrays["corrections"]) for _, part in stored) == summary["rows"]


def _publish(url: str, subject: str, parts: list[Part]) -> None:
    import asyncio

    import nats
    from nats.js.api import StreamConfig

    async def publish() -> None:
        client = await nats.connect(url)
        stream = client.jetstream()
        await stream.add_stream(StreamConfig(name="COLLECTED", subjects=[subject]))
        for part in parts:
            await stream.publish(subject, encode_part(part))
        await client.close()

    asyncio.run(publish())


@pytest.mark.enable_socket
def test_live_reports_a_hangup_and_an_end(folder: Path, tmp_path: Path) -> None:
    """Reports over loopback at their own pace; SIGHUP reads a changed description; SIGTERM ends."""
    fabric, out = tmp_path / "fabric.yaml", tmp_path / "live.jsonl"
    description = load_fabric(folder / "fabric.yaml")
    fabric.write_text(dump_fabric(description), encoding="utf-8")
    process = subprocess.Popen(
        [
            *COMMAND, "correct", "follow", "-f", str(fabric), "--listen", "127.0.0.1:0",
            "--exchanges", str(folder / "exchanges.jsonl"), "--out", str(out), "--json",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        port = 0
        for line in process.stderr:
            if line.startswith("listening on"):
                port = int(line.strip().rpartition(":")[2])
                break
        frames = list(read_pcap(folder / "reports.pcap"))
        half = len(frames) // 2
        _send(frames[:half], port)
        fabric.write_text("nonsense: [", encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert "the description in use stays" in process.stderr.readline()
        fabric.write_text(dump_fabric(description), encoding="utf-8")
        process.send_signal(signal.SIGHUP)
        assert "read again" in process.stderr.readline()
        _send(frames[half:], port)
        while not out.exists() or out.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
    finally:
        process.terminate()
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0, stderr
    summary = json.loads(stdout)
    # On a busy machine the kernel drops datagrams.
    assert summary["since_the_first_start"]["exchange_messages_joined"] > 0
    last = lines(out)[-1]
    statuses = {row["status"] for line in lines(out)[1:] for row in line["corrections"]}
    assert "synchronised" in statuses
    assert last["correction_version"] == summary["windows"]


def _send(frames: list[tuple[int, bytes]], port: int) -> None:
    """Report datagrams, as far apart as they were captured."""
    start, first = time.monotonic_ns(), frames[0][0]
    pace = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for at_ns, frame in frames:
            wait_ns = (at_ns - first) - (time.monotonic_ns() - start)
            if wait_ns > 0:
                pace.wait(wait_ns / 1e9)
            sender.sendto(frame[UDP_HEADERS_BYTES:], ("127.0.0.1", port))


def test_a_recording_of_a_large_fabric_is_followed(
    folder: Path, replayed: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`correct run` beyond its limit says so, and writes the same document from windows."""
    monkeypatch.setattr(correct, "LINKS_MAX", 20)
    out = folder / "run.json"
    files = ("--reports", folder / "reports.pcap", "--exchanges", folder / "exchanges.jsonl")
    command = ["correct", "run", "-f", folder / "fabric.yaml", *files, "--out", out]
    got = CliRunner().invoke(app, [*map(str, command)])
    assert got.exit_code == 0, got.output
    assert "24 links: followed window by window" in got.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    schema = json.loads((SCHEMAS / "corrections.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    rows = sum(len(line["corrections"]) for line in replayed[1:])
    assert len(document["corrections"]) == rows


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "give one of --listen, --reports and --collected"),
        (["--listen", "127.0.0.1:0", "--once"], "--once goes with --collected"),
        (["--reports", "none.pcap"], "no such file"),
        (["--collected", "ftp://x/y"], "expected file:DIR or nats://"),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, more: list[str], message: str) -> None:
    """Exit code 2."""
    got = CliRunner().invoke(app, arguments(folder, *more))
    assert got.exit_code == 2
    assert message in got.stderr
    assert got.stderr.count("\n") == 1


def test_a_damaged_state_is_named(folder: Path, tmp_path: Path) -> None:
    """Not half read, and not overwritten."""
    state = tmp_path / "state"
    state.write_bytes(b"PK\x03\x04 no archive")
    got = CliRunner().invoke(
        app, arguments(folder, "--reports", folder / "reports.pcap", "--state", state)
    )
    assert got.exit_code == 2
    assert f"{state}: not a saved state" in got.stderr
    assert state.read_bytes() == b"PK\x03\x04 no archive"


def test_lines_that_cannot_be_used_are_counted(folder: Path, tmp_path: Path) -> None:
    """Damage in the middle of the hosts' file: told once, all other lines are used."""
    damaged = tmp_path / "exchanges.jsonl"
    text = (folder / "exchanges.jsonl").read_text(encoding="utf-8").splitlines()
    text[5:5] = ["{", '{"record":"weather"}']
    damaged.write_text("\n".join(text) + "\n", encoding="utf-8")
    command = ["correct", "follow", "-f", folder / "fabric.yaml", "--exchanges", damaged]
    more = ["--reports", folder / "reports.pcap", "--json"]
    got = CliRunner().invoke(app, [*map(str, [*command, *more])])
    assert got.exit_code == 0, got.output
    assert json.loads(got.stdout)["lines_refused"] == 2
    assert got.stderr.count("warning") == 1
