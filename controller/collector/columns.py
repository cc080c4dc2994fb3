# SPDX-License-Identifier: Apache-2.0
"""Columns of the integer tables that the collector's compiled loops work on.

One int64 row per datagram, per individual report and per hop. Every _COLUMNS constant is the width
of its table. A 64-bit field of the wire keeps its bits, so that 2^63 and more read negative.
"""

from enum import IntEnum, unique

from controller.telemetry.codec import DecodeReason

# ---------------------------------------------------------------- datagrams
D_STATUS = 0
"""STATUS_OK, STATUS_SLOW or a `ReasonCode`."""
D_NODE = 1
"""Row of the sender in the node table; -1 where no known sender was read."""
D_HW_ID = 2
D_SEQUENCE = 3
D_FIRST_REPORT = 4
D_REPORTS = 5
D_NO_INGRESS_TSTAMP = 6
"""Hops in it whose stamp was asked for and is not available."""
D_NO_EGRESS_TSTAMP = 7
D_CONTENT = 8
"""Hash of the payload."""
D_DESTINATION = 9
D_REPEATED = 10
D_HOPS = 11
D_FAULT = 12
"""`ReasonCode` of a datagram that decodes and tells nothing about this fabric's links; else 0."""
D_STAMPS = 13
"""Not 0 if any stamp is in it."""
D_NUMBER = 14
"""Word of the sequence number, which is no part of the content."""
D_COLUMNS = 15
D_BYTES = 8 * D_COLUMNS

STATUS_OK = 0
STATUS_SLOW = -1
"""Left to the reference decoder."""

# ---------------------------------------------------------------- individual reports
R_CAPTURE = 0
R_NODE = 1
R_FLAGS = 2
R_KEY = 3
"""traffic << 56 | network << 48 | protocol << 32 | source port << 16 | destination port."""
R_SRC_HIGH = 4
"""Addresses as they were first sent, right-aligned in 128 bits; no part of a probe's key."""
R_SRC_LOW = 5
R_DST_HIGH = 6
R_DST_LOW = 7
R_KEY_NUMBERS = 8
"""RoCE: opcode << 48 | DestQP << 24 | PSN. PTP: domain << 40 | message type << 32 | port number
<< 16 | sequence id. Probe: node id << 16 | egress port."""
R_KEY_MORE = 9
"""PTP: clock identity. Probe: sequence number."""
R_HASH = 10
"""Of the key."""
R_DSCP = 11
R_WIRE_BYTES = 12
R_INT_BYTES = 13
R_HOP_BYTES = 14
R_SOURCE_BYTES = 15
R_INGRESS_PORT = 16
R_EGRESS_PORT = 17
R_QUEUE_ID = 18
R_QUEUE_DEPTH = 19
R_INGRESS_TSTAMP = 20
R_EGRESS_TSTAMP = 21
R_HOPS = 22
"""Hops on its stack."""
R_FIRST_HOP = 23
"""Row in the hop table, oldest first; of a waiting report, the first of a chain."""
R_DATAGRAM = 24
R_NEXT = 25
"""Of a waiting report: the next one under its key."""
R_COLUMNS = 26
R_BYTES = 8 * R_COLUMNS

FLAG_METADATA = 1
FLAG_STACK = 2
FLAG_DROPPED = 4
FLAG_RETURNING = 8

# ---------------------------------------------------------------- hops on a stack
H_NODE = 0
H_INGRESS_PORT = 1
H_EGRESS_PORT = 2
H_QUEUE_ID = 3
H_QUEUE_DEPTH = 4
H_INGRESS_TSTAMP = 5
H_EGRESS_TSTAMP = 6
H_NEXT = 7
"""Of a waiting report: the next hop of its stack."""
H_COLUMNS = 8
H_BYTES = 8 * H_COLUMNS

# ---------------------------------------------------------------- nodes of the fabric
N_ID = 0
N_VERSION = 1
N_HW_ID_SHIFT = 2
N_SEQUENCE_CONSTANT = 3
N_SHIM_COUNTS_SHIM = 4
N_COMPILED = 5
"""Whether the compiled decoder knows its dialect."""
N_INGRESS_ONES = 6
"""Its stamps' own all-ones."""
N_EGRESS_ONES = 7
N_FIRST_PORT = 8
"""Where its ports begin in the table of far ends."""
N_PORTS = 9
"""The highest port that has a cable, plus one."""
N_COLUMNS = 10
N_BYTES = 8 * N_COLUMNS


# ---------------------------------------------------------------- functions called by address
F_DECODE = 0
F_OBSERVE = 1
F_ADD = 2
F_CLOSE = 3
F_PUT_STACK = 4
F_PUT_POSTCARDS = 5
F_DIFFERENCE = 6
F_COLUMNS = 7


@unique
class ReasonCode(IntEnum):
    """`DecodeReason` by number, for compiled loops; the names are the same."""

    TRUNCATED = 1
    ETHER_TYPE = 2
    IP_HEADER = 3
    IP_CHECKSUM = 4
    IP_FRAGMENT = 5
    NOT_UDP = 6
    UDP_PORT = 7
    UDP_LENGTH = 8
    UDP_CHECKSUM = 9
    REPORT_VERSION = 10
    REPORT_TYPE = 11
    INNER_TYPE = 12
    REPORT_LENGTH = 13
    METADATA_LENGTH = 14
    RESERVED_BITS = 15
    NO_REPORT = 16
    INNER_IP_HEADER = 17
    INNER_ETHER_TYPE = 18
    INNER_PROTOCOL = 19
    PTP_VERSION = 20
    PROBE_VERSION = 21
    INT_SHIM_TYPE = 22
    INT_VERSION = 23
    INT_STACK_LENGTH = 24
    INT_HOP_LENGTH = 25
    UNKNOWN_NODE = 26
    NO_PACKET = 27
    TLV_TYPE = 28
    TLV_LENGTH = 29
    HEADER_LENGTH = 30


REASON_CODES_END = max(ReasonCode) + 1


def reason_of(code: int) -> DecodeReason:
    """The reason that a number stands for."""
    return DecodeReason[ReasonCode(code).name]
