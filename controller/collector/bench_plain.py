# SPDX-License-Identifier: Apache-2.0
"""Plain decoders to compare with: one report at a time, as a script would do it.

They take INT-MD reports of the bench's form only, check little and join nothing.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_GROUP = struct.Struct(">II")
_INDIVIDUAL = struct.Struct(">BBBBHHHH")
_INGRESS = struct.Struct(">HHQ")
_IPV4 = struct.Struct(">BBHHHBBHII")
_UDP = struct.Struct(">HHHH")
_INT = struct.Struct(">BBBBHBBHHHH")
_HOP = struct.Struct(">IHHIIQQ")
_BTH = struct.Struct(">BBHII")
_SCAPY_DECODER = Path(__file__).resolve().parents[2] / "tools" / "scapy_decoder.py"


class PlainReport(NamedTuple):
    """What a collector needs of a report."""

    node_id: int
    hw_id: int
    sequence_number: int
    ingress_port: int
    egress_port: int
    ingress_tstamp: int
    src_ip: int
    dst_ip: int
    src_port: int
    dest_qp: int
    psn: int
    hops: list[tuple[int, ...]]
    """Node id, ports, latency, queue, stamps; the newest first."""


def decode_with_struct(report: bytes) -> PlainReport:
    """An INT-MD report of a RoCEv2 packet over IPv4 with instruction bitmap 0xFC00."""
    head, node_id = _GROUP.unpack_from(report, 0)
    if head >> 28 != 2:
        raise ValueError("not a report of version 2")
    types, _length, metadata_words, _flags, bits, _domain, _ds, _status = _INDIVIDUAL.unpack_from(
        report, 8
    )
    if types != 0x14 or bits != 0x4800 or metadata_words != 3:
        raise ValueError("not a stack report")
    ingress_port, egress_port, ingress_tstamp = _INGRESS.unpack_from(report, 20)
    ip = _IPV4.unpack_from(report, 32)
    src_port, _dst_port, _udp_length, _checksum = _UDP.unpack_from(report, 52)
    int_header = _INT.unpack_from(report, 60)
    hop_words = int_header[5] & 0x1F
    if int_header[7] != 0xFC00 or hop_words != _HOP.size // 4:
        raise ValueError("not the expected instructions")
    stack_end = 64 + int_header[1] * 4
    hops = [_HOP.unpack_from(report, at) for at in range(76, stack_end, _HOP.size)]
    _opcode, _pad, _key, queue_pair, psn = _BTH.unpack_from(report, stack_end)
    return PlainReport(
        node_id,
        head >> 22 & 0x3F,
        head & 0x3FFFFF,
        ingress_port,
        egress_port,
        ingress_tstamp,
        ip[8],
        ip[9],
        src_port,
        queue_pair & 0xFFFFFF,
        psn & 0xFFFFFF,
        hops,
    )


def scapy_per_s(reports: Sequence[bytes], *, seconds: float) -> float | None:
    """The same with scapy, in a program of its own; None where scapy or the program is missing.

    scapy's licence (GPL-2.0-only) keeps it out of this package.
    """
    if not _SCAPY_DECODER.is_file():
        return None
    request = json.dumps({"seconds": seconds, "reports": [report.hex() for report in reports]})
    done = subprocess.run(
        [sys.executable, str(_SCAPY_DECODER)], input=request, capture_output=True, text=True
    )
    if done.returncode:
        return None
    return float(json.loads(done.stdout)["reports_per_s"])
