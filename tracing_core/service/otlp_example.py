# SPDX-License-Identifier: Apache-2.0
"""A trace request in OTLP/JSON, as the API's documentation shows it."""

OTLP_JSON = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [
                    {"key": "service.name", "value": {"stringValue": "trainer"}},
                    {"key": "host.name", "value": {"stringValue": "h3"}},
                    {"key": "tempotrace.clock.domain", "value": {"stringValue": "h3"}},
                    {"key": "tempotrace.tenant", "value": {"stringValue": "alpha"}},
                ]
            },
            "scopeSpans": [
                {
                    "scope": {"name": "example"},
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "name": "step",
                            "kind": 1,
                            "startTimeUnixNano": "1800000000000000000",
                            "endTimeUnixNano": "1800000000000250000",
                            "attributes": [{"key": "tempotrace.step", "value": {"intValue": "12"}}],
                        }
                    ],
                }
            ],
        }
    ]
}
