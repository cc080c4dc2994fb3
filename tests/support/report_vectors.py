# SPDX-License-Identifier: Apache-2.0
"""Report datagrams of every format and dialect, written by hand from the specifications.

Lines are one header or value each; what follows # is the reader's. The path is that of
`telemetry_reports`: leaf 1, spine 101, leaf 2. RoCEv2 packets are from 10.0.1.1 port 50000 to
10.0.2.1, queue pair 0x17, PSN 0x0a0b0c; without INT they have 100 bytes from the IP header on.
"""

from dataclasses import dataclass

from controller.telemetry.metadata import HopMetadata


def from_annotated(text: str) -> bytes:
    """The bytes of annotated hexadecimal lines."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """A datagram, the dialect of its sender and what it says."""

    name: str
    dialect: str
    text: str
    node_id: int
    hw_id: int = 0
    sequence_number: int = 0
    metadata: HopMetadata | None = None
    hops: tuple[HopMetadata, ...] | None = None
    """Oldest first; None: no INT stack on the packet."""
    dropped: bool = False
    tracked_flow: bool = True
    dscp: int = 26
    wire_bytes: int = 118
    int_bytes: int = 0
    extra_bytes: int = 0
    """Bytes at the end that no decoder needs: the packet goes on behind its BTH, or is a dropped
    one, of which the first header is enough."""

    @property
    def wire(self) -> bytes:
        """The datagram."""
        return from_annotated(self.text)


def _hop(node_id, ingress_port, egress_port, ingress_tstamp, residence, **others):
    return HopMetadata(
        node_id=node_id,
        ingress_port=ingress_port,
        egress_port=egress_port,
        hop_latency=residence,
        queue_id=1,
        queue_depth=5,
        ingress_tstamp=ingress_tstamp,
        egress_tstamp=ingress_tstamp + residence,
        **others,
    )


SOURCE = _hop(1, 11, 1, 1_000_000, 500)
TRANSIT = _hop(101, 1, 2, 7_000_000, 700)
SINK = _hop(2, 1, 11, 3_000_000, 900)
_OWN_TRANSIT = TRANSIT._replace(node_id=None, hop_latency=None)

ETHERNET = """
    02 00 00 00 02 01 02 00 00 00 01 01 08 00   # Ethernet, IPv4
"""
_ADDRESSES = """
    0a 00 01 01 0a 00 02 01               # 10.0.1.1 to 10.0.2.1
"""
BTH = """
    04 00 ff ff 00 00 00 17 00 0a 0b 0c   # BTH: SEND only, queue pair 0x17, PSN 0x0a0b0c
"""
_PLAIN = (
    """
    45 68 00 64 00 00 40 00 40 11 00 00   # IPv4: 100 bytes, DSCP 26, UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 50 00 00               # UDP port 50000 to 4791
    """
    + BTH
)

# ---------------------------------------------------------------- stacks, one entry each

_V1_SOURCE = """
    00 00 00 01 00 0b 00 01               # node 1: port 11 to 1
    00 00 01 f4 01 00 00 05               # latency 500, queue 1, depth 5
    00 0f 42 40 00 0f 44 34               # stamps 1,000,000 and 1,000,500
"""
_V1_TRANSIT = """
    00 00 00 65 00 01 00 02               # node 101: port 1 to 2
    00 00 02 bc 01 00 00 05               # latency 700, queue 1, depth 5
    00 6a cf c0 00 6a d2 7c               # stamps 7,000,000 and 7,000,700
"""
_V1_SINK = """
    00 00 00 02 00 01 00 0b               # node 2: port 1 to 11
    00 00 03 84 01 00 00 05               # latency 900, queue 1, depth 5
    00 2d c6 c0 00 2d ca 44               # stamps 3,000,000 and 3,000,900
"""
_V2_SOURCE = """
    00 00 00 01 00 0b 00 01               # node 1: port 11 to 1
    00 00 01 f4 01 00 00 05               # latency 500, queue 1, depth 5
    00 00 00 00 00 0f 42 40               # ingress stamp 1,000,000
    00 00 00 00 00 0f 44 34               # egress stamp 1,000,500
