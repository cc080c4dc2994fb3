# SPDX-License-Identifier: Apache-2.0
"""The web page in a real browser: it draws what the API says."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import rendered
from tests.support.tracing_world import Fault, World, build
from tracing_core.service import ServiceHandle, create_app, serve_in_thread
from tracing_core.store import Store

pytestmark = [
    pytest.mark.web,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium"),
]
SLOW = 50


@pytest.fixture(scope="module")
def world() -> World:
    return build(
        32,
        faults=(Fault(transfer=SLOW, kind="hop", place=1, extra_ns=6_000),),
        flagged=("h8",),
    )


@pytest.fixture(scope="module")
def service(world: World) -> Iterator[ServiceHandle]:
    with Store.open() as store:
        world.fill(store)
        with serve_in_thread(create_app(store)) as handle:
            yield handle


def page(service: ServiceHandle, view: str, profile: Path) -> str:
    """The document after its scripts have run."""
    document = rendered(f"{service.url}/{view}", profile)
    assert 'role="alert"' not in document
    return document


def test_the_fabric_is_drawn(service: ServiceHandle, tmp_path: Path) -> None:
    """Every node has a box, and a flagged clock is marked."""
    document = page(service, "#fabric", tmp_path)
    assert document.count('class="cable') >= 16
    assert "spine2" in document
    assert "node flagged" in document


def test_the_clocks_are_plotted_with_both_bounds(service: ServiceHandle, tmp_path: Path) -> None:
    """Raw and corrected marks with whiskers; an infinite bound is a word."""
    document = page(service, "#clocks", tmp_path)
    assert document.count("raw-mark") >= 8
    assert "corrected-line hard" in document
    assert "unbounded" in document
    assert "at the centre of the newest window; bounds grow away from it" in document


def test_a_clocks_name_leads_to_all_its_intervals(service: ServiceHandle, tmp_path: Path) -> None:
    """The detail view lists the rows in force and marks the one that summaries use."""
    document = page(service, "#clocks/h2", tmp_path)
    assert "1 correction intervals" in document
    assert document.count('<tr class="chosen">') == 1


def test_the_trace_list_has_full_ids_and_a_filter(
    service: ServiceHandle, world: World, tmp_path: Path
) -> None:
    """An id that begins with zeros keeps them; start and duration stand beside it."""
    document = page(service, "#trace", tmp_path)
    assert f">{world.ids[0][0]}<" in document
    assert 'type="search"' in document
    assert "2027-01-15 08:00:00.0" in document


def test_a_trace_shows_raw_against_corrected(
    service: ServiceHandle, world: World, tmp_path: Path
) -> None:
    """Both bars and error bars of the chosen span's surroundings."""
    trace, span = world.ids[SLOW]
    document = page(service, f"#trace/{trace}/{span}", tmp_path)
    assert "raw-bar" in document
    assert "corrected-bar" in document
    assert "whisker" in document
    assert "after parent" not in document  # the send span is a root


def test_a_slow_transfer_is_explained(service: ServiceHandle, world: World, tmp_path: Path) -> None:
    """The verdict names the hop, and its bar is the leader."""
    _, spine, dst_leaf, _ = world.paths[SLOW]
    document = page(service, "#slow", tmp_path)
    assert f"{spine} port {dst_leaf[-1]} queue 1" in document
    assert "excess-bar leader" in document
