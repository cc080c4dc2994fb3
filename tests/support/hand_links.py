# SPDX-License-Identifier: Apache-2.0
"""Link delays as numbers written by hand, in place of a solve."""

from typing import cast

import numpy as np

from correction.causal_limits import CausalLimits
from correction.flow_paths import PathHop
from correction.link_delays import LinkBasis, LinkDelays
from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint
from correction.table import CONDITIONAL_SIGMAS

NIC_PORT = 1
HOST_PORT = 11
H1, H2 = HOST_PORT + 1, HOST_PORT + 2

# Of TWO_SPINES. Nodes are numbered in order of their names: leaf1, leaf2, spine1, spine2.
UP1 = (PathHop(1, H1, 1), PathHop(3, 1, 2), PathHop(2, 1, H2))
UP2 = (PathHop(1, H1, 2), PathHop(4, 1, 2), PathHop(2, 2, H2))
BACK1 = (PathHop(2, H2, 1), PathHop(3, 2, 1), PathHop(1, 1, H1))
BACK2 = (PathHop(2, H2, 2), PathHop(4, 2, 1), PathHop(1, 2, H1))
TWO_SPINES = {
    "h1-leaf1": (50.0, 50.0),
    "leaf1-spine1": (100.0, 100.0),
    "leaf2-spine1": (100.0, 100.0),
    "leaf1-spine2": (100.0, 100.0),
    "leaf2-spine2": (100.0, 100.0),
    "h2-leaf2": (50.0, 50.0),
}


class HandLimits:
    """One window in which everything is measured and clocks are known to `reach_ns` either way."""

    def __init__(self, half_ns: np.ndarray, difference_ns: np.ndarray, reach_ns: float) -> None:
        self.known = np.isfinite(half_ns)[None, :]
        self.half_ns = half_ns[None, :]
        self.y_ns = difference_ns[None, :]
        self.sd_ns = np.zeros_like(self.y_ns)
        self._reach_ns = reach_ns

    def interval_ns(self, window: int, clock: int, other: int) -> tuple[float, float]:
        """Around equal clocks."""
        assert window == 0
        return (0.0, 0.0) if clock == other else (-self._reach_ns, self._reach_ns)


def hand_fabric(
    cables: dict[str, tuple[float, float]],
    *,
    sd_ns: float = 5.0,
    half_sd_ns: float = 1.0,
    covariance_ns2: np.ndarray | None = None,
    reach_ns: float = 1e6,
    basis: dict[str, LinkBasis] | None = None,
) -> LinkDelays:
    """`cables`: "u-v" -> (delay u -> v, delay v -> u); hosts start with h. Host h<n> is in port
    HOST_PORT + n of its switch, and port k of a switch leads to the k-th of its other cables."""
    names = sorted({name for cable in cables for name in cable.split("-")})
    switches = [name for name in names if not name.startswith("h")]
    index = {name: number for number, name in enumerate(names)}
    point = StampPoint(latency_ns=0, uncertainty_ns=0)
    used: dict[str, int] = {}

    def port(of: str, other: str) -> int:
        if of.startswith("h"):
            return NIC_PORT
        if other.startswith("h"):
            return HOST_PORT + int(other[1:])
        used[of] = used.get(of, 0) + 1
        return used[of]

    links = []
    for cable in cables:
        a, b = cable.split("-")
        links.append(
            Link(
                name=cable, a=index[a], a_port=port(a, b), b=index[b], b_port=port(b, a),
                rate_bps=100_000_000_000, a_egress=point, a_ingress=point, b_egress=point,
                b_ingress=point, min_delay_ns=0, asymmetry_sd_ns=sd_ns,
                access=a.startswith("h") or b.startswith("h"),
            )
        )  # fmt: skip
    model = FabricModel(
        clocks=tuple(
            Clock(
                name=name,
                kind=ClockKind.SWITCH if name in switches else ClockKind.NIC,
                node_id=switches.index(name) + 1 if name in switches else 0,
                ip=0 if name in switches else 0x0A000000 + int(name[1:]),
                stamp_unit_ns=1,
                stamp_jitter_ns=0,
            )
            for name in names
        ),
        links=tuple(links),
        reference=index["h1"],
        rate_offset_max_ppb=50_000,
        wander_ns_per_s_sqrt_s=10.0,
    )
    delay = np.array(list(cables.values()), np.float64)
    half, difference = delay.mean(axis=1), (delay[:, 0] - delay[:, 1]) / 2
    count = len(links)
    told = basis or {}
    return LinkDelays(
        model=model,
        half_ns=half,
        half_sd_ns=np.full(count, half_sd_ns),
        difference_ns=difference,
        cable_a_ns=difference,
        fit_sd_ns=np.zeros(count),
        covariance_ns2=np.eye(count) * sd_ns**2 if covariance_ns2 is None else covariance_ns2,
        basis=tuple(told.get(link.name, LinkBasis.MEASURED) for link in links),
        doubt=("",) * count,
        widen_ns=np.zeros(count),
        rate_ppb=np.zeros(len(names)),
        limits=cast(CausalLimits, HandLimits(half, difference, reach_ns)),
        sigmas=CONDITIONAL_SIGMAS,
    )
