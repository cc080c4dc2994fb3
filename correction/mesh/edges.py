# SPDX-License-Identifier: Apache-2.0
"""What is known of clock differences at one instant: a list of edges between clocks.

    y[e] = theta[v] - theta[u] + a[e] + shared[e] . c + noise[e]

A cable between two switches, an access link, a cross-stamp between two NICs of one host, and a
path through switches without telemetry are all edges; they differ in their numbers only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Bools, Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Arrays over edges; clocks are 0 .. node_count - 1."""

    node_count: int
    u: NDArray[np.int64]
    v: NDArray[np.int64]
    y_ns: Float64s
    """Half the difference of both directions, u -> v less v -> u: theta_v - theta_u + a_uv."""
    noise_sd_ns: Float64s
    """Of the measurement: jitter and quantum."""
    healthy_sd_ns: Float64s
    """Of a on an edge that is not bad: cable, optics, stamp points of its own."""
    may_be_bad: Bools
    """False: a is never larger than declared (a cross-stamp inside a host)."""
    shared: Float64s
    """[edge, constant]: how constants that many edges share enter (stamp points of a model)."""
    shared_sd_ns: Float64s
    """[constant]: their prior."""
    forward_limit_ns: Float64s
    """theta_v - theta_u is at most this (causality); infinite where no packet went u -> v."""
    backward_limit_ns: Float64s
    """theta_u - theta_v is at most this."""

    def __len__(self) -> int:
        return len(self.u)

    @property
    def scale_ns(self) -> Float64s:
        """Sd of a healthy edge's residual, without the shared constants."""
        return np.hypot(self.healthy_sd_ns, self.noise_sd_ns)


def without_shared(count: int) -> tuple[Float64s, Float64s]:
    """`shared` and `shared_sd_ns` of edges that share nothing."""
    return np.zeros((count, 0)), np.zeros(0)
