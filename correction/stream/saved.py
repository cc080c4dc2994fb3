# SPDX-License-Identifier: Apache-2.0
"""The tracker's state as named arrays, and back: over a restart, and over a change of the fabric.

Links and clocks are kept by name. A fabric that has changed in between keeps what it still has; new
links and clocks begin with nothing, and a link whose ends have changed is a new one.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from correction.model import FabricModel
from correction.stream.clock_filter import ClockStates
from correction.stream.naming import link_keys
from correction.stream.tracker import FabricTracker, LinkStates

STATE_VERSION = 1


class SavedStateError(ValueError):
    """What is no saved state, or one of another version."""


Arrays = Mapping[str, np.ndarray[Any, Any]]


def state_arrays(tracker: FabricTracker) -> dict[str, np.ndarray[Any, Any]]:
    """All that the tracker has learnt (`controller.following.state_file` keeps it in a file)."""
    model = tracker.model
    arrays = {
        "version": np.array(STATE_VERSION),
        "newest_end_collector_ns": np.array(tracker.newest_end_collector_ns),
        "late_windows": np.array(tracker.late_windows),
        "link_names": np.array(link_keys(model), np.str_),
        "clock_names": np.array([clock.name for clock in model.clocks], np.str_),
        "reference": np.array(model.clocks[model.reference].name),
    }
    for kind, states in (("link", tracker.links), ("clock", tracker.clocks)):
        for one in fields(states):
            arrays[f"{kind}.{one.name}"] = getattr(states, one.name)
    return arrays


def tracker_of(found: Arrays, model: FabricModel) -> FabricTracker:
    """A tracker of `model` that knows what the saved one knew of it; `SavedStateError`."""
    try:
        version = int(found["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    if version != STATE_VERSION:
        raise SavedStateError(f"state of version {version}; expected {STATE_VERSION}")
    tracker = FabricTracker(model)
    links = link_keys(model)
    clocks = [clock.name for clock in model.clocks]
    try:
        _fill(tracker.links, "link", found, links)
        if str(found["reference"]) == model.clocks[model.reference].name:
            _fill(tracker.clocks, "clock", found, clocks)  # else offsets mean something else
        tracker.newest_end_collector_ns = int(found["newest_end_collector_ns"])
        tracker.late_windows = int(found["late_windows"])
    except (KeyError, IndexError, ValueError) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    return tracker


def moved_to(tracker: FabricTracker, model: FabricModel) -> FabricTracker:
    """The tracker of a changed fabric: no restart, nothing lost that is still there."""
    return tracker_of(state_arrays(tracker), model)


def _fill(states: LinkStates | ClockStates, kind: str, found: Arrays, names: list[str]) -> None:
    place = {name: at for at, name in enumerate(found[f"{kind}_names"].tolist())}
    pairs = [(new, place[name]) for new, name in enumerate(names) if name in place]
    if not pairs:
        return
    here, there = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    for one in fields(states):
        getattr(states, one.name)[here] = found[f"{kind}.{one.name}"][there]