"""
_V2_TRANSIT = """
    00 00 00 65 00 01 00 02               # node 101: port 1 to 2
    00 00 02 bc 01 00 00 05               # latency 700, queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
"""
_V2_SINK = """
    00 00 00 02 00 01 00 0b               # node 2: port 1 to 11
    00 00 03 84 01 00 00 05               # latency 900, queue 1, depth 5
    00 00 00 00 00 2d c6 c0               # ingress stamp 3,000,000
    00 00 00 00 00 2d ca 44               # egress stamp 3,000,900
"""

# ---------------------------------------------------------------- report v2.0

V2_STACK = Vector(
    name="report v2.0 of an INT-MD stack",
    dialect="tempotrace-v2",
    text="""
    20 00 00 01 00 00 00 02               # Ver 2, hw_id 0, sequence 1; node 2
    14 23 03 20                           # RepType 1, InType 4, 35 words, MDLength 3, F
    48 00 00 00 00 00 00 00               # RepMdBits: level 1 ports, ingress stamp
    00 01 00 0b                           # port 1 to 11
    00 00 00 00 00 2d c6 c0               # ingress stamp 3,000,000
    45 6c 00 b4 00 00 40 00 40 11 00 00   # IPv4: 180 bytes, DSCP 27 (marked), UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 a0 00 00               # UDP port 50000 to 4791
    10 13 00 68                           # shim: INT-MD, NPT 0, 19 words, original DSCP 26
    20 00 08 06                           # Ver 2, HopML 8, remaining hop count 6
    fc 00 00 00 00 00 00 00               # six instructions, no domain
    """
    + _V2_TRANSIT
    + _V2_SOURCE
    + BTH,
    node_id=2,
    sequence_number=1,
    metadata=HopMetadata(ingress_port=1, egress_port=11, ingress_tstamp=3_000_000),
    hops=(SOURCE, TRANSIT),
    int_bytes=80,
)

V2_TLVS = Vector(
    name="report v2.0 with TLVs: a domain's data and the packet",
    dialect="tempotrace-v2",
    text="""
    20 40 00 02 00 00 00 65               # Ver 2, hw_id 1, sequence 2; node 101
    11 18 08 20                           # RepType 1, InType 1, 24 words, MDLength 8, F
    7c 00 00 2a 80 00 00 05               # ports to egress stamp; domain 42, DSMdBits, DSMdstatus
    00 01 00 02 00 00 02 bc 01 00 00 05   # port 1 to 2; latency 700; queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
    de ad be ef                           # a word of domain 42
    00 02 00 07                           # TLV: DS extension, 2 words, template 7
    01 02 03 04 05 06 07 08
    20 0a 00 00                           # TLV: IPv4, 10 words
    """
    + _PLAIN,
    node_id=101,
    hw_id=1,
    sequence_number=2,
    metadata=TRANSIT._replace(node_id=None, domain_specific=b"\xde\xad\xbe\xef"),
)

# ---------------------------------------------------------------- report v1.0

V1_STACK = Vector(
    name="report v1.0 of an INT v1.0 stack, the sink's values in the report",
    dialect="telemetry-report-v1.0",
    text="""
    17 16 00 41                           # Ver 1, 7 words, NProto 0, RepMdBits 0x2c, F, hw_id 1
    00 00 00 02 00 00 00 07               # node 2, sequence 7
    00 2d c6 c0                           # ingress stamp 3,000,000
    00 01 00 0b 01 00 00 05               # port 1 to 11; queue 1, depth 5
    00 2d ca 44                           # egress stamp 3,000,900
    """
    + ETHERNET
    + """
    45 6c 00 a0 00 00 40 00 40 11 00 00   # IPv4: 160 bytes, DSCP 27 (marked), UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 8c 00 00               # UDP port 50000 to 4791
    01 00 0f 68                           # shim: hop by hop, 15 words with itself, DSCP 26
    10 00 06 06 fc 00 00 00               # Ver 1, HopML 6, remaining hop count 6; instructions
    """
    + _V1_TRANSIT
    + _V1_SOURCE
    + BTH,
    node_id=2,
    hw_id=1,
    sequence_number=7,
    metadata=SINK._replace(node_id=None, hop_latency=None),
    hops=(SOURCE, TRANSIT),
    int_bytes=60,
)

V1_POSTCARD = Vector(
    name="report v1.0 of an untouched IPv4 packet",
    dialect="telemetry-report-v1.0",
    text="""
    18 3e 00 40                           # Ver 1, 8 words, NProto 1, RepMdBits 0x3c, F, hw_id 0
    00 00 00 65 ff ff ff ff               # node 101, sequence 2^32 - 1, the last
    00 6a cf c0                           # ingress stamp 7,000,000
    00 01 00 02 00 00 02 bc               # port 1 to 2; latency 700
    01 00 00 05 00 6a d2 7c               # queue 1, depth 5; egress stamp 7,000,700
    """
    + _PLAIN
    + "00 01 02 03",
    node_id=101,
    sequence_number=2**32 - 1,
    metadata=TRANSIT._replace(node_id=None),
    extra_bytes=4,
)

V1_DROP = Vector(
    name="report v1.0 of a dropped packet",
    dialect="telemetry-report-v1.0",
    text="""
    16 31 01 00                           # Ver 1, 6 words, NProto 1, RepMdBits 0x22, D, hw_id 0
    00 00 00 02 00 00 00 09               # node 2, sequence 9
    00 00 00 00                           # no ingress stamp
    00 01 ff ff 01 1d 00 00               # port 1 to none; queue 1, reason 29
    """
    + _PLAIN,
    node_id=2,
    sequence_number=9,
    metadata=HopMetadata(
        ingress_port=1,
        egress_port=0xFFFF,
        drop_queue_id=1,
        drop_reason=29,
        unavailable_bits=0x0800,
    ),
    dropped=True,
    tracked_flow=False,
    extra_bytes=8 + 12,
)

# ---------------------------------------------------------------- report v0.5

V05_LOCAL = Vector(
    name="report v0.5 with a switch local header",
    dialect="telemetry-report-v0.5",
    text="""
    02 20 00 03                           # Ver 0, NProto 2, F, hw_id 3
    00 00 01 00 00 6a cf c0               # sequence 256, ingress stamp 7,000,000
    00 00 00 65 00 01 00 02               # node 101: port 1 to 2
    01 00 00 05 00 6a d2 7c               # queue 1, depth 5; egress stamp 7,000,700
    """
    + ETHERNET
    + _PLAIN,
    node_id=101,
    hw_id=3,
    sequence_number=256,
    metadata=_OWN_TRANSIT,
)

V05_DROP = Vector(
    name="report v0.5 with a drop header",
    dialect="telemetry-report-v0.5",
    text="""
    01 80 00 00                           # Ver 0, NProto 1, D, hw_id 0
    00 00 00 05 00 2d c6 c0               # sequence 5, ingress stamp 3,000,000
    00 00 00 02 00 01 ff ff               # node 2: port 1 to none
    01 1d 00 00                           # queue 1, reason 29
    """
    + ETHERNET
    + _PLAIN,
    node_id=2,
    sequence_number=5,
    metadata=HopMetadata(
        ingress_port=1,
        egress_port=0xFFFF,
        ingress_tstamp=3_000_000,
        drop_queue_id=1,
        drop_reason=29,
    ),
    dropped=True,
    tracked_flow=False,
    extra_bytes=20 + 8 + 12,
)

V05_STACK = Vector(
    name="report v0.5 of an INT v0.5 stack with the sink's own entry",
    dialect="telemetry-report-v0.5",
    text="""
    00 20 00 01                           # Ver 0, NProto 0, F, hw_id 1
    00 00 00 06 00 2d c6 c0               # sequence 6, ingress stamp 3,000,000
    """
    + ETHERNET
    + """
    45 6c 00 bc 00 00 40 00 40 11 00 00   # IPv4: 188 bytes, DSCP 27 (marked), UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 a8 00 00               # UDP port 50000 to 4791
    01 00 16 00                           # shim: hop by hop, 22 words with itself and tail
    00 06 08 03 fc 00 00 00               # Ver 0, 6 instructions, 3 of 8 hops; bitmap
    """
    + _V1_SINK
    + _V1_TRANSIT
    + _V1_SOURCE
    + """
    11 12 b7 1a                           # tail: UDP, port 4791, DSCP 26
    """
    + BTH,
    node_id=2,
    hw_id=1,
    sequence_number=6,
    metadata=HopMetadata(ingress_tstamp=3_000_000),
    hops=(SOURCE, TRANSIT, SINK),
    int_bytes=88,
)

# ---------------------------------------------------------------- dialects

INTEL = Vector(
    name="Intel switch-p4-16: a switch local report",
    dialect="intel-switch-p4-16",
    text="""
    23 00 00 09                           # Ver 2, hw_id 3 in 4 bits, sequence 9 in 24 bits
    00 00 00 65                           # node 101
    13 15 06 2c                           # RepType 1, InType 3, 21 words, MDLength 6, F, ETRAP 3
    5c 00 00 00 00 00 00 00               # ports, queue, both stamps
    00 01 00 02 01 00 00 05               # port 1 to 2; queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
    """
    + ETHERNET
    + _PLAIN,
    node_id=101,
    hw_id=3,
    sequence_number=9,
    metadata=_OWN_TRANSIT,
)

CABLELABS = Vector(
    name="CableLabs: two hops of one word and the sender's MAC address",
    dialect="cablelabs-transparent-security",
    text="""
    20 41 10 40                           # Ver 2, hw_id 1, sequence 0x0441 in 16 bits, 6 bits pad
    00 00 00 65                           # node 101
    04 0a 08 50                           # RepType 0, InType 4, 10 words, MDLength 8, Q and I
    55 aa 54 53 00 00 00 00               # RepMdBits 0x55aa, domain 0x5453
    00 00 00 2a                           # one word of metadata
    """
    + ETHERNET
    + """
    45 00 00 8c 00 00 40 00 40 11 00 00   # IPv4: 140 bytes, UDP
    """
    + _ADDRESSES
    + """
    00 00 02 2b 00 78 00 00               # inserted UDP header, port 555
    18 08 00 11                           # shim: INT-MD, NPT 2, 8 words with itself, UDP
    21 00 10 07                           # Ver 2, E two bits late, HopML 16, remaining hop count 7
    80 00 54 53 80 00 40 00               # node id; domain 0x5453, DSInstruction, DSFlags
    00 00 00 65                           # node 101
    00 00 00 01                           # node 1, the source
    02 00 00 00 01 01 00 00               # source only: MAC address, padding
    c3 50 12 b7 00 50 00 00               # UDP port 50000 to 4791
    """
    + BTH,
    node_id=101,
    hw_id=1,
    sequence_number=0x441,
    metadata=HopMetadata(domain_specific=b"\x00\x00\x00\x2a"),
    hops=(HopMetadata(node_id=1), HopMetadata(node_id=101)),
    dscp=0,
    int_bytes=40,
)

MANDARYOSHI_MD = Vector(
    name="mandaryoshi int-md-2-1: no individual header, shim of type 3",
    dialect="mandaryoshi-int-md",
    text="""
    20 40 00 00                           # Ver 2, hw_id 1, sequence 0
    00 00 00 02                           # node 2
    """
    + ETHERNET
    + """
    45 5c 00 d4 00 00 40 00 40 11 00 00   # IPv4: 212 bytes, DSCP 0x17, UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 c0 00 00               # UDP port 50000 to 4791
    30 1b 68 00                           # shim: type 3, NPT 0, 27 words, DSCP 26 in byte 2
    20 00 08 05                           # Ver 2, HopML 8, remaining hop count 5
    fc 00 00 00 00 00 00 00               # six instructions, no domain
    """
    + _V2_SINK
    + _V2_TRANSIT
    + _V2_SOURCE
    + BTH,
    node_id=2,
    hw_id=1,
    metadata=None,
    hops=(SOURCE, TRANSIT, SINK),
    int_bytes=112,
)

_MANDARYOSHI_MX_GROUP = """
    10 40 00 00                           # Ver 1, hw_id 1, sequence 0
    00 00 00 65                           # node 101
    14 00 00 30                           # RepType 1, InType 4, 0 words, MDLength 0, F and I
    00 00 00 00 00 00 00 00               # no RepMdBits
