# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the tracing core: spans, corrections, and corrected time beside raw time.

Raw stamps (`*_local_ns`) are on the clock that took them and are never changed. A corrected
stamp is a separate value with two bounds; what is unknown is None, never zero (design decisions
5 and 6).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum, unique

AttributeValue = (
    str
    | int
    | float
    | bool
    | bytes
    | None
    | tuple["AttributeValue", ...]
    | Mapping[str, "AttributeValue"]
)
"""A value of OTLP's AnyValue: an array is a tuple, a key-value list a mapping."""

Attributes = Mapping[str, AttributeValue]

DEFAULT_TENANT = "default"
"""Tenant of spans whose resource names none."""

RESOURCE_SERVICE = "service.name"
RESOURCE_HOST = "host.name"
RESOURCE_TENANT = "tempotrace.tenant"
RESOURCE_CLOCK_DOMAIN = "tempotrace.clock.domain"
"""Resource attribute that names the clock all stamps of the resource's spans are on."""

JOB_ATTRIBUTE = "tempotrace.job"
STEP_ATTRIBUTE = "tempotrace.step"
"""Attributes of the root span of a training step: the job's name and the step's number."""


@unique
class SpanKind(IntEnum):
    """OTLP's span kinds, with its numbers."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@unique
class ClockStatus(StrEnum):
    """What a correction row says about its clock."""

    SYNCHRONISED = "synchronised"
    """The offset is determined: the hard bound holds, the conditional one under its prior."""
    FLAGGED = "flagged"
    """The offset is not determined under the prior (design, Definitions)."""
    UNKNOWN = "unknown"
    """No estimate covers the instant."""
    DISRUPTED = "disrupted"
    """The clock stepped or was replaced: older corrections are void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """A named instant inside a span, on the span's clock."""

    name: str
    time_local_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLink:
    """A reference from one span to another one, of any trace."""

    trace_id: str
    span_id: str
    trace_state: str = ""
    flags: int = 0
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One operation as its host reported it. Ids are lower-case hex; stamps are raw."""

    tenant: str
    trace_id: str
    span_id: str
    parent_span_id: str
    """Empty for a root."""
    name: str
    kind: SpanKind
    start_local_ns: int
    end_local_ns: int
    clock_domain: str
    """Name of the clock that both stamps and all events are on; empty if it is not known."""
    host: str
    service: str
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    resource: Attributes = field(default_factory=dict)
    scope_name: str = ""
    scope_version: str = ""
    status_code: int = 0
    status_message: str = ""
    trace_state: str = ""
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One clock's correction over one validity interval, as a versioned row.

    `corrected = raw - (offset_ns + rate_ppb * 1e-9 * (raw - anchor_local_ns))`; the offset is
    local - reference, positive when the local clock is ahead. It holds for raw stamps in
    [valid_from_local_ns, valid_to_local_ns) on the clock itself. A bound of None is infinite.
    """

    clock: str
    valid_from_local_ns: int
    valid_to_local_ns: int
    anchor_local_ns: int
    offset_ns: int
    rate_ppb: float
    bound_hard_ns: int | None
    bound_conditional_ns: int | None
    method: str
    prior: str
    """The assumption under which `bound_conditional_ns` holds."""
    status: ClockStatus
    reason: str = ""
    """Why the clock has this status, in words."""
    ptp_offset_ns: int | None = None
    """What the PTP client itself computed from the exchange nearest the anchor: one noisy value."""
    window_index: int = 0
    """Number of the estimation window that the row belongs to, rising with time. A window has
    several rows: around its centre, away from it, and holdover before and after it."""

    def __post_init__(self) -> None:
        if self.valid_to_local_ns <= self.valid_from_local_ns:
            raise ValueError(f"correction of {self.clock}: empty validity interval")
        if not math.isfinite(self.rate_ppb):
            raise ValueError(f"correction of {self.clock}: rate_ppb is {self.rate_ppb}")
        for bound_ns in (self.bound_hard_ns, self.bound_conditional_ns):
            if bound_ns is not None and bound_ns < 0:
                raise ValueError(f"correction of {self.clock}: negative bound {bound_ns}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedInstant:
    """A raw stamp with its corrected value and bounds; None where nothing is known."""

    raw_local_ns: int
    corrected_reference_ns: int | None
    bound_hard_ns: int | None
    bound_conditional_ns: int | None
    status: ClockStatus
    method: str
    reason: str

    @property
    def earliest_reference_ns(self) -> int | None:
        """Lower end of the interval by the conditional bound."""
        if self.corrected_reference_ns is None or self.bound_conditional_ns is None:
            return None
        return self.corrected_reference_ns - self.bound_conditional_ns

    @property
    def latest_reference_ns(self) -> int | None:
        """Upper end of the interval by the conditional bound."""
        if self.corrected_reference_ns is None or self.bound_conditional_ns is None:
            return None
        return self.corrected_reference_ns + self.bound_conditional_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricNode:
    """A clock of the fabric as the API shows it: a host's NIC or a switch."""

    name: str
    kind: str
    """"nic" or "switch"."""
    node_id: int
    """INT node id of a switch; 0 for a NIC."""
    ip: int
    """IPv4 address of a NIC as an integer; 0 for a switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLink:
    """A cable between two ports."""

    name: str
    a: str
    a_port: int
    b: str
    b_port: int
    rate_bps: int
    access: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEstimate:
    """What was measured on one cable.

    `a_uv_ns` is half the one-way difference, positive when a -> b is the slower direction.
    NaN where a value is not determined.
    """

    link: str
    a_uv_ns: float
    sigma_ns: float
    bad: bool
    """Found to be asymmetric beyond the design's limit for a healthy link."""
    delay_ab_ns: float
    delay_ba_ns: float
    samples_ab: int = 0
    samples_ba: int = 0
