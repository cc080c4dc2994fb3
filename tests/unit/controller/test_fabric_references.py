# SPDX-License-Identifier: Apache-2.0
"""`ptp.references` and stamp points without an uncertainty, from the file to the model."""

import math
from dataclasses import replace

import pytest

from controller.fabric import PtpRole, ReferenceClock
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_model import fabric_model
from correction.hard import stamp_slack_ns
from correction.model import UNCALIBRATED_NS, ClockKind
from tests.support.fabric_faults import faults_of

FABRIC = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
TEXT = dump_fabric(FABRIC)


def with_references(text: str) -> str:
    """The file with this list under `ptp`."""
    return TEXT.replace("ptp:\n", f"ptp:\n  references: {text}\n", 1)


def test_references_reach_the_model_with_their_clock() -> None:
    """A limit that is left out is infinite; without the key there are none."""
    fabric = parse_fabric(
        with_references("[{clock: h1, sd_ns: 5, hard_ns: 40}, {clock: h3, sd_ns: 9}]")
    )
    first, second = fabric_model(fabric).references
    names = [clock.name for clock in fabric_model(fabric).clocks]
    assert (names[first.clock], first.sd_ns, first.hard_ns) == ("h1", 5.0, 40.0)
    assert (names[second.clock], second.sd_ns, second.hard_ns) == ("h3", 9.0, math.inf)
    assert fabric_model(FABRIC).references == ()


def test_references_are_written_as_they_are_read() -> None:
    """load(dump(fabric)) is the fabric."""
    references = (
        ReferenceClock(clock="h1", sd_ns=5.0, hard_ns=40.0),
        ReferenceClock(clock="h2", sd_ns=2.5),
    )
    fabric = replace(FABRIC, ptp=replace(FABRIC.ptp, references=references))
    assert parse_fabric(dump_fabric(fabric)) == fabric


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[]", "ptp.references"),
        ("[{clock: h1, sd_ns: 0}]", "ptp.references[0].sd_ns"),
        ("[{clock: nobody, sd_ns: 5}]", "ptp.references[0].clock"),
        ("[{clock: h1, sd_ns: 5}, {clock: h1, sd_ns: 5}]", "ptp.references[1].clock"),
        ("[{clock: h1}]", "ptp.references[0].sd_ns"),
    ],
)
def test_a_wrong_reference_is_named(text: str, key: str) -> None:
    """Line and key of what cannot be."""
    assert [fault.key for fault in faults_of(with_references(text))] == [key]


def test_a_point_without_uncertainty_is_not_calibrated() -> None:
    """It is taken as off by up to 500 ns, which the hard bound pays in full."""
    text = TEXT.replace("uncertainty_ns: 3, ", "", 1)
    fabric = parse_fabric(text)
    point = fabric.models[0].stamp_points[0].ingress
    assert (point.calibrated, point.uncertainty_ns) == (False, UNCALIBRATED_NS)
    assert fabric.models[0].stamp_points[0].egress.calibrated
    assert parse_fabric(dump_fabric(fabric)) == fabric

    model, before = fabric_model(fabric), fabric_model(FABRIC)
    wider = [
        stamp_slack_ns(link, model, reverse=False) - stamp_slack_ns(old, before, reverse=False)
        for link, old in zip(model.links, before.links, strict=True)
        if not link.access
    ]
    assert set(wider) == {UNCALIBRATED_NS - 3}


def test_switches_with_the_role_are_boundary_clocks_of_the_model() -> None:
    """With the address that PTP knows them by; without the role there are none."""
    models = tuple(
        replace(model, ptp_role=PtpRole.BOUNDARY_CLOCK) if model.kind is ClockKind.SWITCH else model
        for model in FABRIC.models
    )
    model = fabric_model(replace(FABRIC, models=models))
    found = {(model.clocks[one.switch].name, one.ip) for one in model.boundary_clocks}
    assert found == {(switch.name, switch.ip) for switch in FABRIC.switches}
    assert fabric_model(FABRIC).boundary_clocks == ()


def test_a_measured_asymmetry_reaches_the_model() -> None:
    """Written as it is read, and 0 where it is left out."""
    first = replace(FABRIC.links[0], asymmetry_ns=-60.5)
    fabric = replace(FABRIC, links=(first, *FABRIC.links[1:]))
    assert parse_fabric(dump_fabric(fabric)) == fabric
    assert [link.asymmetry_ns for link in fabric_model(fabric).links[:2]] == [-60.5, 0.0]
