# SPDX-License-Identifier: Apache-2.0
"""The solve of a recording, with clients whose PTP packets no switch reported."""

from dataclasses import replace

from controller.fabric import Fabric
from controller.path_prediction import PathPredictor, check_hash
from controller.telemetry.collector import Collection
from correction.engine import solve_samples
from correction.flow_delays import Predict
from correction.flow_paths import FlowPaths
from correction.injected import Injected
from correction.link_delays import link_delays
from correction.records import Exchanges
from correction.solution import FabricSolution
from correction.sources import Gathered
from correction.timebase import Int64s
from correction.unreported import unreported_exchanges, with_unreported


def solve_with_unreported(
    fabric: Fabric,
    collection: Collection,
    gathered: Gathered,
    exchanges: Exchanges,
    windows: Int64s,
    injected: Injected,
) -> tuple[Gathered, FabricSolution]:
    """What was solved, and the solution.

    exchanges: as for the engine, in free-running time. Paths are predicted only where the hash
    model was right for the reported ones; links are then known from a solve of the others.
    """
    left = unreported_exchanges(gathered, collection.packets, exchanges)
    if not len(left):
        return gathered, _solve(gathered, windows)
    predict = _trusted(fabric, collection)
    delays = None if predict is None else link_delays(_solve(gathered, windows))
    more = with_unreported(gathered, left, delays=delays, predict=predict, injected=injected)
    return more, _solve(more, windows)


def _solve(gathered: Gathered, windows: Int64s) -> FabricSolution:
    """With counters of its own: a second solve must not count twice."""
    counters = replace(gathered.counters, rejected=dict(gathered.counters.rejected))
    return solve_samples(gathered.samples, gathered.model, windows, counters=counters)


def _trusted(fabric: Fabric, collection: Collection) -> Predict | None:
    """The hash model, if what was reported agrees with it."""
    paths = FlowPaths()
    paths.add(collection.packets, collection.hops)
    predictor = PathPredictor(fabric)
    return predictor.path_of if check_hash(predictor, paths).trusted else None
