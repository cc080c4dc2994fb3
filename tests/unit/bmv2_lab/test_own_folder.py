# SPDX-License-Identifier: Apache-2.0
"""Temporary folders outlive their process by one run at most."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bmv2_lab.own_folder import UNLOCKED_AGE_S, own_folder, remove_leftovers

PREFIX = "own-folder-test-"
KILLS_ITSELF = f"""
import os, signal
from bmv2_lab.own_folder import own_folder
with own_folder({PREFIX!r}) as path:
    (path / "inside").mkdir()
    print(path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's temporary folder is the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_it_goes_at_the_end_whatever_happens() -> None:
    """Also when an exception ends it."""
    seen: list[Path] = []

    def fail() -> None:
        with own_folder(PREFIX) as path:
            seen.append(path)
            assert path.is_dir()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not seen[0].exists()


def test_another_run_leaves_it_alone_while_its_owner_lives() -> None:
    """Two runs at once have a folder each."""
    with own_folder(PREFIX) as first, own_folder(PREFIX) as second:
        assert remove_leftovers(PREFIX) == []
        assert first.is_dir()
        assert second.is_dir()


def test_what_a_killed_run_left_goes_with_the_next() -> None:
    """After SIGKILL the folder is there; the next run removes it."""
    done = subprocess.run(
        [sys.executable, "-c", KILLS_ITSELF], capture_output=True, text=True, check=False
    )
    left = Path(done.stdout.strip())
    assert done.returncode == -signal.SIGKILL
    assert (left / "inside").is_dir()
    with own_folder(PREFIX):
        assert not left.exists()


def test_a_folder_without_a_lock_is_young_or_left(tmp_path: Path) -> None:
    """Its owner has not come to the lock yet, unless it is an hour old."""
    path = tmp_path / f"{PREFIX}x"
    path.mkdir()
    assert remove_leftovers(PREFIX) == []
    old_s = path.stat().st_mtime - UNLOCKED_AGE_S - 1
    os.utime(path, (old_s, old_s))
    assert remove_leftovers(PREFIX) == [path]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Somebody else's link of that name does not have its target removed."""
    target = tmp_path / "precious"
    target.mkdir()
    (tmp_path / f"{PREFIX}y").symlink_to(target)
    assert remove_leftovers(PREFIX) == []
    assert target.is_dir()
