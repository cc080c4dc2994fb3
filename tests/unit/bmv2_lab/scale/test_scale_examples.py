# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of the large-scale simulator run."""

import doctest
from types import ModuleType

import pytest

from bmv2_lab.scale import delays, messages, paths, ports


@pytest.mark.parametrize("module", [delays, messages, paths, ports])
def test_docstring_examples_hold(module: ModuleType) -> None:
    """Every example gives the value that its docstring shows."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
