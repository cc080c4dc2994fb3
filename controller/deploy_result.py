# SPDX-License-Identifier: Apache-2.0
"""What a deployment did, and what a comparison found.

Pure values; `client.py` makes them and `deploy_report.py` shows them.
"""

from dataclasses import dataclass

from controller.reconcile import Update
from controller.switch_error import SwitchError


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """What was done to one switch, and what it holds now."""

    name: str
    pipeline_pushed: bool
    inserted: int
    modified: int
    deleted: int
    entries_desired: int
    entries_read_back: int
    drift: tuple[Update, ...]
    """What would still have to be written: empty unless the switch does not hold what it took."""

    @property
    def entries_written(self) -> int:
        """Updates that were sent and accepted."""
        return self.inserted + self.modified + self.deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployResult:
    """Outcome of a deployment, in the order of the fabric's switches."""

    switches: tuple[SwitchResult, ...]
    errors: tuple[SwitchError, ...]

    @property
    def ok(self) -> bool:
        """Every switch holds exactly the desired entries."""
        return not self.errors and not any(switch.drift for switch in self.switches)

    @property
    def entries_written(self) -> int:
        """Updates of all switches."""
        return sum(switch.entries_written for switch in self.switches)

    @property
    def entries_read_back(self) -> int:
        """Entries that all switches hold."""
        return sum(switch.entries_read_back for switch in self.switches)

    @property
    def pipelines_pushed(self) -> int:
        """Switches that got a new pipeline."""
        return sum(switch.pipeline_pushed for switch in self.switches)

    @property
    def drift_count(self) -> int:
        """Updates that are still missing after the deployment."""
        return sum(len(switch.drift) for switch in self.switches)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """Outcome of writing a part of what switches hold."""

    written: dict[str, int]
    """Updates that each switch took, by name; 0 where it held everything already."""
    errors: tuple[SwitchError, ...]

    @property
    def ok(self) -> bool:
        """Every switch took all of its updates."""
        return not self.errors


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDifference:
    """What separates one switch from its desired state."""

    name: str
    pipeline_differs: bool
    pipeline_runs: bool
    """It runs a pipeline, this one or another."""
    entries_desired: int
    updates: tuple[Update, ...]

    @property
    def in_sync(self) -> bool:
        """Nothing would be written."""
        return not self.pipeline_differs and not self.updates


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricDifference:
    """What separates a fabric from its desired state, in the order of its switches."""

    switches: tuple[SwitchDifference, ...]
    errors: tuple[SwitchError, ...]
    left_drained: tuple[str, ...] = ()
    """Switches that others lead around, as a pipeline change does that was ended half-way."""

    @property
    def in_sync(self) -> bool:
        """Every switch was reached and holds exactly the desired entries."""
        return not self.errors and all(switch.in_sync for switch in self.switches)
