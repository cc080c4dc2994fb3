# SPDX-License-Identifier: Apache-2.0
"""Expressions that a slot of the packet holds already, while code is written.

The compiler repeats an expression wherever a variable that holds it is used. While none of its
operands changes, the slot is read instead.
"""

import re
from dataclasses import dataclass

from bmv2_lab.switch.stores import ContainerStore, HeaderFill, Line, in_brackets

# Shorter expressions are computed as fast as a slot is read.
_LENGTH_MIN = 24
_FACTS_MAX = 16
_SLOT = re.compile(r"P\[(\d+)\]")
_PLAIN = re.compile(r"[\dxa-f\[\]P()+\-*&|^~<> ]+")
_ONE = re.compile(r"P\[(\d+)\] [+\-|&]?= ")
_RANGE = re.compile(r"P\[(\d+):(\d+)\] = ")
_WRITES = re.compile(r"P\[[^\]]*\] [+\-|&]?=[^=]|\(P\b|, P\)")


@dataclass(frozen=True, slots=True)
class _Fact:
    text: str
    target: str
    slots: frozenset[int]  # operands and target: a write to one of them ends the fact


class KnownValues:
    """What is known at the place where the writer is."""

    def __init__(self) -> None:
        self._facts: list[_Fact] = []
        self._depth = 0

    def at(self, depth: int) -> None:
        """Writing goes on at a depth; what was found in a branch ends with it."""
        if depth < self._depth:
            self._facts.clear()
        self._depth = depth

    def use(self, text: str) -> str:
        """The text with reads of slots in place of what they hold."""
        for fact in self._facts:
            text = text.replace(fact.text, fact.target)
        return text

    def written(self, line: Line) -> None:
        """Forget what a line changes."""
        if isinstance(line, HeaderFill):
            self._forget(line.base, line.base + line.slots)
            for number in (line.length_slot, *line.invalidated):
                self._forget(number, number + 1)
        elif isinstance(line, ContainerStore):
            if line.number is None:
                self._facts.clear()
            else:
                self._forget(line.number, line.number + 1)
        elif found := _ONE.match(line):
            self._forget(int(found[1]), int(found[1]) + 1)
        elif found := _RANGE.match(line):
            self._forget(int(found[1]), int(found[2]))
        elif line.startswith(("for ", "while ", "def ")) or _WRITES.search(line):
            self._facts.clear()

    def _forget(self, first: int, end: int) -> None:
        self._facts = [f for f in self._facts if not any(first <= n < end for n in f.slots)]

    def learn(self, store: ContainerStore) -> None:
        """A whole container holds the value of one expression from now on."""
        if store.number is None or store.written != store.full or len(store.values) != 1:
            return
        (text,) = store.values
        if store.constant or len(text) < _LENGTH_MIN or not _PLAIN.fullmatch(text):
            return
        if not in_brackets(text):
            return
        operands = {int(number) for number in _SLOT.findall(text)}
        if store.number not in operands and len(self._facts) < _FACTS_MAX:
            self._facts.append(_Fact(text, store.target, frozenset({store.number, *operands})))
