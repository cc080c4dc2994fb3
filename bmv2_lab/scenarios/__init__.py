# SPDX-License-Identifier: Apache-2.0
"""Named scenarios: parameters of a virtual fabric, its traffic and its faults."""

from bmv2_lab.scenarios.catalogue import NUMBERED, SCENARIOS, scenario_by_name
from bmv2_lab.scenarios.parameters import ClosedLoop, Congestion, Scenario, Traffic

__all__ = [
    "NUMBERED",
    "SCENARIOS",
    "ClosedLoop",
    "Congestion",
    "Scenario",
    "Traffic",
    "scenario_by_name",
]
