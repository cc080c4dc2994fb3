# SPDX-License-Identifier: Apache-2.0
"""Attributes as plain JSON values that every reader takes: large integers are text."""

import base64
import math
from collections.abc import Mapping
from typing import Any

from tracing_core.model import Attributes, AttributeValue

EXACT_MAX = 2**53
"""Integers beyond it lose digits in readers whose numbers are doubles."""


def plain_attributes(values: Attributes) -> dict[str, Any]:
    """Attributes as plain JSON values."""
    return {key: plain_value(value) for key, value in values.items()}


def plain_value(value: AttributeValue) -> Any:  # noqa: ANN401 - any JSON value
    """One value: bytes as base64, large integers and non-finite numbers as text."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [plain_value(item) for item in value]
        case Mapping():
            return plain_attributes(value)
        case int() if abs(value) > EXACT_MAX:
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value
