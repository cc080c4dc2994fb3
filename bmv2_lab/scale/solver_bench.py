# SPDX-License-Identifier: Apache-2.0
"""How long the solve of a large leaf-spine fabric takes on one core, and how right it is.

Cold: nothing known but the edges. Warm: the same fabric measured anew, started from the last
answer. Both include the verdict on every clock and both bounds of every host. Beside them stand the
bare limit, one factorisation of the core's normal matrix, and a peer: plain least squares over
the whole graph with SuperLU. The measurement runs in a process of its own on one core.
"""

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu

from bmv2_lab.scale.solver_fabric import NOISE_SD_NS, draw_edges, rail_leaves
from correction.mesh.edges import Edges
from correction.mesh.normal import solve as solve_normal
from correction.mesh.normal import system
from correction.mesh.solve import Standing, solve_mesh, with_measurement

WARM_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverBench:
    """Times of one core; errors against the drawn truth."""

    leaves: int
    spines: int
    hosts: int
    rails: int
    """NICs of a machine, tied by cross-stamps; 0: every NIC by itself."""
    edges: int
    bad_edges: int
    cold_s: float
    warm_s: float
    """Median of several new measurements."""
    cold_cpu_s: float
    """Processor time of the same: what a core of its own would take."""
    warm_cpu_s: float
    peak_mib: float
    """Largest resident size of the measuring process, interpreter and libraries included."""
    limit_s: float
    """One factorisation and solution of the core's normal equations; processor time."""
    sparse_least_squares_s: float
    """Plain weighted least squares of the whole graph with SuperLU; processor time."""
    warm_to_limit: float
    cold_to_sparse: float
    error_ns_rms: float
    """Of determined clocks, their common part (the reference's own cable) removed."""
    plain_error_ns_rms: float
    """The same of plain least squares."""
    access_error_ns_rms: float | None
    """Of the asymmetry of NICs' bad cables; None without rails, where nothing shows it."""
    determined_share: float
    bound_hard_coverage: float
    bound_conditional_coverage: float


def measure(leaves: int, spines: int, hosts: int, rails: int, seed: int) -> SolverBench:
    """In this process; `run` gives it one of its own."""
    rng = np.random.default_rng(seed)
    drawn = draw_edges(rng, leaves, spines, hosts, rails)
    edges, reference = drawn.edges, drawn.reference
    solve_mesh(draw_edges(rng, 4, 2, 8, 4).edges, 6)  # libraries are loaded before the clock runs
    began, began_cpu = time.perf_counter(), time.process_time()
    solution = solve_mesh(edges, reference)
    cold_s, cold_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    warm, warm_cpu = [], []
    latest = solution
    for _ in range(WARM_REPEATS):
        noise = rng.normal(0.0, NOISE_SD_NS, len(edges))
        again = with_measurement(edges, edges.y_ns + noise)
        began, began_cpu = time.perf_counter(), time.process_time()
        latest = solve_mesh(again, reference, start=latest)
        warm.append(time.perf_counter() - began)
        warm_cpu.append(time.process_time() - began_cpu)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0

    of = system(edges, solution.core)
    weight = edges.scale_ns[solution.core.edges] ** -2.0
    began = time.process_time()
    solve_normal(of, weight)
    limit_s = time.process_time() - began
    began = time.process_time()
    plain = _sparse_least_squares(edges, reference)
    sparse_s = time.process_time() - began
    true = drawn.theta_ns - drawn.theta_ns[reference]
    error = solution.theta_ns - true
    determined = solution.standing <= Standing.SINGLE_HOMED
    inside = (solution.low_ns <= true + 1e-6) & (true <= solution.high_ns + 1e-6)
    covered = np.abs(error) <= solution.bound_conditional_ns
    access = np.flatnonzero(drawn.bad)
    access = access[access >= leaves * spines]
    a_ns = (edges.y_ns - drawn.theta_ns[edges.v] + drawn.theta_ns[edges.u])[access]
    return SolverBench(
        leaves=leaves,
        spines=spines,
        hosts=hosts,
        rails=rails,
        edges=len(edges),
        bad_edges=int(drawn.bad.sum()),
        cold_s=cold_s,
        warm_s=float(np.median(warm)),
        cold_cpu_s=cold_cpu_s,
        warm_cpu_s=float(np.median(warm_cpu)),
        peak_mib=peak_mib,
        limit_s=limit_s,
        sparse_least_squares_s=sparse_s,
        warm_to_limit=float(np.median(warm_cpu)) / limit_s,
        cold_to_sparse=cold_cpu_s / sparse_s,
        error_ns_rms=float(np.std(error[determined])),
        plain_error_ns_rms=float(np.std((plain - true)[determined])),
        access_error_ns_rms=(
            float(np.sqrt(np.mean((solution.a_ns[access] - a_ns) ** 2))) if len(access) else None
        ),
        determined_share=float(determined.mean()),
        bound_hard_coverage=float(inside.mean()),
        bound_conditional_coverage=float(covered[determined].mean()),
    )


def _sparse_least_squares(edges: Edges, reference: int) -> np.ndarray:
    """Offsets from the reference, no link called bad."""
    n = edges.node_count
    weight = edges.scale_ns**-2.0
    rows = np.concatenate([edges.u, edges.v, edges.u, edges.v])
    columns = np.concatenate([edges.v, edges.u, edges.u, edges.v])
    values = np.concatenate([-weight, -weight, weight, weight])
    laplacian = coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
    pull = np.bincount(edges.v, weight * edges.y_ns, n)
    pull -= np.bincount(edges.u, weight * edges.y_ns, n)
    others = np.flatnonzero(np.arange(n) != reference)
    inner = csc_array(laplacian[others][:, others])
    theta = np.zeros(n)
    theta[others] = splu(inner).solve(pull[others])
    return theta


def run(leaves: int, spines: int, hosts: int, seed: int, *, rails: int = 0) -> SolverBench:
    """Measure in a process of its own, on one core, with single-threaded linear algebra."""
    if rails:
        rail_leaves(leaves, hosts, rails)  # says what does not fit
    single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    command = [sys.executable, "-m", __name__, *map(str, (leaves, spines, hosts, rails, seed))]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **single}
    )
    fields: dict[str, Any] = json.loads(done.stdout)
    return SolverBench(**fields)


def main() -> None:
    """The measuring process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    json.dump(asdict(measure(*map(int, sys.argv[1:]))), sys.stdout)


if __name__ == "__main__":
    main()
