# SPDX-License-Identifier: Apache-2.0
"""Parser value sets at run time."""

Values = tuple[int, ...]
"""One number per field of the set's key."""


class ValueSet(set[Values]):
    """The members of one value set: exact ones in the set itself, masked ones beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.masked: dict[tuple[Values, Values], None] = {}

    def add_masked(self, values: Values, masks: Values) -> None:
        """A member of which only some bits count."""
        cut = tuple(value & mask for value, mask in zip(values, masks, strict=True))
        self.masked[cut, masks] = None

    def clear(self) -> None:
        """Forget all members."""
        super().clear()
        self.masked.clear()

    def matches(self, values: Values) -> bool:
        """True if a member, exact or masked, takes these values."""
        return values in self or any(
            all(v & m == w for v, m, w in zip(values, masks, wanted, strict=True))
            for wanted, masks in self.masked
        )

    def has_masked(self, values: Values, masks: Values) -> bool:
        """The same where the parser looks at some bits only, of the members as well."""
        cut = [value & mask for value, mask in zip(values, masks, strict=True)]
        exact = any(
            all(w & m == v for w, m, v in zip(member, masks, cut, strict=True)) for member in self
        )
        return exact or any(
            all(v & m == w & n for v, m, w, n in zip(cut, own, wanted, masks, strict=True))
            for wanted, own in self.masked
        )
