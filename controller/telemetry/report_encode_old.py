# SPDX-License-Identifier: Apache-2.0
"""Encoders of INT v1.0 and v0.5 headers and of reports v1.0 and v0.5; one entrance to all formats.

For tests and generated loads; nothing here is a fast path.
"""

from collections.abc import Sequence

from controller.telemetry.codec import encode
from controller.telemetry.int_headers_old import (
    INT_VERSION_V05,
    INT_VERSION_V1,
    SHIM_TYPE_HOP_BY_HOP,
    pushed_bitmap,
    stack_form_v1,
)
from controller.telemetry.layout import (
    IntHopByHopV05,
    IntHopByHopV1,
    IntShimV05,
    IntShimV1,
    IntTailV05,
    ReportV05,
    ReportV05Drop,
    ReportV05Local,
    ReportV1,
)
from controller.telemetry.metadata import (
    REPORT_V1,
    STACK_V05,
    HopMetadata,
    encode_report_metadata,
    encode_stack_entry,
)
from controller.telemetry.profiles import Dialect, IntFormat, ReportFormat
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_reports,
    encode_stack,
)
from controller.telemetry.report_inner import IN_TYPE_ETHERNET, IN_TYPE_IPV4, IN_TYPE_IPV6
from controller.telemetry.report_old import (
    NEXT_DROP_V05,
    NEXT_ETHERNET,
    NEXT_IPV4_V1,
    NEXT_IPV6_V1,
    NEXT_LOCAL_V05,
)

_NEXT_V1 = {
    IN_TYPE_ETHERNET: NEXT_ETHERNET,
    IN_TYPE_IPV4: NEXT_IPV4_V1,
    IN_TYPE_IPV6: NEXT_IPV6_V1,
}
_ONES_16 = 0xFFFF
_ONES_32 = 0xFFFFFFFF


def encode_int_stack(spec: StackSpec, dialect: Dialect) -> bytes:
    """Shim, header and stack in the INT version of the dialect.

    `npt_value` of the spec is DSCP << 2 for v1.0; for v0.5 the original port, or with NPT 0 the
    original DSCP << 2.
    """
    if dialect.int_format is IntFormat.V2:
        return encode_stack(spec, dialect)
    if dialect.int_format is IntFormat.V1:
        return _encode_int_v1(spec, dialect)
    return _encode_int_v05(spec)


def _encode_int_v1(spec: StackSpec, dialect: Dialect) -> bytes:
    form = stack_form_v1(dialect)
    bitmap = pushed_bitmap(spec.instruction_bitmap, dialect)
    hops = [_unscaled(hop, dialect.hop_latency_factor) for hop in reversed(spec.hops)]
    stack = b"".join(encode_stack_entry(bitmap, hop, form) for hop in hops)
    shim = IntShimV1(
        shim_type=SHIM_TYPE_HOP_BY_HOP,
        reserved1=0,
        length_words=3 + len(stack) // 4,
        dscp=spec.npt_value >> 2,
        reserved2=0,
    )
    header = IntHopByHopV1(
        version=INT_VERSION_V1,
        replication=0,
        copy=0,
        max_hop_count_exceeded=0,
        mtu_exceeded=0,
        reserved1=0,
        hop_metadata_len_words=form.words(bitmap),
        remaining_hop_count=spec.remaining_hop_count,
        instruction_bitmap=spec.instruction_bitmap,
        reserved2=0,
    )
    return encode(shim) + encode(header) + stack


