# SPDX-License-Identifier: Apache-2.0
"""Which reports have arrived before, by their content and whatever their numbers say.

A report that the network delivers twice, a capture that is fed again and two captures that overlap
are one and the same thing: content that was taken already. Two reports of one device are never
equal, since their numbers or their stamps differ.
"""

REPORTS_REMEMBERED = 1 << 18
"""Reports, the newest of all senders, of which a repetition is always recognised: four times the
capture of the demo, 0.26 s at a million reports a second. At most 2 * 90 bytes each: 47 MB."""


class SeenReports:
    """The contents of the newest reports; time plays no part in it."""

    def __init__(self, *, remembered: int = REPORTS_REMEMBERED) -> None:
        self._remembered = remembered
        # Two generations: the older one goes as a whole when the younger is full.
        self._younger: set[int] = set()
        self._older: set[int] = set()

    def __len__(self) -> int:
        return len(self._younger) + len(self._older)

    def repeats(self, content: bytes) -> bool:
        """Whether the content has been seen; it counts as seen from now on.

        A 64-bit hash stands for the content: one in 2^46 reports is taken for another.
        """
        digest = hash(content)
        if digest in self._younger:
            return True
        repeated = digest in self._older
        # Again into the younger: what is repeated stays known.
        self._younger.add(digest)
        if len(self._younger) >= self._remembered:
            self._older = self._younger
            self._younger = set()
        return repeated
