# SPDX-License-Identifier: Apache-2.0
"""Traces for other tools, with corrected time and its interval: OTLP, Chrome trace, Perfetto.

Pure: spans and a correction table in, bytes out.
"""

from tracing_core.export.chrome import chrome_trace
from tracing_core.export.otlp import otlp_trace
from tracing_core.export.perfetto import perfetto_trace
from tracing_core.export.placement import (
    LeftOut,
    NothingComparableError,
    PlacedSpan,
    TimeLine,
    for_picture,
    place,
    time_attributes,
)

__all__ = [
    "LeftOut",
    "NothingComparableError",
    "PlacedSpan",
    "TimeLine",
    "chrome_trace",
    "for_picture",
    "otlp_trace",
    "perfetto_trace",
    "place",
    "time_attributes",
]
