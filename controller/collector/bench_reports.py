# SPDX-License-Identifier: Apache-2.0
"""Reports for the collector's bench: valid, all different, and cheap to make by the million.

Flows of the demo's fabric (eight leaves, four spines) are reported in one of four ways. Each report
is made once by the encoders; a compiled loop writes into its copies what changes from packet to
packet: sequence numbers, PSNs and stamps, which follow the sender's clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, unique

import numpy as np
from numpy.typing import NDArray

from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.telemetry.frames import PtpAddresses, RoceFlow, ptp_sync, roce_frame
from controller.telemetry.layout import ETHERNET
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.report_encode import ReportSpec, StackSpec, encode_reports, insert_stack
from correction.compiled import compiled

BLOCK_ROWS = 64
"""Reports of one flow and length one after the other: what may be coalesced."""
FLOWS = 8
_PACKET_SPACING_NS = 40
_STAMP_MASK = (1 << 48) - 1
_INSTRUCTIONS = 0xFC00
_STACK_REPORT_BITS, _POSTCARD_BITS = 0x4800, 0x7C00
_PAYLOAD_BYTES = 64
"""Of the reported packet; the fabric's reports are cut behind its BTH."""
_BTH_END = 20 + 8 + 12

# what a field of a template holds, in the table that the compiled loop reads
_SEQUENCE, _PSN, _STAMP, _PTP_SEQUENCE, _PTP_CLOCK = 1, 2, 3, 4, 5
_FIELD_KIND, _FIELD_OFFSET, _FIELD_BYTES, _FIELD_BASE = 0, 1, 2, 3
_STAMP_MARK = 0x0000_5A5A_0000_0000
_PSN_MARK = 0xABCDEF
_PTP_SEQUENCE_MARK = 0xBEE5
_PTP_CLOCK_MARK = 0x020000FF_9D8C7B6A


