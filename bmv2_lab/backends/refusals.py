# SPDX-License-Identifier: Apache-2.0
"""What of a scenario cannot be had on real packets, and why, in one line."""

from bmv2_lab.backends.needs import BackendError
from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.disturbances import ClockStep, Event, NtpFallback, PfcStorm
from bmv2_lab.scenarios.parameters import Topology

NO_PAUSE = "veth ports have no pause frames"
WHY_NOT: dict[str, str] = {
    "stamp_biases": "the kernel stamps at one point of every port",
    "closed_loop": "what feeds the transparent clocks runs in virtual time",
    "boundary_clocks": "switches run no ptp4l here",
    "ptp_over_ethernet": "ptp4l runs unicast over UDP here",
    "plain_spines": "all switches run the program here",
    "lossless": NO_PAUSE,
    "host_clocks": "hosts share the kernel's one clock, and have no GPU",
}
"""By parameter of a scenario."""


def check_supported(scenario: Scenario, backend: str) -> None:
    """BackendError with one line that names everything the backend cannot do, and why."""
    found = refusals(scenario, backend)
    if found:
        raise BackendError(
            f"scenario {scenario.name}: the {backend} backend has no {'; no '.join(found)}; "
            "run it with --backend virtual"
        )


def refusals(scenario: Scenario, backend: str) -> list[str]:
    """What it is and why not: `ClockStep (all switches stamp with the kernel's one clock)`."""
    found = [
        f"{type(event).__name__} ({why})"
        for event in scenario.events
        if (why := _why_no_event(event, backend)) is not None
    ]
    found += [f"{name} ({why})" for name, why in WHY_NOT.items() if getattr(scenario, name)]
    if scenario.congestion.only_at:
        found.append("congestion.only_at (nothing sends background load here)")
    if scenario.topology is not Topology.LEAF_SPINE:
        found.append(f"topology {scenario.topology.value} (only leaf and spine are built here)")
    return found


def _why_no_event(event: Event, backend: str) -> str | None:
    match event:
        case ClockStep():
            return "BMv2 stamps with the kernel's one clock" if backend == "bmv2" else None
        case NtpFallback():
            return "daemons steer no clock here, so none can follow NTP"
        case PfcStorm():
            return NO_PAUSE
        case _:
            return None
