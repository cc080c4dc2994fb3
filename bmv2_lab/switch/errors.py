# SPDX-License-Identifier: Apache-2.0
"""The errors of the embedded switch."""

# Names and values in a message come from the document, where they may be of any length.
_MESSAGE_CHARACTERS = 160


def _short(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_CHARACTERS else f"{line[: _MESSAGE_CHARACTERS - 3]}..."


class ProgramError(Exception):
    """The BMv2 JSON holds something that this switch cannot run; names the JSON object."""

    def __init__(self, where: str, message: str) -> None:
        where, message = _short(where), _short(message)
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message


class StateError(Exception):
    """A change of the switch state was refused; `code` is the canonical google.rpc.Code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class AssertionFailed(Exception):
    """A P4 `assert` or `assume` did not hold; BMv2 aborts here."""


# google.rpc.Code values that the switch uses.
OK = 0
CANCELLED = 1
UNKNOWN = 2
INVALID_ARGUMENT = 3
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
OUT_OF_RANGE = 11
UNIMPLEMENTED = 12
INTERNAL = 13
