# SPDX-License-Identifier: Apache-2.0
"""SIGKILL under load: what was acknowledged is there, once."""

from pathlib import Path

import pytest

from tests.support.kill_ingest import SPANS_PER_REQUEST, kill_repeatedly


@pytest.mark.timeout(240)
def test_no_acknowledged_span_is_lost_or_doubled_by_sigkill(tmp_path: Path) -> None:
    """Three kills at random points; requests without an answer are sent again, as SDKs do."""
    outcome = kill_repeatedly(tmp_path, 3, seed=5, delay_s_max=1.0)
    assert outcome.kills == 3
    assert len(outcome.acknowledged) > 10
    assert outcome.lost == 0
    assert outcome.doubled == 0
    assert outcome.spans == len(outcome.acknowledged) * SPANS_PER_REQUEST
