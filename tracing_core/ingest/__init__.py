# SPDX-License-Identifier: Apache-2.0
"""From an admitted request to durable and queryable spans: write-ahead log, then store."""

from tracing_core.ingest.keeper import BusyError, DirectKeeper, Keeper
from tracing_core.ingest.log import WriteAheadLog
from tracing_core.ingest.pipeline import IngestLimits, LogKeeper

__all__ = [
    "BusyError",
    "DirectKeeper",
    "IngestLimits",
    "Keeper",
    "LogKeeper",
    "WriteAheadLog",
]
