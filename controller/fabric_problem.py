# SPDX-License-Identifier: Apache-2.0
"""Rules that a fabric breaks, and the checks that several sections of the file share."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

from controller.fabric import Fabric, Switch
from controller.fabric_telemetry import LinkEnd
from controller.targets import BMV2, TARGETS, Target
from controller.yaml_positions import KeyPath, format_key

NamedIn: TypeAlias = tuple[KeyPath, ...]

ELSEWHERE = "{elsewhere}"
"""Stands in a message for another place of the file."""


class FabricProblem(NamedTuple):
    """A rule that the fabric breaks; the message says what was expected."""

    path: KeyPath
    message: str
    needs: tuple[KeyPath, ...] | None = None
    """Values besides the one at `path` that must be as they were meant for this to be a problem; an
    index `*` stands for all. None: those of the same item."""
    elsewhere: KeyPath | None = None
    """The other place that the message speaks of."""
    missing: tuple[str, NamedIn] | None = None
    """A name that nothing has, and the paths of those that do have names."""

    def text(self, name_of: Callable[[KeyPath], str] = format_key) -> str:
        """The message with the other place as `name_of` calls it."""
        if self.elsewhere is None:
            return self.message
        return self.message.replace(ELSEWHERE, name_of(self.elsewhere))

    @property
    def depends_on(self) -> tuple[KeyPath, ...]:
        """Paths of all values that it follows from."""
        if self.needs is not None:
            return (self.path, *self.needs)
        return (self.path, _item(self.path))


def _item(path: KeyPath) -> KeyPath:
    """The item of a list that the path leads into, or the section."""
    first = next((n for n, step in enumerate(path) if isinstance(step, int)), 0)
    return path[: first + 1]


def known(
    path: KeyPath, name: str, names: Collection[str], what: str, named_in: NamedIn
) -> Iterator[FabricProblem]:
    """A problem if the name is none of the names, which stand at the paths `named_in`."""
    return all_known([(path, name)], names, what, named_in)


def all_known(
    references: Iterable[tuple[KeyPath, str]],
    names: Collection[str],
    what: str,
    named_in: NamedIn,
    expected: str = "",
) -> Iterator[FabricProblem]:
    """A problem for every name that is none of the names, at the first place that has it."""
    missing: dict[str, list[KeyPath]] = {}
    for path, name in references:
        if name not in names:
            missing.setdefault(name, []).append(path)
    if not missing:
        return
    choices = list(islice(names, 9))
    listed = ", ".join(choices[:8]) + (", ..." if len(choices) > 8 else "")
    wanted = expected or f"one of {listed or '-'}"
    for name, paths in missing.items():
        more = f", which stands in {_count(len(paths) - 1, 'more place')}" if paths[1:] else ""
        yield FabricProblem(
            paths[0],
            f"there is no {what} {name!r}{more}; expected {wanted}",
            (),
            missing=(name, named_in),
        )


def _count(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count > 1 else "")


def repeats(
    values: Iterable[tuple[KeyPath, Hashable]], what: str, keys: tuple[str, ...] = ()
) -> Iterator[FabricProblem]:
    """A problem for every value that stands before already.

    keys: of the items, if more of them than the one at the path make up the value.
    """
    first_path: dict[Hashable, KeyPath] = {}
    for path, value in values:
        if value in first_path:
            yield FabricProblem(
                path,
                f"{what} {value} is used by {ELSEWHERE} already; expected one that is unique",
                needs=(
                    first_path[value],
                    *((*_item(one), key) for key in keys for one in (path, first_path[value])),
                ),
                elsewhere=first_path[value],
            )
        else:
            first_path[value] = path


MODEL_TARGETS: tuple[KeyPath, ...] = (("models", "*", "name"), ("models", "*", "target"))
TENANT_NAMES: KeyPath = ("tenants", "*", "name")
SWITCH_NAMES: KeyPath = ("switches", "*", "name")
HOST_NAMES: KeyPath = ("hosts", "*", "name")
LINK_ENDS: tuple[KeyPath, ...] = (("links", "*", "a"), ("links", "*", "b"))


class SwitchIndex:
    """The switches of a fabric by name, with their targets and their places in the file."""

    def __init__(self, fabric: Fabric) -> None:
        self._targets = {model.name: TARGETS[model.target] for model in fabric.models}
        self._places: dict[str, int] = {}
        for place, switch in enumerate(fabric.switches):
            self._places.setdefault(switch.name, place)
        self._switches = fabric.switches

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def place(self, name: str) -> KeyPath:
        """Where the switch stands in the file."""
        return ("switches", self._places[name])

    def switch(self, name: str) -> Switch:
        """The switch of that name."""
        return self._switches[self._places[name]]

    def target(self, name: str) -> Target:
        """Its target; BMv2 where its model is not declared (a problem of its own)."""
        return self._targets.get(self.switch(name).model, BMV2)

    def needs(self, name: str, *keys: str) -> tuple[KeyPath, ...]:
        """What its target and these keys of it follow from."""
        place = self.place(name)
        return (*((*place, key) for key in ("model", *keys)), *MODEL_TARGETS)


def switch_port(path: KeyPath, end: LinkEnd, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """A problem if the port is none that a cable can be in."""
    switch = switches.switch(end.node)
    taken = {**switches.target(end.node).reserved_ports, switch.cpu_port: "cpu_port"}
    if switch.report_port is not None:
        taken[switch.report_port] = "report_port"
    if end.port in taken:
        yield FabricProblem(
            path,
            f"port {end} is the {taken[end.port]} of {end.node}; expected a free port",
            switches.needs(end.node, "cpu_port", "report_port"),
        )
    else:
        yield from device_port(path, end, switches)


def device_port(path: KeyPath, end: LinkEnd, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """A problem if the switch has no such port."""
    port_max = switches.target(end.node).cable_port_max
    if end.port > port_max:
        yield FabricProblem(
            path,
            f"port {end} does not exist; expected a port from 1 to {port_max}",
            switches.needs(end.node),
        )
