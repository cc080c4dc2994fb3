# SPDX-License-Identifier: Apache-2.0
"""Named scenarios: parameters of a virtual fabric, its traffic and its faults."""

from bmv2_lab.scenarios.catalogue import SCENARIOS, scenario_by_name
from bmv2_lab.scenarios.parameters import ClosedLoop, Congestion, Scenario

__all__ = ["SCENARIOS", "ClosedLoop", "Congestion", "Scenario", "scenario_by_name"]
