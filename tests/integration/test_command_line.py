# SPDX-License-Identifier: Apache-2.0
"""The command line: one-line errors with exit code 2, and nothing left behind when it is ended."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "tempotrace.entry")


def _run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=90, cwd=cwd, check=False
    )


@pytest.fixture(scope="module")
def fabric_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A generated fabric.yaml."""
    path = tmp_path_factory.mktemp("init") / "fabric.yaml"
    result = _run("deploy", "init", "-f", str(path), "--leaves", "2", "--spines", "2")
    assert result.returncode == 0, result.stderr
    return path.read_text()


def _line_of(text: str, needle: str, occurrence: int = 1) -> int:
    lines = [n for n, line in enumerate(text.splitlines(), start=1) if needle in line]
    return lines[occurrence - 1]


def test_unknown_key_is_one_line_with_file_line_and_key(fabric_text: str, tmp_path: Path) -> None:
    """A key that the schema does not know stops with exit code 2."""
    path = tmp_path / "fabric.yaml"
    path.write_text(fabric_text.replace("ptp:\n", "ptp:\n  speed_of_light: 3\n", 1))
    result = _run("deploy", "plan", "-f", str(path))
    assert result.returncode == 2
    line = _line_of(path.read_text(), "speed_of_light")
    assert result.stderr.startswith(f"{path}:{line}: ptp.speed_of_light: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_two_nodes_with_one_id_are_refused(fabric_text: str, tmp_path: Path) -> None:
    """The second switch with a node id that is taken is named."""
    path = tmp_path / "fabric.yaml"
    path.write_text(fabric_text.replace("node_id: 2", "node_id: 1", 1))
    result = _run("correct", "run", "-f", str(path), "--reports", "x", "--exchanges", "y")
    assert result.returncode == 2
    assert "node_id" in result.stderr
    assert result.stderr.startswith(f"{path}:")
    assert result.stderr.count("\n") == 1


def test_a_port_used_twice_is_refused(fabric_text: str, tmp_path: Path) -> None:
    """Two cables cannot share a port."""
    path = tmp_path / "fabric.yaml"
    path.write_text(fabric_text.replace("leaf1:2", "leaf1:1", 1))
    result = _run("collect", "-f", str(path), "--pcap", "none.pcap")
    assert result.returncode == 2
    assert "leaf1:1" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("demo", "--scenario", "nowhere"), "no scenario called 'nowhere'"),
        (("lab", "run", "small-4x4", "--out", "x", "--backend", "nowhere"), "nowhere"),
        (("collect", "-f", "absent.yaml", "--pcap", "x"), "absent.yaml"),
        (("demo", "--seed", "-1"), "--seed"),
        (("trace", "show", "0" * 32, "--url", "http://127.0.0.1:9"), "no answer"),
    ],
)
def test_wrong_usage_exits_with_two(arguments: tuple[str, ...], expected: str) -> None:
    """Wrong usage or input: exit code 2 and a message that names what is wrong."""
    result = _run(*arguments)
    assert result.returncode == 2, result.stderr
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_broken_recordings_are_named(fabric_text: str, tmp_path: Path) -> None:
    """A file that is no pcap, and a log with a bad line, are one line each."""
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(fabric_text)
    (tmp_path / "bad.pcap").write_bytes(b"not a capture")
    result = _run("collect", "-f", str(fabric), "--pcap", str(tmp_path / "bad.pcap"))
    assert result.returncode == 2
    assert "bad.pcap" in result.stderr
    assert result.stderr.count("\n") == 1


def test_collecting_from_a_socket_prints_counts(fabric_text: str, tmp_path: Path) -> None:
    """Datagrams that are no reports are rejections by reason, not errors."""
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(fabric_text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*COMMAND, "collect", "-f", str(fabric), "--listen", f"127.0.0.1:{port}",
         "--seconds", "4", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while process.poll() is None:
            sender.sendto(b"no report", ("127.0.0.1", port))
            sender.sendto(b"", ("127.0.0.1", port))
            sender.sendto(bytes([0x20]) + bytes(40), ("127.0.0.1", port))
            time.sleep(0.05)
    out, err = process.communicate()
    assert process.returncode == 0, err
    summary = json.loads(out)
    assert summary["received"] > 0
    assert summary["decoded"] == 0
    assert sum(summary["rejected"].values()) == summary["received"]
    assert len(summary["rejected"]) > 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_demo_leaves_no_process_and_no_port(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Ctrl-C or SIGTERM in the middle of a run: it ends soon, and its process group is empty."""
    process = subprocess.Popen(
        [*COMMAND, "demo", "--scenario", "small-4x4", "--out", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("simulate"):
            break
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_serving_demo_ends_on_sigterm_and_frees_its_port(tmp_path: Path) -> None:
    """While API and page are served, SIGTERM ends all and the port refuses connections."""
    process = subprocess.Popen(
        [*COMMAND, "demo", "--scenario", "small-4x4", "--out", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    port = None
    for line in process.stdout:
        if line.startswith("page http://127.0.0.1:"):
            port = int(line.split(":")[2].split("/")[0])
        if line.startswith("Ctrl-C"):
            break
    assert port is not None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) != 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_one_host_a_leaf_is_a_fabric(tmp_path: Path) -> None:
    """The generator takes one tenant where a leaf has one host."""
    path = tmp_path / "fabric.yaml"
    result = _run("deploy", "init", "-f", str(path), "--hosts-per-leaf", "1")
    assert result.returncode == 0, result.stderr
    result = _run("deploy", "init", "-f", str(path), "--first-port", "65530", "--force")
    assert result.returncode == 2
    assert "65535" in result.stderr
