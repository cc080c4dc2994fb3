# SPDX-License-Identifier: Apache-2.0
"""The state of a fabric tracker as bytes, for a file: what `correction.stream.saved` names."""

import io
import zlib
from zipfile import BadZipFile

import numpy as np

from correction.model import FabricModel
from correction.stream.saved import SavedStateError, state_arrays, tracker_of
from correction.stream.tracker import FabricTracker


def save(tracker: FabricTracker) -> bytes:
    """All that the tracker has learnt: a numpy archive of named arrays."""
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **state_arrays(tracker))
    return stream.getvalue()


def restore(saved: bytes, model: FabricModel) -> FabricTracker:
    """A tracker of `model` that knows what the saved one knew of it; `SavedStateError`."""
    try:
        with np.load(io.BytesIO(saved), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, BadZipFile) as error:
        raise SavedStateError(f"not a saved state: {error}") from None
    except zlib.error as error:
        raise SavedStateError(f"damaged: {error}") from None
    return tracker_of(found, model)
