# SPDX-License-Identifier: Apache-2.0
"""Clocks over HTTP when each has several windows of corrections."""

from dataclasses import replace

import httpx

from tests.support.tracing_world import build
from tracing_core.service import create_app, serve_in_thread
from tracing_core.store import Store


def test_clocks_list_the_newest_window_and_all_rows_on_demand() -> None:
    """The prior stands once; `all=true` adds the older windows; the summary uses the centre."""
    made = build(33, transfers=1)
    rows = [
        replace(
            row,
            valid_from_local_ns=row.valid_from_local_ns + 10**10 * part,
            valid_to_local_ns=row.valid_from_local_ns + 10**10 * (part + 1),
            bound_conditional_ns=bound,
            window_index=window,
        )
        for row in made.corrections
        for part, (window, bound) in enumerate([(0, 10), (0, 90), (1, 80), (1, 20), (1, 95)])
    ]
    with Store.open() as store:
        store.fabric.replace(made.nodes, made.links)
        store.corrections.append(rows)
        with (
            serve_in_thread(create_app(store)) as handle,
            httpx.Client(base_url=handle.url, trust_env=False, timeout=30) as opened,
        ):
            newest, everything = (
                opened.get("/v1/clocks").json(),
                opened.get("/v1/clocks?all=true").json(),
            )
            summary = opened.get("/v1/summary").json()
    for answer, bounds in ((newest, [80, 20, 95]), (everything, [10, 90, 80, 20, 95])):
        assert answer["prior"] == "none"
        for clock in answer["clocks"]:
            assert [row["bound_conditional_ns"] for row in clock["corrections"]] == bounds
            assert clock["centre"]["bound_conditional_ns"] == 20
            assert clock["corrections_in_force"] == 5
            assert "prior" not in clock["centre"]
    assert summary["clocks"]["bound_conditional_ns_median"] == 20
