# SPDX-License-Identifier: Apache-2.0
"""SIGKILL under load: what was acknowledged is there, once, and was passed on."""

from pathlib import Path

import pytest

from tests.support.kill_ingest import SPANS_PER_REQUEST, killer


@pytest.mark.timeout(300)
def test_no_acknowledged_span_is_lost_or_doubled_by_sigkill(tmp_path: Path) -> None:
    """Under load, with a power failure on top, then before an insert and while it recovers from
    that; requests without an answer are sent again, as SDKs do."""
    with killer(tmp_path / "service", seed=5) as one:
        one.under_load()
        one.fail_power()
        one.in_recovery()
        outcome = one.finish()
    assert outcome.kills == {"under load": 1, "before insert": 1, "in recovery": 1}
    assert len(outcome.acknowledged) > 10
    assert outcome.lost == 0
    assert outcome.doubled == 0
    assert outcome.spans == len(outcome.acknowledged) * SPANS_PER_REQUEST
    assert outcome.not_forwarded == 0
