# SPDX-License-Identifier: Apache-2.0
"""Rules that a fabric breaks, and the checks that several sections of the file share."""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from controller.fabric import Fabric, Switch
from controller.fabric_telemetry import LinkEnd
from controller.targets import BMV2, TARGETS, Target
from controller.yaml_positions import KeyPath, format_key


class FabricProblem(NamedTuple):
    """A rule that the fabric breaks; the message says what was expected."""

    path: KeyPath
    message: str


def known(path: KeyPath, name: str, names: Iterable[str], what: str) -> Iterator[FabricProblem]:
    """A problem if the name is none of the names."""
    choices = list(names)
    if name not in choices:
        listed = ", ".join(choices[:8]) + (", ..." if len(choices) > 8 else "")
        yield FabricProblem(path, f"there is no {what} {name!r}; expected one of {listed or '-'}")


def repeats(values: Iterable[tuple[KeyPath, Hashable]], what: str) -> Iterator[FabricProblem]:
    """A problem for every value that stands before already."""
    first_path: dict[Hashable, KeyPath] = {}
    for path, value in values:
        if value in first_path:
            yield FabricProblem(
                path,
                f"{what} {value} is used by {format_key(first_path[value])} already; "
                "expected one that is unique",
            )
        else:
            first_path[value] = path


def target_of(fabric: Fabric, switch_name: str) -> Target:
    """The target of a switch; BMv2 where its model is not declared (a problem of its own)."""
    models = {model.name: TARGETS[model.target] for model in fabric.models}
    switch = next(switch for switch in fabric.switches if switch.name == switch_name)
    return models.get(switch.model, BMV2)


def switch_port(
    path: KeyPath, end: LinkEnd, switch: Switch, target: Target
) -> Iterator[FabricProblem]:
    """A problem if the port is none that a cable can be in."""
    taken = {**target.reserved_ports, switch.cpu_port: "cpu_port"}
    if switch.report_port is not None:
        taken[switch.report_port] = "report_port"
    if end.port in taken:
        yield FabricProblem(
            path, f"port {end} is the {taken[end.port]} of {end.node}; expected a free port"
        )
    else:
        yield from device_port(path, end, target)


def device_port(path: KeyPath, end: LinkEnd, target: Target) -> Iterator[FabricProblem]:
    """A problem if the switch has no such port."""
    if end.port > target.cable_port_max:
        yield FabricProblem(
            path, f"port {end} does not exist; expected a port from 1 to {target.cable_port_max}"
        )