"""
_MX_HEADER = """
    20 00 00 00 fc 00 00 00 00 00 00 00   # Ver 2; six instructions, no domain
"""

MANDARYOSHI_MX_TRANSIT = Vector(
    name="mandaryoshi int-mx: a node that got the packet with its INT header",
    dialect="mandaryoshi-int-mx",
    text=_MANDARYOSHI_MX_GROUP
    + ETHERNET
    + """
    45 5c 00 94 00 00 40 00 40 11 00 00   # IPv4: 100 + 16 + 32 bytes, DSCP 0x17, UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 80 00 00               # UDP port 50000 to 4791
    30 03 68 00                           # shim: INT-MX, NPT 0, 3 words, DSCP 26 in byte 2
    """
    + _MX_HEADER
    + _V2_TRANSIT
    + BTH,
    node_id=101,
    hw_id=1,
    metadata=TRANSIT,
    int_bytes=16,
)

MANDARYOSHI_XD_SOURCE = Vector(
    name="mandaryoshi int-xd: the source, whose copy is not marked",
    dialect="mandaryoshi-int-xd",
    text=_MANDARYOSHI_MX_GROUP
    + ETHERNET
    + """
    45 68 00 84 00 00 40 00 40 11 00 00   # IPv4: 100 + 32 bytes, DSCP 26, UDP
    """
    + _ADDRESSES
    + """
    c3 50 12 b7 00 70 00 00               # UDP port 50000 to 4791
    30 0b 68 00                           # shim: INT-MX, NPT 0, 11 words, DSCP 26 in byte 2
    """
    + _MX_HEADER
    + _V2_TRANSIT
    + BTH,
    node_id=101,
    hw_id=1,
    metadata=TRANSIT,
    int_bytes=16,
)


def _geant_hop(node, ports, latency, ingress, egress):
    return f"""
    {node} {ports} {latency}               # node, ports, hop latency
    00 00 00 03                            # queue 0, depth 3
    {ingress} {egress}                     # stamps
    00 00 00 00 00 00 00 00                # level 2 ports, TX utilisation: constant 0
    """


_GEANT_BMV2_HOPS = (
    _geant_hop(  # the sink's, of the copy: no ingress port, the report's port and stamps
        "00 00 00 02",
        "00 00 00 04",
        "00 00 0b ba",
        "00 00 00 00 00 2d c6 c0",
        "00 00 00 00 00 2d d2 78",
    )
    + _geant_hop(  # 700 us, 7,000,000 and 7,700,000 ns
        "00 00 00 65",
        "00 01 00 02",
        "00 00 02 bc",
        "00 00 00 00 00 6a cf c0",
        "00 00 00 00 00 75 7e 20",
    )
    + _geant_hop(  # 500 us, 1,000,000 and 1,500,000 ns
        "00 00 00 01",
        "00 0b 00 01",
        "00 00 01 f4",
        "00 00 00 00 00 0f 42 40",
        "00 00 00 00 00 16 e3 60",
    )
)


def _geant(hops: str) -> str:
    return (
        """
    14 00 00 40                           # Ver 1, 4 words, NProto 0, no RepMdBits, F, hw_id 0
    00 00 00 02 00 00 00 0c               # node 2, sequence 12
    00 00 00 00                           # ingress stamp 0 in a clone
    """
        + ETHERNET
        + """
    45 80 00 e8 00 00 40 00 40 11 00 00   # IPv4: 232 bytes, DSCP 0x20, UDP
    """
        + _ADDRESSES
        + """
    c3 50 12 b7 00 d4 00 00               # UDP port 50000 to 4791
    01 00 21 68                           # shim: hop by hop, 33 words with itself, DSCP 26
    10 00 0a 05 ff 00 00 00               # Ver 1, HopML 10, remaining hop count 5; instructions
    """
        + hops
        + BTH
    )


def _geant_values(hop, ingress_tstamp, egress_tstamp, hop_latency):
    return hop._replace(
        hop_latency=hop_latency,
        queue_id=0,
        queue_depth=3,
        ingress_tstamp=ingress_tstamp,
        egress_tstamp=egress_tstamp,
        ingress_interface=0,
        egress_interface=0,
        tx_utilization=0,
    )


_GEANT_SINK = HopMetadata(
    node_id=2,
    ingress_tstamp=3_000_000,
    ingress_interface=0,
    egress_interface=0,
    tx_utilization=0,
)

GEANT_BMV2 = Vector(
    name="GEANT on BMv2: wide stamps in ns, latency in us, the sink's entry of the copy",
    dialect="geant-bmv2",
    text=_geant(_GEANT_BMV2_HOPS),
    node_id=2,
    sequence_number=12,
    metadata=HopMetadata(),
    hops=(
        _geant_values(SOURCE, 1_000_000, 1_500_000, 500_000),
        _geant_values(TRANSIT, 7_000_000, 7_700_000, 700_000),
        _GEANT_SINK,
    ),
    int_bytes=132,
)

GEANT_TOFINO = Vector(
    name="GEANT on Tofino: latency in the unit of the stamps",
    dialect="geant-tofino",
    text=_geant(
        _GEANT_BMV2_HOPS.replace("00 75 7e 20", "00 6a d2 7c")
        .replace("00 16 e3 60", "00 0f 44 34")
        .replace("00 00 00 04", "00 01 00 04")
    ),
    node_id=2,
    sequence_number=12,
    metadata=HopMetadata(),
    hops=(
        _geant_values(SOURCE, 1_000_000, 1_000_500, 500),
        _geant_values(TRANSIT, 7_000_000, 7_000_700, 700),
        _GEANT_SINK._replace(ingress_port=1),
    ),
    int_bytes=132,
)

SCAPY_NPT2 = Vector(
    name="scapy: the original protocol in byte 2 of the shim",
    dialect="scapy-npt2",
    text="""
    20 00 00 03                           # Ver 2, hw_id 0, sequence 3
    00 00 00 02                           # node 2
    14 25 03 20                           # RepType 1, InType 4, 37 words, MDLength 3, F
    48 00 00 00 00 00 00 00               # ports, ingress stamp
    00 01 00 0b                           # port 1 to 11
    00 00 00 00 00 2d c6 c0               # ingress stamp 3,000,000
    45 68 00 bc 00 00 40 00 40 11 00 00   # IPv4: 188 bytes, DSCP 26, UDP
    """
    + _ADDRESSES
    + """
    00 00 13 88 00 a8 00 00               # inserted UDP header, port 5000
    18 13 11 00                           # shim: INT-MD, NPT 2, 19 words, protocol 17 in byte 2
    20 00 08 06                           # Ver 2, HopML 8, remaining hop count 6
    fc 00 00 00 00 00 00 00               # six instructions, no domain
    """
    + _V2_TRANSIT
    + _V2_SOURCE
    + """
    c3 50 12 b7 00 50 00 00               # UDP port 50000 to 4791
    """
    + BTH,
    node_id=2,
    sequence_number=3,
    metadata=HopMetadata(ingress_port=1, egress_port=11, ingress_tstamp=3_000_000),
    hops=(SOURCE, TRANSIT),
    int_bytes=88,
)

FABRIC_TNA = Vector(
    name="fabric-tna: v0.5 with narrow values right-aligned",
    dialect="stratum-fabric-tna",
    text="""
    02 20 00 01                           # Ver 0, NProto 2, F, hw_id 1
    00 00 00 0b 00 6a cf c0               # sequence 11, ingress stamp 7,000,000
    00 00 00 65 00 01 00 02               # node 101: port 1 to 2, 9 bits each behind 7 bits of 0
    01 00 00 05 00 6a d2 7c               # queue 1 in 5 bits, depth 5 in 19; egress stamp 7,000,700
    """
    + ETHERNET
    + _PLAIN,
    node_id=101,
    hw_id=1,
    sequence_number=11,
    metadata=_OWN_TRANSIT,
)

V2_FORMATS = (V2_STACK, V2_TLVS)
OLD_FORMATS = (V1_STACK, V1_POSTCARD, V1_DROP, V05_LOCAL, V05_DROP, V05_STACK)
DIALECT_VECTORS = (
    *(INTEL, CABLELABS, MANDARYOSHI_MD, MANDARYOSHI_MX_TRANSIT, MANDARYOSHI_XD_SOURCE),
    *(GEANT_BMV2, GEANT_TOFINO, SCAPY_NPT2, FABRIC_TNA),
)
VECTORS = V2_FORMATS + OLD_FORMATS + DIALECT_VECTORS
