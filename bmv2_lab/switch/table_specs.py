# SPDX-License-Identifier: Apache-2.0
"""The fixed part of each table, and its constant entries, from the JSON."""

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.document import reading
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.header_refs import parse_hex
from bmv2_lab.switch.layout import PhvLayout
from bmv2_lab.switch.tables import (
    ConstEntry,
    KeyField,
    Match,
    MatchKind,
    TableSpec,
    lpm_match,
    ternary_match,
)

# P4Runtime counts priorities upward, the JSON downward; constant entries are put above this.
CONST_PRIORITY_TOP = 1 << 24
DEFAULT_SIZE = 1024

_TYPES = ("simple", "indirect", "indirect_ws")
_KINDS = {kind.value: kind for kind in MatchKind} | {"optional": MatchKind.TERNARY}


def table_spec(item: JsonObject, layout: PhvLayout, actions: dict[int, JsonObject]) -> TableSpec:
    """One table of a pipeline; ProgramError names it."""
    where = f"tables[{item.get('name')}]"
    with reading(where):
        kind_of_type = str(item.get("type", "simple"))
        if kind_of_type not in _TYPES:
            raise ProgramError(where, f"unsupported table type {kind_of_type}")
        key = tuple(
            _key_field(part, layout, where)
            for part in item["key"]
            if part["match_type"] != "selector"
        )
        kind = _kind(str(item["match_type"]), where)
        _check_kinds(kind, key, where)
        numbers = tuple(int(number) for number in item["action_ids"])
        for number in numbers:
            if number not in actions:
                raise ProgramError(where, f"unknown action {number}")
        if len(numbers) != len(item["actions"]):
            raise ProgramError(where, "actions and action_ids differ in length")
        profile = item.get("action_profile", item.get("act_prof_name"))
        if profile is None and kind_of_type != "simple":
            raise ProgramError(where, "no action profile is named")
        default = item.get("default_entry") or {}
        entries = item.get("entries") or []
        size = int(item.get("max_size") or DEFAULT_SIZE)
        return TableSpec(
            name=str(item["name"]),
            number=int(item["id"]),
            kind=kind,
            key=key,
            max_size=max(size, len(entries)),
            action_names=tuple(str(name) for name in item["actions"]),
            action_ids=numbers,
            with_counters=bool(item.get("with_counters")),
            support_timeout=bool(item.get("support_timeout")),
            profile=str(profile) if kind_of_type != "simple" else None,
            const_entries=bool(entries),
            default_const=bool(default.get("action_const") or default.get("action_entry_const")),
            direct_meter=item.get("direct_meters"),
            default=_default(default, actions, where),
            entries=_const_entries(entries, key, numbers, actions, where, ranked=_ranked(kind)),
        )


def _ranked(kind: MatchKind) -> bool:
    return kind in (MatchKind.TERNARY, MatchKind.RANGE)


def _kind(name: str, where: str) -> MatchKind:
    try:
        return _KINDS[name]
    except KeyError:
        raise ProgramError(where, f"unsupported match type {name}") from None


def _key_field(part: JsonObject, layout: PhvLayout, where: str) -> KeyField:
    kind, target = _kind(str(part["match_type"]), where), part["target"]
    bits = 1
    if kind is not MatchKind.VALID and target[1] != "$valid$":
        bits = layout.field(target, where)[1].bits
    name = part.get("name") or (target if isinstance(target, str) else ".".join(target))
    mask = part.get("mask")
    return KeyField(
        name=str(name), kind=kind, bits=bits, mask=None if mask is None else parse_hex(str(mask))
    )


def _check_kinds(kind: MatchKind, key: tuple[KeyField, ...], where: str) -> None:
    """An exact or LPM table can only look up such keys."""
    kinds = [part.kind for part in key]
    allowed: set[MatchKind] = {MatchKind.EXACT, MatchKind.VALID}
    if kind is MatchKind.LPM:
        if kinds.count(MatchKind.LPM) != 1:
            raise ProgramError(where, "a table of kind lpm needs one lpm field")
        allowed.add(MatchKind.LPM)
    if not _ranked(kind) and not allowed.issuperset(kinds):
        raise ProgramError(where, f"a table of kind {kind.value} cannot have such a key")


def _arguments(
    entry: JsonObject, actions: dict[int, JsonObject], where: str
) -> tuple[int, tuple[int, ...]]:
    number = int(entry["action_id"])
    if number not in actions:
        raise ProgramError(where, f"unknown action {number}")
    wanted = actions[number]["runtime_data"]
    values = tuple(parse_hex(str(value)) for value in entry["action_data"])
    if len(values) != len(wanted):
        raise ProgramError(where, f"action {actions[number]['name']} takes {len(wanted)} arguments")
    widths = [int(parameter["bitwidth"]) for parameter in wanted]
    return number, tuple(
        value & (1 << bits) - 1 for value, bits in zip(values, widths, strict=True)
    )


def _default(
    entry: JsonObject, actions: dict[int, JsonObject], where: str
) -> tuple[int, tuple[int, ...]] | None:
    return _arguments(entry, actions, f"{where}.default_entry") if entry else None


def _const_entries(
    items: list[JsonObject],
    key: tuple[KeyField, ...],
    action_ids: tuple[int, ...],
    actions: dict[int, JsonObject],
    where: str,
    *,
    ranked: bool,
) -> tuple[ConstEntry, ...]:
    entries: list[ConstEntry] = []
    seen = set()
    for position, item in enumerate(items):
        here = f"{where}.entries[{position}]"
        with reading(here):
            if len(item["match_key"]) != len(key):
                raise ProgramError(here, f"{len(item['match_key'])} fields for {len(key)}")
            match = tuple(
                _const_match(part, field, here)
                for part, field in zip(item["match_key"], key, strict=True)
            )
            number, arguments = _arguments(item["action_entry"], actions, here)
            if number not in action_ids:
                raise ProgramError(here, f"the table has no action {number}")
            priority = CONST_PRIORITY_TOP - int(item.get("priority", 1)) if ranked else 0
            if (match, priority) in seen:
                raise ProgramError(here, "an entry stands twice")
            seen.add((match, priority))
            entries.append(
                ConstEntry(match=match, priority=priority, action_id=number, arguments=arguments)
            )
    return tuple(entries)


def _const_match(part: JsonObject, field: KeyField, where: str) -> Match:
    kind = _kind(str(part["match_type"]), where)
    if kind is not field.kind:
        raise ProgramError(where, f"{field.name} is matched as {field.kind.value}")
    match kind:
        case MatchKind.VALID:
            return Match(int(bool(part["key"])))
        case MatchKind.RANGE:
            return Match(parse_hex(part["start"]), high=parse_hex(part["end"]))
        case MatchKind.EXACT:
            return Match(parse_hex(part["key"]))
        case MatchKind.LPM:
            length = int(part["prefix_length"])
            if not 0 <= length <= field.bits:
                raise ProgramError(where, f"prefix of {length} bits")
            return lpm_match(parse_hex(part["key"]), length, field.bits)
        case MatchKind.TERNARY:
            return ternary_match(parse_hex(part["key"]), parse_hex(part["mask"]))
