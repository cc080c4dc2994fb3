# SPDX-License-Identifier: Apache-2.0
"""JSON without NaN and infinities (RFC 8259, clause 6)."""

import json
import math

import pytest

from tempotrace.strict_json import strict_text, with_reasons


def test_a_figure_that_is_not_finite_is_null_with_a_reason() -> None:
    """By its path, list places included; the reason tells an infinite figure from a missing one."""
    document = {
        "sync": {"bound_hard_median_ns": math.inf, "corrected_error_ns_rms": 7.5},
        "limits": [{"found": 1.0}, {"found": math.nan}],
        "seed": 3,
    }
    result = with_reasons(document)
    assert result["sync"] == {"bound_hard_median_ns": None, "corrected_error_ns_rms": 7.5}
    assert result["limits"] == [{"found": 1.0}, {"found": None}]
    reasons = result["null_reasons"]
    assert set(reasons) == {"sync.bound_hard_median_ns", "limits[1].found"}
    assert reasons["sync.bound_hard_median_ns"].startswith("infinite")
    assert reasons["limits[1].found"].startswith("not measured")
    assert json.loads(strict_text(result)) == result


def test_finite_documents_stay_as_they_are() -> None:
    """Nothing is added where nothing is missing, and null of itself needs no reason here."""
    document = {"a": [1, 2.5], "b": None, "c": {"d": "x"}}
    assert with_reasons(document) == document


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_strict_text_refuses_what_is_no_json(value: float) -> None:
    """A writer that forgot to take it out fails, and no reader has to."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        strict_text({"value": value})
