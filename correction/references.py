# SPDX-License-Identifier: Apache-2.0
"""Several reference clocks, each with an error of its own, held against one time scale.

The time scale is a clock that nobody reads: each reference clock shows it but for a constant error
of declared deviation and limit. Offsets are then against the time scale, those of the reference
clocks themselves among them, and where two of them are, a gradient of asymmetries between them
shows (clocks.md 2.9). A single reference without an error needs none of this: it is the time scale.
"""

from dataclasses import replace

import numpy as np

from correction.model import Clock, ClockKind, FabricModel
from correction.records import LinkSamples
from correction.ties import joined, readings, tie, tie_samples

TIMESCALE = "reference time"
"""Name of the clock that the others are held against."""
PACE_NS = 20_000_000
"""A reference clock's stamps become samples of its tie no closer than this: they all say zero."""


def with_references(model: FabricModel) -> FabricModel:
    """The model with its time scale as the reference, if it declares `references`."""
    if not model.references:
        return model
    scale = len(model.clocks)
    clock = Clock(
        name=TIMESCALE,
        kind=ClockKind.TIMESCALE,
        node_id=0,
        ip=0,
        stamp_unit_ns=1,
        stamp_jitter_ns=0,
    )
    ties = tuple(
        tie(
            name=_tie_name(model, one.clock),
            a=one.clock,
            b=scale,
            sd_ns=one.sd_ns,
            hard_ns=one.hard_ns,
        )
        for one in model.references
    )
    return replace(model, clocks=(*model.clocks, clock), links=model.links + ties, reference=scale)


def reference_samples(samples: LinkSamples, model: FabricModel) -> LinkSamples:
    """What the ties say: the time scale reads what the reference clock does, whenever it stamps."""
    number = {link.name: index for index, link in enumerate(model.links)}
    made = []
    for one in model.references:
        local, capture = readings(samples, model, one.clock)
        _, first = np.unique(capture // PACE_NS, return_index=True)
        local, capture = local[first], capture[first]
        links = np.full(len(local), number[_tie_name(model, one.clock)], np.int64)
        made.append(tie_samples(links, local, local, capture))
    return joined(made)


def _tie_name(model: FabricModel, clock: int) -> str:
    return f"{model.clocks[clock].name}-{TIMESCALE}"
