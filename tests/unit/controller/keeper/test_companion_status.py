# SPDX-License-Identifier: Apache-2.0
"""What runs beside the switches, in the controller's metrics and status."""

import re
from pathlib import Path

from controller.cabling.check import Cabling, Finding, FindingKind, LinkState
from controller.cabling.rounds import LldpCounters
from controller.cabling.watch import CablingState
from controller.fabric import LinkEnd
from controller.int_policy.delay_watch import DelayState
from controller.int_policy.probe_sender import ProbeCounters
from controller.int_policy.sampling_watch import SamplingState
from controller.keeper.companion_status import CompanionState
from controller.keeper.status import KeeperState, metrics_text, status_json

FINDING = Finding(
    kind=FindingKind.SILENT, ports=(LinkEnd(node="leaf1", port=1),), message="no light"
)
STATE = KeeperState(
    fabric="f",
    switches=(),
    failed_links=(),
    events={},
    companions=CompanionState(
        cabling=CablingState(
            cabling=Cabling(
                findings=(FINDING,),
                links={"x": LinkState.WRONG, "y": LinkState.RIGHT, "z": LinkState.RIGHT},
                listening=frozenset(),
            ),
            findings=(FINDING,),
            counters=LldpCounters(sent=7, heard=5, malformed=1),
        ),
        sampling=SamplingState(rates_rps={"rdma": 250.04, "ptp": 3.0}, extra_bits={"rdma": 4}),
        delays=DelayState(in_force=9, held=8),
        probes=ProbeCounters(sent=11, skipped=2),
    ),
)


def test_findings_and_links_are_counted() -> None:
    """By kind and by state, with those that are 0."""
    lines = metrics_text(STATE).decode().splitlines()
    for line in (
        'cabling_findings{kind="silent"} 1.0',
        'cabling_findings{kind="swapped"} 0.0',
        'cabling_links{state="right"} 2.0',
        'cabling_links{state="wrong"} 1.0',
        "lldp_sent_total 7.0",
        "lldp_heard_total 5.0",
        "lldp_malformed_total 1.0",
        'watchlist_reports_per_second{watchlist="ptp"} 3.0',
        'watchlist_extra_sample_bits{watchlist="rdma"} 4.0',
        'watchlist_extra_sample_bits{watchlist="ptp"} 0.0',
        "link_delays_in_force 9.0",
        "link_delays_held 8.0",
        "probes_sent_total 11.0",
        "probes_skipped_total 2.0",
    ):
        assert f"tempotrace_controller_{line}" in lines


def test_status_names_the_ports() -> None:
    """As `deploy topology --json` does."""
    assert status_json(STATE)["cabling"] == {
        "findings": [{"kind": "silent", "ports": ["leaf1:1"], "message": "no light"}],
        "links": {"x": "wrong", "y": "right", "z": "right"},
    }


def test_status_has_rates_and_bits() -> None:
    """By watchlist; 0 bits where it is sampled as in the file."""
    assert status_json(STATE)["sampling"] == {
        "rdma": {"reports_per_second": 250.0, "extra_sample_bits": 4},
        "ptp": {"reports_per_second": 3.0, "extra_sample_bits": 0},
    }


def test_metrics_are_documented() -> None:
    """Each stands in docs/deployment.md, as do the kinds of finding."""
    page = (Path(__file__).parents[4] / "docs/deployment.md").read_text(encoding="utf-8")
    names = re.findall(r"^# TYPE tempotrace_controller_(\w+)", metrics_text(STATE).decode(), re.M)
    words = [*names, *(kind.value for kind in FindingKind)]
    assert "cabling_findings" in names
    assert [word for word in words if f"`{word}`" not in page] == []
