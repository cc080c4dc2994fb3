# SPDX-License-Identifier: Apache-2.0
"""Results of functions of one model, which is never changed, kept for the models in use."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

KEPT = 4
"""Models at a time."""

A = TypeVar("A")
R = TypeVar("R")


def remembered(function: Callable[[A], R]) -> Callable[[A], R]:
    """The function, computed once for each of the newest arguments, told apart by identity.

    The result is shared: it must not be written to.
    """
    known: list[tuple[A, R]] = []

    @wraps(function)
    def recall(argument: A) -> R:
        for one, result in known:
            if one is argument:
                return result
        result = function(argument)
        known.insert(0, (argument, result))
        del known[KEPT:]
        return result

    return recall
