# SPDX-License-Identifier: Apache-2.0
"""The OpenTelemetry SDK with its own exporters, in a process of its own:
`python -m tests.support.sdk_export grpc|http ENDPOINT COUNT`. Prints the trace id and what the
exporter said.

The gRPC exporter and finsy both register google/rpc/status.proto, so they cannot share a process.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

ATTRIBUTES: dict[str, Any] = {
    "text": "ünï ☃",
    "empty": "",
    "number": 2**53 + 1,
    "zero": 0,
    "ratio": 0.5,
    "flag": False,
    "texts": ["a", ""],
    "numbers": [0, 1],
    "flags": [True, False],
    "none": [],
}
"""Every kind that the SDK records."""


def export(
    transport: str, endpoint: str, count: int, *, compression: str = "none"
) -> dict[str, Any]:
    """Runs the process; its answer."""
    done = subprocess.run(
        [
            sys.executable, "-m", "tests.support.sdk_export", transport, endpoint, str(count),
            compression,
        ],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Exports one trace of COUNT spans."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode

    transport, endpoint, count, compression = sys.argv[1:5]
    exporter = _exporter(transport, endpoint, compression)
    resource = Resource(
        {
            "service.name": "trainer",
            "host.name": "h1",
            "tempotrace.clock.domain": "h1",
            "tempotrace.tenant": "alpha",
            "process.command_args": ["python", "-m", "train"],
        },
        schema_url="https://opentelemetry.io/schemas/1.34.0",
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=100_000))
    tracer = provider.get_tracer("sdk", "1.2", attributes={"scope": "own"})
    with tracer.start_as_current_span("root", kind=SpanKind.SERVER) as root:
        context = root.get_span_context()
        for number in range(int(count) - 1):
            span = tracer.start_span(
                "child", links=[Link(context, {"link": 1})], attributes={**ATTRIBUTES, "i": number}
            )
            span.add_event("checkpoint", {"event": True})
            span.set_status(Status(StatusCode.ERROR, "late"))
            span.end()
    flushed = provider.force_flush()
    provider.shutdown()
    print(json.dumps({"trace_id": f"{context.trace_id:032x}", "flushed": flushed}))


def _exporter(transport: str, endpoint: str, compression: str) -> Any:
    if transport == "grpc":
        import grpc
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        kind = grpc.Compression.Gzip if compression == "gzip" else grpc.Compression.NoCompression
        return OTLPSpanExporter(endpoint=endpoint, insecure=True, compression=kind)
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
        OTLPSpanExporter as HttpSpanExporter,
    )

    return HttpSpanExporter(endpoint=endpoint, compression=Compression(compression))


if __name__ == "__main__":
    main()
