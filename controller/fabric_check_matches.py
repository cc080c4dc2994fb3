# SPDX-License-Identifier: Apache-2.0
"""What rules about packets must satisfy, so that a switch can match what they mean.

Fields that a packet lacks read as 0 in a switch's keys (docs/p4.md); used by
`fabric_check_telemetry.py` only.
"""

from collections.abc import Iterator

from controller.fabric import Fabric
from controller.fabric_problem import FabricProblem, SwitchIndex
from controller.fabric_telemetry import (
    IP_ETHER_TYPES,
    PROTOCOL_ICMPV6,
    PROTOCOLS_WITH_PORTS,
    EthernetPtp,
    IpNetwork,
)
from controller.yaml_positions import KeyPath


def check_prefix_of_ipv4(prefix: IpNetwork | None, path: KeyPath) -> Iterator[FabricProblem]:
    """The switch has no other sign of a packet without an IPv4 header than the address 0.0.0.0."""
    if prefix is not None and int(prefix.network_address) == 0:
        yield FabricProblem(
            path,
            f"{prefix} holds 0.0.0.0, which stands for packets that are not IPv4; "
            "expected a prefix without it, or no such key for all packets",
        )


def check_punt(fabric: Fabric) -> Iterator[FabricProblem]:
    """A rule that contradicts itself would never match, or only what it does not mean."""
    for index, rule in enumerate(fabric.punt):
        path: KeyPath = ("punt", index)
        if rule.ether_type is not None and rule.ether_type not in IP_ETHER_TYPES and rule.of_ip:
            yield FabricProblem(
                (*path, "ether_type"),
                f"{rule.ether_type:#06x} is not IP, of which the rule names more; "
                "expected 0x0800 (IPv4) or 0x86dd (IPv6)",
            )
            continue
        if rule.l4_dst_port is not None and rule.protocol not in (None, *PROTOCOLS_WITH_PORTS):
            yield FabricProblem(
                (*path, "l4_dst_port"),
                f"no ports are read of protocol {rule.protocol}; expected 6 (TCP) or 17 (UDP)",
            )
        if rule.icmp_types and rule.protocol not in (None, PROTOCOL_ICMPV6):
            yield FabricProblem(
                (*path, "icmp_types"),
                f"types are read of ICMPv6 only, not of protocol {rule.protocol}; "
                f"expected protocol {PROTOCOL_ICMPV6}",
            )
        elif rule.icmp_types and rule.l4_dst_port is not None:
            yield FabricProblem(
                (*path, "icmp_types"), "given together with l4_dst_port; expected one of the two"
            )
        elif not rule.ip_versions and rule.of_ip:
            what = "icmp_types are those of ICMPv6" if rule.icmp_types else "its keys contradict"
            yield FabricProblem(
                (*path, "destination" if rule.destination is not None else "icmp_types"),
                f"{what}; expected ether_type, destination and icmp_types of one IP version",
            )


def check_ethernet_ptp(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """Not every target can tag what it floods."""
    if fabric.ptp.ethernet is not EthernetPtp.TREE:
        return
    for index, link in enumerate(fabric.links):
        for key, end in (("a", link.a), ("b", link.b)):
            if link.vlan is None or end.node not in switches:
                continue
            target = switches.target(end.node)
            if not target.tags_ethernet_ptp:
                yield FabricProblem(
                    ("links", index, "vlan"),
                    f"PTP over Ethernet leaves {end.node}, a {target.name}, with the tag that it "
                    "came with; expected no vlan, or ptp.ethernet: drop",
                    (("ptp", "ethernet"), ("links", index, key), *switches.needs(end.node)),
                )
                break
