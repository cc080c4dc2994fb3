# SPDX-License-Identifier: Apache-2.0
"""The status of a collector as JSON: what `/status` serves and `collect status --json` prints."""

from collections.abc import Sequence

from controller.collector.diagnosis import Diagnosis
from controller.collector.state import CollectorState

VERSION = 1
_NS_PER_S = 1_000_000_000


def status_page(diagnoses: Sequence[Diagnosis], state: CollectorState | None) -> dict[str, object]:
    """Diagnoses and the totals behind them; `collector` is null where none runs."""
    page: dict[str, object] = {
        "version": VERSION,
        "diagnoses": [diagnosis.to_json() for diagnosis in diagnoses],
        "collector": None,
    }
    if state is None:
        return page
    counters = state.counters
    page["collector"] = {
        "run": state.run,
        "started_collector_ns": str(state.started_collector_ns),
        "age_s": (state.now_collector_ns - state.started_collector_ns) / _NS_PER_S,
        "loss_before_start": "unknown",
        "received": counters.received,
        "decoded": counters.decoded,
        "duplicates": counters.duplicates,
        "rejected": {reason.value: count for reason, count in counters.rejected.items()},
        "lost": counters.lost,
        "restarts": counters.restarts,
        "packets_complete": counters.complete,
        "packets_incomplete": counters.incomplete,
        "kernel_drops": state.receive.kernel_drops,
        "queue_drops": state.receive.queue_drops,
        "worker_restarts": state.worker_restarts,
        "outputs": {
            name: {
                "acknowledged_parts": output.acknowledged_parts,
                "acknowledged_packets": output.acknowledged_packets,
                "dropped_packets": output.dropped_packets,
                "failed_packets": output.failed_packets,
                "waiting_parts": output.waiting_parts,
            }
            for name, output in state.outputs.items()
        },
    }
    return page
