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

from correction.mesh.edges import Edges, without_shared
from correction.mesh.normal import solve as solve_normal
from correction.mesh.normal import system
from correction.mesh.solve import Standing, solve_mesh, with_measurement

BAD_SHARE = 0.2
BAD_NS = (20.0, 500.0)
HEALTHY_SD_NS = 5.0
NOISE_SD_NS = 0.7
DELAY_NS = (600.0, 700.0)
WARM_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverBench:
    """Times of one core; errors against the drawn truth."""

    leaves: int
    spines: int
    hosts: int
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
    determined_share: float
    bound_hard_coverage: float
    bound_conditional_coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One instant of a fabric and its truth."""

    edges: Edges
    theta_ns: np.ndarray
    bad: np.ndarray
    reference: int


def draw_edges(rng: np.random.Generator, leaves: int, spines: int, hosts: int) -> Drawn:
    """Leaves 0.., then spines, then hosts; the reference is the first host."""
    nodes = leaves + spines + hosts
    leaf, spine = np.repeat(np.arange(leaves), spines), np.tile(np.arange(spines), leaves)
    host = leaves + spines + np.arange(hosts)
    u = np.concatenate([leaf, np.arange(hosts) * leaves // hosts])
    v = np.concatenate([leaves + spine, host])
    theta = rng.normal(0.0, 500.0, nodes)
    a = rng.normal(0.0, HEALTHY_SD_NS, len(u))
    bad = np.zeros(len(u), np.bool_)
    bad[: leaves * spines] = rng.random(leaves * spines) < BAD_SHARE
    number = int(bad.sum())
    a[bad] = rng.choice([-1.0, 1.0], number) * rng.uniform(*BAD_NS, number)
    difference = theta[v] - theta[u]
    delay = rng.uniform(*DELAY_NS, len(u))
    shared, shared_sd = without_shared(len(u))
    edges = Edges(
        node_count=nodes,
        u=u,
        v=v,
        y_ns=difference + a + rng.normal(0.0, NOISE_SD_NS, len(u)),
        noise_sd_ns=np.full(len(u), NOISE_SD_NS),
        healthy_sd_ns=np.full(len(u), HEALTHY_SD_NS),
        may_be_bad=np.ones(len(u), np.bool_),
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=difference + delay + a,
        backward_limit_ns=-difference + delay - a,
    )
    return Drawn(edges=edges, theta_ns=theta, bad=bad, reference=leaves + spines)


def measure(leaves: int, spines: int, hosts: int, seed: int) -> SolverBench:
    """In this process; `run` gives it one of its own."""
    rng = np.random.default_rng(seed)
    drawn = draw_edges(rng, leaves, spines, hosts)
    edges, reference = drawn.edges, drawn.reference
    solve_mesh(draw_edges(rng, 4, 2, 8).edges, 6)  # libraries are loaded before the clock runs
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
    return SolverBench(
        leaves=leaves,
        spines=spines,
        hosts=hosts,
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


def run(leaves: int, spines: int, hosts: int, seed: int) -> SolverBench:
    """Measure in a process of its own, on one core, with single-threaded linear algebra."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    command = [sys.executable, "-m", __name__, *map(str, (leaves, spines, hosts, seed))]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **single}
    )
    fields: dict[str, Any] = json.loads(done.stdout)
    return SolverBench(**fields)


def main() -> None:
    """The measuring process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    leaves, spines, hosts, seed = map(int, sys.argv[1:])
    json.dump(asdict(measure(leaves, spines, hosts, seed)), sys.stdout)


if __name__ == "__main__":
    main()
