# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a fabric file, by file, line and key."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FabricFault:
    """One thing that is wrong with a fabric file; sorts in the order of files and lines."""

    order: int = 0
    """Of the file among those of the description."""
    line: int
    path: str
    key: str
    message: str
    """What is wrong and what was expected, on one line."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.key}: {self.message}"


class FabricError(Exception):
    """A fabric file that cannot be used; `str()` is a line per fault, in the order of the file."""

    def __init__(self, faults: Iterable[FabricFault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))
