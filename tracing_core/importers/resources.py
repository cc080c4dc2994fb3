# SPDX-License-Identifier: Apache-2.0
"""The resource of imported spans: whose they are, where they ran, which clock they are on."""

from collections.abc import Mapping

from tracing_core.clock_domains import (
    RESOURCE_CLOCK_KIND,
    RESOURCE_CLOCK_QUANTUM_NS,
    RESOURCE_CLOCK_REASON,
    ClockKind,
    clock_name,
)
from tracing_core.importers.report import FileClock, ImportOptions
from tracing_core.model import (
    DEFAULT_TENANT,
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
    Attributes,
    AttributeValue,
)

NO_HOST = "no host identity: the file does not say which host took the stamps"


def host_clock(
    options: ImportOptions,
    host: str,
    *,
    alignment: str,
    kind: ClockKind = ClockKind.SYSTEM,
    quantum_ns: int = 1,
    base_ns: int | None = None,
    reason: str = NO_HOST,
) -> FileClock:
    """The clock of a host's own stamps: what the user calls it, else one of the host."""
    name = options.clock or clock_name(host, kind)
    name = options.clocks.get(name, name)
    return FileClock(
        name=name,
        kind=kind,
        alignment=alignment,
        quantum_ns=quantum_ns,
        base_ns=base_ns,
        reason="" if name else reason,
    )


def resource(
    options: ImportOptions,
    clock: FileClock,
    *,
    host: str,
    service: str,
    further: Mapping[str, AttributeValue] | None = None,
) -> Attributes:
    """Resource attributes; what the file itself said stays where it does not contradict them."""
    said = {key: value for key, value in (further or {}).items() if key != RESOURCE_TENANT}
    own: dict[str, AttributeValue] = {
        RESOURCE_SERVICE: service,
        RESOURCE_CLOCK_KIND: clock.kind.value,
        RESOURCE_CLOCK_QUANTUM_NS: clock.quantum_ns,
    }
    if options.tenant != DEFAULT_TENANT:  # else they belong to whoever sends them
        own[RESOURCE_TENANT] = options.tenant
    if host:
        own[RESOURCE_HOST] = host
    if clock.name:
        own[RESOURCE_CLOCK_DOMAIN] = clock.name
    else:
        own[RESOURCE_CLOCK_REASON] = clock.reason
    return {**said, **own}
