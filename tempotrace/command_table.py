# SPDX-License-Identifier: Apache-2.0
"""All commands by name. A command's module is imported when that command runs, and no other's:
what decodes, solves, serves and simulates takes seconds to load together."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Late:
    """Where a command is, and its line in `--help`, which its own help begins with."""

    name: str
    help: str
    grouped: bool = True
    """It has sub-commands, in the module's `app`; else it is the function of that name."""

    def load(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        module = import_module(f"tempotrace.commands.{self.name}")
        holder = typer.Typer()
        if self.grouped:
            holder.add_typer(module.app, name=self.name)
        else:
            holder.command(self.name)(getattr(module, self.name))
        found = get_group(holder).commands[self.name]
        assert isinstance(found, TyperCommand | TyperGroup)
        return found


TABLE = (
    Late(
        "demo",
        "Bring everything up, show what it finds, then serve API and page until Ctrl-C.",
        grouped=False,
    ),
    Late("lab", "The lab: list scenarios, run one."),
    Late("p4", "The P4 pipeline: check, build, info."),
    Late("deploy", "Program the switches over P4Runtime."),
    Late("collect", "Decode telemetry reports; show counts, losses and rejections."),
    Late("correct", "Estimate clocks and asymmetries."),
    Late("clock", "A host's own clocks: read them in pairs, take pairs from logs."),
    Late(
        "serve",
        "Serve OTLP ingest, API and page until Ctrl-C; corrections of a recording, or live ones.",
        grouped=False,
    ),
    Late("token", "Tokens of the tracing service."),
    Late("trace", "Spans: import, export, list, show."),
    Late("job", "Training jobs: list, show, step."),
    Late(
        "attribute",
        "Name the hop, link or host that made a transfer slow, or say why that cannot be told.",
        grouped=False,
    ),
    Late(
        "verify",
        "Check every claim of a certificate: which clocks are determined, and why the others are "
        "not.",
        grouped=False,
    ),
    Late("bench", "Measure speed."),
)


class LateCommand(TyperCommand):
    """Stands for a command until somebody wants to run it or reads its help."""

    def __init__(self, late: Late) -> None:
        super().__init__(name=late.name, help=late.help)
        self._late = late

    def make_context(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - typer's own types
        """A context of the command itself: what is invoked is that one."""
        return self._late.load().make_context(*args, **extra)


class CommandTable(TyperGroup):
    """The group of all commands of TABLE."""

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(**attributes)
        for late in TABLE:
            self.add_command(LateCommand(late))
