# SPDX-License-Identifier: Apache-2.0
"""How many INT-MD reports a second scapy takes: `tempotrace bench collector` compares with it.

A program of its own, since scapy is GPL-2.0-only and no part of the product. Reads a JSON object
with `seconds` and `reports` (hex) from standard input, writes one with `reports_per_s` and what it
read from the first report.
"""

import json
import sys
import time
from typing import Any

from scapy.fields import (
    BitField,
    ByteField,
    IntField,
    LongField,
    PacketListField,
    ShortField,
    XBitField,
)
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet, bind_layers


class Group(Packet):
    """Report group header."""

    name = "group"
    fields_desc = [  # noqa: RUF012
        BitField("version", 2, 4),
        BitField("hw_id", 0, 6),
        BitField("sequence_number", 0, 22),
        IntField("node_id", 0),
    ]


class Report(Packet):
    """Individual report and main part with the metadata of bits 0x4800."""

    name = "report"
    fields_desc = [  # noqa: RUF012
        BitField("report_type", 1, 4),
        BitField("inner_type", 4, 4),
        ByteField("length", 0),
        ByteField("metadata_length", 0),
        ByteField("flags", 0),
        XBitField("metadata_bits", 0x4800, 16),
        ShortField("domain", 0),
        ShortField("ds_bits", 0),
        ShortField("ds_status", 0),
        ShortField("ingress_port", 0),
        ShortField("egress_port", 0),
        LongField("ingress_tstamp", 0),
    ]


class Hop(Packet):
    """One node's metadata for instructions 0xFC00."""

    name = "hop"
    fields_desc = [  # noqa: RUF012
        IntField("node_id", 0),
        ShortField("ingress_port", 0),
        ShortField("egress_port", 0),
        IntField("hop_latency", 0),
        ByteField("queue_id", 0),
        BitField("queue_depth", 0, 24),
        LongField("ingress_tstamp", 0),
        LongField("egress_tstamp", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """What follows is the next hop."""
        return b"", s


class Int(Packet):
    """Shim, INT-MD header and stack."""

    name = "int"
    fields_desc = [  # noqa: RUF012
        BitField("shim_type", 1, 4),
        BitField("npt", 0, 2),
        BitField("reserved1", 0, 2),
        ByteField("length_words", 0),
        ByteField("reserved2", 0),
        BitField("dscp", 0, 6),
        BitField("reserved3", 0, 2),
        BitField("version", 2, 4),
        BitField("flags", 0, 15),
        BitField("hop_words", 8, 5),
        ByteField("remaining_hops", 0),
        XBitField("instructions", 0xFC00, 16),
        ShortField("domain", 0),
        ShortField("ds_instructions", 0),
        ShortField("ds_flags", 0),
        PacketListField("hops", [], Hop, length_from=lambda packet: (packet.length_words - 3) * 4),
    ]


class Bth(Packet):
    """InfiniBand base transport header."""

    name = "bth"
    fields_desc = [  # noqa: RUF012
        ByteField("opcode", 0),
        ByteField("flags", 0),
        ShortField("key", 0),
        ByteField("reserved", 0),
        BitField("dest_qp", 0, 24),
        ByteField("ack", 0),
        BitField("psn", 0, 24),
    ]


bind_layers(Group, Report)
bind_layers(Report, IP)
bind_layers(UDP, Int, dport=4791)
bind_layers(Int, Bth)


def read(report: bytes) -> dict[str, Any]:
    """What a collector needs of a report."""
    packet = Group(report)
    stack, bth = packet[Int], packet[Bth]
    return {
        "node_id": packet.node_id,
        "hw_id": packet.hw_id,
        "sequence_number": packet.sequence_number,
        "ingress_port": packet[Report].ingress_port,
        "ingress_tstamp": packet[Report].ingress_tstamp,
        "src_port": packet[UDP].sport,
        "dest_qp": bth.dest_qp,
        "psn": bth.psn,
        "hops": [
            (
                *(hop.node_id, hop.ingress_port, hop.egress_port, hop.hop_latency),
                *(hop.queue_id, hop.queue_depth, hop.ingress_tstamp, hop.egress_tstamp),
            )
            for hop in stack.hops
        ],
    }


def main() -> int:
    """Decode for a while and tell."""
    request = json.load(sys.stdin)
    reports = [bytes.fromhex(report) for report in request["reports"]]
    first = read(reports[0])
    done = 0
    started_ns = time.process_time_ns()
    spent_ns = 0
    while not done or spent_ns < request["seconds"] * 1e9:
        for report in reports[:64]:
            read(report)
        done += len(reports[:64])
        spent_ns = time.process_time_ns() - started_ns
    print(json.dumps({"reports_per_s": done / spent_ns * 1e9, "first": first}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
