# SPDX-License-Identifier: Apache-2.0
"""Which hop, link or host made a transfer slow - or why that cannot be told.

Sees spans, telemetry and corrections only; ground truth is out of its reach by import contract.
"""

from tracing_core.attribution.answer import (
    Attribution,
    ComponentAnswer,
    TransferAnswer,
    VerdictKind,
)
from tracing_core.attribution.index import AttributionIndex
from tracing_core.attribution.transfers import Transfers

__all__ = [
    "Attribution",
    "AttributionIndex",
    "ComponentAnswer",
    "TransferAnswer",
    "Transfers",
    "VerdictKind",
]
