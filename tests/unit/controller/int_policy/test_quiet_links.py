# SPDX-License-Identifier: Apache-2.0
"""Which links are quiet, and the file that says so."""

from pathlib import Path

import pytest

from controller.int_policy.link_samples_file import (
    STALE_NS,
    LinkSamples,
    LinkSamplesError,
    QuietLinksFile,
    link_samples_text,
    read_link_samples,
)
from controller.int_policy.quiet_links import BUSY_PAIRS, BUSY_WINDOWS, QuietLinks
from controller.keeper.events import Event, EventKind
from controller.probes import PAIRS_PER_WINDOW_WANTED


def test_link_is_busy_after_some_windows_and_quiet_at_once() -> None:
    """Between the two marks it stays what it was."""
    links = QuietLinks()
    for _ in range(BUSY_WINDOWS - 1):
        assert links.step({"a": BUSY_PAIRS})["a"] < PAIRS_PER_WINDOW_WANTED
    assert links.step({"a": BUSY_PAIRS})["a"] == PAIRS_PER_WINDOW_WANTED
    assert links.step({"a": PAIRS_PER_WINDOW_WANTED})["a"] == PAIRS_PER_WINDOW_WANTED
    assert links.busy == {"a"}
    assert links.step({"a": 5})["a"] == 5
    assert links.step({"a": PAIRS_PER_WINDOW_WANTED})["a"] == PAIRS_PER_WINDOW_WANTED - 1
    assert not links.busy


def test_interruption_begins_the_count_anew() -> None:
    """Windows in a row count, not windows in all."""
    links = QuietLinks()
    for _ in range(5):
        links.step({"a": BUSY_PAIRS})
        links.step({"a": BUSY_PAIRS - 1})
    assert not links.busy


def test_link_that_nobody_tells_about_is_quiet() -> None:
    """It is not named, which the planner takes for no samples."""
    links = QuietLinks()
    for _ in range(BUSY_WINDOWS):
        links.step({"a": BUSY_PAIRS})
    assert links.step({}) == {}
    assert not links.busy


def test_file_is_followed_and_grows_stale(tmp_path: Path) -> None:
    """Each new window counts once; without any for 10 s all links are quiet."""
    path, events, now_ns = tmp_path / "link_samples.json", list[Event](), 0
    links = QuietLinksFile(path, events.append, now_collector_ns=lambda: now_ns)
    assert links() == {}
    for window in range(BUSY_WINDOWS):
        now_ns = window * 1_000_000_000
        found = LinkSamples(window_end_collector_ns=now_ns, pairs={"a": BUSY_PAIRS + window})
        path.write_bytes(link_samples_text(found))
        for _ in range(5):  # the same window again is no other one
            links()
    assert links() == {"a": PAIRS_PER_WINDOW_WANTED}
    assert links.busy_count == 1
    path.write_text("[]", encoding="utf-8")
    assert links() == {"a": PAIRS_PER_WINDOW_WANTED}
    assert [event.kind for event in events] == [EventKind.LINK_SAMPLES_REFUSED]
    now_ns += STALE_NS + 1
    assert links() == {}
    assert links.busy_count == 0


def test_window_far_ahead_says_nothing(tmp_path: Path) -> None:
    """A clock that was set back must not keep links from being probed until it has caught up."""
    path, now_ns = tmp_path / "link_samples.json", 3_600_000_000_000
    links = QuietLinksFile(path, lambda event: None, now_collector_ns=lambda: now_ns)
    for window in range(BUSY_WINDOWS):
        found = LinkSamples(window_end_collector_ns=now_ns, pairs={"a": BUSY_PAIRS + window})
        path.write_bytes(link_samples_text(found))
        links()
    assert links.busy_count == 1
    now_ns = 0
    assert links() == {}


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[]", '{"version":2}', '{"version":1,"pairs":[]}', "[" * 100_000],
        '{"version":1,"window_end_collector_ns":"1","pairs":{"a":Infinity}}',
        '{"version":1,"window_end_collector_ns":1e999,"pairs":{}}',
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str) -> None:
    """Whatever is wrong with them, the error names the file."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LinkSamplesError, match=r"x\.json"):
        read_link_samples(path)
