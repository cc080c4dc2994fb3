# SPDX-License-Identifier: Apache-2.0
"""The causal pairs of a store's spans."""

from tracing_core.ordering import CausalPairs
from tracing_core.store import Store
from tracing_core.store.pairs import read_causal_pairs


def causal_pairs(store: Store, *, tenant: str = "") -> CausalPairs:
    """Cross-host parent/child pairs and the ends of transfers; of one tenant if named."""
    return read_causal_pairs(store.engine, tenant=tenant)
