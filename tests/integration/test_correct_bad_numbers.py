# SPDX-License-Identifier: Apache-2.0
"""Bad numbers in `exchanges.jsonl`: the same answers, and what was left out is shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.ptp_log import exchange_line, read_ptp_log, write_ptp_log
from tempotrace.cli import app
from tests.support.bad_numbers import IMPOSSIBLE_EXCHANGES, STRANGE_EXCHANGES
from tests.support.golden_ptp import Golden, write_golden

STRANGE = ("client in TAI for UTC", "client from 1970")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with `exchanges.jsonl`, and the same with bad rows in `damaged.jsonl`."""
    made = tmp_path_factory.mktemp("bad-numbers")
    write_golden(made, Golden(theta_ns=777))
    clocks = fabric_model(load_fabric(made / "fabric.yaml")).clocks
    names = [clock.name for clock in clocks]
    rows = read_ptp_log(
        made / "exchanges.jsonl", {name: number for number, name in enumerate(names)}
    ).exchanges
    rng = np.random.default_rng(6)
    heap = [rows]
    for damage in IMPOSSIBLE_EXCHANGES.values():
        heap.append(rows[rng.integers(0, len(rows), 3)])
        damage.apply(heap[-1], rng)
    for place, name in enumerate(STRANGE):
        heap.append(rows[place::8].copy())
        STRANGE_EXCHANGES[name].apply(heap[-1], rng)
    heap.append(rows[:5])
    mixed = rng.permutation(np.concatenate(heap))
    write_ptp_log(
        made / "damaged.jsonl", [exchange_line(row, names[int(row["client"])]) for row in mixed]
    )
    return made


def command(folder: Path, exchanges: str, *arguments: str) -> Result:
    """`correct run` or `correct paths`."""
    files = ["-f", str(folder / "fabric.yaml"), "--reports", str(folder / "reports.pcap")]
    files += ["--exchanges", str(folder / exchanges)]
    got = CliRunner().invoke(app, ["correct", arguments[0], *files, *arguments[1:]])
    assert got.exit_code == 0, got.output
    return got


@pytest.mark.parametrize("name", ["run", "paths"])
def test_json_is_the_same_but_for_the_counts(folder: Path, name: str) -> None:
    """Corrections, links, findings, associations and changes."""
    good, damaged = (
        json.loads(command(folder, exchanges, name, "--json").stdout)
        for exchanges in ("exchanges.jsonl", "damaged.jsonl")
    )
    assert good.pop("rejected") == {}
    rejected: dict[str, Any] = damaged.pop("rejected")
    assert damaged == good
    damages = {**IMPOSSIBLE_EXCHANGES, **STRANGE_EXCHANGES}
    for kind in (*IMPOSSIBLE_EXCHANGES, *STRANGE):
        assert rejected[damages[kind].reason.value] >= 3
    assert rejected["exchange_duplicate"] == 5


@pytest.mark.parametrize("name", ["run", "paths"])
def test_the_table_names_every_reason(folder: Path, name: str) -> None:
    """For people."""
    shown = command(folder, "damaged.jsonl", name).stdout
    assert "left out" in shown
    for damage in IMPOSSIBLE_EXCHANGES.values():
        assert damage.reason.value in shown
