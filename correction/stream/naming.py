# SPDX-License-Identifier: Apache-2.0
"""Clocks and links by name, so that their numbers may change."""

from collections.abc import Sequence

import numpy as np

from correction.link_windows import LinkWindows
from correction.model import FabricModel
from correction.timebase import Int64s


def link_keys(model: FabricModel) -> list[str]:
    """Each link's name and ends: what it must agree in to be the same cable."""
    clocks = model.clocks
    return [
        f"{link.name}|{clocks[link.a].name}:{link.a_port}|{clocks[link.b].name}:{link.b_port}"
        for link in model.links
    ]


def place_of(before: Sequence[str], after: Sequence[str]) -> Int64s:
    """[before]: number of the same name afterwards; -1: it is gone."""
    number = {name: at for at, name in enumerate(after)}
    return np.array([number.get(name, -1) for name in before], np.int64)


def renumbered_links(rows: LinkWindows, place: Int64s) -> LinkWindows:
    """The rows of the links that are still there, with their new numbers."""
    link = place[rows["link"]]
    kept: LinkWindows = rows[link >= 0]
    kept["link"] = link[link >= 0]
    return kept
