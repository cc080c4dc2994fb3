# SPDX-License-Identifier: Apache-2.0
"""`collect` and `collect status` as commands: exit codes, what they print, and whom they ask."""

import json
import os
import socket
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from controller.collector.endpoint import Endpoint
from controller.collector.outputs.file_output import read_folder
from controller.fabric_dump import dump_fabric
from controller.telemetry.pcap import write_pcap
from tempotrace.cli import app
from tests.support.collector_states import small_fabric, whole_paths
from tests.support.telemetry_reports import report_frame

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(name="files")
def _files(tmp_path):
    """fabric.yaml and a capture of whole paths."""
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(dump_fabric(small_fabric()))
    capture = tmp_path / "reports.pcap"
    write_pcap(capture, [(ns, report_frame(payload)) for ns, payload in whole_paths()])
    return str(fabric), str(capture)


def _run(*arguments):
    return CliRunner().invoke(app, ["collect", *arguments])


@contextmanager
def _bound_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def test_a_healthy_capture_is_exit_code_0(files):
    """With `-f` before or after the word, as text and as JSON."""
    fabric, capture = files
    result = _run("status", "-f", fabric, "--pcap", capture, "--json")
    assert result.exit_code == 0, result.output
    page = json.loads(result.stdout)
    assert [item["cause"] for item in page["diagnoses"]] == ["healthy"]
    assert page["collector"]["packets_complete"] == 50
    result = _run("-f", fabric, "status", "--pcap", capture)
    assert result.exit_code == 0, result.output
    assert "OK: Reports arrive and join into whole paths." in result.stdout


def test_errors_are_exit_code_1_with_the_next_step(files, tmp_path):
    """An empty capture: nothing arrives."""
    fabric, _capture = files
    write_pcap(tmp_path / "empty.pcap", [])
    result = _run("status", "-f", fabric, "--pcap", str(tmp_path / "empty.pcap"))
    assert result.exit_code == 1, result.output
    assert "ERROR: No report arrives from any device." in result.stdout
    assert "  next: " in result.stdout


def test_without_a_collector_the_ports_are_looked_at(files, tmp_path):
    """A port that this very process has is named with it; a free one says so."""
    fabric, _capture = files
    with _bound_port() as port:
        text = (tmp_path / "fabric.yaml").read_text()
        (tmp_path / "fabric.yaml").write_text(text.replace("32766", str(port)))
        taken = _run("status", "-f", fabric, "--url", NOWHERE, "--json")
    free = _run("status", "-f", fabric, "--url", NOWHERE, "--json")
    assert (taken.exit_code, free.exit_code) == (1, 1)
    (found,) = json.loads(taken.stdout)["diagnoses"]
    assert found["cause"] == "port_taken"
    assert f"(pid {os.getpid()})" in found["evidence"][0]
    (found,) = json.loads(free.stdout)["diagnoses"]
    assert found["cause"] == "port_not_bound"
    assert json.loads(free.stdout)["collector"] is None


def test_a_running_collector_is_asked():
    """Its own page is printed; something else at that address is wrong input."""
    page = {"version": 1, "diagnoses": [], "collector": None}
    endpoint = Endpoint("127.0.0.1", 0, metrics=bytes, status=lambda: page)
    url = "http://{}:{}".format(*endpoint.address)
    try:
        result = _run("status", "--url", url, "--json")
        assert (result.exit_code, json.loads(result.stdout)) == (0, page)
        page["version"] = 99
        wrong = _run("status", "--url", url)
        assert wrong.exit_code == 2
        assert "version 1" in wrong.stderr
    finally:
        endpoint.close()
    assert _run("status", "--url", NOWHERE).exit_code == 2


def test_a_capture_goes_to_files(files, tmp_path):
    """What the summary calls acknowledged is in the folder."""
    fabric, capture = files
    folder = tmp_path / "parts"
    result = _run("-f", fabric, "--pcap", capture, "--output", f"file:{folder}", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["outputs"][f"file:{folder}"]["acknowledged_packets"] == 50
    assert sum(part.packet_count for part in read_folder(folder)) == 50


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-f", "F"), "give either --pcap FILE or --listen HOST:PORT"),
        (("-f", "F", "--pcap", "C", "--listen", "127.0.0.1:1"), "give either --pcap"),
        (("--pcap", "C"), "give the fabric's description, -f fabric.yaml"),
        (("-f", "F", "--pcap", "C", "--metrics", "127.0.0.1:0"), "--metrics goes with --listen"),
        (("-f", "F", "--listen", "127.0.0.1"), "--listen '127.0.0.1' is not HOST:PORT"),
        (("-f", "F", "--listen", "::1:5"), "--listen '::1:5' is not HOST:PORT"),
        (("-f", "F", "--pcap", "C", "--output", "x"), "output 'x': expected file:DIR or nats:"),
        (("-f", "F", "--listen", "192.0.2.1:0"), "cannot listen on 192.0.2.1:0"),
        (("-f", "F", "--listen", "127.0.0.1:0", "--metrics", "192.0.2.1:0"), "cannot serve on"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_wrong_usage_is_one_line_and_exit_code_2(files, arguments, complaint):
    """What is wrong stands in the line, and nothing was started."""
    names = {"F": files[0], "C": files[1]}
    result = _run(*(names.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_port_that_is_taken_names_who_has_it(files):
    """Two collectors on one port: the second one says where the first is."""
    fabric, _capture = files
    with _bound_port() as port:
        result = _run("-f", fabric, "--listen", f"127.0.0.1:{port}", "--seconds", "0")
    assert result.exit_code == 2
    assert f"(pid {os.getpid()})" in result.stderr


def test_ports_are_named_when_the_system_chooses_them(files):
    """Port 0: the line on standard error says which it became."""
    fabric, _capture = files
    result = _run("-f", fabric, "--listen", "127.0.0.1:0", "--seconds", "0", "--json")
    assert result.exit_code == 0, result.output
    assert "listening on 127.0.0.1:" in result.stderr
    assert "listening on 127.0.0.1:0" not in result.stderr
    assert json.loads(result.stdout)["received"] == 0
