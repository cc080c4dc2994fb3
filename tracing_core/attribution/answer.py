# SPDX-License-Identifier: Apache-2.0
"""The answer to "what made this transfer slow", with everything it rests on."""

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class VerdictKind(StrEnum):
    """What kind of thing is named."""

    HOP = "hop"
    LINK = "link"
    HOST = "host"
    NONE = "none"
    """Nothing is named: the transfer is not slow, or it cannot be told (see the reason)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentAnswer:
    """One part of the latency, in the order of the path. Values in ns; None is unknown."""

    kind: str
    entity: str
    """For people, for example "spine2 port 5 queue 1"."""
    entity_id: str
    """For programs: `node:port` of a hop, `from:port->to:port` of a link, the name of a host."""
    value_ns: float | None
    bound_conditional_ns: float | None
    """Of the value; 0 where both stamps are of one clock, None where a clock is not determined."""
    usual_ns: float | None
    spread_ns: float | None
    samples: int
    excess_ns: float | None
    excess_bound_ns: float | None
    clocks: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAnswer:
    """One transfer as it is listed."""

    tenant: str
    trace_id: str
    send_span_id: str
    recv_span_id: str
    job: str
    step: int | None
    sender: str
    receiver: str
    bytes: int
    latency_raw_ns: int
    """recv.end - send.start as stamped: two clocks, for comparison only."""
    latency_corrected_ns: int | None
    latency_bound_conditional_ns: float | None
    usual_ns: float | None
    """Sum of the components' usual values."""
    excess_ns: float | None
    spread_ns: float | None
    """Usual scatter of the excess over all transfers."""
    slow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The verdict on one transfer."""

    transfer: TransferAnswer
    kind: VerdictKind
    entity: str
    """Empty when nothing is named."""
    entity_id: str
    side: str
    """"sender" or "receiver" when a host is named."""
    share: float | None
    """Part of the excess that the named component explains."""
    reason: str
    evidence: tuple[str, ...]
    components: tuple[ComponentAnswer, ...]
    clock_status: dict[str, str]
    """Status of every clock involved."""
    correction_version: int
