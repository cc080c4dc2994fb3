# SPDX-License-Identifier: Apache-2.0
"""A large run's files, and the same as arrays in memory for the correction engine.

A folder holds `fabric.yaml` and `truth.json` as a lab run does, and arrays in `.npz` files with the
record types of `correction.records`, `messages` and `run`: `chunk-NNNN.npz` (packets, hops,
transfers), `ptp.npz` (exchanges, adjustments by clock, true delays) and `ranks.npz`. Chunks are
written as they are made, so that memory does not grow with the run's length.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.lab_run import FABRIC_FILE, SPANS_FILE, TRUTH_FILE
from bmv2_lab.scale.describe import fabric_model_of, fabric_of
from bmv2_lab.scale.messages import Transfers
from bmv2_lab.scale.records import joined
from bmv2_lab.scale.run import Chunk, ScaleRun
from bmv2_lab.scale.spans import Nics, write_spans
from controller.fabric_dump import dump_fabric
from correction.engine import solve_samples
from correction.links import link_samples
from correction.model import FabricModel
from correction.records import Exchanges, Hops, Packets
from correction.servo import (
    ADJUSTMENT_DTYPE,
    ServoLog,
    free_running_exchanges,
    steered_table,
)
from correction.solution import FabricSolution
from correction.table import CorrectionTable
from correction.windows import telemetry_windows

META_FILE = "scale.json"
PTP_FILE = "ptp.npz"
RANKS_FILE = "ranks.npz"
CHUNK_GLOB = "chunk-*.npz"
SCALE_VERSION = 1
"""`version` of scale.json."""

CLOCK_ADJUSTMENT_DTYPE = np.dtype([("clock", np.int32), *ADJUSTMENT_DTYPE.descr])
"""`ADJUSTMENT_DTYPE` with the NIC's clock before it."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Everything an estimator sees of a run, in memory; nothing that is true."""

    packets: Packets
    hops: Hops
    exchanges: Exchanges
    servos: Mapping[int, ServoLog]
    transfers: Transfers

    def solve(self, model: FabricModel) -> tuple[FabricSolution, CorrectionTable]:
        """The correction engine's answer; the table is on the PHCs, servos included."""
        windows = telemetry_windows(self.packets)
        samples, counters = link_samples(
            self.packets,
            self.hops,
            free_running_exchanges(self.exchanges, self.servos),
            model,
        )
        solution = solve_samples(samples, model, windows, counters=counters)
        return solution, steered_table(solution.table, self.servos)


def record(run: ScaleRun) -> Recording:
    """Run everything and keep it in memory."""
    return _recording(list(run.chunks()), run.all_exchanges(), run.servos())


