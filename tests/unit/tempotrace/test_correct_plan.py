# SPDX-License-Identifier: Apache-2.0
"""What `tempotrace correct plan` prints of a plan, and what it refuses."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from correction.model import Clock, ClockKind, FabricModel
from correction.planning import COSTS, Candidate, Kind, Plan, Step
from tempotrace.cli import app
from tempotrace.commands.correct_plan import _costs, plan_document, plan_lines
from tempotrace.errors import InputError

MODEL = FabricModel(
    clocks=tuple(
        Clock(
            name=name, kind=ClockKind.NIC, node_id=0, ip=1, stamp_unit_ns=1, stamp_jitter_ns=1
        )
        for name in ("h1", "h2", "h3")
    ),
    links=(),
    reference=0,
    rate_offset_max_ppb=1,
    wander_ns_per_s_sqrt_s=1.0,
)  # fmt: skip
SWAP = Candidate(
    kind=Kind.FIBRE_SWAP, subject="leaf1:1-spine1:1", u=0, v=1, noise_sd_ns=1.0, sd_ns=1.0, edge=0
)  # fmt: skip
PLAN = Plan(
    steps=(
        Step(
            candidate=SWAP,
            cost=5.0,
            determines=(1, 2),
            largest_before_ns=np.inf,
            largest_ns=24.04,
            bounds_ns=np.array([0.0, 20.0, 24.04]),
        ),
    ),
    undetermined=(1, 2),
    largest_ns=np.inf,
    reached=True,
)


def test_the_text_names_step_cost_bound_and_clocks() -> None:
    """One line a step, and one for what it determines; no infinity is called a number."""
    assert plan_lines(PLAN, MODEL) == [
        "not determined: h2, h3",
        "largest conditional bound: unlimited",
        "1. swap the fibres of leaf1:1-spine1:1 (cost 5): largest bound unlimited -> 24 ns",
        "   determines h2, h3",
    ]


def test_the_document_is_strict_json() -> None:
    """An unlimited bound is null."""
    document = json.loads(json.dumps(plan_document(PLAN, MODEL), allow_nan=False))
    assert document["largest_bound_conditional_ns"] is None
    (step,) = document["steps"]
    assert step["bound_conditional_ns"] == {"h1": 0.0, "h2": 20.0, "h3": 24.0}
    assert (step["kind"], step["cost"], step["determines"]) == ("fibre-swap", 5.0, ["h2", "h3"])


def test_a_cost_of_zero_leaves_a_kind_out() -> None:
    """Other costs stay."""
    costs = _costs(["reference-clock=0", "probe=3"])
    assert Kind.REFERENCE_CLOCK not in costs
    assert costs[Kind.PROBE] == 3.0
    assert costs[Kind.FIBRE_SWAP] == COSTS[Kind.FIBRE_SWAP]


@pytest.mark.parametrize("text", ["probe", "nothing=1", "probe=x", "probe=-1", "probe=nan"])
def test_a_wrong_cost_is_refused(text: str) -> None:
    """With what was expected."""
    with pytest.raises(InputError, match="expected"):
        _costs([text])


def test_the_command_is_there() -> None:
    """Its help names the kinds."""
    result = CliRunner().invoke(app, ["correct", "plan", "--help"])
    assert result.exit_code == 0
    assert "--cost" in result.output