@unique
class ReportKind(Enum):
    """How a packet's three hops are reported."""

    STACK = "md"
    """INT-MD: the sink reports a stack that holds all three hops."""
    STACK_AND_POSTCARD = "md_sink_postcard"
    """INT-MD: a stack of two hops, and the sink's own hop in a report of its own."""
    POSTCARDS = "xd"
    """INT-XD: each node reports."""
    PTP = "ptp"
    """The same of PTP Sync messages."""

    @property
    def reports_per_packet(self) -> int:
        """Reports that one packet causes."""
        return {"md": 1, "md_sink_postcard": 2}.get(self.value, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    payload: bytes
    sender: tuple[int, int]
    """(node id, hw id)."""


def bench_fabric() -> Fabric:
    """The fabric that the generated reports come from."""
    return leaf_spine(leaves=8, spines=4, hosts_per_leaf=2)


class ReportLoad:
    """An endless stream of reports of one kind."""

    def __init__(self, kind: ReportKind) -> None:
        self.kind = kind
        flows = [_templates(kind, flow) for flow in range(FLOWS)]
        templates = [template for flow in flows for template in flow]
        self._per_packet = len(flows[0])
        senders = sorted({template.sender for template in templates})
        longest = max(len(template.payload) for template in templates)
        self._payloads = np.zeros((len(templates), longest), np.uint8)
        self._byte_counts = np.array([len(t.payload) for t in templates], np.int32)
        fields = [_fields(template) for template in templates]
        self._fields = np.zeros((len(templates), max(map(len, fields)), 4), np.int64)
        for number, template in enumerate(templates):
            self._payloads[number, : len(template.payload)] = np.frombuffer(
                template.payload, np.uint8
            )
            self._fields[number, : len(fields[number])] = fields[number]
        self._sender_rows = np.array([senders.index(t.sender) for t in templates], np.int64)
        self._sequence_numbers = np.zeros(len(senders), np.int64)
        self._state = np.zeros(2, np.int64)
        """Packets so far, and the newest stamp."""

    @property
    def reports_per_round(self) -> int:
        """`fill` makes whole multiples of this."""
        return BLOCK_ROWS * len(self._payloads)

    def room(self, rounds: int) -> "Rows":
        """Room for the reports of some rounds, in the order in which they are sent."""
        one = np.repeat(self._byte_counts, BLOCK_ROWS)
        byte_count = np.tile(one, rounds)
        start = np.zeros(len(byte_count), np.int64)
        np.cumsum(byte_count[:-1], dtype=np.int64, out=start[1:])
        contents = b"".join(
            payload.tobytes()[:size] * BLOCK_ROWS
            for payload, size in zip(self._payloads, self._byte_counts.tolist(), strict=True)
        )
        buffer = np.frombuffer(bytearray(contents * rounds), np.uint8)
        return Rows(buffer, start, byte_count)

    def fill(self, rows: "Rows", *, now_ns: int) -> None:
        """Write the next reports into their room; their packets are stamped from `now_ns` on."""
        _fill(
            rows.buffer,
            rows.start,
            self._fields,
            self._sender_rows,
            self._sequence_numbers,
            self._state,
            self._per_packet,
            now_ns,
        )


@dataclass(slots=True)
class Rows:
    """A buffer of reports and where each lies."""

    buffer: NDArray[np.uint8]
    start: NDArray[np.int64]
    byte_count: NDArray[np.int32]


def _templates(kind: ReportKind, flow: int) -> list[_Template]:
    source, spine, sink = flow % 8 + 1, 101 + flow % 4, (flow + 3) % 8 + 1
    uplink = flow % 4 + 1
    ports = ((source, 11, uplink), (spine, source, sink), (sink, uplink, 11))
    hops = [
        HopMetadata(
            node_id=node_id,
            ingress_port=ingress,
            egress_port=egress,
            hop_latency=600,
            queue_id=1,
            queue_depth=5,
            ingress_tstamp=_STAMP_MARK + 2 * place,
            egress_tstamp=_STAMP_MARK + 2 * place + 1,
        )
        for place, (node_id, ingress, egress) in enumerate(ports)
    ]
    src_ip, dst_ip = 0x0A000001 + (source << 8), 0x0A000001 + (sink << 8)
    if kind is ReportKind.PTP:
        addresses = PtpAddresses(src_mac=1, dst_mac=2, src_ip=src_ip, dst_ip=dst_ip)
        frame = ptp_sync(
            addresses, domain=0, clock_identity=_PTP_CLOCK_MARK, sequence_id=_PTP_SEQUENCE_MARK
        )
        inner = frame[ETHERNET.byte_count :]
        return [_postcard(hop, inner) for hop in hops]
    roce = RoceFlow(
        src_mac=1, dst_mac=2, src_ip=src_ip, dst_ip=dst_ip, src_port=50000 + flow, dest_qp=flow + 1
    )
    packet = roce_frame(roce, psn=_PSN_MARK, payload=bytes(_PAYLOAD_BYTES))[ETHERNET.byte_count :]
    if kind is ReportKind.POSTCARDS:
        return [_postcard(hop, packet[:_BTH_END]) for hop in hops]
    if kind is ReportKind.STACK:
        return [_stack_report(hops, hops[-1], packet)]
    return [_stack_report(hops[:-1], hops[-1], packet), _postcard(hops[-1], packet[:_BTH_END])]


def _stack_report(stack: Sequence[HopMetadata], sink: HopMetadata, packet: bytes) -> _Template:
    spec = StackSpec(hops=tuple(stack), instruction_bitmap=_INSTRUCTIONS, npt_value=26 << 2)
    inner = insert_stack(packet, spec, marked_dscp=27)
    inner = inner[: len(inner) - len(packet) + _BTH_END]
    own = HopMetadata(
        ingress_port=sink.ingress_port,
        egress_port=sink.egress_port,
        ingress_tstamp=sink.ingress_tstamp,
    )
    report = ReportSpec(inner=inner, metadata_bits=_STACK_REPORT_BITS, metadata=own)
    return _template(sink, 0, report)


def _postcard(hop: HopMetadata, inner: bytes) -> _Template:
    values = hop._replace(node_id=None)
    return _template(hop, 1, ReportSpec(inner=inner, metadata_bits=_POSTCARD_BITS, metadata=values))


def _template(hop: HopMetadata, hw_id: int, report: ReportSpec) -> _Template:
    assert hop.node_id is not None
    payload = encode_reports(node_id=hop.node_id, hw_id=hw_id, sequence_number=0, reports=[report])
    return _Template(payload=payload, sender=(hop.node_id, hw_id))


def _fields(template: _Template) -> list[tuple[int, int, int, int]]:
    """Where the marks of a template stand."""
    payload = template.payload
    head = int.from_bytes(payload[:4], "big")
    fields = [(_SEQUENCE, 0, 4, head)]
    for place in range(6):
        # a hop takes 600 ns and a link 900
        offset_ns = place // 2 * 1500 + place % 2 * 600
        for at in _places(payload, (_STAMP_MARK + place).to_bytes(8, "big")):
            fields.append((_STAMP, at, 8, offset_ns))
    for kind, mark, width in (
        (_PSN, _PSN_MARK, 3),
        (_PTP_SEQUENCE, _PTP_SEQUENCE_MARK, 2),
        (_PTP_CLOCK, _PTP_CLOCK_MARK & 0xFFFFFFFF, 4),
    ):
        for at in _places(payload, mark.to_bytes(width, "big")):
            fields.append((kind, at, width, 0))
    return fields


def _places(payload: bytes, mark: bytes) -> list[int]:
    return [at for at in range(len(payload)) if payload[at : at + len(mark)] == mark]


@compiled
def _fill(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fields: NDArray[np.int64],
    sender_rows: NDArray[np.int64],
    sequence_numbers: NDArray[np.int64],
    state: NDArray[np.int64],
    per_packet: int,
    now_ns: int,
) -> None:
    first_packet = state[0]
    first_ns = max(now_ns, state[1] + _PACKET_SPACING_NS)
    flow_count = len(fields) // per_packet
    blocks = len(starts) // BLOCK_ROWS
    for block in range(blocks):
        template = block % len(fields)
        flow_round = block // per_packet
        sender = sender_rows[template]
        for within in range(BLOCK_ROWS):
            at = starts[block * BLOCK_ROWS + within]
            flow_packet = (flow_round // flow_count) * BLOCK_ROWS + within
            packet = flow_round * BLOCK_ROWS + within
            stamp_ns = first_ns + packet * _PACKET_SPACING_NS
            number = first_packet + flow_packet
            for field in range(fields.shape[1]):
                kind = fields[template, field, 0]
                if kind == 0:
                    break
                value = fields[template, field, 3]
                if kind == 1:
                    value |= sequence_numbers[sender] & 0x3FFFFF
                elif kind == 2:
                    value = number & 0xFFFFFF
                elif kind == 3:
                    value = (value + stamp_ns) & _STAMP_MASK
                elif kind == 4:
                    value = number & 0xFFFF
                else:
                    value = ((number >> 16) << 4) + flow_round % flow_count
                place = at + fields[template, field, 1] + fields[template, field, 2]
                for _ in range(fields[template, field, 2]):
                    place -= 1
                    buffer[place] = value & 0xFF
                    value >>= 8
            sequence_numbers[sender] += 1
    state[0] = first_packet + (blocks // len(fields)) * BLOCK_ROWS
    state[1] = first_ns + (blocks // per_packet) * BLOCK_ROWS * _PACKET_SPACING_NS
