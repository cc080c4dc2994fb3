# SPDX-License-Identifier: Apache-2.0
"""Values of `fabric.yaml` that are of the right kind, and still cannot be meant."""

from dataclasses import replace

import pytest

from controller.fabric import FabricError
from controller.fabric_check import check_fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import EthernetPtp, LinkEnd
from tests.support.fabric_faults import fault_at, faults_of

SMALL = leaf_spine(leaves=2, spines=2, hosts_per_leaf=2)
TEXT = dump_fabric(SMALL)

# (name, text before, text after, key, what the message contains)
CASES = [
    ("CPU port of another number", "cpu_port: 510", "cpu_port: 192", "switches[0].cpu_port",
     "192 is not the CPU port of target bmv2; expected 510"),
    ("report port is the CPU port", "report_port: 60", "report_port: 510",
     "switches[0].report_port", "510 is the cpu_port"),
    ("report port is the drop port", "report_port: 60", "report_port: 511",
     "switches[0].report_port", "expected a switch port, 1 to 510"),
    ("cable at the recirculation port", 'a: "leaf1:2"', 'a: "leaf1:509"', "links[1].a",
     "port leaf1:509 is the recirculation port"),
    ("cable at the CPU port", 'a: "leaf1:2"', 'a: "leaf1:510"', "links[1].a",
     "port leaf1:510 is the cpu_port"),
    ("cable at the drop port", 'a: "leaf1:2"', 'a: "leaf1:511"', "links[1].a",
     "port leaf1:511 is the port of dropped packets"),
    ("cable beyond the device", 'a: "leaf1:2"', 'a: "leaf1:512"', "links[1].a",
     "port leaf1:512 does not exist; expected a port from 1 to 508"),
    ("congested port beyond the device", "\ntenants:",
     '\nreports:\n  queues:\n    - {queue: 1, depth_packets: 9, quota: 9, ports: ["leaf1:600"]}\n'
     "\ntenants:", "reports.queues[0].ports[0]", "port leaf1:600 does not exist"),
    ("whole float for a port", "report_port: 60", "report_port: 60.0", "switches[0].report_port",
     "60.0 has the wrong type"),
    ("whole float for a node id", "node_id: 1,", "node_id: 1.0,", "switches[0].node_id",
     "1.0 has the wrong type"),
    ("whole float for a bitmap", "instruction_bitmap: 0xFC00", "instruction_bitmap: 64512.0",
     "watchlists[0].instruction_bitmap", "64512.0 has the wrong type"),
    ("collector in a prefix", "ip: 10.255.0.1", "ip: 10.0.1.9", "collector.ip",
     "10.0.1.9 is in a prefix of leaf1, but not cabled to it"),
    ("collector without an address", "ip: 10.255.0.1", "ip: 0.0.0.0", "collector.ip",
     "0.0.0.0 is no device's; expected a unicast address"),
    ("multicast host", "ip: 10.0.1.1,", "ip: 224.0.0.1,", "hosts[0].ip", "expected a unicast"),
    ("unspecified IPv6 host", "ip: 10.0.1.1,", 'ip: 10.0.1.1, ipv6: "::",', "hosts[0].ipv6",
     "expected a unicast"),
    ("drops from everywhere, IPv4 or not", "\ntenants:",
     "\nreports:\n  drops:\n    - {source: 0.0.0.0/0}\n\ntenants:", "reports.drops[0].source",
     "0.0.0.0/0 holds 0.0.0.0, which stands for packets that are not IPv4"),
    ("protocol of ARP", "\ntenants:",
     "\npunt:\n  - {name: x, ether_type: 0x0806, protocol: 6}\n\ntenants:", "punt[0].ether_type",
     "0x0806 is not IP, of which the rule names more"),
    ("IPv6 address in IPv4", "\ntenants:",
     '\npunt:\n  - {name: x, ether_type: 0x0800, destination: "fd00::/16"}\n\ntenants:',
     "punt[0].destination", "its keys contradict"),
    ("port of ICMP", "\ntenants:",
     "\npunt:\n  - {name: x, protocol: 1, l4_dst_port: 5}\n\ntenants:", "punt[0].l4_dst_port",
     "no ports are read of protocol 1"),
    ("types of ICMP for IPv4", "\ntenants:",
     "\npunt:\n  - {name: x, protocol: 1, icmp_types: [8]}\n\ntenants:", "punt[0].icmp_types",
     "types are read of ICMPv6 only, not of protocol 1; expected protocol 58"),
    ("ICMPv6 types of IPv4 packets", "\ntenants:",
     "\npunt:\n  - {name: x, ether_type: 0x0800, icmp_types: [135]}\n\ntenants:",
     "punt[0].icmp_types", "icmp_types are those of ICMPv6"),
    ("ICMPv6 type 0", "\ntenants:",
     "\npunt:\n  - {name: x, icmp_types: [0]}\n\ntenants:", "punt[0].icmp_types[0]",
     "an ICMPv6 type, 1 to 255"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "key", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_value_that_cannot_be_meant_is_refused(old: str, new: str, key: str, message: str) -> None:
    """One line that names the key, what is wrong with it and what was expected."""
    assert old in TEXT
    faults = faults_of(TEXT.replace(old, new, 1))
    assert len(faults) == 1, "\n".join(map(str, faults))
    assert message in str(fault_at(faults, key)).replace('"', "")


@pytest.mark.parametrize(
    ("target", "cpu_port", "allowed"),
    [("tofino", 192, True), ("tofino", 320, True), ("tofino", 510, False), ("tofino2", 0, True),
     ("tofino2", 510, False), ("none", 17, True)],
)  # fmt: skip
def test_cpu_port_is_that_of_the_target(target: str, cpu_port: int, allowed: bool) -> None:
    """The program has it compiled in; a switch that does not run the program may have any."""
    text = TEXT.replace("target: bmv2", f"target: {target}", 1)
    text = text.replace("cpu_port: 510", f"cpu_port: {cpu_port}")
    if target == "tofino2":  # its recirculation port is no place for a cable
        text = text.replace('"spine1:6"', '"spine1:9"')
    if allowed:
        assert {switch.cpu_port for switch in parse_fabric(text).switches} == {cpu_port}
    else:
        with pytest.raises(FabricError, match=f"is not the CPU port of target {target}"):
            parse_fabric(text)


def test_collector_cabled_to_the_switch_of_its_prefix_is_fine() -> None:
    """It is one of the hosts there, as far as routes are concerned."""
    collector = replace(SMALL.collector, ip=0x0A000109, attached=LinkEnd(node="leaf1", port=20))
    assert check_fabric(replace(SMALL, collectors=(collector,))) == []


def test_flooded_ptp_on_a_tagged_link_needs_a_target_that_tags_it() -> None:
    """BMv2 gives each copy the tag of its link; on Tofino such a file is refused."""
    links = (replace(SMALL.links[0], vlan=7), *SMALL.links[1:])
    flooding = replace(SMALL, links=links, ptp=replace(SMALL.ptp, ethernet=EthernetPtp.TREE))
    assert check_fabric(flooding) == []
    models = (replace(SMALL.models[0], target="tofino"), *SMALL.models[1:])
    switches = tuple(replace(switch, cpu_port=192) for switch in SMALL.switches)
    (problem,) = check_fabric(replace(flooding, models=models, switches=switches))
    assert problem.path == ("links", 0, "vlan")
    assert "leaves leaf1, a tofino, with the tag that it came with" in problem.message


@pytest.mark.parametrize(
    "damage", ["{? {a: b}: c}", "{? [1]: c}", "!!float x", "!!timestamp 1-1", "!!int _"]
)
def test_yaml_that_the_library_stumbles_over_is_refused_in_one_line(damage: str) -> None:
    """Whatever the reader of YAML raises, the file gets its line."""
    assert faults_of(TEXT.replace("name: demo", f"name: {damage}", 1))
