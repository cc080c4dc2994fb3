# SPDX-License-Identifier: Apache-2.0
"""What is declared of each link's asymmetry before anything is measured.

A link's own part is its cable and what its ports' stamp points deviate from their group; constants
that a group of stamp points shares (one model, port speed and direction) enter many links.
"""

from dataclasses import dataclass

import numpy as np

from correction.model import FabricModel, Link, StampPoint
from correction.timebase import Float64s

PORT_SHARE = 0.4
"""Sd of a port's own deviation from its group's stamp constant, as a share of the group's sd:
line cards differ a little even within one model."""
UNIFORM_SD = 1.0 / np.sqrt(3.0)
"""Sd of a value that is anywhere within +-1."""
SD_NS_MIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Per link and per group of stamp points."""

    own_sd_ns: Float64s
    """[link]: of a, without the shared constants."""
    shared: Float64s
    """[link, group]: how a group's constant enters half the difference of both directions."""
    shared_sd_ns: Float64s
    """[group]"""
    groups: tuple[str, ...]


def priors(model: FabricModel) -> Priors:
    """From cables, stamp points and their groups."""
    groups = tuple(sorted({p.group for link in model.links for p in points(link) if p.group}))
    column = {name: i for i, name in enumerate(groups)}
    shared = np.zeros((len(model.links), len(groups)))
    shared_sd = np.zeros(len(groups))
    own_sd = np.zeros(len(model.links))
    for e, link in enumerate(model.links):
        own = link.asymmetry_sd_ns**2
        # x_ab carries a's egress and b's ingress constant, x_ba the other two; y takes half
        for point, sign in zip(points(link), (0.5, 0.5, -0.5, -0.5), strict=True):
            point_sd = point.uncertainty_ns * UNIFORM_SD
            if point.group:
                shared[e, column[point.group]] += sign
                shared_sd[column[point.group]] = point_sd
                own += (0.5 * PORT_SHARE * point_sd) ** 2
            else:
                own += (0.5 * point_sd) ** 2
        own_sd[e] = np.sqrt(own)
    return Priors(
        own_sd_ns=np.maximum(own_sd, SD_NS_MIN),
        shared=shared,
        shared_sd_ns=np.maximum(shared_sd, SD_NS_MIN),
        groups=groups,
    )


def points(link: Link) -> tuple[StampPoint, StampPoint, StampPoint, StampPoint]:
    """Stamp points of a -> b (egress, ingress), then of b -> a."""
    return link.a_egress, link.b_ingress, link.b_egress, link.a_ingress
