# SPDX-License-Identifier: Apache-2.0
"""The tables of spans: their rows, and the parts of traces by id and by time."""

SEGMENT_TIME = "toDateTime(intDiv(bitShiftRight(segment, 12), 1000000), 'UTC')"
"""When a segment was begun: its number is microseconds since 1970, then 12 bits of the writer."""
SEGMENT_DAY = f"toYYYYMMDD({SEGMENT_TIME})"

_SETTINGS = """\
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1,
    fsync_part_directory = 1, ttl_only_drop_parts = 1, min_bytes_for_wide_part = 67108864,
    max_bytes_to_merge_at_max_space_in_pool = 536870912"""
"""Of every table: a batch is on the disk when its insert returns, and is taken once."""

SPAN_ROWS = f"""
CREATE TABLE IF NOT EXISTS span_rows (
    tenant LowCardinality(String),
    segment UInt64,
    trace_id FixedString(16),
    span_id FixedString(8),
    parent_span_id FixedString(8),
    name LowCardinality(String),
    kind UInt8,
    start_local_ns Int64,
    end_local_ns Int64,
    received_ns Int64,
    clock_domain LowCardinality(String),
    host LowCardinality(String),
    service LowCardinality(String),
    attributes_string Map(LowCardinality(String), String),
    attributes_int Map(LowCardinality(String), Int64),
    attributes_double Map(LowCardinality(String), Float64),
    attributes_bool Map(LowCardinality(String), Bool),
    attributes_other Map(LowCardinality(String), String),
    event_name Array(LowCardinality(String)),
    event_time_local_ns Array(Int64),
    event_body Array(String),
    links Array(String),
    resource LowCardinality(String),
    resource_schema_url LowCardinality(String),
    scope LowCardinality(String),
    scope_schema_url LowCardinality(String),
    status_code UInt8,
    status_message String,
    trace_state String,
    flags UInt32,
    dropped_attributes UInt32,
    dropped_events UInt32,
    dropped_links UInt32,
    INDEX string_values mapValues(attributes_string) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX int_values mapValues(attributes_int) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX start_range start_local_ns TYPE minmax GRANULARITY 1
) ENGINE = MergeTree
PARTITION BY {SEGMENT_DAY}
ORDER BY (tenant, segment, trace_id, start_local_ns)
PRIMARY KEY (tenant, segment, trace_id)
{_SETTINGS}
"""
"""Raw spans in the order of their arrival. A segment is what one insert brought; parts that follow
one another in time merge by copying. Arrays, key-value lists, bytes and nothing at all stand in
`attributes_other` as protobuf AnyValue; events with attributes, links, resources and scopes are
kept as the protobuf messages they came in."""

TRACE_PARTS = f"""
CREATE TABLE IF NOT EXISTS trace_parts (
    tenant LowCardinality(String),
    trace_id FixedString(16),
    segment UInt64,
    start_local_ns Int64,
    end_local_ns Int64,
    span_count UInt32,
    root_name LowCardinality(String),
    job LowCardinality(String),
    step Int64,
    services Array(LowCardinality(String)),
    hosts Array(LowCardinality(String)),
    names Array(LowCardinality(String))
) ENGINE = MergeTree
PARTITION BY {SEGMENT_DAY}
ORDER BY (tenant, trace_id, segment)
{_SETTINGS}
"""
"""What each segment holds of each trace: its time range, and what a search asks for."""

TRACE_PARTS_FINE = f"""
CREATE TABLE trace_parts_fine AS trace_parts ENGINE = MergeTree
PARTITION BY {SEGMENT_DAY}
ORDER BY (tenant, trace_id, segment)
{_SETTINGS}, index_granularity = 1024
"""
"""A trace is looked up in every part, and as many rows are read there as a granule has."""

TRACE_TIMES = f"""
CREATE TABLE IF NOT EXISTS trace_times (
    tenant LowCardinality(String),
    start_local_ns Int64,
    end_local_ns Int64,
    trace_id FixedString(16),
    segment UInt64,
    job LowCardinality(String),
    step Int64,
    services Array(LowCardinality(String)),
    hosts Array(LowCardinality(String)),
    names Array(LowCardinality(String))
) ENGINE = MergeTree
PARTITION BY {SEGMENT_DAY}
ORDER BY (tenant, start_local_ns, trace_id)
{_SETTINGS}, index_granularity = 1024
"""
"""The parts of traces again, by their raw start: a search reads the newest first and stops."""

TIMES_COLUMNS = (
    "tenant, start_local_ns, end_local_ns, trace_id, segment, job, step, services, hosts, names"
)
