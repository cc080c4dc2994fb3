# SPDX-License-Identifier: Apache-2.0
"""The state of a follower in a file: whole or refused, and what was about to be published in it."""

from pathlib import Path

import numpy as np
import pytest

from controller.following.state_file import StateFile
from correction.stream.follow import Follower
from correction.stream.saved import SavedStateError
from tests.support.followed import follow
from tests.support.synthetic_fabric import Run, Setup, draw


@pytest.fixture(scope="module")
def run() -> Run:
    """Three seconds of a small fabric."""
    return draw(1, Setup(leaves=4, windows=3, window_gap_s=1.0))


@pytest.fixture(scope="module")
def follower(run: Run) -> Follower:
    """It has seen everything."""
    one = Follower(run.model)
    follow(run, one)
    return one


def test_everything_comes_back(run: Run, follower: Follower, tmp_path: Path) -> None:
    """What was learnt, the series' name, what was about to be published, where reading goes on."""
    file = StateFile(tmp_path / "state")
    assert file.read(run.model) is None
    file.write(follower, run="abc", outbox=[b"one", b"", b"three"], position=(7, 9))
    found = file.read(run.model)
    assert found is not None
    assert (found.run, found.outbox, found.position) == ("abc", (b"one", b"", b"three"), (7, 9))
    assert found.follower.next_number == follower.next_number
    assert found.follower.version == follower.version == 3
    assert found.follower.counters == follower.counters
    assert np.array_equal(found.follower.coverage.row, follower.coverage.row)
    assert np.array_equal(found.follower.tracker.links.z_ns, follower.tracker.links.z_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_a_file_that_is_cut_is_refused(
    run: Run, follower: Follower, tmp_path: Path, share: float
) -> None:
    """Whatever is missing at its end; the error names the file."""
    path = tmp_path / "state"
    StateFile(path).write(follower, run="abc")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(SavedStateError, match=str(path)):
        StateFile(path).read(run.model)


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"x" * 1000])
def test_what_is_no_state_is_refused(run: Run, tmp_path: Path, data: bytes) -> None:
    """Another file given by mistake."""
    path = tmp_path / "state"
    path.write_bytes(data)
    with pytest.raises(SavedStateError, match="not a saved state"):
        StateFile(path).read(run.model)
