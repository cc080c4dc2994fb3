# SPDX-License-Identifier: Apache-2.0
"""A follower counts the samples that traffic gives of each link, probes left out."""

import numpy as np

from correction.records import TRAFFIC_PROBE
from correction.stream.follow import Follower
from tests.support.followed import follow
from tests.support.synthetic_fabric import Setup, draw

RUN = draw(7, Setup(leaves=2, spines=2, windows=2, bad_share=0.0, exchanges=4))


def test_traffic_counts_and_probes_do_not() -> None:
    """Every link between switches has pairs; with the same packets as probes, none has."""
    windows = [one for one in follow(RUN, Follower(RUN.model)) if one.tracked is not None]
    between = [not link.access for link in RUN.model.links]
    for window in windows:
        assert window.own_pairs is not None
        assert (window.own_pairs[between] > 0).all()
    probes = RUN.packets.copy()
    probes["traffic"] = TRAFFIC_PROBE
    follower = Follower(RUN.model)
    follower.add_packets(probes, RUN.hops)
    for window in follower.rest():
        assert window.own_pairs is not None
        assert not np.any(window.own_pairs)
