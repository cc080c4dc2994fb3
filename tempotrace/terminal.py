# SPDX-License-Identifier: Apache-2.0
"""Text for people, as wide as their terminal."""

import shutil
import sys
import textwrap

_HANGING = 4
"""Columns by which the rest of a long line is indented further than its beginning."""
_WIDTH_MIN = 40
"""Narrower than this nothing is readable anyway."""


def fitted(text: str) -> str:
    """The text with lines as wide as the terminal; as it is where output goes to a file or pipe."""
    if not sys.stdout.isatty():
        return text
    return fitted_to(text, shutil.get_terminal_size().columns)


def fitted_to(text: str, width: int) -> str:
    """The text with lines of at most so many columns, broken between words.

    >>> print(fitted_to("  ! one two three four five six seven eight nine ten", 40))
      ! one two three four five six seven
          eight nine ten
    """
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + _HANGING)
        lines += textwrap.wrap(
            line,
            max(width, _WIDTH_MIN),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        ) or [line]
    return "\n".join(lines)
