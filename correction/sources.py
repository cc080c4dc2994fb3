# SPDX-License-Identifier: Apache-2.0
"""All that ties clocks together, gathered: the model with every tie, and the samples of all links.

A model declares cables; what else there is follows from it and from the data: PTP clocks of
switches, paths through silent switches, cross-stamps, reference clocks with errors of their own.
Clocks and links of the declared model keep their indices, what is added comes after them.
"""

from dataclasses import dataclass, replace

from correction.boundary_clocks import boundary_samples, with_boundary_clocks
from correction.cross_stamps import (
    CrossStamps,
    cross_stamp_samples,
    sound_stamps,
    with_cross_stamps,
)
from correction.links import JoinCounters, link_samples
from correction.model import FabricModel
from correction.records import Exchanges, Hops, LinkSamples, Packets
from correction.references import reference_samples, with_references
from correction.ties import joined
from correction.virtual_paths import virtual_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Inputs of `engine.solve_samples`."""

    model: FabricModel
    """With all ties."""
    samples: LinkSamples
    counters: JoinCounters


def gather(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    *,
    cross_stamps: CrossStamps | None = None,
) -> Gathered:
    """Join everything; `model` is the declared one."""
    model = with_boundary_clocks(model)
    samples, counters = link_samples(packets, hops, exchanges, model)
    samples = joined([samples, boundary_samples(exchanges, packets, hops, samples, model)])
    model, paths = virtual_paths(packets, hops, model, counters)
    samples = joined([samples, paths])
    if cross_stamps is not None:
        sound = sound_stamps(cross_stamps, counters)
        cross_stamps = replace(cross_stamps, rows=cross_stamps.rows[sound])
    if cross_stamps is not None and len(cross_stamps.rows):
        model = with_cross_stamps(model, cross_stamps)
        more = cross_stamp_samples(cross_stamps, samples, model, counters)
        samples = joined([samples, more])
    if model.references:
        model = with_references(model)
        samples = joined([samples, reference_samples(samples, model)])
    return Gathered(model=model, samples=samples, counters=counters)
