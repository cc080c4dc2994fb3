# SPDX-License-Identifier: Apache-2.0
"""What a switch did not do."""


class SwitchError(Exception):
    """A switch did not do what was asked; `str()` is one line naming switch and entry."""

    def __init__(
        self,
        *,
        switch: str,
        message: str,
        where: str | None = None,
        lost: bool = False,
        election_id_taken: bool = False,
    ) -> None:
        super().__init__(switch, message, where)
        self.switch = switch
        self.message = " ".join(message.split())
        self.where = where
        """The entry concerned, if it is one."""
        self.lost = lost
        """The switch is gone or hangs, rather than refuses: what it holds is unknown."""
        self.election_id_taken = election_id_taken
        """Another controller has bid the same election id."""

    def left_at(self, written_count: int, update_count: int) -> "SwitchError":
        """The same with how far writing had come before the request that failed."""
        return SwitchError(
            switch=self.switch,
            message=f"{self.message}; {written_count} of {update_count} updates were written "
            "before that request, apply writes what is missing",
            where=self.where,
            lost=self.lost,
            election_id_taken=self.election_id_taken,
        )

    def __str__(self) -> str:
        place = f"{self.switch}: {self.where}" if self.where else self.switch
        return f"{place}: {self.message}"
