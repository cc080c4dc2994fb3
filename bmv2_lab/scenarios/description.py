# SPDX-License-Identifier: Apache-2.0
"""A scenario as `tempotrace lab list --json` shows it."""

import re
from dataclasses import asdict, fields
from enum import Enum
from typing import Any

from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Scenario

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_TOLD = {"name", "number", "summary", "nuisance", "limits", "estimate_limits", "events"}


def described(scenario: Scenario) -> dict[str, Any]:
    """Purpose, nuisance parameters, all other parameters, what happens, both kinds of limits."""
    values = {
        field.name: getattr(scenario, field.name)
        for field in fields(scenario)
        if field.name not in _TOLD
    }
    return {
        "name": scenario.name,
        "number": scenario.number,
        "purpose": scenario.summary,
        "nuisance": asdict(scenario.nuisance),
        "parameters": {name: _plain(value) for name, value in values.items()},
        "events": [
            {"kind": _CAPITAL.sub("_", type(event).__name__).lower(), **_plain(event)}
            for event in scenario.events
        ],
        "limits": _listed(scenario.limits),
        "estimate_limits": _listed(scenario.estimate_limits),
    }


def _listed(limits: tuple[Limit, ...]) -> list[dict[str, Any]]:
    return [
        {"name": limit.name, "at_least": limit.at_least, "at_most": limit.at_most}
        for limit in limits
    ]


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Dataclasses as mappings, tuples as lists, members of an enumeration by their values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value
