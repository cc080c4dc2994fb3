# SPDX-License-Identifier: Apache-2.0
"""All table tests are mirrored on BMv2 where it is installed."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _mirrored(mirrored: None) -> None:
    """Attach the mirror."""
