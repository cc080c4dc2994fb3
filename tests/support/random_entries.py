# SPDX-License-Identifier: Apache-2.0
"""Seeded random entries for the tables of any program: whatever its controller might write."""

import random
from collections.abc import Sequence

from finsy.proto import p4i

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.pipeline_info import PipelineInfo, TableInfo
from bmv2_lab.switch.tables import Match, MatchKind, lpm_match

ENTRIES_MAX = 5
ARGUMENTS = (0, 1, 2, 3, 5, 7, 0xFF)


def add_random_entries(
    switch: EmbeddedSwitch, info: PipelineInfo, seed: int | str, words: Sequence[bytes] = ()
) -> None:
    """Some entries and default actions; `words` are values that frames are likely to hold."""
    writer = _Entries(switch, info, random.Random(seed), words)
    for table in info.tables.values():
        # BMv2 takes no entries with a key of the type `error`, which has no width in P4Info.
        has_widths = all(field.bitwidth for field in table.message.match_fields)
        if has_widths and not table.const and not table.spec.entries:
            writer.fill(table)


class _Entries:
    def __init__(
        self,
        switch: EmbeddedSwitch,
        info: PipelineInfo,
        dice: random.Random,
        words: Sequence[bytes],
    ) -> None:
        self._state = switch.state
        self._info = info
        self._dice = dice
        self._words = words

    def fill(self, table: TableInfo) -> None:
        """Entries of one table, and its default action."""
        for number in range(self._dice.randrange(ENTRIES_MAX + 1) if table.fields else 0):
            match = tuple(
                self._match(table, place, field) for place, field in table.fields.values()
            )
            ranked = table.spec.kind in (MatchKind.TERNARY, MatchKind.RANGE)
            try:
                if table.profile is None:
                    name, arguments = self._action(sorted(table.entry_actions))
                    self._state.add_entry(
                        table.name, match, name, arguments, priority=number + 1 if ranked else 0
                    )
                elif not ranked:
                    selected = self._state.profiles[table.profile].with_selector
                    members = self._dice.randrange(1, 5) if selected else 1
                    self._state.add_route(
                        table.name,
                        match,
                        [self._action(sorted(table.entry_actions)) for _ in range(members)],
                    )
            except StateError:  # twice the same key, or full
                continue
        if table.profile is None and not table.spec.default_const and self._dice.random() < 0.5:
            self._state.set_default(table.name, *self._action(sorted(table.default_actions)))

    def _action(self, numbers: list[int]) -> tuple[str, tuple[int, ...]]:
        action = self._info.actions[self._dice.choice(numbers)]
        return action.name, tuple(self._argument(bits) for _, _, bits in action.parameters)

    def _argument(self, bits: int) -> int:
        if self._dice.random() < 0.7:
            return self._dice.choice(ARGUMENTS) & (1 << bits) - 1
        return self._value(bits)

    def _value(self, bits: int) -> int:
        dice, whole = self._dice, (1 << bits) - 1
        if self._words and dice.random() < 0.6:
            return int.from_bytes(dice.choice(self._words), "big") & whole
        return (dice.randrange(8) if dice.random() < 0.5 else dice.getrandbits(bits)) & whole

    def _match(self, table: TableInfo, place: int, field: p4i.MatchField) -> Match:
        part, dice = table.spec.key[place], self._dice
        whole = (1 << part.bits) - 1
        value = self._value(part.bits)
        match part.kind:
            case MatchKind.EXACT:
                return Match(value)
            case MatchKind.VALID:
                return Match(value & 1)
            case MatchKind.LPM:
                return lpm_match(value, dice.randrange(part.bits + 1), part.bits)
            case MatchKind.RANGE:
                low, high = sorted((value, self._value(part.bits)))
                return Match(low, high=high)
            case MatchKind.TERNARY:
                masks = [0, whole]
                if field.match_type == p4i.MatchField.TERNARY:
                    masks += [dice.getrandbits(part.bits), 0xF & whole]
                mask = dice.choice(masks)
                return Match(value & mask, mask)