def _unscaled(hop: HopMetadata, factor: int) -> HopMetadata:
    if hop.hop_latency is None:
        return hop
    return hop._replace(hop_latency=hop.hop_latency // factor)


def _encode_int_v05(spec: StackSpec) -> bytes:
    entries = [
        encode_stack_entry(spec.instruction_bitmap, hop, STACK_V05) for hop in reversed(spec.hops)
    ]
    stack = b"".join(entries)
    shim = IntShimV05(
        shim_type=SHIM_TYPE_HOP_BY_HOP,
        reserved1=0,
        length_words=4 + len(stack) // 4,
        reserved2=0,
    )
    header = IntHopByHopV05(
        version=INT_VERSION_V05,
        replication=0,
        copy=0,
        max_hop_count_exceeded=0,
        reserved1=0,
        instruction_count=spec.instruction_bitmap.bit_count(),
        max_hop_count=len(spec.hops) + spec.remaining_hop_count,
        total_hop_count=len(spec.hops),
        instruction_bitmap=spec.instruction_bitmap,
        reserved2=0,
    )
    by_port = spec.npt != 0
    tail = IntTailV05(
        protocol=17,
        dst_port=spec.npt_value if by_port else spec.original_dst_port,
        dscp=0 if by_port else spec.npt_value >> 2,
    )
    return encode(shim) + encode(header) + stack + encode(tail)


def encode_datagram(
    *,
    node_id: int,
    hw_id: int,
    sequence_number: int,
    reports: Sequence[ReportSpec],
    dialect: Dialect,
) -> bytes:
    """The UDP payload in the report format of the dialect; before v2.0 it holds one report."""
    if dialect.report_format is ReportFormat.V2:
        return encode_reports(
            node_id=node_id,
            hw_id=hw_id,
            sequence_number=sequence_number,
            reports=reports,
            dialect=dialect,
        )
    (spec,) = reports
    values = spec.metadata or HopMetadata()
    tstamp = _ones(values.ingress_tstamp, _ONES_32)
    if dialect.report_format is ReportFormat.V1:
        v1 = ReportV1(
            version=dialect.report_version,
            length_words=4 + spec.metadata_bits.bit_count(),
            next_protocol=_NEXT_V1[spec.inner_type],
            report_metadata_bits=spec.metadata_bits,
            reserved=0,
            dropped=spec.dropped,
            congested_queue=spec.congested_queue,
            tracked_flow=spec.tracked_flow,
            hw_id=hw_id,
            node_id=node_id,
            sequence_number=sequence_number,
            ingress_tstamp=tstamp,
        )
        return (
            encode(v1) + encode_report_metadata(spec.metadata_bits, values, REPORT_V1) + spec.inner
        )
    assert spec.inner_type == IN_TYPE_ETHERNET
    next_protocol, own = _own_header_v05(node_id, spec)
    v05 = ReportV05(
        version=dialect.report_version,
        next_protocol=next_protocol,
        dropped=spec.dropped,
        congested_queue=spec.congested_queue,
        tracked_flow=spec.tracked_flow,
        reserved=0,
        hw_id=hw_id,
        sequence_number=sequence_number,
        ingress_tstamp=tstamp,
    )
    return encode(v05) + own + spec.inner


def _own_header_v05(node_id: int, spec: ReportSpec) -> tuple[int, bytes]:
    """(NProto, header of the node's own values); none where all that is known is a stamp."""
    values = spec.metadata
    if values is None or (values.ingress_port is None and not spec.dropped):
        return NEXT_ETHERNET, b""
    ports = _ones(values.ingress_port, _ONES_16), _ones(values.egress_port, _ONES_16)
    if spec.dropped:
        drop = ReportV05Drop(
            node_id,
            *ports,
            drop_queue_id=_ones(values.drop_queue_id, 0xFF),
            drop_reason=_ones(values.drop_reason, 0xFF),
            pad=0,
        )
        return NEXT_DROP_V05, encode(drop)
    local = ReportV05Local(
        node_id,
        *ports,
        queue_id=_ones(values.queue_id, 0xFF),
        queue_depth=_ones(values.queue_depth, 0xFFFFFF),
        egress_tstamp=_ones(values.egress_tstamp, _ONES_32),
    )
    return NEXT_LOCAL_V05, encode(local)


def _ones(value: int | None, ones: int) -> int:
    return ones if value is None else value
