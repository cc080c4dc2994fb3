# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct calibrate`: loops by name, the part of fabric.yaml, and what is refused."""

import numpy as np
import pytest
from typer.testing import CliRunner

from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from correction.calibration import Constants, Interval, SwapResult
from correction.records import HOP_DTYPE, PACKET_DTYPE
from tempotrace.cli import app
from tempotrace.commands import correct_calibrate
from tempotrace.commands.correct_calibrate import (
    calibration_document,
    fabric_snippet,
    swap_lines,
)

FABRIC = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
MODEL = FABRIC.model(FABRIC.switches[0].model)
SPEED = MODEL.stamp_points[0].speed_gbps
LOOP = f"leaf1:20-leaf1:21:2m+-0.1m@{SPEED}G"


@pytest.fixture
def files(tmp_path):
    """fabric.yaml, and reports that a test replaces."""
    fabric, reports = tmp_path / "fabric.yaml", tmp_path / "reports.pcap"
    fabric.write_text(dump_fabric(FABRIC))
    reports.write_bytes(b"")
    return ["-f", str(fabric), "--reports", str(reports)]


def looped(sum_ns: int):
    """A collection of 40 packets that left leaf1 by port 20 and came back by port 21."""
    packets, hops = np.zeros(40, PACKET_DTYPE), np.zeros(80, HOP_DTYPE)
    packets["first_hop"], packets["hop_count"] = 2 * np.arange(40), 2
    hops["node_id"] = FABRIC.switches[0].node_id
    hops["egress_port"][0::2], hops["ingress_port"][1::2] = 20, 21
    hops["egress_bytes"] = 1_000
    sent = 10**15 + 10**6 * np.arange(40)
    hops["egress_tstamp_local_ns"][0::2] = sent
    hops["ingress_tstamp_local_ns"][1::2] = sent + sum_ns

    class Collection:
        """What the collector gives."""

    found = Collection()
    found.packets, found.hops = packets, hops
    return found


def run(*arguments: str):
    """The command's result."""
    return CliRunner().invoke(app, ["correct", "calibrate", *arguments])


def test_a_loop_prints_stamp_points_that_fabric_yaml_takes(files, monkeypatch) -> None:
    """Declared 360 and 120 ns: x = 360 + 10 + 120 and 80 ns of serialisation fit them."""
    monkeypatch.setattr(correct_calibrate, "collect", lambda *_: looped(490 + 80))
    monkeypatch.setattr(correct_calibrate, "read_pcap", lambda _: [])
    result = run(*files, "--loopback", LOOP)
    assert result.exit_code == 0, result.output
    assert f"- name: {MODEL.name}" in result.output
    assert "egress: {latency_ns: 360, uncertainty_ns: 3}" in result.output
    assert "ingress: {latency_ns: 120, uncertainty_ns: 3, at_frame_end: true}" in result.output


def test_a_contradiction_ends_with_exit_code_1(files, monkeypatch) -> None:
    """A sum of 100 ns less than declared cannot be."""
    monkeypatch.setattr(correct_calibrate, "collect", lambda *_: looped(390 + 80))
    monkeypatch.setattr(correct_calibrate, "read_pcap", lambda _: [])
    result = run(*files, "--loopback", LOOP)
    assert result.exit_code == 1
    assert "contradiction: " in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--loopback", "leaf1:20"),
        ("--loopback", LOOP.replace("leaf1:21", "leaf2:21")),
        ("--loopback", LOOP.replace("leaf1", "nobody")),
        ("--loopback", f"leaf1:20-leaf1:21:2m@{SPEED + 1}G"),
        ("--swapped", "leaf1:1-spine1:1"),
    ],
)
def test_wrong_arguments_end_with_exit_code_2(files, arguments) -> None:
    """One line says what was expected."""
    result = run(*files, *arguments)
    assert result.exit_code == 2


def test_the_snippet_holds_the_limits_in_whole_ns() -> None:
    """113.4 to 126.9 becomes 120 +- 7, which holds both ends; the YAML is a fabric's."""
    found = Constants(
        egress=Interval(low_ns=350.0, high_ns=360.0),
        ingress=Interval(low_ns=113.4, high_ns=126.9),
        sum_of_both=Interval(low_ns=470.0, high_ns=480.0),
        loops=1,
    )
    text = fabric_snippet(FABRIC, {f"{MODEL.name}/{SPEED}G": found})
    assert "{latency_ns: 120, uncertainty_ns: 7, at_frame_end: true}" in text
    assert "{latency_ns: 355, uncertainty_ns: 5}" in text
    old = dump_fabric(FABRIC)
    points = text.splitlines()[-2:]
    lines = old.splitlines()
    at = next(n for n, line in enumerate(lines) if "ingress:" in line)
    lines[at : at + 2] = points
    assert parse_fabric("\n".join(lines)).models[0].stamp_points[0].ingress.uncertainty_ns == 7


def test_the_document_names_model_speed_and_point() -> None:
    """One object per model and speed, one per swap."""
    found = Constants(
        egress=Interval(low_ns=350.0, high_ns=360.0),
        ingress=Interval(low_ns=100.0, high_ns=140.0),
        sum_of_both=Interval(low_ns=470.0, high_ns=480.0),
        loops=2,
    )
    parts = {"fibre_ns": 60.0, "fibre_sd_ns": 0.5, "ports_ns": 40.0, "ports_sd_ns": 3.0}
    swap = SwapResult(link="l", **parts)
    document = calibration_document({"sw/100G": found}, [swap])
    (constant,) = document["constants"]
    assert (constant["model"], constant["speed_gbps"], constant["loops"]) == ("sw", 100, 2)
    assert (constant["egress_latency_ns"], constant["egress_uncertainty_ns"]) == (355.0, 5.0)
    assert document["swaps"] == [{"link": "l", **parts}]


def test_the_links_line_is_of_the_fibres_as_they_lie_now() -> None:
    """Fibres of +60 before the swap are -60 after it, to half a ns."""
    name = FABRIC.links[0].name
    swap = SwapResult(link=name, fibre_ns=60.0, fibre_sd_ns=0.5, ports_ns=40.0, ports_sd_ns=3.0)
    comment, line = swap_lines(FABRIC, swap)
    assert comment.startswith(f"# {name}: ")
    assert "asymmetry_ns: -60.0, asymmetry_sd_ns: 0.5" in line