def write_run(
    run: ScaleRun,
    out: Path,
    progress: Progress = lambda _stage, _share: None,
    *,
    otlp_jobs: int = 0,
) -> None:
    """Run everything and write it, chunk by chunk; spans as OTLP for the first `otlp_jobs` jobs."""
    out.mkdir(parents=True, exist_ok=True)
    for old in sorted(out.glob(CHUNK_GLOB)):
        old.unlink()
    expected = len(run.flows) * run.settings.window_count * run.settings.steps_per_window
    progress("simulate", 0.0)
    for number, chunk in enumerate(run.chunks()):
        np.savez(
            out / f"chunk-{number:04}.npz",
            packets=chunk.packets,
            hops=chunk.hops,
            transfers=chunk.transfers,
        )
        progress("simulate", run.transfer_count / expected)
    progress("write", 0.0)
    np.savez(
        out / PTP_FILE,
        exchanges=run.all_exchanges(),
        adjustments=_with_clocks(run.phcs.adjustments()),
        delays=np.concatenate(run.delays),
        nic_names=np.array(run.world.topology.nic_names),
    )
    np.savez(out / RANKS_FILE, ranks=np.concatenate(run.ranks))
    (out / FABRIC_FILE).write_text(dump_fabric(fabric_of(run.world, run.jobs)), encoding="utf-8")
    run.truth.write(out / TRUTH_FILE)
    settings = asdict(run.settings)
    document = {"version": SCALE_VERSION, "seed": run.seed, "settings": settings, **counts(run)}
    (out / META_FILE).write_text(
        json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    if otlp_jobs:
        _write_spans(run, out, otlp_jobs)
    progress("write", 1.0)


def _write_spans(run: ScaleRun, out: Path, jobs: int) -> None:
    topology, per_host = run.world.topology, run.settings.nics_per_host
    transfers = [chunk.transfers for chunk in read_chunks(out)]
    ranks = np.concatenate(run.ranks)
    write_spans(
        out / SPANS_FILE,
        Nics(
            names=topology.nic_names,
            hosts=tuple(f"h{nic // per_host + 1}" for nic in range(topology.nic_count)),
            ips=tuple(topology.nic_ip.tolist()),
        ),
        run.seed,
        ranks[ranks["job"] < jobs],
        np.concatenate([part[part["job"] < jobs] for part in transfers]),
    )


def counts(run: ScaleRun) -> dict[str, int]:
    """How large the fabric is and how much the run left."""
    topology = run.world.topology
    return {
        "gpus": topology.nic_count,
        "hosts": int(topology.nic_host.max()) + 1,
        "switches": topology.switch_count,
        "links": topology.link_count,
        "clocks": topology.nic_count + topology.switch_count,
        "packets": run.packet_count,
        "hops": run.hop_count,
        "exchanges": sum(map(len, run.exchanges)),
        "transfers": run.transfer_count,
        "spans": 2 * run.transfer_count + sum(len(r) + _roots(r) for r in run.ranks),
    }


def _roots(ranks: NDArray[np.void]) -> int:
    return int(np.count_nonzero(ranks["step_end_local_ns"]))


def read_chunks(folder: Path) -> Iterator[Chunk]:
    """The chunks of a folder, one at a time."""
    for path in sorted(folder.glob(CHUNK_GLOB)):
        with np.load(path) as arrays:
            yield Chunk(
                packets=arrays["packets"], hops=arrays["hops"], transfers=arrays["transfers"]
            )


def read_recording(folder: Path) -> Recording:
    """A whole folder in memory."""
    with np.load(folder / PTP_FILE) as arrays:
        exchanges, adjustments = arrays["exchanges"], arrays["adjustments"]
    servos = {}
    for clock in np.unique(adjustments["clock"]).tolist():
        mine = adjustments[adjustments["clock"] == clock]
        rows = np.zeros(len(mine), ADJUSTMENT_DTYPE)
        for name in ADJUSTMENT_DTYPE.names or ():
            rows[name] = mine[name]
        servos[clock] = ServoLog.from_adjustments(rows)
    return _recording(list(read_chunks(folder)), exchanges, servos)


def model_of(run: ScaleRun) -> FabricModel:
    """What the run's operator declares, for `Recording.solve`."""
    return fabric_model_of(run.world)


def _recording(
    chunks: list[Chunk], exchanges: Exchanges, servos: Mapping[int, ServoLog]
) -> Recording:
    packets, hops = joined([(chunk.packets, chunk.hops) for chunk in chunks])
    return Recording(
        packets=packets,
        hops=hops,
        exchanges=exchanges,
        servos=servos,
        transfers=np.concatenate([chunk.transfers for chunk in chunks]),
    )


def _with_clocks(adjustments: Mapping[int, NDArray[np.void]]) -> NDArray[np.void]:
    parts = []
    for clock, rows in sorted(adjustments.items()):
        part = np.zeros(len(rows), CLOCK_ADJUSTMENT_DTYPE)
        part["clock"] = clock
        for name in ADJUSTMENT_DTYPE.names or ():
            part[name] = rows[name]
        parts.append(part)
    return np.concatenate(parts) if parts else np.zeros(0, CLOCK_ADJUSTMENT_DTYPE)
