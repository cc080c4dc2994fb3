# SPDX-License-Identifier: Apache-2.0
"""The state of a follower in a file that is always whole: written beside it, then put in its place.

Besides what the follower has learnt it holds what was about to be published, so that a process that
was killed in between publishes the very same on its next start, and nothing else of that window.
"""

import io
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from correction.model import FabricModel
from correction.stream.follow import Follower
from correction.stream.rows import HOLDOVER_NS
from correction.stream.saved import SavedStateError
from correction.stream.saved_follower import follower_arrays, follower_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What a file held."""

    follower: Follower
    run: str
    """Names the series of windows, over restarts."""
    outbox: tuple[bytes, ...]
    """Encoded windows that may not have been published."""
    position: tuple[int, int]
    """Where to go on reading the parts of a collector."""


class StateFile:
    """One file; `write` replaces it as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(path.name + ".new")

    def write(
        self,
        follower: Follower,
        *,
        run: str,
        outbox: Sequence[bytes] = (),
        position: tuple[int, int] = (0, 0),
    ) -> None:
        """Replace the file; it is on the disk when this returns."""
        lengths = np.array([len(one) for one in outbox], np.int64)
        arrays = follower_arrays(follower) | {
            "run": np.array(run),
            "outbox": np.frombuffer(b"".join(outbox), np.uint8),
            "outbox_lengths": lengths,
            "position": np.array(position, np.int64),
        }
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **arrays)
        with self._temporary.open("wb") as file:
            file.write(stream.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        self._temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def read(self, declared: FabricModel, *, holdover_ns: int = HOLDOVER_NS) -> SavedState | None:
        """What the file holds, None when there is none; `SavedStateError` names damage."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return _decoded(data, declared, holdover_ns)
        except SavedStateError as error:
            raise SavedStateError(f"{self._path}: {error}") from None


def _decoded(data: bytes, declared: FabricModel, holdover_ns: int) -> SavedState:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        ends = np.cumsum(found["outbox_lengths"])
        whole = found["outbox"].tobytes()
        outbox = tuple(
            whole[end - length : end]
            for end, length in zip(ends.tolist(), found["outbox_lengths"].tolist(), strict=True)
        )
        run = str(found["run"])
        first, second = found["position"].tolist()
    except (OSError, ValueError, KeyError, EOFError, AttributeError, BadZipFile) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    except zlib.error as error:
        raise SavedStateError(f"damaged: {error}") from None
    follower = follower_of(found, declared, holdover_ns=holdover_ns)
    return SavedState(follower=follower, run=run, outbox=outbox, position=(first, second))
