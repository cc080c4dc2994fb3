# SPDX-License-Identifier: Apache-2.0
"""A short run of the lab, its files in a folder: a numbered scenario, a few windows longer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from bmv2_lab.lab_run import LabRun, run_lab_here, write_lab_files
from bmv2_lab.scenarios import SCENARIOS
from tests.support.grpc_loop import in_grpc_loop

NS_PER_MS = 1_000_000


def short_run(out: Path, name: str, *, windows: int = 4, seed: int = 1, **changes: Any) -> LabRun:
    """Run the scenario with traffic in so many seconds, and write its files to `out`."""
    scenario = replace(
        SCENARIOS[name],
        duration_ns=(1_300 + 1_000 * (windows - 1)) * NS_PER_MS,
        window_starts_ns=tuple((300 + 1_000 * n) * NS_PER_MS for n in range(windows)),
        **changes,
    )
    runs: list[LabRun] = []

    @in_grpc_loop
    async def lab() -> None:
        runs.append(await run_lab_here(scenario, seed, lambda _stage, _share: None))

    lab()
    out.mkdir(parents=True, exist_ok=True)
    write_lab_files(runs[0], out)
    return runs[0]
