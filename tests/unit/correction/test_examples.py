# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of `correction` run."""

import doctest

import pytest

from correction import exchange, timebase


@pytest.mark.parametrize("module", [exchange, timebase])
def test_docstring_examples_hold(module) -> None:
    """Every example gives the value that its docstring shows."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
