# SPDX-License-Identifier: Apache-2.0
"""The store's tables, as numbered migrations. A migration is never edited once released.

Tenant leads the sorting key of everything a tenant owns. Spans keep raw stamps only; corrections
are versioned rows that are applied at read. (tenant, trace_id, span_id, kind) is a span's
identity: readers take one row of each, since an OTLP retry may bring a span again.

`spans` of version 1 is only read to carry its rows over (`carry_over`), and then dropped.
"""

from dataclasses import dataclass

from tracing_core.store.span_schema import (
    SPAN_ROWS,
    TIMES_COLUMNS,
    TRACE_PARTS,
    TRACE_PARTS_FINE,
    TRACE_TIMES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema."""

    version: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version UInt32,
    name String
) ENGINE = MergeTree ORDER BY version
"""

SPANS = """
CREATE TABLE IF NOT EXISTS spans (
    tenant LowCardinality(String),
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    name LowCardinality(String),
    kind UInt8,
    start_local_ns Int64,
    end_local_ns Int64,
    clock_domain LowCardinality(String),
    host LowCardinality(String),
    service LowCardinality(String),
    attributes_string Map(LowCardinality(String), String),
    attributes_int Map(LowCardinality(String), Int64),
    attributes_other Map(LowCardinality(String), String),
    event_name Array(LowCardinality(String)),
    event_time_local_ns Array(Int64),
    event_attributes Array(String),
    links String,
    resource LowCardinality(String),
    scope_name LowCardinality(String),
    scope_version LowCardinality(String),
    status_code UInt8,
    status_message String,
    trace_state String,
    flags UInt32,
    INDEX start_range start_local_ns TYPE minmax GRANULARITY 1
) ENGINE = ReplacingMergeTree ORDER BY (tenant, trace_id, span_id, kind)
"""

CORRECTIONS = """
CREATE TABLE IF NOT EXISTS corrections (
    correction_version UInt64,
    clock LowCardinality(String),
    valid_from_local_ns Int64,
    valid_to_local_ns Int64,
    anchor_local_ns Int64,
    offset_ns Int64,
    rate_ppb Float64,
    bound_hard_ns Nullable(Int64),
    bound_conditional_ns Nullable(Int64),
    method LowCardinality(String),
    prior LowCardinality(String),
    status LowCardinality(String),
    reason String,
    ptp_offset_ns Nullable(Int64)
) ENGINE = MergeTree ORDER BY (clock, correction_version, valid_from_local_ns)
"""

CORRECTION_VERSIONS = """
CREATE TABLE IF NOT EXISTS correction_versions (
    correction_version UInt64
) ENGINE = MergeTree ORDER BY correction_version
"""

LINK_ESTIMATES = """
CREATE TABLE IF NOT EXISTS link_estimates (
    correction_version UInt64,
    link LowCardinality(String),
    a_uv_ns Float64,
    sigma_ns Float64,
    bad UInt8,
    delay_ab_ns Float64,
    delay_ba_ns Float64,
    samples_ab UInt32,
    samples_ba UInt32
) ENGINE = MergeTree ORDER BY (link, correction_version)
"""

FABRIC_NODES = """
CREATE TABLE IF NOT EXISTS fabric_nodes (
    name String,
    kind LowCardinality(String),
    node_id UInt32,
    ip UInt32,
    position UInt32
) ENGINE = ReplacingMergeTree ORDER BY name
"""

FABRIC_LINKS = """
CREATE TABLE IF NOT EXISTS fabric_links (
    name String,
    a LowCardinality(String),
    a_port UInt32,
    b LowCardinality(String),
    b_port UInt32,
    rate_bps Int64,
    access UInt8,
    position UInt32
) ENGINE = ReplacingMergeTree ORDER BY name
"""

PACKETS = """
CREATE TABLE IF NOT EXISTS packets (
    packet_id UInt64,
    hop_count UInt16,
    complete UInt8,
    traffic UInt8,
    src_ip UInt32,
    dst_ip UInt32,
    src_port UInt16,
    dst_port UInt16,
    dscp UInt8,
    wire_bytes UInt32,
    bth_opcode UInt8,
    dest_qp UInt32,
    psn UInt32,
    ptp_domain UInt8,
    ptp_message_type UInt8,
    ptp_clock_identity UInt64,
    ptp_port_number UInt16,
    ptp_sequence_id UInt16,
    capture_collector_ns Int64
) ENGINE = MergeTree ORDER BY (traffic, src_ip, dst_ip, dest_qp, psn, packet_id)
"""

HOPS = """
CREATE TABLE IF NOT EXISTS hops (
    packet_id UInt64,
    hop_index UInt16,
    node_id UInt32,
    ingress_port UInt16,
    egress_port UInt16,
    queue_id UInt8,
    queue_depth UInt32,
    ingress_tstamp_local_ns Int64,
    egress_tstamp_local_ns Int64,
    egress_bytes UInt32,
    ingress_bytes UInt32
) ENGINE = MergeTree ORDER BY (packet_id, hop_index)
"""

CORRECTIONS_WINDOW = """
ALTER TABLE corrections ADD COLUMN IF NOT EXISTS window_index Int32 DEFAULT 0
"""

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        version=1,
        name="spans, corrections, link estimates, fabric, packets and hops",
        statements=(
            SPANS,
            CORRECTIONS,
            CORRECTION_VERSIONS,
            LINK_ESTIMATES,
            FABRIC_NODES,
            FABRIC_LINKS,
            PACKETS,
            HOPS,
        ),
    ),
    Migration(version=2, name="window of a correction", statements=(CORRECTIONS_WINDOW,)),
    Migration(
        version=3,
        name="spans by day and arrival, typed attributes, time range of each trace",
        statements=(SPAN_ROWS, TRACE_PARTS),
    ),
    Migration(
        version=4,
        name="parts of traces by time, and in small granules by id",
        # Begins again without harm wherever it was cut off.
        statements=(
            "DROP TABLE IF EXISTS trace_parts_coarse SYNC",
            "DROP TABLE IF EXISTS trace_parts_fine SYNC",
            TRACE_PARTS_FINE,
            "INSERT INTO trace_parts_fine SELECT * FROM trace_parts",
            "RENAME TABLE trace_parts TO trace_parts_coarse, trace_parts_fine TO trace_parts",
            "DROP TABLE IF EXISTS trace_times SYNC",
            TRACE_TIMES,
            f"INSERT INTO trace_times SELECT {TIMES_COLUMNS} FROM trace_parts",
            "DROP TABLE trace_parts_coarse SYNC",
        ),
    ),
)
