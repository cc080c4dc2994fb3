# SPDX-License-Identifier: Apache-2.0
"""Texts of `log_msg`."""

import re

_PLACE = re.compile(r"(?<!\\)\{[^}]*\}")


def fill_message(text: str, values: tuple[int, ...]) -> str:
    r"""The text with values in it: `{}` stands for the next one, `\{` and `\}` for brackets.

    >>> fill_message("port {} of {}", (3, 8))
    'port 3 of 8'
    """
    waiting = iter(values)
    filled = _PLACE.sub(lambda found: str(next(waiting, found[0])), text)
    return filled.replace("\\{", "{").replace("\\}", "}")
