# SPDX-License-Identifier: Apache-2.0
"""How senders deviate from the standards: one named profile per emitter, one field per deviation.

Public emitters differ in layout, counting and units; a decoder that guesses is wrong silently.
So every device model names one profile of this table, and its stamp unit and width are declared
in fabric.yaml: there is no default unit (INT v2.1 leaves units to the device). docs/dialects.md is
made from this table.
"""

from dataclasses import dataclass
from enum import Enum, unique
from typing import Annotated, get_type_hints

SEQUENCE_BITS = 22
"""Width of the report sequence number (TR 3.2)."""


@unique
class ReportFormat(Enum):
    """The layout of a report datagram."""

    V2 = "v2.0"
    V1 = "v1.0"
    V05 = "v0.5"


@unique
class IntFormat(Enum):
    """The layout of INT headers inside the reported packet."""

    V2 = "v2.1"
    V1 = "v1.0"
    V05 = "v0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A named profile of report and stack encoding; the defaults are Telemetry Report v2.0."""

    name: str
    doc: str

    report_format: Annotated[ReportFormat, "layout of the datagram"] = ReportFormat.V2
    report_version: Annotated[int, "first four bits of the datagram"] = 2
    hw_id_shift: Annotated[
        int,
        "bits by which hw_id is narrower than its field; the sequence number has them, as 0",
    ] = 0
    sequence_shift: Annotated[int, "padding bits below the sequence number, within its field"] = 0
    sequence_bits: Annotated[int, "width of the sequence number"] = SEQUENCE_BITS
    sequence_constant: Annotated[
        bool,
        "the sequence number never advances: loss does not show",
    ] = False
    individual_header: Annotated[
        bool,
        "there is an individual report header; else the packet follows the group header",
    ] = True
    flags_meaningless: Annotated[
        bool,
        "D, Q, F and I say nothing: every report is of a followed packet",
    ] = False
    main_contents_always: Annotated[
        bool,
        "report_main_t and metadata follow RepType 0 as well",
    ] = False
    metadata_words_fixed: Annotated[
        int | None,
        "words of metadata in every report, whatever MDLength and RepMdBits say; kept as bytes",
    ] = None
    report_length_to_end: Annotated[
        bool,
        "ReportLength says nothing: the report reaches to the end of the datagram",
    ] = False
    inner_is_ethernet: Annotated[
        bool,
        "an Ethernet header comes first, whatever InType says",
    ] = False
    report_tstamp_ignored: Annotated[
        bool,
        "the ingress stamp of the report header is not used: another unit, or 0 in clones",
    ] = False
    payload_beyond_ip_length: Annotated[
        bool,
        "the report goes on behind the length that its IP and UDP headers state: a socket "
        "loses the rest, a capture of the frame has it",
    ] = False

    int_format: Annotated[IntFormat, "layout of the INT headers"] = IntFormat.V2
    int_always_embedded: Annotated[
        bool,
        "every reported packet with F holds INT headers, however it is marked",
    ] = False
    shim_length_counts_shim: Annotated[
        bool,
        "the length in the INT v2.1 shim includes the shim's own word, as in INT v1.0",
    ] = False
    shim_type_md: Annotated[int, "shim type of INT-MD"] = 1
    shim_dscp_in_byte_2: Annotated[
        bool,
        "the original DSCP stands in byte 2 of the shim, not in byte 3",
    ] = False
    npt2_protocol_in_byte_2: Annotated[
        bool,
        "NPT 2 has the original IP protocol in byte 2 of the shim, not in byte 3",
    ] = False
    md_flags_late: Annotated[bool, "D, E and M of the INT-MD header come two bits later"] = False
    hop_length_from_bitmap: Annotated[
        bool,
        "HopML says nothing: a hop is as long as its bitmap says",
    ] = False
    source_only_words: Annotated[
        int,
        "words that the source alone adds below its entry, where bit 0 of DSInstruction "
        "is set; HopML alone does not tell them from hops",
    ] = 0
    wide_tstamps: Annotated[
        bool,
        "INT v1.0 stack with stamps of 64 bits and level 2 ports of 16",
    ] = False
    nibble_3_is_egress_tstamp: Annotated[
        bool,
        "instructions 0b0011 in the highest nibble give hop latency and egress stamp, not queue",
    ] = False
    hop_latency_factor: Annotated[int, "stamp units per unit of hop latency"] = 1
    sink_entry_clone_fields: Annotated[
        tuple[str, ...],
        "values of the reporting node's own entry on the stack that are those of the copy which "
        "became the report, not of the packet: not used",
    ] = ()
    mx_values_follow: Annotated[
        bool,
        "what the node reports stands behind the INT-MX header inside the packet, in the "
        "form of a stack entry; the shim's length counts it or not",
    ] = False

    def deviations(self) -> dict[str, object]:
        """Fields that differ from Telemetry Report v2.0 and INT v2.1, in the order of the table."""
        values = {name: getattr(self, name) for name in DEVIATION_DOCS}
        return {name: value for name, value in values.items() if value != getattr(STANDARD, name)}


