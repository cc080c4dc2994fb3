# SPDX-License-Identifier: Apache-2.0
"""The store: spans, corrections, fabric and telemetry in ClickHouse SQL, embedded by default."""

from pathlib import Path
from types import TracebackType

from tracing_core.store.corrections import LATEST, CorrectionStore
from tracing_core.store.engine import Engine, StoreClosedError, StoreError, StoreOpenError
from tracing_core.store.fabric import FabricStore, links_of, nodes_of
from tracing_core.store.old_spans import carry_over
from tracing_core.store.spans import SpanStore
from tracing_core.store.telemetry import TelemetryStore
from tracing_core.store.trace_search import TraceQuery, TraceSummary

__all__ = [
    "LATEST",
    "CorrectionStore",
    "FabricStore",
    "SpanStore",
    "Store",
    "StoreClosedError",
    "StoreError",
    "StoreOpenError",
    "TelemetryStore",
    "TraceQuery",
    "TraceSummary",
    "links_of",
    "nodes_of",
]


class Store:
    """Everything the service keeps; one process owns an embedded path."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.spans = SpanStore(engine)
        self.corrections = CorrectionStore(engine)
        self.fabric = FabricStore(engine)
        self.telemetry = TelemetryStore(engine)
        carry_over(engine, self.spans)

    @classmethod
    def open(cls, path: Path | None = None) -> "Store":
        """Embedded chDB in the folder `path`, or in memory when it is None."""
        return cls(Engine.embedded(path))

    @classmethod
    def open_url(cls, url: str) -> "Store":
        """A ClickHouse server by URL."""
        return cls(Engine.remote(url))

    @property
    def revision(self) -> tuple[int, int, int, int]:
        """Changes whenever anything stored changes while this process owns the store."""
        return (
            self.spans.revision,
            self.corrections.revision,
            self.fabric.revision,
            self.telemetry.revision,
        )

    def close(self) -> None:
        """Releases the path; a second call does nothing."""
        self.engine.close()
        self.spans.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
