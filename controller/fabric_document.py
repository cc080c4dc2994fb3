# SPDX-License-Identifier: Apache-2.0
"""The text of a fabric description: one file, or one that includes others, as one mapping.

Lists of sections are put one after the other, the including file's own first; any other section
stands in one file only. What is wrong is told by file, line and key as they stand there.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controller.fabric import FABRIC_VERSION, FabricFault
from controller.fabric_schema import fabric_schema, shown
from controller.plain_file import require_plain_file
from controller.yaml_positions import KeyPath, PlainValue, YamlDocument, format_key, parse_yaml

INCLUDE = "include"
FILE_COUNT_MAX = 1_000
"""Files of one description: more are taken for a pattern that matches by mistake."""
_GLOB = frozenset("*?[")
_EXPECTED = "a list of files, relative to this one, such as hosts.yaml or links/*.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file that has been read."""

    name: str
    """What errors call it."""
    path: Path
    document: YamlDocument
    order: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The items of a list that a file adds."""

    file: _File
    start: int
    """Items of the list before."""


@dataclass(slots=True, kw_only=True)
class FabricDocument:
    """The sections of all files together."""

    value: PlainValue
    faults: list[FabricFault] = field(default_factory=list)
    """What is wrong with the files as such: YAML, includes, sections given twice."""
    broken: set[KeyPath] = field(default_factory=set)
    """Paths of values that could not be read; () is all of it."""
    files_lost: bool = False
    """Files could not be read, so nobody knows what else there is."""
    _main: _File
    _parts: dict[str, list[_Part]] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that it was read from."""
        parts = (part.file.path for parts in self._parts.values() for part in parts)
        return tuple(dict.fromkeys((self._main.path, *parts)))

    def fault(self, path: KeyPath, message: str) -> FabricFault:
        """The error at this path of `value`."""
        file, local = self._place(path)
        return FabricFault(
            order=file.order,
            path=file.name,
            line=file.document.line_of(local),
            key=format_key(local),
            message=message,
        )

    def path_of(self, path: KeyPath) -> Path:
        """The file in which the value stands."""
        return self._place(path)[0].path

    def key(self, path: KeyPath, seen_from: KeyPath) -> str:
        """The path as an error at another path names it: with its file, if it is another one."""
        file, local = self._place(path)
        here, _ = self._place(seen_from)
        return format_key(local) + ("" if file is here else f" of {file.name}")

    def _place(self, path: KeyPath) -> tuple[_File, KeyPath]:
        parts = self._parts.get(str(path[0]), []) if path else []
        if not parts:
            return self._main, path
        if len(path) < 2 or not isinstance(path[1], int):
            return parts[0].file, path
        part = next(part for part in reversed(parts) if part.start <= path[1] or not part.start)
        return part.file, (path[0], path[1] - part.start, *path[2:])


def read_document(path: str | Path) -> FabricDocument:
    """The file and all that it includes; FabricFault for what cannot be read."""
    return _Reader().read(_text_of(Path(path)), str(path))


def document_of(text: str, name: str) -> FabricDocument:
    """A description in hand, as if it stood in a file of that name."""
    return _Reader().read(text, name)


def _real(path: Path) -> Path:
    """Where links lead; a link that leads to itself is what it is, and cannot be read."""
    return Path(os.path.realpath(path))


