# SPDX-License-Identifier: Apache-2.0
"""Which reports have arrived before, by their content and whatever their numbers say.

A report that the network delivers twice, a capture that is fed again and two captures that overlap
are one and the same thing: content that was taken already. Two reports of one device are never
equal, since their numbers or their stamps differ. Where only the number differs, the device has
made several reports of one copy (a clone session that was set up twice).
"""

from enum import Enum, unique

_NUMBER_START = {0: 4, 1: 8}
_NUMBER_BYTES = 4
"""The word with the sequence number: the second of a v0.5 report, the third of v1.0, the first of
v2.0 (TR 3.2)."""

REPORTS_REMEMBERED = 1 << 18
"""Reports, the newest of all senders, of which a repetition is always recognised: four times the
capture of the demo, 0.26 s at a million reports a second. At most 2 * 150 bytes each: 79 MB."""


@unique
class Sight(Enum):
    """What is known of a report's content."""

    NEW = "new"
    REPEATED = "repeated"
    """The same datagram, number and all."""
    REPLICA = "replica"
    """The same but for the number, if it holds a stamp; else it may be news."""


class SeenReports:
    """The contents of the newest reports; time plays no part in it."""

    def __init__(self, *, remembered: int = REPORTS_REMEMBERED) -> None:
        self._remembered = remembered
        # Two generations: the older one goes as a whole when the younger is full.
        self._younger: dict[int, bytes] = {}
        self._older: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def look(self, content: bytes) -> Sight:
        """What the content is; it counts as seen from now on.

        A 64-bit hash stands for the content: one in 2^46 reports is taken for another. Of replicas
        the first one's number is remembered.
        """
        digest, number = digest_and_number(content)
        known = self._younger.get(digest)
        if known is None:
            known = self._older.get(digest)
            # Again into the younger: what is repeated stays known.
            self._younger[digest] = number if known is None else known
            if len(self._younger) >= self._remembered:
                self._older = self._younger
                self._younger = {}
        if known is None:
            return Sight.NEW
        return Sight.REPEATED if known == number else Sight.REPLICA


def digest_and_number(content: bytes) -> tuple[int, bytes]:
    """(64-bit hash of all but the word with the sequence number, that word)."""
    start = _NUMBER_START.get(content[0] >> 4, 0) if content else 0
    end = start + _NUMBER_BYTES
    rest = content[:start] + content[end:] if start else content[end:]
    return hash(rest), content[start:end]
