# SPDX-License-Identifier: Apache-2.0
"""Link equations claim the noise that they have, far from the samples too."""

import numpy as np
import pytest

from correction.disturbed import Disturbed
from correction.envelope import fit_envelopes
from correction.equations import link_equations
from correction.instants import Instants
from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint
from correction.prepare import Prepared
from correction.timebase import Anchors

WINDOWS = 400
COUNT = 60
"""Samples per direction and class."""
JITTER_NS = 2.0
RATE_NS_PER_S = 8_000.0
POINT = StampPoint(latency_ns=0, uncertainty_ns=0)
MODEL = FabricModel(
    clocks=tuple(
        Clock(
            name=name,
            kind=ClockKind.SWITCH,
            node_id=number,
            ip=0,
            stamp_unit_ns=1,
            stamp_jitter_ns=2,
        )
        for number, name in enumerate("ab")
    ),
    links=(
        Link(
            name="a-b", a=0, a_port=1, b=1, b_port=1, rate_bps=10**11,
            a_egress=POINT, a_ingress=POINT, b_egress=POINT, b_ingress=POINT,
            min_delay_ns=0, asymmetry_sd_ns=5.0, access=False,
        ),
    ),
    reference=0,
    rate_offset_max_ppb=100_000,
    wander_ns_per_s_sqrt_s=0.0,
)  # fmt: skip


def _windows(rng: np.random.Generator, span_s: float, burst_s: float) -> Prepared:
    """Symmetric delays of 100 ns at time 0 within `span_s`; messages of 8 packets in `burst_s` that
    are rounded by both clocks' ticks."""
    shape = (WINDOWS, 4 * COUNT)
    messages = 4 * COUNT // 8
    post_s = np.repeat(rng.uniform(-span_s / 2, span_s / 2, (WINDOWS, messages)), 8, axis=1)
    time_s = post_s + np.tile(np.linspace(0.0, burst_s, 8), (WINDOWS, messages))
    kind = np.repeat(np.arange(4), COUNT)
    reverse = np.tile(kind % 2 == 1, (WINDOWS, 1))
    phase = rng.uniform(0, 1, (WINDOWS, 2, 1))
    at_a = np.floor(1e9 * time_s + phase[:, 0])
    at_b = 1e9 * time_s + RATE_NS_PER_S * time_s + phase[:, 1]
    late = 100.0 + rng.exponential(JITTER_NS, shape)
    forward = np.floor(at_b + late) - at_a
    backward = np.floor(1e9 * time_s + late + phase[:, 0]) - np.floor(at_b)
    x = np.where(reverse, backward, forward)
    window = np.repeat(np.arange(WINDOWS), 4 * COUNT)
    zero = np.zeros(window.size, np.int64)
    return Prepared(
        window=window,
        link=zero,
        reverse=reverse.ravel(),
        queue_id=zero,
        length_class=np.tile(kind // 2, WINDOWS),
        a_rest_ns=at_a.ravel(),
        x_ns=x.ravel(),
        capture_collector_ns=zero,
        sample=np.arange(window.size),
        anchors=Anchors(anchor_local_ns=np.zeros(1, np.int64)),
        disturbed=Disturbed.none(WINDOWS, 2),
    )


@pytest.mark.parametrize(("span_s", "away_s"), [(0.003, 0.5), (0.4, 0.3)])
def test_a_burst_says_little_of_an_instant_far_from_it(span_s: float, away_s: float) -> None:
    """Both directions and all classes are moved along one line: its error does not average out,
    and packets of one message are rounded alike. The claimed sd is at least 0.9 of the real one,
    and not more than three times as large."""
    prepared = _windows(np.random.default_rng(5), span_s, burst_s=2e-6)
    fit = fit_envelopes(prepared, quantum_ns=np.ones(1), jitter_ns=np.full(1, JITTER_NS))
    away_ns = away_s * 1e9
    rest_ns = np.tile([away_ns, away_ns * (1.0 + RATE_NS_PER_S * 1e-9)], (WINDOWS, 1))
    instants = Instants(rest_ns=rest_ns, component=np.zeros((WINDOWS, 2), np.int64))
    equations, _ = link_equations(fit, instants, MODEL, np.ones((WINDOWS, 1), np.bool_))
    error_ns = equations.y_ns[:, 0] - np.mean(equations.y_ns[:, 0])
    ratio = np.sqrt(np.mean(equations.sd_ns[:, 0] ** 2)) / np.std(error_ns)
    assert equations.known.all()
    assert 0.9 < ratio < 3.0
