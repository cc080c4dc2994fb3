# SPDX-License-Identifier: Apache-2.0
"""The measuring sections of `fabric.yaml`: read, written and refused in one line."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import Collector, Fabric, LinkEnd, PtpRole
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import (
    DEFAULT_PUNT,
    DROP_REASONS,
    DropReport,
    Ecmp,
    EthernetPtp,
    Probes,
    PuntRule,
    QueueReport,
    ReportFilter,
    Reports,
    Syndrome,
    Watchlist,
    WatchMode,
    WatchTraffic,
)
from tests.support.fabric_faults import fault_at, faults_of

SMALL = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, lengths_m=[10.0] * 8)
TEXT = dump_fabric(SMALL)
ROCE = SMALL.watchlists[0]


def full() -> Fabric:
    """A fabric with every optional key in use."""
    first = SMALL.collector
    hosts = tuple(
        replace(host, ipv6=int(IPv6Address(f"fd00:0:{1 + index // 2}::{1 + index % 2}")))
        for index, host in enumerate(SMALL.hosts)
    )
    leaf = replace(
        SMALL.switches[0],
        ipv6_prefixes=(IPv6Network("fd00:0:1::/64"),),
        tier=3,
        interfaces=((1, 0), (2, 4_294_967_294)),
    )
    return replace(
        SMALL,
        ptp=replace(SMALL.ptp, ethernet=EthernetPtp.TREE),
        collectors=(
            replace(first, attached=LinkEnd(node="spine1", port=40)),
            Collector(ip=first.ip + 1, mac=first.mac + 1, udp_port=5, destination_id=63),
        ),
        watchlists=(
            replace(
                ROCE,
                name="no",
                mode=WatchMode.EXEMPT,
                instruction_bitmap=0,
                remaining_hop_count=None,
                sources=("h1",),
            ),
            replace(
                ROCE,
                sources=("h1", IPv4Network("10.0.2.0/24"), IPv6Network("fd00::/16")),
                destinations=("h2",),
                opcodes=(0, 255),
                dest_qps=(0xFFFFFF,),
                syndromes=(Syndrome.NAK, Syndrome.RNR_NAK),
                remaining_hop_count=21,
                instruction_bitmap=0xFF80,
            ),
            replace(
                ROCE,
                name="mx",
                mode=WatchMode.MX,
                remaining_hop_count=None,
                tenants=("alpha",),
                sample_psn_bits=16,
            ),
            replace(
                ROCE,
                name="xd",
                mode=WatchMode.XD,
                remaining_hop_count=None,
                traffic_class="control",
                change_only=True,
                instruction_bitmap=0x7F80,
            ),
            Watchlist(
                name="ptp",
                traffic=WatchTraffic.PTP,
                message_types=(0, 3),
                sample_sequence_bits=15,
                instruction_bitmap=0x0080,
            ),
        ),
        models=(replace(SMALL.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK), SMALL.models[1]),
        hosts=hosts,
        switches=(leaf, *SMALL.switches[1:]),
        links=(replace(SMALL.links[0], weight=65535, vlan=4094, drained=True), *SMALL.links[1:]),
        ecmp=Ecmp(buckets=63, seed=0xFFFFFFFF, hash_flow_label=True),
        reports=Reports(
            dscp=46,
            filter=ReportFilter(mx=True, drops=False, latency_quantum_ns=1, interval_ns=7),
            queues=(
                QueueReport(queue=7, depth_packets=16_777_214, latency_ns=1, quota=65_535),
                QueueReport(queue=0, latency_ns=5, ports=(LinkEnd(node="leaf1", port=2),)),
            ),
            drops=(
                DropReport(),
                DropReport(
                    reasons=tuple(DROP_REASONS),
                    source=IPv4Network("10.0.0.0/8"),
                    destination=IPv4Network("128.0.0.0/1"),
                ),
            ),
        ),
        probes=Probes(budget_pps=9, dscp=46, payload_bytes=0, report_metadata_bits=0x0080),
        punt=(
            *DEFAULT_PUNT,
            PuntRule(name="on", protocol=6, l4_dst_port=179, destination=ip_network("fd00::/16")),
        ),
    )


@pytest.mark.parametrize("fabric", [SMALL, full(), replace(SMALL, punt=())])
def test_everything_written_is_read_back(fabric: Fabric) -> None:
    """A fabric survives its file, byte for byte the second time."""
    text = dump_fabric(fabric)
    assert parse_fabric(text) == fabric
    assert dump_fabric(parse_fabric(text)) == text


def test_fabric_of_cabled_collectors_needs_no_report_ports() -> None:
    """Without `report_port` every collector must be attached, and the ports are free for cables."""
    attached = replace(SMALL.collector, attached=LinkEnd(node="leaf1", port=60))
    switches = tuple(replace(switch, report_port=None) for switch in SMALL.switches)
    fabric = replace(SMALL, collectors=(attached,), switches=switches)
    assert parse_fabric(dump_fabric(fabric)) == fabric


def test_optional_sections_have_defaults() -> None:
    """A file of the sections that were there from the start means what it meant."""
    fabric = parse_fabric(TEXT)
    assert fabric.ecmp == Ecmp(buckets=64)
    assert fabric.reports == Reports(dscp=0, filter=ReportFilter(), queues=(), drops=())
    assert fabric.punt == DEFAULT_PUNT
    assert fabric.probes is None
    assert fabric.ptp.ethernet is EthernetPtp.DROP
    assert fabric.collectors == (fabric.collector,)
    assert ROCE.mode is WatchMode.MD


def test_destination_ids_follow_the_order_of_the_list() -> None:
    """Where none is declared the first collector is 0, the second 1."""
    first = SMALL.collector
    second = replace(first, ip=first.ip + 1, mac=first.mac + 1, destination_id=1)
    text = dump_fabric(replace(SMALL, collectors=(first, second)))
    assert "destination_id" not in text
    assert parse_fabric(text).collectors == (first, second)


COLLECTOR = TEXT[TEXT.index("collector:") : TEXT.index("int:")].rstrip() + "\n"
ITEM = '{ip: 10.255.0.1, mac: "02:00:00:ff:00:01", udp_port: 32766'
OTHER = '{ip: 10.255.0.2, mac: "02:00:00:ff:00:02", udp_port: 32766'
WATCH = "{name: roce, traffic: roce, class: roce, remaining_hop_count: 8, "
H1 = "{name: h1, model: hardware-stamp-nic, ip: 10.0.1.1"
SECTION = "tenants:\n"

# (name, text before, text after, text on the line to blame, key, what the message contains)
CASES = [
    (
        "no collector",
        COLLECTOR,
        "",
        "fabric description",
        "collector",
        "missing key; expected a mapping with ip",
    ),
    (
        "both collectors",
        COLLECTOR,
        f"{COLLECTOR}collectors: [{ITEM}}}]\n",
        "collectors:",
        "collectors",
        "given together with collector; expected one of the two",
    ),
    (
        "misspelt collector",
        "collector:",
        "colector:",
        "colector",
        "colector",
        "did you mean collector?",
    ),
    (
        "no collectors",
        COLLECTOR,
        "collectors: []\n",
        "collectors:",
        "collectors",
        "the list is empty",
    ),
    (
        "two collectors with one ip",
        COLLECTOR,
        f"collectors:\n  - {ITEM}}}\n  - {ITEM}}}\n".replace(':01"', ':03"', 1),
        "ff:00:01",
        "collectors[1].ip",
        "the address 10.255.0.1 is used by collectors[0].ip",
    ),
    (
        "two collectors with one destination id",
        COLLECTOR,
        f"collectors:\n  - {ITEM}, destination_id: 1}}\n  - {OTHER}}}\n",
        "10.255.0.2",
        "collectors[1].destination_id",
        "the destination id 1 is used by collectors[0]",
    ),
    (
        "collector at a host",
        "udp_port: 32766",
        'udp_port: 32766\n  attached: "h1:2"',
        "attached",
        "collector.attached",
        "there is no switch 'h1'",
    ),
    (
        "collector at a used port",
        "udp_port: 32766",
        'udp_port: 32766\n  attached: "leaf1:11"',
        "attached",
        "collector.attached",
        "port leaf1:11 is used by links[4].a already",
    ),
    (
        "collector in a list of one at a used port",
        COLLECTOR,
        f'collectors:\n  - {ITEM}, attached: "leaf1:11"}}\n',
        "attached",
        "collectors[0].attached",
        "port leaf1:11 is used by links[4].a",
    ),
    (
        "collector at the report port",
        "udp_port: 32766",
        'udp_port: 32766\n  attached: "leaf1:60"',
        "attached",
        "collector.attached",
        "is the report_port of leaf1",
    ),
    (
        "collector at the recirculation port",
        "udp_port: 32766",
        'udp_port: 32766\n  attached: "leaf1:509"',
        "attached",
        "collector.attached",
        "is the recirculation port of leaf1",
    ),
    (
        "link at the recirculation port",
        'a: "leaf1:2"',
        'a: "leaf1:509"',
        "leaf1:509",
        "links[1].a",
        "is the recirculation port of leaf1",
    ),
    (
        "report port is the recirculation port",
        "report_port: 60",
        "report_port: 509",
        "name: leaf1",
        "switches[0].report_port",
        "509 is the recirculation port",
    ),
    (
        "no way to the collector",
        ", report_port: 60",
        "",
        "name: leaf1",
        "switches[0].report_port",
        "missing key, and collector is not attached to a switch; expected the port",
    ),
    (
        "MD without a bitmap",
        ", instruction_bitmap: 0xFC00",
        "",
        "name: roce, traffic",
        "watchlists[0].instruction_bitmap",
        "missing key; expected an INT instruction bitmap in mode md",
    ),
    (
        "MX with a hop count",
        WATCH,
        WATCH.replace("class", "mode: mx, class"),
        "mode: mx",
        "watchlists[0].remaining_hop_count",
        "no meaning in mode mx",
    ),
    (
        "MX of an unmarked class",
        WATCH,
        "{name: roce, traffic: roce, mode: mx, class: control, ",
        "mode: mx",
        "watchlists[0].class",
        "expected one of roce",
    ),
    (
        "XD of an unknown class",
        "class: roce, remaining_hop_count: 8, instruction_bitmap: 0xFC00",
        "mode: xd, class: blue, instruction_bitmap: 0x7C00",
        "mode: xd",
        "watchlists[0].class",
        "no traffic class 'blue'; expected one of best-effort, roce",
    ),
    (
        "XD with the node id",
        WATCH,
        "{name: roce, traffic: roce, mode: xd, class: roce, ",
        "mode: xd",
        "watchlists[0].instruction_bitmap",
        "0xFC00 has bit 0, which every report holds anyway",
    ),
    (
        "exemption with a bitmap",
        WATCH,
        "{name: roce, traffic: roce, mode: exempt, class: roce, ",
        "mode: exempt",
        "watchlists[0].instruction_bitmap",
        "no meaning in mode exempt",
    ),
    (
        "unknown mode",
        WATCH,
        WATCH.replace("class", "mode: int, class"),
        "mode: int",
        "watchlists[0].mode",
        "expected md, mx, xd or exempt",
    ),
    (
        "change-only MD",
        WATCH,
        f"{WATCH}change_only: true, ",
        "change_only",
        "watchlists[0].change_only",
        "no meaning in mode md; expected mode xd",
    ),
    (
        "sampled and change-only",
        WATCH + "instruction_bitmap: 0xFC00",
        "{name: roce, traffic: roce, mode: xd, class: roce, change_only: true, "
        "sample_psn_bits: 2, instruction_bitmap: 0x7C00",
        "change_only",
        "watchlists[0].change_only",
        "cannot be paired",
    ),
    (
        "stack too deep",
        "remaining_hop_count: 8",
        "remaining_hop_count: 32",
        "traffic: roce",
        "watchlists[0].remaining_hop_count",
        "32 hops of 8 words exceed an INT stack; expected at most 31",
    ),
    (
        "tenants and sources",
        WATCH,
        f"{WATCH}tenants: [alpha], sources: [h1], ",
        "sources",
        "watchlists[0].sources",
        "given together with tenants",
    ),
    (
        "unknown source",
        WATCH,
        f"{WATCH}sources: [h9], ",
        "h9",
        "watchlists[0].sources[0]",
        "there is no host 'h9'",
    ),
    (
        "source with host bits",
        WATCH,
        f"{WATCH}sources: [h1, 10.0.1.1/24], ",
        "10.0.1.1/24",
        "watchlists[0].sources[1]",
        "a prefix without host bits",
    ),
    (
        "destination that is no prefix",
        WATCH,
        f"{WATCH}destinations: [10.0.1.1], ",
        "destinations",
        "watchlists[0].destinations[0]",
        "a host name, or a prefix",
    ),
    (
        "too many combinations",
        WATCH,
        f"{WATCH}opcodes: {list(range(33))}, dest_qps: {list(range(32))}, ",
        "opcodes",
        "watchlists[0]",
        "make 1056 combinations; expected at most 1024",
    ),
    (
        "no opcode",
        WATCH,
        f"{WATCH}opcodes: [], ",
        "opcodes",
        "watchlists[0].opcodes",
        "the list is empty",
    ),
    (
        "opcode twice",
        WATCH,
        f"{WATCH}opcodes: [1, 1], ",
        "opcodes",
        "watchlists[0].opcodes",
        "repeats a value",
    ),
    (
        "unknown syndrome",
        WATCH,
        f"{WATCH}syndromes: [ack], ",
        "syndromes",
        "watchlists[0].syndromes[0]",
        "expected nak or rnr_nak",
    ),
    (
        "sequence sampling of RoCE",
        WATCH,
        f"{WATCH}sample_sequence_bits: 1, ",
        "sample_seq",
        "watchlists[0].sample_sequence_bits",
        "unknown key",
    ),
    (
        "PTP mode",
        "traffic: ptp",
        "traffic: ptp, mode: xd",
        "mode",
        "watchlists[1].mode",
        "unknown key",
    ),
    (
        "reserved postcard bit",
        "0x7C00",
        "0x7C01",
        "0x7C01",
        "watchlists[1].instruction_bitmap",
        "of bits 1 to 8 only",
    ),
    (
        "unknown key of ecmp",
        SECTION,
        f"ecmp: {{bucket: 64}}\n{SECTION}",
        "ecmp",
        "ecmp.bucket",
        "did you mean buckets?",
    ),
    (
        "too many buckets",
        SECTION,
        f"ecmp: {{buckets: 65}}\n{SECTION}",
        "ecmp",
        "ecmp.buckets",
        "1 to 64",
    ),
    (
        "marked report DSCP",
        SECTION,
        f"reports: {{dscp: 27}}\n{SECTION}",
        "reports",
        "reports.dscp",
        "27 marks packets with INT",
    ),
    (
        "queue without a threshold",
        SECTION,
        f"reports: {{queues: [{{queue: 1, quota: 1}}]}}\n{SECTION}",
        "reports",
        "reports.queues[0]",
        "depth_packets or latency_ns or both",
    ),
    (
        "queue without a quota",
        SECTION,
        f"reports: {{queues: [{{queue: 1, latency_ns: 1}}]}}\n{SECTION}",
        "reports",
        "reports.queues[0].quota",
        "missing key",
    ),
    (
        "queue twice",
        SECTION,
        "reports:\n  queues:\n    - {queue: 1, latency_ns: 1, quota: 1}\n"
        f"    - {{queue: 1, depth_packets: 1, quota: 1}}\n{SECTION}",
        "depth_packets",
        "reports.queues[1].queue",
        "queue 1 is used by reports.queues[0].queue",
    ),
    (
        "queue of an unknown switch",
        SECTION,
        f'reports: {{queues: [{{queue: 1, latency_ns: 1, quota: 1, ports: ["h1:1"]}}]}}\n{SECTION}',
        "reports",
        "reports.queues[0].ports[0]",
        "there is no switch 'h1'",
    ),
    (
        "unknown drop reason",
        SECTION,
        f"reports: {{drops: [{{reasons: [boredom]}}]}}\n{SECTION}",
        "reports",
        "reports.drops[0].reasons[0]",
        "a drop reason such as no_route",
    ),
    (
        "drop source with host bits",
        SECTION,
        f"reports: {{drops: [{{source: 10.0.1.1/24}}]}}\n{SECTION}",
        "reports",
        "reports.drops[0].source",
        "without host bits",
    ),
    (
        "drop twice",
        SECTION,
        f"reports:\n  drops:\n    - {{}}\n    - {{reasons: [no_route]}}\n    - {{}}\n{SECTION}",
        "- {}",
        "reports.drops[2]",
        "the drop any reason from anywhere to anywhere is used by reports.drops[0]",
    ),
    (
        "probes without a budget",
        SECTION,
        f"probes: {{dscp: 0}}\n{SECTION}",
        "probes",
        "probes.budget_pps",
        "missing key; expected probes per second",
    ),
    (
        "marked probe DSCP",
        SECTION,
        f"probes: {{budget_pps: 1, dscp: 27}}\n{SECTION}",
        "probes",
        "probes.dscp",
        "27 marks packets with INT",
    ),
    (
        "punt rule for everything",
        SECTION,
        f"punt: [{{name: all}}]\n{SECTION}",
        "punt",
        "punt[0]",
        "a mapping with name and what to match",
    ),
    (
        "punt rule twice",
        SECTION,
        f"punt:\n  - {{name: a, protocol: 1}}\n  - {{name: a, protocol: 2}}\n{SECTION}",
        "protocol: 2",
        "punt[1].name",
        "the name a is used by punt[0].name",
    ),
    (
        "punt destination",
        SECTION,
        f"punt: [{{name: a, destination: '::1/0'}}]\n{SECTION}",
        "punt",
        "punt[0].destination",
        "a prefix without host bits",
    ),
    (
        "IPv6 address",
        H1,
        f'{H1}, ipv6: "fd00::1::2"',
        "name: h1,",
        "hosts[0].ipv6",
        "expected an IPv6 address such as",
    ),
    (
        "IPv6 address twice",
        "ip: 10.0.1.1",
        'ip: 10.0.1.1, ipv6: "fd00::2"',
        "name: h2",
        "hosts[1].ipv6",
        "the address fd00::2 is used by hosts[0].ipv6",
    ),
    (
        "IPv6 prefix with host bits",
        "prefixes: [10.0.1.0/24]",
        'prefixes: [10.0.1.0/24], ipv6_prefixes: ["fd00::1/64"]',
        "name: leaf1",
        "switches[0].ipv6_prefixes[0]",
        "an IPv6 prefix without host bits",
    ),
    (
        "interface twice",
        "cpu_port: 510",
        "cpu_port: 510, interfaces: [{port: 1, interface: 1}, {port: 1, interface: 2}]",
        "name: leaf1",
        "switches[0].interfaces[1].port",
        "the port 1 is used by",
    ),
    (
        "VLAN out of range",
        "asymmetry_sd_ns: 5.0",
        "asymmetry_sd_ns: 5.0, vlan: 4095",
        "leaf1:1",
        "links[0].vlan",
        "a VLAN id, 1 to 4094",
    ),
    (
        "no weight",
        "asymmetry_sd_ns: 5.0",
        "asymmetry_sd_ns: 5.0, weight: 0",
        "leaf1:1",
        "links[0].weight",
        "1 to 65535",
    ),
    (
        "drained access link",
        'b: "h1:1", speed_gbps: 100',
        'b: "h1:1", speed_gbps: 100, drained: true',
        "h1:1",
        "links[4].drained",
        "the only link of a host has no other way round",
    ),
    (
        "coarse transparent clock",
        "ptp_role: none\n    stamp_unit_ns: 1",
        "ptp_role: transparent_clock\n    stamp_unit_ns: 65536",
        "stamp_unit_ns",
        "models[0].stamp_unit_ns",
        "too coarse for a transparent clock; expected at most 65535",
    ),
    (
        "MD without the node id",
        "remaining_hop_count: 8, instruction_bitmap: 0xFC00",
        "remaining_hop_count: 8, instruction_bitmap: 0x7C00",
        "instruction_bitmap",
        "watchlists[0].instruction_bitmap",
        "expected bit 0 (0x8000) in mode md",
    ),
    (
        "MX that reports nothing",
        "remaining_hop_count: 8, instruction_bitmap: 0xFC00",
        "mode: mx, instruction_bitmap: 0x8180",
        "instruction_bitmap",
        "watchlists[0].instruction_bitmap",
        "asks for nothing that a postcard holds",
    ),
    (
        "PTP over Ethernet",
        "  domain: 0",
        "  ethernet: flood\n  domain: 0",
        "flood",
        "ptp.ethernet",
        "expected drop or tree",
    ),
]


@pytest.mark.parametrize(
    ("old", "new", "blamed", "key", "message"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_wrong_section_gives_one_line(
    old: str, new: str, blamed: str, key: str, message: str
) -> None:
    """The error names line, key, what is wrong and what was expected."""
    assert TEXT.count(old) >= 1, old
    text = TEXT.replace(old, new, 1)
    if key == "hosts[1].ipv6":
        text = text.replace("ip: 10.0.1.2", 'ip: 10.0.1.2, ipv6: "fd00::2"', 1)
    faults = faults_of(text)
    assert len(faults) == 1, "\n".join(map(str, faults))
    fault = fault_at(faults, key)
    assert message in str(fault)
    assert blamed in text.splitlines()[fault.line - 1]


@pytest.mark.parametrize("other", ["fd00::/32", "fd00:0:1::/80"])
def test_overlapping_ipv6_prefixes_are_refused(other: str) -> None:
    """Two switches cannot serve one address; a host lies in a prefix of its switch."""
    fabric = full()
    leaf2 = replace(fabric.switches[1], ipv6_prefixes=(IPv6Network(other, strict=False),))
    text = dump_fabric(replace(fabric, switches=(fabric.switches[0], leaf2, *fabric.switches[2:])))
    assert "switches[1].ipv6_prefixes[0]" in {fault.key for fault in faults_of(text)}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_text_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    """Any replacement of any stretch of a full text gives a fabric or a FabricError."""
    text = dump_fabric(full())
    end = text.index("\nhosts:")
    start = data.draw(st.integers(0, end))
    size = data.draw(st.integers(0, 30))
    junk = data.draw(st.text(max_size=12) | st.sampled_from(["{", "]", ": ", "- ", "0", "-1", "/"]))
    faults_of(text[:start] + junk + text[start + size :])


def test_examples_of_the_documentation_are_read() -> None:
    """Each further YAML block of docs/fabric.md fits into a file as it stands."""
    page = (Path(__file__).parents[3] / "docs" / "fabric.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in page.split("```yaml\n")[2:]]
    assert blocks
    for block in blocks:
        assert parse_fabric(TEXT + block) != SMALL
