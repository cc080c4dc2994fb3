# SPDX-License-Identifier: Apache-2.0
"""JSON that every parser reads: there is no NaN and no infinity in it, but null with a reason."""

import json
import math
from typing import Any

REASONS_KEY = "null_reasons"
NOT_MEASURED = "not measured: no host or window had data for it"
NOT_BOUNDED = "infinite: nothing bounds it"
REASONS: dict[tuple[str, bool], str] = {
    ("bound_hard_median_ns", True): "infinite: nothing bounds at least half of the readings",
    ("bound_conditional_median_ns", True): "infinite: nothing bounds at least half of the readings",
    ("corrected_error_ns_rms", True): "infinite: a correction was withheld at a window's centre",
    ("corrected_error_ns_max", True): "infinite: a correction was withheld at a window's centre",
    ("corrected_error_ns_rms", False): "not measured: every host is flagged",
    ("corrected_error_ns_max", False): "not measured: every host is flagged",
    ("found", False): "not measured: so the limit is not kept",
}
"""By key and whether the figure is infinite, rather than not a number."""


def with_reasons(document: dict[str, Any]) -> dict[str, Any]:
    """The same with null for every figure that is not finite, and why under `null_reasons`.

    Reasons are by path, such as `sync.bound_hard_median_ns` or `limits[2].found`; without one there
    is no such key.

    >>> with_reasons({"a": [1.5, float("inf")]})
    {'a': [1.5, None], 'null_reasons': {'a[1]': 'infinite: nothing bounds it'}}
    """
    reasons: dict[str, str] = {}
    result = {key: _finite(value, key, key, reasons) for key, value in document.items()}
    if reasons:
        result[REASONS_KEY] = reasons
    return result


def strict_text(document: object, *, sort_keys: bool = False) -> str:
    """Indented JSON; ValueError where a figure is not finite."""
    return json.dumps(document, indent=1, sort_keys=sort_keys, allow_nan=False)


def _finite(value: object, path: str, key: str, reasons: dict[str, str]) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        infinite = math.isinf(value)
        general = NOT_BOUNDED if infinite else NOT_MEASURED
        reasons[path] = REASONS.get((key, infinite), general)
        return None
    if isinstance(value, dict):
        return {name: _finite(one, f"{path}.{name}", name, reasons) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one, f"{path}[{i}]", key, reasons) for i, one in enumerate(value)]
    return value
