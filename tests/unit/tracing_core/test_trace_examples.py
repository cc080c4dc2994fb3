# SPDX-License-Identifier: Apache-2.0
"""Examples in docstrings of importers, exports and forwarding are right."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "tracing_core.clock_domains",
        "tracing_core.importers.numbers",
        "tracing_core.importers.trace_events",
        "tracing_core.export.wire",
        "tracing_core.otlp.retry",
        "tracing_core.service.forward",
        "tracing_core.service.jaeger_query",
        "tempotrace.forwarding",
    ],
)
def test_examples_in_docstrings_hold(name):
    """Each module has some, and none fails."""
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