DEVIATION_DOCS: dict[str, str] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Dialect, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
"""What each field that a profile may set means."""

_CLONE_FIELDS = ("egress_port", "hop_latency", "queue_id", "queue_depth", "egress_tstamp")

_PROFILES = (
    Dialect(name="tempotrace-v2", doc="Telemetry Report v2.0 and INT v2.1 as specified"),
    Dialect(
        name="telemetry-report-v1.0",
        doc="Telemetry Report v1.0 and INT v1.0 as specified; stamps are 32 bits wide",
        report_format=ReportFormat.V1,
        report_version=1,
        sequence_bits=32,
        int_format=IntFormat.V1,
    ),
    Dialect(
        name="telemetry-report-v0.5",
        doc="Telemetry Report v0.5 and INT v0.5 as specified (also Tofino DTel builds and "
        "int-host-reporter); stamps are 32 bits wide",
        report_format=ReportFormat.V05,
        report_version=0,
        sequence_bits=32,
        int_format=IntFormat.V05,
    ),
    Dialect(
        name="intel-switch-p4-16",
        doc="hw_id of 4 bits, sequence of 24 bits that wraps at 2^22",
        hw_id_shift=2,
    ),
    Dialect(
        name="cablelabs-transparent-security",
        doc="CableLabs transparent-security and siddhi-map-p4-trpt: INT-MD of one word per hop, "
        "the MAC address of the sender below the source's",
        sequence_shift=6,
        sequence_bits=16,
        flags_meaningless=True,
        main_contents_always=True,
        metadata_words_fixed=1,
        report_length_to_end=True,
        inner_is_ethernet=True,
        int_always_embedded=True,
        shim_length_counts_shim=True,
        md_flags_late=True,
        hop_length_from_bitmap=True,
        source_only_words=2,
    ),
    Dialect(
        name="mandaryoshi-int-md",
        doc="mandaryoshi/p4-int, int-md-2-1",
        sequence_constant=True,
        individual_header=False,
        inner_is_ethernet=True,
        int_always_embedded=True,
        shim_type_md=3,
        shim_dscp_in_byte_2=True,
    ),
    *(
        Dialect(
            name=f"mandaryoshi-{mode}",
            doc=f"mandaryoshi/p4-int, {mode}: the layout of v2.0 under version 1",
            report_version=1,
            sequence_constant=True,
            report_length_to_end=True,
            inner_is_ethernet=True,
            payload_beyond_ip_length=True,
            int_always_embedded=True,
            shim_dscp_in_byte_2=True,
            mx_values_follow=True,
        )
        for mode in ("int-mx", "int-xd")
    ),
    *(
        Dialect(
            name=f"geant-{target}",
            doc=f"GEANT int-platforms on {name}",
            report_format=ReportFormat.V1,
            report_version=1,
            sequence_bits=32,
            report_tstamp_ignored=True,
            int_format=IntFormat.V1,
            int_always_embedded=True,
            wide_tstamps=True,
            nibble_3_is_egress_tstamp=True,
            hop_latency_factor=factor,
            sink_entry_clone_fields=clone_fields,
        )
        for target, name, factor, clone_fields in (
            (
                "bmv2",
                "BMv2: stamps are microseconds times 1000, hop latency is microseconds",
                1000,
                ("ingress_port", *_CLONE_FIELDS),
            ),
            ("tofino", "Tofino", 1, _CLONE_FIELDS),
        )
    ),
    Dialect(
        name="scapy-npt2",
        doc="Packets built with the INT layers proposed to scapy (pull request 4230)",
        npt2_protocol_in_byte_2=True,
    ),
    Dialect(
        name="stratum-fabric-tna",
        doc="stratum/fabric-tna: Telemetry Report v0.5; ports of 9, queue ids of 5 and queue "
        "occupancies of 19 bits are right-aligned in their fields",
        report_format=ReportFormat.V05,
        report_version=0,
        sequence_bits=32,
        int_format=IntFormat.V05,
    ),
)
DIALECTS = {profile.name: profile for profile in _PROFILES}
"""All profiles by name, standards first."""
STANDARD = _PROFILES[0]
