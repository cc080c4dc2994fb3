# SPDX-License-Identifier: Apache-2.0
"""States and outcomes of a deployment for people, plans too as JSON values (`plan_report.py`).

Pure. JSON keys are those of the dataclasses; entries and updates appear as the lines that people
read, since they are for reading and comparing, not for sending.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from controller.deploy_result import DeployResult, FabricDifference, SwitchDifference
from controller.reconcile import Operation, Update

JsonValue: TypeAlias = "bool | int | str | list[JsonValue] | dict[str, JsonValue]"


def format_status(difference: FabricDifference) -> str:
    """One line per switch: in sync, or how far from it; then how many are."""
    lines = [f"{switch.name}: {_state(switch)}" for switch in difference.switches]
    lines += [f"error: {error}" for error in difference.errors]
    lines += [
        f"{name}: others lead around it, as in a pipeline change that was ended half-way; "
        "apply or run puts that right"
        for name in difference.left_drained
    ]
    in_sync = sum(switch.in_sync for switch in difference.switches)
    lines.append(f"{in_sync} of {len(difference.switches) + len(difference.errors)} in sync")
    return "\n".join(lines)


def format_result(result: DeployResult) -> str:
    """One line per switch on which something was done or went wrong, and a summary."""
    lines = []
    for switch in result.switches:
        parts = []
        if switch.pipeline_pushed:
            parts.append("pipeline pushed")
        if switch.entries_written:
            parts.append(
                f"{switch.inserted} inserted, {switch.modified} modified, {switch.deleted} deleted"
            )
        if parts:
            lines.append(f"{switch.name}: {', '.join(parts)}")
        lines += [f"{switch.name}: still missing after the write: {u}" for u in switch.drift]
    lines += [f"error: {error}" for error in result.errors]
    lines.append(
        f"{len(result.switches)} switches hold {result.entries_read_back} entries, "
        f"{result.entries_written} written, {result.drift_count} differ"
    )
    return "\n".join(lines)


def difference_json(difference: FabricDifference) -> dict[str, JsonValue]:
    """Plan and status as JSON values."""
    return {
        "in_sync": difference.in_sync,
        "switches": [
            {
                "name": switch.name,
                "in_sync": switch.in_sync,
                "pipeline_differs": switch.pipeline_differs,
                "pipeline_runs": switch.pipeline_runs,
                "entries_desired": switch.entries_desired,
                "updates": [str(update) for update in switch.updates],
            }
            for switch in difference.switches
        ],
        "errors": [str(error) for error in difference.errors],
        "left_drained": list(difference.left_drained),
    }


def result_json(result: DeployResult) -> dict[str, JsonValue]:
    """The outcome of a deployment as JSON values."""
    return {
        "ok": result.ok,
        "entries_written": result.entries_written,
        "entries_read_back": result.entries_read_back,
        "drift_count": result.drift_count,
        "switches": [
            {
                "name": switch.name,
                "pipeline_pushed": switch.pipeline_pushed,
                "inserted": switch.inserted,
                "modified": switch.modified,
                "deleted": switch.deleted,
                "entries_desired": switch.entries_desired,
                "entries_read_back": switch.entries_read_back,
                "drift": [str(update) for update in switch.drift],
            }
            for switch in result.switches
        ],
        "errors": [str(error) for error in result.errors],
    }


def _state(switch: SwitchDifference) -> str:
    if switch.in_sync:
        return f"in sync, {switch.entries_desired} entries"
    if switch.pipeline_differs:
        return "another pipeline" if switch.pipeline_runs else "no pipeline"
    counts = _counts(switch.updates)
    return (
        f"drift: {counts[Operation.INSERT]} missing, {counts[Operation.MODIFY]} changed, "
        f"{counts[Operation.DELETE]} stray"
    )


def _counts(updates: Iterable[Update]) -> Counter[Operation]:
    return Counter(update.operation for update in updates)
