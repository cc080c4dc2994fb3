# SPDX-License-Identifier: Apache-2.0
"""`link_delay_plan.jsonl`: the link delays that an engine publishes, each with its end.

One file, replaced as a whole with every window; docs/deployment.md has its form.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from controller.ptp_log import PtpLogError, log_lines
from controller.transparent_clock import (
    NO_DELAYS,
    Basis,
    LinkDelayPlan,
    LinkEstimates,
    PortDelay,
    plan_link_delays,
)
from controller.written_delays import instant_of, port_of, scaled_of
from correction.model import ClockKind, FabricModel
from correction.solution import FabricSolution

DELAY_PLAN_VERSION = 1
"""`version` in the header line."""


def replace_file(path: Path, text: bytes) -> None:
    """Replace the file, so that a reader sees the old plan or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(text)
    new.replace(path)


def write_delay_plan(path: Path, plan: LinkDelayPlan) -> None:
    """Replace the plan."""
    replace_file(path, delay_plan_text(plan))


def delay_plan_text(plan: LinkDelayPlan) -> bytes:
    """The file's content."""
    lines: list[dict[str, object]] = [
        {
            "record": "header",
            "version": DELAY_PLAN_VERSION,
            "fabric_constant_scaled_ns": str(plan.fabric_constant_scaled_ns),
            "access_constant_scaled_ns": str(plan.access_constant_scaled_ns),
        }
    ]
    lines += [
        {
            "record": "link_delay",
            "switch": one.switch,
            "ingress_port": one.ingress_port,
            "delay_scaled_ns": str(one.delay_scaled_ns),
            "basis": one.basis.value,
            "valid_to_collector_ns": str(one.valid_to_collector_ns),
        }
        for one in plan.delays
    ]
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def read_delay_plan(path: Path, switches: Collection[str]) -> LinkDelayPlan:
    """Read a plan; switches: the transparent clocks of the fabric. `PtpLogError`, `OSError`."""
    delays: dict[tuple[str, int], PortDelay] = {}
    constants = [0, 0]
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(log_lines(str(path), file.readline), start=1):
            kind = line.text("record")
            if number == 1:
                if kind != "header" or line.integer("version") != DELAY_PLAN_VERSION:
                    raise line.error(
                        "record", f"expected a header of version {DELAY_PLAN_VERSION} first"
                    )
                constants = [
                    scaled_of(line, f"{name}_constant_scaled_ns") for name in ("fabric", "access")
                ]
                continue
            if kind != "link_delay":
                raise line.error("record", "expected link_delay")
            switch, basis = line.text("switch"), line.text("basis")
            if switch not in switches:
                raise line.error("switch", "no transparent clock of the fabric has this name")
            if basis not in {one.value for one in Basis}:
                raise line.error("basis", f"expected one of {', '.join(Basis)}")
            one = PortDelay(
                switch=switch,
                ingress_port=port_of(line),
                delay_scaled_ns=scaled_of(line, "delay_scaled_ns"),
                basis=Basis(basis),
                valid_to_collector_ns=instant_of(line, "valid_to_collector_ns"),
            )
            if (switch, one.ingress_port) in delays:
                raise line.error("ingress_port", "the port comes twice")
            delays[switch, one.ingress_port] = one
    if number == 0:
        raise PtpLogError(str(path), 1, "record", "the file is empty; expected a header line")
    return LinkDelayPlan(
        delays=tuple(delays.values()),
        fabric_constant_scaled_ns=constants[0],
        access_constant_scaled_ns=constants[1],
        switches=tuple(switches),
    )


def publish_link_delays(
    path: Path, solution: FabricSolution, residence_offset_scaled_ns: Mapping[str, int]
) -> LinkDelayPlan:
    """Replace the plan by what follows from a solve, for transparent clocks alone.

    The plan before gives the constants, and the values that hardly moved; one that cannot be read
    any more is made anew.
    """
    plan = following_plan(solution, plan_before(path, solution.model), residence_offset_scaled_ns)
    write_delay_plan(path, plan)
    return plan


def plan_before(path: Path, model: FabricModel) -> LinkDelayPlan:
    """The plan in the file; none where it cannot be read."""
    try:
        return read_delay_plan(path, _transparent(model))
    except (FileNotFoundError, PtpLogError):
        return NO_DELAYS


def following_plan(
    solution: FabricSolution | LinkEstimates,
    previous: LinkDelayPlan,
    residence_offset_scaled_ns: Mapping[str, int],
) -> LinkDelayPlan:
    """The plan of the transparent clocks alone."""
    clocks = _transparent(solution.model)
    plan = plan_link_delays(
        solution, previous=previous, residence_offset_scaled_ns=residence_offset_scaled_ns
    )
    delays = tuple(one for one in plan.delays if one.switch in clocks)
    return replace(plan, delays=delays, switches=clocks)


def _transparent(model: FabricModel) -> tuple[str, ...]:
    return tuple(
        clock.name for clock in model.clocks if clock.kind is ClockKind.SWITCH and clock.transparent
    )
