# SPDX-License-Identifier: Apache-2.0
"""A frame as named headers, so that a failed comparison names the first header that differs.

Only for messages: two frames are equal when their bytes are. The names are those of
p4src/include/headers.p4, the formats are written from the standards.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

COLLECTOR_UDP_PORTS = range(32760, 32767)
"""UDP destination ports that the tests use for collectors."""

_FORMATS = {
    "packet_in": "ingress_port:9 pad:7",
    "ethernet": "dst_addr:48 src_addr:48 ether_type:16",
    "vlan": "pcp:3 dei:1 vlan_id:12 ether_type:16",
    "ipv4": "version:4 ihl:4 dscp:6 ecn:2 total_length:16 identification:16 flags:3"
    " fragment_offset:13 ttl:8 protocol:8 header_checksum:16 src_addr:32 dst_addr:32",
    "ipv6": "version:4 dscp:6 ecn:2 flow_label:20 payload_length:16 next_header:8 hop_limit:8"
    " src_addr:128 dst_addr:128",
    "udp": "src_port:16 dst_port:16 length:16 checksum:16",
    "tcp_ports": "src_port:16 dst_port:16",
    "bth": "opcode:8 solicited_event:1 migration_request:1 pad_count:2 transport_version:4"
    " partition_key:16 fecn:1 becn:1 reserved1:6 dest_qp:24 ack_request:1 reserved2:7 psn:24",
    "ptp": "major_sdo_id:4 message_type:4 minor_version_ptp:4 version_ptp:4 message_length:16"
    " domain_number:8 minor_sdo_id:8 flag_field:16 correction_field:64 message_type_specific:32"
    " source_clock_identity:64 source_port_number:16 sequence_id:16 control_field:8"
    " log_message_interval:8",
    "probe": "version:4 returning:1 reserved:11 egress_port:16 node_id:32 sequence_number:32",
    "int_shim": "shim_type:4 npt:2 reserved1:2 length_words:8 reserved2:8 dscp:6 reserved3:2",
    "int_md": "version:4 discard:1 max_hop_count_exceeded:1 mtu_exceeded:1 reserved:12"
    " hop_metadata_len_words:5 remaining_hop_count:8 instruction_bitmap:16 domain_specific_id:16"
    " ds_instruction:16 ds_flags:16",
    "int_mx": "version:4 discard:1 reserved:27 instruction_bitmap:16 domain_specific_id:16"
    " ds_instruction:16 ds_flags:16",
    "report_group": "version:4 hw_id:6 sequence_number:22 node_id:32",
    "report_individual": "report_type:4 inner_type:4 report_length_words:8"
    " metadata_length_words:8 dropped:1 congested_queue:1 tracked_flow:1 intermediate_report:1"
    " reserved:4",
    "report_main": "report_metadata_bits:16 domain_specific_id:16 ds_metadata_bits:16"
    " ds_metadata_status:16",
    "node_id": "node_id:32",
    "level1_ports": "ingress_port:16 egress_port:16",
    "hop_latency": "hop_latency:32",
    "queue": "queue_id:8 queue_depth:24",
    "ingress_tstamp": "ingress_tstamp:64",
    "egress_tstamp": "egress_tstamp:64",
    "level2_ports": "ingress_interface:32 egress_interface:32",
    "tx_utilization": "tx_utilization:32",
    "buffer": "buffer_id:8 buffer_depth:24",
    "reserved": "reserved:32",
    "checksum_complement": "checksum_complement:32",
    "report_drop": "queue_id:8 drop_reason:8 reserved:16",
}


def _rows(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, int(bits)) for name, bits in (row.split(":") for row in text.split()))


FORMATS = {name: _rows(text) for name, text in _FORMATS.items()}

_BITMAP_ITEMS = (
    "node_id", "level1_ports", "hop_latency", "queue", "ingress_tstamp", "egress_tstamp",
    "level2_ports", "tx_utilization", "buffer", *["reserved"] * 6,
)  # fmt: skip
"""INT v2.1 section 5.4 in bit order; bit 15 differs between a stack and a report."""


@dataclass(frozen=True)
class Header:
    """One header, or the bytes that no header explains."""

    name: str
    fields: dict[str, int]
    data: bytes


@dataclass
class _Dissector:
    """Takes headers off the front of a frame."""

    frame: bytes
    offset: int = 0
    prefix: str = ""
    headers: list[Header] = field(default_factory=list)

    def take(self, name: str, as_name: str = "") -> dict[str, int] | None:
        """The next header, or None (and no progress) if the frame is too short for it."""
        rows = FORMATS[name]
        size = sum(bits for _, bits in rows) // 8
        data = self.frame[self.offset : self.offset + size]
        if len(data) < size:
            return None
        value, fields = int.from_bytes(data, "big"), {}
        for row, bits in reversed(rows):
            fields[row] = value & (1 << bits) - 1
            value >>= bits
        fields = dict(reversed(fields.items()))
        self.headers.append(Header(self.prefix + (as_name or name), fields, data))
        self.offset += size
        return fields

    def rest(self, name: str = "payload", count: int | None = None) -> None:
        end = len(self.frame) if count is None else self.offset + count
        data = self.frame[self.offset : end]
        if data:
            self.headers.append(Header(self.prefix + name, {}, data))
            self.offset += len(data)

    def ethernet(self) -> None:
        header = self.take("ethernet")
        ether_type = header["ether_type"] if header else 0
        if ether_type == 0x8100:
            tag = self.take("vlan")
            ether_type = tag["ether_type"] if tag else 0
        self.network(ether_type)

    def network(self, ether_type: int) -> None:
        match ether_type:
            case 0x0800:
                header = self.take("ipv4")
                if header is not None:
                    self.rest("ipv4_options", max(header["ihl"] - 5, 0) * 4)
                    self.transport(header["protocol"], header["dscp"])
            case 0x86DD:
                header = self.take("ipv6")
                if header is not None:
                    self.transport(header["next_header"], header["dscp"])
            case 0x88F7:
                self.take("ptp")
        self.rest()

    def transport(self, protocol: int, dscp: int) -> None:
        if protocol == 6:
            self.take("tcp_ports")
        if protocol != 17:
            return
        udp = self.take("udp")
        if udp is None:
            return
        if dscp & 1:
            self.telemetry()
        if udp["dst_port"] == 4791:
            self.take("bth")
        elif udp["dst_port"] in (319, 320):
            self.take("ptp")
        elif udp["dst_port"] == 32767:
            self.take("probe")
        elif udp["dst_port"] in COLLECTOR_UDP_PORTS:
            self.report()

    def telemetry(self) -> None:
        shim = self.take("int_shim")
        if shim is None:
            return
        end = self.offset + shim["length_words"] * 4
        if shim["shim_type"] == 1:
            header = self.take("int_md")
            count = 0
            while header and header["hop_metadata_len_words"]:
                size = header["hop_metadata_len_words"] * 4
                if self.offset + size > min(end, len(self.frame)):
                    break
                start = self.offset
                self.metadata(header["instruction_bitmap"], f"int_stack[{count}].", "stack")
                self.rest(f"int_stack[{count}].rest", max(size - (self.offset - start), 0))
                count += 1
        elif shim["shim_type"] == 3:
            self.take("int_mx")
        self.rest("int_rest", max(end - self.offset, 0))

    def metadata(self, bitmap: int, prefix: str, kind: str) -> None:
        last = "checksum_complement" if kind == "stack" else "report_drop"
        for index, name in enumerate((*_BITMAP_ITEMS, last)):
            if bitmap & 0x8000 >> index:
                self.take(name, prefix + name)

    def report(self) -> None:
        self.take("report_group")
        individual = self.take("report_individual")
        main = self.take("report_main")
        if individual is None or main is None:
            return
        self.metadata(main["report_metadata_bits"], "report_", "report")
        self.prefix += "inner."
        if individual["inner_type"] == 3:
            self.ethernet()
        else:
            self.network({4: 0x0800, 5: 0x86DD}.get(individual["inner_type"], 0))


def dissect(frame: bytes) -> list[Header]:
    """The headers of a frame in wire order; unexplained bytes come as "payload"."""
    dissector = _Dissector(frame)
    dissector.ethernet()
    return dissector.headers


def difference(got: bytes, expected: bytes, *, ignored: Iterable[str] = ()) -> str | None:
    """The first header and field in which two frames differ, with both values; None if none does.

    `ignored` are names such as "udp.src_port"; the frames must still be of equal length.
    """
    if got == expected:
        return None
    skip = frozenset(ignored)
    for one, other in zip_longest(dissect(got), dissect(expected)):
        if one is None or other is None:
            where = (one or other).name
            return f"{where}: {'missing' if one is None else 'not expected'}"
        found = _header_difference(one, other, skip)
        if found is not None:
            return found
    return None if len(got) == len(expected) else f"length {len(got)}, expected {len(expected)}"


def _header_difference(got: Header, expected: Header, skip: frozenset[str]) -> str | None:
    if got.name != expected.name:
        return f"{got.name} where {expected.name} was expected"
    for name, value in expected.fields.items():
        full = f"{expected.name}.{name}"
        if got.fields[name] != value and full not in skip:
            return f"{full}: {got.fields[name]:#x}, expected {value:#x}"
    if not expected.fields and got.data != expected.data:
        pairs = zip(got.data, expected.data, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if at is None:
            return f"{got.name}: {len(got.data)} bytes, expected {len(expected.data)}"
        return f"{got.name} byte {at}: {got.data[at]:#x}, expected {expected.data[at]:#x}"
    return None


def expect_frame(got: bytes, expected: bytes, *, ignored: Iterable[str] = ()) -> None:
    """Fail with the name of the first header field in which two frames differ."""
    found = difference(got, expected, ignored=ignored)
    if found is not None:
        raise AssertionError(f"{found}\n     got {got.hex()}\nexpected {expected.hex()}")