def _text_of(path: Path, *, is_included: bool = False) -> "str | _Unreadable":
    try:
        if is_included:
            require_plain_file(path)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return _Unreadable(f"{error.reason}; expected UTF-8 text", line)
    except OSError as error:
        return _Unreadable(f"{error.strerror or error}; expected a fabric description")


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Why a file has no text."""

    message: str
    line: int = 1


class _Reader:
    """Reads files in the order of their inclusion and puts their sections together."""

    def __init__(self) -> None:
        self._faults: list[FabricFault] = []
        self._broken: set[KeyPath] = set()
        self._value: dict[str, PlainValue] = {}
        self._parts: dict[str, list[_Part]] = {}
        self._included_at: dict[Path, str] = {}
        self._files_lost = False
        self._file_count = 0

    def read(self, text: "str | _Unreadable", name: str) -> FabricDocument:
        path = Path(name)
        main = self._open(text, name, path)
        if main.document.broken == {()} or not isinstance(main.document.value, dict):
            return FabricDocument(
                value=main.document.value,
                faults=self._faults,
                broken=main.document.broken,
                _main=main,
            )
        self._included_at[_real(path)] = f"{name}, the file itself"
        self._add(main, (_real(path),))
        return FabricDocument(
            value=self._value,
            faults=self._faults,
            broken=self._broken,
            files_lost=self._files_lost,
            _main=main,
            _parts=self._parts,
        )

    def _open(self, text: "str | _Unreadable", name: str, path: Path) -> _File:
        order = self._file_count
        self._file_count += 1
        if isinstance(text, _Unreadable):
            self._faults.append(
                FabricFault(
                    order=order, path=name, line=text.line, key="(file)", message=text.message
                )
            )
            document = YamlDocument(value=None, broken={()})
        else:
            document = parse_yaml(text)
        self._faults += [
            FabricFault(order=order, path=name, line=one.line, key=one.key, message=one.message)
            for one in document.problems
        ]
        return _File(name=name, path=path, document=document, order=order)

    def _add(self, file: _File, ancestors: tuple[Path, ...]) -> None:
        value = file.document.value
        assert isinstance(value, dict)
        starts: dict[str, int] = {}
        for key, item in value.items():
            if key == INCLUDE:
                continue
            if key == "version" and file.order:
                self._check_version(file, item)
                continue
            starts[key] = self._add_section(file, key, item)
        for path in file.document.broken:
            if path[:1] != (INCLUDE,):
                self._broken.add(_shifted(path, starts))
        if INCLUDE in value:
            self._include(file, value[INCLUDE], ancestors)

    def _add_section(self, file: _File, key: str, item: PlainValue) -> int:
        """Append a list, or take a section that no file had before; the place of its first item."""
        parts = self._parts.setdefault(key, [])
        present = self._value.get(key)
        if not parts:
            self._value[key] = list(item) if isinstance(item, list) else item
            parts.append(_Part(file, 0))
            return 0
        if isinstance(present, list) and isinstance(item, list):
            start = len(present)
            present += item
            if item:
                parts.append(_Part(file, start))
            return start
        before = parts[0].file
        if (key,) in file.document.broken or (key,) in before.document.broken:
            return 0  # it may well be a list there: what is wrong with it is told already
        self._fault(
            file,
            (key,),
            f"{before.name}:{before.document.line_of((key,))} has the section already; "
            "expected it once, or lists in both files",
        )
        return 0

    def _check_version(self, file: _File, item: PlainValue) -> None:
        if item != FABRIC_VERSION or isinstance(item, bool):
            what = fabric_schema()["properties"]["version"]["description"]
            self._fault(file, ("version",), f"{shown(item)} is not valid; expected {what}")

    def _include(self, file: _File, wanted: PlainValue, ancestors: tuple[Path, ...]) -> None:
        if not isinstance(wanted, list):
            self._lost(
                file, (INCLUDE,), f"{shown(wanted)} has the wrong type; expected {_EXPECTED}"
            )
            return
        if not wanted:
            self._fault(file, (INCLUDE,), f"the list is empty; expected {_EXPECTED}")
        for index, pattern in enumerate(wanted):
            for path in self._matches(file, pattern, (INCLUDE, index)):
                self._include_file(file, path, (INCLUDE, index), ancestors)

    def _matches(self, file: _File, pattern: PlainValue, at: KeyPath) -> Iterator[Path]:
        """Paths of the files that an item of `include` names, in the order of their names."""
        if not isinstance(pattern, str) or not pattern.strip() or Path(pattern).is_absolute():
            self._lost(file, at, f"{shown(pattern)} is not valid; expected {_EXPECTED}")
            return
        folder = file.path.parent
        if not _GLOB & set(pattern):
            yield folder / pattern
            return
        try:
            found = sorted(path for path in folder.glob(pattern) if path.is_file())
        except (ValueError, NotImplementedError, OSError) as error:
            self._lost(file, at, f"{shown(pattern)} is not valid: {error}; expected {_EXPECTED}")
            return
        if not found:
            self._lost(file, at, f"{shown(pattern)} matches no file; expected at least one")
        yield from found

    def _include_file(
        self, file: _File, path: Path, at: KeyPath, ancestors: tuple[Path, ...]
    ) -> None:
        real = _real(path)
        if real in ancestors:
            self._fault(
                file, at, f"{path} includes itself by way of this file; expected no such circle"
            )
            return
        if real in self._included_at:
            self._fault(
                file,
                at,
                f"{path} is included already, by {self._included_at[real]}; expected it once",
            )
            return
        if self._file_count >= FILE_COUNT_MAX:
            self._lost(file, at, f"{path} is one too many; expected at most {FILE_COUNT_MAX} files")
            return
        line = file.document.line_of(at)
        self._included_at[real] = f"{file.name}:{line}"
        text = _text_of(path, is_included=True)
        if isinstance(text, _Unreadable):
            self._lost(file, at, f"{path}: {text.message}")
            return
        included = self._open(text, str(path), path)
        if included.document.broken == {()}:
            self._files_lost = True
        elif isinstance(included.document.value, dict):
            self._add(included, (*ancestors, real))
        else:
            found = shown(included.document.value)
            self._files_lost = True
            self._fault(
                included, (), f"{found} has the wrong type; expected a mapping with sections"
            )

    def _lost(self, file: _File, at: KeyPath, message: str) -> None:
        """An error because of which nobody knows what the file would have added."""
        self._files_lost = True
        self._fault(file, at, message)

    def _fault(self, file: _File, at: KeyPath, message: str) -> None:
        self._faults.append(
            FabricFault(
                order=file.order,
                path=file.name,
                line=file.document.line_of(at),
                key=format_key(at),
                message=" ".join(message.split()),
            )
        )


def _shifted(path: KeyPath, starts: dict[str, int]) -> KeyPath:
    """A path of one file in the sections of all."""
    if len(path) > 1 and isinstance(path[1], int):
        return (path[0], path[1] + starts.get(str(path[0]), 0), *path[2:])
    return path
