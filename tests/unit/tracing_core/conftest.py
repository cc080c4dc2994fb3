# SPDX-License-Identifier: Apache-2.0
"""A store in memory for each test; chDB allows one path per process at a time."""

from collections.abc import Iterator

import pytest

from tracing_core.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened
