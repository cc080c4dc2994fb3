# SPDX-License-Identifier: Apache-2.0
"""Why are there no reports? What a collector's counters and samples say is wrong, and what to do.

Pure: evidence in, diagnoses out, the gravest first. Each says what was seen, in numbers, and the
next step.
"""

from controller.collector.diagnosis import Cause, Diagnosis, Evidence, Severity
from controller.collector.status_checks import CHECKS, ports
from controller.telemetry.topology import telemetry_fabric


def diagnose(evidence: Evidence) -> list[Diagnosis]:
    """What is wrong, the gravest first; `HEALTHY` alone when nothing is."""
    found = [*ports(evidence)]
    if evidence.state is not None:
        view = telemetry_fabric(evidence.fabric)
        for check in CHECKS:
            found += check(evidence, evidence.state, view)
    found.sort(key=lambda item: item.severity is not Severity.ERROR)
    if any(item.cause is not Cause.RECENT_START for item in found) or evidence.state is None:
        return found
    counters = evidence.state.counters
    healthy = Diagnosis(
        cause=Cause.HEALTHY,
        severity=Severity.OK,
        summary="Reports arrive and join into whole paths.",
        evidence=(
            f"{counters.decoded} of {counters.received} datagrams decoded",
            f"{counters.complete} packets with their whole path",
        ),
        next_step="Nothing to do.",
    )
    return [healthy, *found]
