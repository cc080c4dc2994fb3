# SPDX-License-Identifier: Apache-2.0
"""What leaves a switch, without what P4 leaves open: stamps, and fields of headers that are absent.

The embedded switch runs several times, with all of that zero, all ones and random. What the results
have in common is defined, bit by bit.
"""

import random
from typing import Any

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted

Frames = list[tuple[int, bytes]]

PASSES_MAX = 200


class Variant:
    """An embedded switch of which everything that no program may rely on has one value.

    That is stamps, and what the fields of a header hold that was not parsed: BMv2 leaves there what
    an earlier packet had.
    """

    def __init__(self, switch: EmbeddedSwitch, dice: random.Random | None, fill: int) -> None:
        self.switch = switch
        self._dice = dice
        self._fill = fill
        template = switch.namespace["template"]
        for number, width in _header_slots(switch):
            template[number] = self.bits(width)

    def bits(self, width: int) -> int:
        """A value of that width that means nothing."""
        if self._dice is not None:
            return self._dice.getrandbits(width)
        return self._fill & (1 << width) - 1

    def send(self, port: int, frame: bytes) -> Frames:
        """What leaves with empty queues, in the order in which it does."""
        stamps = {
            "enq_timestamp": self.bits(32),
            "deq_timedelta": self.bits(32),
            "egress_tstamp": self.bits(48),
            "enq_qdepth": self.bits(19),
            "deq_qdepth": self.bits(19),
        }
        waiting: list[EgressCopy] = list(self.switch.ingress(frame, port, self.bits(48)))
        sent: Frames = []
        for _ in range(PASSES_MAX):
            if not waiting:
                break
            for output in self.switch.egress(waiting.pop(0), **stamps):
                if isinstance(output, Emitted):
                    sent.append((output.port, output.frame))
                else:
                    waiting.append(output)
        return sent


class _Template(list[Any]):
    """What new packets are copied from; remembers the newest copy."""

    newest: list[Any] | None = None

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.newest = found
        return found


class StaleVariant(Variant):
    """As BMv2: fields of a header that is not there hold what the packet before had in them."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        super().__init__(switch, None, 0)
        self._template = _Template(switch.namespace["template"])
        switch.namespace["template"] = self._template
        self._slots = [number for number, _ in _header_slots(switch, varbits=True)]

    def send(self, port: int, frame: bytes) -> Frames:
        """The same, and keep the fields for the next packet."""
        sent = super().send(port, frame)
        packet = self._template.newest
        assert packet is not None
        for number in self._slots:
            self._template[number] = packet[number]
        return sent


def _header_slots(switch: EmbeddedSwitch, *, varbits: bool = False) -> list[tuple[int, int]]:
    """Slot and width of all words of headers."""
    return sorted(
        {
            (header.base + piece.slot, piece.container_bits)
            for header in switch.program.layout.headers.values()
            if not header.metadata
            for item in header.type.by_index
            if varbits or not item.varbit
            for piece in item.pieces
        }
    )


def agree(results: list[Frames], theirs: Frames) -> bool:
    """Whether BMv2 sent what all results have in common."""
    if shape(results[0]) != shape(theirs):
        return False
    left = list(theirs)
    for rows in zip(*results, strict=True):
        out_port, mask = rows[0][0], _common([row[1] for row in rows])
        wanted = _and(rows[0][1], mask)
        same = (row for row in left if row[0] == out_port and _and(row[1], mask) == wanted)
        found = next(same, None)
        if found is None:
            return False
        left.remove(found)
    return True


def shape(rows: Frames) -> list[tuple[int, int]]:
    """Ports and lengths."""
    return sorted((port, len(frame)) for port, frame in rows)


def _common(frames: list[bytes]) -> bytes:
    """The bits in which frames of one length agree."""
    first, *others = (int.from_bytes(frame, "big") for frame in frames)
    differing = 0
    for other in others:
        differing |= first ^ other
    size = len(frames[0])
    return ((1 << 8 * size) - 1 ^ differing).to_bytes(size, "big")


def _and(data: bytes, mask: bytes) -> bytes:
    if len(data) != len(mask):
        return data
    size = len(data)
    both = int.from_bytes(data, "big") & int.from_bytes(mask, "big")
    return both.to_bytes(size, "big")


def text_of(rows: Frames) -> str:
    return "; ".join(f"{port}: {frame.hex()}" for port, frame in sorted(rows)) or "nothing"
