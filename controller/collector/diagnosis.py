# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis of the collector consists of, and what it may use as evidence."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, unique

from controller.collector.state import CollectorState
from controller.fabric import Fabric


@unique
class Severity(Enum):
    """How much of the result is missing."""

    ERROR = "error"
    """Nothing usable comes out, of the whole or of a device."""
    WARNING = "warning"
    """Something is missing."""
    OK = "ok"


@unique
class Cause(Enum):
    """What is wrong; the value is what `--json` says."""

    PORT_NOT_BOUND = "port_not_bound"
    PORT_TAKEN = "port_taken"
    NOTHING_ARRIVES = "nothing_arrives"
    DEVICE_SILENT = "device_silent"
    WRONG_PROFILE = "wrong_profile"
    CLOCK_UNIT_WRONG = "clock_unit_wrong"
    STAMPS_REFUSED = "stamps_refused"
    ALL_FILTERED = "all_filtered"
    SOME_REFUSED = "some_refused"
    SAMPLING_DOES_NOT_PAIR = "sampling_does_not_pair"
    KERNEL_DROPS = "kernel_drops"
    REPORTS_LOST = "reports_lost"
    OUTPUT_STALLED = "output_stalled"
    RECENT_START = "recent_start"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that is wrong, or that nothing is."""

    cause: Cause
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    next_step: str
    """What the operator should do or look at next."""

    def to_json(self) -> dict[str, object]:
        """As `--json` and the status page say it."""
        return {
            "cause": self.cause.value,
            "severity": self.severity.value,
            "summary": self.summary,
            "evidence": list(self.evidence),
            "next_step": self.next_step,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PortState:
    """One address that the collector should receive on."""

    host: str
    udp_port: int
    bound: bool
    """By this collector."""
    holders: tuple[str, ...] = ()
    """Other programs that have the port, as `name (pid 123)` as far as the system tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a diagnosis may use."""

    fabric: Fabric
    ports: Sequence[PortState] = ()
    """None for a capture."""
    state: CollectorState | None = None
    """None where no collector runs."""
    state_age_s: float = 0.0
    """How old the state is: it grows while an output makes the collector wait."""
    is_live: bool = True
    """False for a capture: then nothing is still to come."""
