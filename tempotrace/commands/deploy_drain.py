# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy drain` and `undrain`: take links out of use in the file, and back."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from controller.draining import drained_links
from controller.fabric import Fabric
from controller.fabric_drain import with_drained
from controller.fabric_file import load_fabric, load_fabric_and_paths
from controller.fabric_treatment import unequal_treatment
from tempotrace.commands.options import FabricFile
from tempotrace.errors import InputError, one_line_errors

Names = Annotated[
    list[str],
    typer.Argument(help="Links (leaf1:1-spine1:1), or switches: all their links to other ones."),
]


@one_line_errors
def drain(names: Names, fabric: FabricFile = Path("fabric.yaml")) -> None:
    """Take links out of use for routed traffic, in the file; a running `deploy run` follows."""
    _set(fabric, names, drained=True)


@one_line_errors
def undrain(names: Names, fabric: FabricFile = Path("fabric.yaml")) -> None:
    """Take links back into use."""
    _set(fabric, names, drained=False)


def _set(path: Path, names: list[str], *, drained: bool) -> None:
    description, paths = load_fabric_and_paths(path)
    links = _links(description, names)
    wanted = replace(
        description,
        links=tuple(
            replace(link, drained=drained) if link.name in links else link
            for link in description.links
        ),
    )
    changed = [
        one.name for one in description.links if one.name in links and one.drained != drained
    ]
    if changed:
        texts = {one: _text(one) for one in paths}
        new = {
            one: with_drained(text, {*changed}, drained=drained)[0] for one, text in texts.items()
        }
        _replace(path, texts, new, wanted)
    typer.echo(f"{path}: {len(changed)} of {len(links)} links changed")


def _links(fabric: Fabric, names: list[str]) -> set[str]:
    known = {link.name for link in fabric.links}
    switches = {switch.name for switch in fabric.switches}
    found: set[str] = set()
    for name in names:
        if name in known:
            found.add(name)
        elif name in switches:
            found |= drained_links(fabric, [name])
        else:
            raise InputError(f"there is no link or switch {name}")
    return found


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read()


def _replace(path: Path, old: Mapping[Path, str], new: Mapping[Path, str], wanted: Fabric) -> None:
    """All files that change; back again where they do not say then what they should."""
    changed = [one for one in old if old[one] != new[one]]
    for one in changed:
        _write(one, new[one])
    try:
        is_right = load_fabric(path, check=unequal_treatment) == wanted
    except BaseException:
        is_right = False
        raise
    finally:
        if not is_right:
            for one in changed:
                _write(one, old[one])
    if not is_right:
        raise InputError(
            f"{path}: nothing changed: its links share what `drained` would stand in; "
            "write it by hand"
        )


def _write(path: Path, text: str) -> None:
    target = path.resolve()
    new = target.with_name(f"{target.name}.new")
    with new.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    shutil.copymode(target, new)
    new.replace(target)
