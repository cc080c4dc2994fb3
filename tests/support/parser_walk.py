# SPDX-License-Identifier: Apache-2.0
"""Seeded random frames for any program: walks of its parser, mutated samples, and noise.

A walk goes through the parser of the BMv2 JSON from state to state: each header that is extracted
becomes random bytes, each transition is chosen, and the fields that it selects on are set to the
value that it wants. So tables and actions behind deep parsers get packets too.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Any

Json = dict[str, Any]

STEPS_MAX = 12
NOISE_BYTES_MAX = 200
PORTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 510)
RANDOM_PORT_SHARE = 0.05
PORT_LIMIT = 511


class _Walk:
    """One frame under construction, as bits."""

    def __init__(self, dice: random.Random, headers: dict[str, Json], types: dict[str, Json]):
        self.dice = dice
        self.headers = headers
        self.types = types
        self.bits = 0
        self.value = 0
        self.places: dict[tuple[str, str], tuple[int, int]] = {}
        """Where a field stands: first bit and width."""

    def append(self, width: int, value: int) -> None:
        self.bits += width
        self.value = self.value << width | value

    def extract(self, parameter: Json) -> None:
        """Random bytes for one header; what cannot be told in advance gets bytes anyway."""
        name = parameter["value"]
        if parameter["type"] == "stack":
            name = f"{name}[0]"
        if not isinstance(name, str) or name not in self.headers:
            self.append(32, self.dice.getrandbits(32))
            return
        for field in self.types[self.headers[name]["header_type"]]["fields"]:
            width = field[1] if isinstance(field[1], int) else 8 * self.dice.randrange(5)
            self.places[name, field[0]] = self.bits, width
            self.append(width, self.number(width))

    def number(self, width: int) -> int:
        """Any value of that width; the smallest and the greatest more often."""
        greatest = (1 << width) - 1
        if self.dice.random() < 0.2:
            return self.dice.choice((0, 1, greatest)) & greatest
        return self.dice.getrandbits(width) if width else 0

    def set_field(self, header: str, field: str, value: int, mask: int) -> None:
        place = self.places.get((header, field))
        if place is None:
            return
        first, width = place
        shift = self.bits - first - width
        mask &= (1 << width) - 1
        self.value = self.value & ~(mask << shift) | (value & mask) << shift

    def choose(self, transitions: Sequence[Json], key: Sequence[Json]) -> str | None:
        """Take one transition, and set what it selects on."""
        if not transitions:
            return None
        chosen = self.dice.choice(transitions)
        if chosen.get("type", "hexstr") == "hexstr" and chosen.get("value") not in (
            None,
            "default",
        ):
            value = int(chosen["value"], 16)
            mask = int(chosen["mask"], 16) if chosen.get("mask") else -1
            for part in reversed(key):
                width = self._set_part(part, value, mask)
                value >>= width
                mask >>= width
        state = chosen["next_state"]
        return state if isinstance(state, str) else None

    def _set_part(self, part: Json, value: int, mask: int) -> int:
        """One field of the key, last first; its width in whole bytes as the JSON pads it."""
        name = part["value"]
        if part["type"] == "field" and name[0] in self.headers:
            self.set_field(name[0], name[1], value, mask)
            fields = self.types[self.headers[name[0]]["header_type"]]["fields"]
            width = next((one[1] for one in fields if one[0] == name[1]), 8)
        elif part["type"] == "stack_field":
            self.set_field(f"{name[0]}[0]", name[1], value, mask)
            stack = self.headers.get(f"{name[0]}[0]", {})
            fields = self.types.get(stack.get("header_type", ""), {}).get("fields", [])
            width = next((one[1] for one in fields if one[0] == name[1]), 8)
        else:
            width = name[1] if part["type"] == "lookahead" else 8
        return (int(width) + 7) // 8 * 8 if isinstance(width, int) else 8

    def frame(self) -> bytes:
        spare = -self.bits % 8
        return (self.value << spare).to_bytes((self.bits + spare) // 8, "big")


class ProgramFrames:
    """Frames for a program; equal seeds give equal frames.

    `samples` are (port, frame) rows that mean something to the program, as of a switch test.
    """

    def __init__(
        self, document: Json, seed: int | str, samples: Iterable[tuple[int, bytes]] = ()
    ) -> None:
        self.dice = random.Random(seed)
        self._samples = list(samples)
        self._headers = {str(item["name"]): item for item in document["headers"]}
        self._types = {str(item["name"]): item for item in document["header_types"]}
        parser = document["parsers"][0]
        self._states = {str(item["name"]): item for item in parser["parse_states"]}
        self._start = parser["init_state"]
        self._words = sorted(constants(document))
        self._ports = sorted({*PORTS, *(port for port, _ in self._samples)})

    def next(self) -> tuple[int, bytes]:
        """A port and a frame."""
        dice = self.dice
        port = dice.choice(self._ports)
        if dice.random() < RANDOM_PORT_SHARE:
            port = dice.randrange(PORT_LIMIT)
        kind = dice.random()
        if self._samples and kind < 0.45:
            sample_port, frame = dice.choice(self._samples)
            port = sample_port if dice.random() < 0.8 else port
        elif kind < 0.85:
            frame = self._walk() + dice.randbytes(dice.choice((0, 0, 1, 4, 20, 64)))
        else:
            frame = dice.randbytes(dice.randrange(NOISE_BYTES_MAX + 1))
        for _ in range(dice.choice((0, 0, 1, 1, 2, 4))):
            frame = self._mutated(frame)
        return port, frame or b"\0"

    def _walk(self) -> bytes:
        walk = _Walk(self.dice, self._headers, self._types)
        name: str | None = self._start
        for _ in range(STEPS_MAX):
            if name is None or name not in self._states:
                break
            state = self._states[name]
            for operation in state["parser_ops"]:
                if str(operation["op"]).startswith("extract"):
                    walk.extract(operation["parameters"][0])
            name = walk.choose(state["transitions"], state["transition_key"])
        return walk.frame()

    def _mutated(self, frame: bytes) -> bytes:
        dice, changed = self.dice, bytearray(frame)
        place = dice.randrange(len(changed) + 1)
        match dice.randrange(6):
            case 0 if changed:
                changed[place % len(changed)] ^= 1 << dice.randrange(8)
            case 1 if changed:
                changed[place % len(changed)] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, place & 0xFF))
            case 2 if self._words:
                word = dice.choice(self._words)
                changed[place : place + len(word)] = word
            case 3:
                changed += dice.randbytes(dice.randrange(40))
            case 4:
                del changed[place:]
            case 5:
                changed[place:place] = dice.randbytes(dice.randrange(8))
        return bytes(changed[:1500])


def constants(document: Any) -> set[bytes]:
    """All numbers that a program names, as big-endian bytes of one, two or four bytes."""
    found: set[bytes] = set()
    waiting = [document]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and item.startswith("0x"):
            try:
                number = int(item, 16)
            except ValueError:
                continue
            size = max(1, (number.bit_length() + 7) // 8)
            if size <= 16:
                found.add(number.to_bytes(size, "big"))
                found.add(number.to_bytes(size + size % 2, "big"))
    return found
