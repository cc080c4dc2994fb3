# SPDX-License-Identifier: Apache-2.0
"""The JSON of clocks' histories, observed paths and asymmetries."""

from pydantic import Field

from tracing_core.service.schemas import (
    NEXT_CURSOR,
    ApiModel,
    ClockItem,
    CorrectionRow,
    NsText,
    Versioned,
)


class ClockHistoryRow(CorrectionRow):
    """A correction with the version that it came with."""

    since_version: int
    in_force: bool = Field(
        description="Not wholly replaced by a newer version's row of other values."
    )
    prior: str


class ClockAnswer(Versioned):
    """A clock with all corrections that it ever had, as of a version."""

    clock: ClockItem
    history: list[ClockHistoryRow] = Field(
        description="Newest version first, of one version the latest validity first."
    )
    next_cursor: str | None = Field(description="Of older rows.")


class PathHop(ApiModel):
    """One switch of a path, by the ports that a packet took."""

    node_id: int
    node: str = Field(description="Empty for a node that the fabric does not have.")
    ingress_port: int
    egress_port: int


class FlowPathItem(ApiModel):
    """One way of a flow."""

    hops: list[PathHop]
    links: list[str | None] = Field(
        description="Cables from the sender's to the receiver's; null where the fabric has none."
    )
    packets: int
    first_collector_ns: NsText = Field(description="Capture time of a report, collector's clock.")
    last_collector_ns: NsText
    a_uv_ns: float | None = Field(
        description="Sum over the cables in the direction of travel, positive if this is the slower"
        " one; null if a cable's is not known."
    )
    a_uv_bound_conditional_ns: float | None = Field(description="Sum of the cables' bounds.")


class FlowItem(ApiModel):
    """A flow with the ways that its packets were seen to take."""

    traffic: str = Field(description="roce, ptp or probe")
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int
    src_host: str = Field(description="Empty for an address that the fabric does not have.")
    dst_host: str
    paths: list[FlowPathItem] = Field(description="The busiest first.")


class FlowPathList(Versioned):
    """Flows by traffic, addresses and ports."""

    flows: list[FlowItem]
    next_cursor: str | None = NEXT_CURSOR


class LinkAsymmetry(ApiModel):
    """How asymmetric a cable is, and how sure that is. `a_uv_ns` > 0: a to b is slower."""

    link: str
    a: str
    b: str
    access: bool
    a_uv_ns: float | None = Field(description="Half the one-way difference; null if not known.")
    a_uv_bound_conditional_ns: float | None = Field(
        description="The truth lies within it for `confidence` of the links, under the prior."
    )
    a_uv_limit_hard_ns: float | None = Field(
        description="By causality alone |a_uv| is at most this: half of the sum of both delays, as"
        " no direction takes less than no time."
    )
    confidence: float | None
    verdict: str = Field(
        description="asymmetric or symmetric where the interval lies on one side of `limit_ns`,"
        " else undecided; unknown without an estimate."
    )
    bad: bool = Field(description="The estimator found it asymmetric.")
    samples_ab: int
    samples_ba: int


class AsymmetryList(Versioned):
    """Cables in the fabric's order."""

    limit_ns: float = Field(description="A cable with |a_uv| of at least this is a bad one.")
    links: list[LinkAsymmetry]
    next_cursor: str | None = NEXT_CURSOR
