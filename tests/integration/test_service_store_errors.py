# SPDX-License-Identifier: Apache-2.0
"""What clients learn when the database fails."""

import pytest

from tests.support.served import served
from tracing_core.store import Store, StoreError


def test_errors_of_the_database_are_not_told_to_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words name paths and tables; the answer says that the store is at fault, and no more."""

    def fails(*_: object, **__: object) -> None:
        raise StoreError("Cannot open file /var/lib/tempotrace/store/1f9")

    with Store.open() as store:
        monkeypatch.setattr(store.spans, "trace", fails)
        with served(store) as client:
            response = client.get(f"/v1/traces/{1:032x}")
    assert response.status_code == 503
    assert "the store does not answer" in response.json()["detail"]
    assert "1f9" not in response.text
