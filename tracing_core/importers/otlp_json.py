# SPDX-License-Identifier: Apache-2.0
"""OTLP/JSON trace requests: one a line, or one document over many lines."""

from collections.abc import Iterator
from dataclasses import replace

from tracing_core.clock_domains import RESOURCE_CLOCK_KIND, ClockKind
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.source import Source
from tracing_core.model import RESOURCE_CLOCK_DOMAIN, Span
from tracing_core.otlp.errors import RequestDecodeError
from tracing_core.otlp.json_codec import decode_json

FORMAT = "otlp-json"
_NO_SPANS = {"resourceLogs": "logs", "resourceMetrics": "metrics", "resourceProfiles": "profiles"}


def otlp_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """Spans of all requests; they keep the clock domain that their resource names."""
    report.format = FORMAT
    reader = JsonReader(source.chunks())
    clocks: dict[tuple[str, str], FileClock] = {}
    for line in reader.documents():
        request = reader.value_text()
        try:
            decoded = decode_json(request.encode(), tenant=options.tenant)
        except RequestDecodeError as error:
            raise ImportRefusedError(f"line {line}: {error}") from error
        except UnicodeEncodeError:
            raise ImportRefusedError(f"line {line}: a text is not valid Unicode") from None
        for reason, count in decoded.rejections.counts.items():
            report.refuse(reason.value, decoded.rejections.examples[reason], count=count)
        if not decoded.spans and not decoded.rejections.total_count:
            _no_spans(request, line, report)
        for span in decoded.spans:
            kind = str(span.resource.get(RESOURCE_CLOCK_KIND, ""))
            clock = clocks.get((span.clock_domain, kind))
            if clock is None:
                clock = clocks[span.clock_domain, kind] = _clock(span, kind, options)
            if clock.name != span.clock_domain:
                span = replace(
                    span,
                    clock_domain=clock.name,
                    resource={**span.resource, RESOURCE_CLOCK_DOMAIN: clock.name},
                )
            yield report.take(span, clock)


def _clock(span: Span, kind: str, options: ImportOptions) -> FileClock:
    said = span.clock_domain
    name = options.clocks.get(said, said) or options.clock
    return FileClock(
        name=name,
        kind=ClockKind(kind) if kind in list(ClockKind) else ClockKind.UNKNOWN,
        alignment="Unix time in nanoseconds, as OTLP has it",
        reason="" if name else f"the resource has no {RESOURCE_CLOCK_DOMAIN}",
    )


def _no_spans(request: str, line: int, report: FileReport) -> None:
    for key, signal in _NO_SPANS.items():
        if f'"{key}"' in request:
            raise ImportRefusedError(f"line {line}: these are OTLP {signal}, no spans")
    report.note(f"line {line}: a request without spans")
