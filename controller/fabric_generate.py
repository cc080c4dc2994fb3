# SPDX-License-Identifier: Apache-2.0
"""Generators of fabrics: the starting point of an operator's file, and the lab's networks.

No randomness: what differs from cable to cable comes in as an argument.
"""

from collections.abc import Sequence
from ipaddress import IPv4Network

from controller.addresses import parse_ip, parse_mac
from controller.fabric import (
    LINK_LATENCY_NS_MAX,
    ClockLimits,
    Collector,
    DeviceModel,
    EcnThreshold,
    Fabric,
    Host,
    IntDomain,
    Link,
    LinkEnd,
    Ptp,
    PtpRole,
    Qos,
    StampPoints,
    Switch,
    Tenant,
    TrafficClass,
    Watchlist,
    WatchTraffic,
)
from controller.fabric_check import check_fabric
from controller.telemetry.dialect import STANDARD
from controller.yaml_positions import format_key
from correction.model import ClockKind, StampPoint

HOST_PORT_BASE = 11
"""First host-facing port of a leaf, where its uplinks leave room below it."""
SPINE_NODE_ID_BASE = 101
REPORT_PORT = 60
CPU_PORT = 510
SWITCH_MODEL = "tempotrace-switch"
NIC_MODEL = "hardware-stamp-nic"

_LEAF_COUNT_MAX = 200
_SPINE_COUNT_MAX = 64
_HOSTS_PER_LEAF_MAX = 200
"""Limits of the address plan 10.0.<leaf>.<host> and of the 9-bit port numbers."""


def device_models(
    *,
    speeds_gbps: Sequence[int] = (100,),
    switch_uncertainty_ns: int = 3,
    nic_uncertainty_ns: int = 3,
    stamp_unit_ns: int = 1,
) -> tuple[DeviceModel, ...]:
    """A switch and a NIC model with typical stamp points.

    A NIC stamps in the MAC, near the wire. A switch stamps in the pipeline: on the way in once the
    frame has arrived as a whole, on the way out before the MAC and its FIFO.
    """
    return (
        DeviceModel(
            name=SWITCH_MODEL,
            kind=ClockKind.SWITCH,
            dialect=STANDARD.name,
            ptp_role=PtpRole.NONE,
            stamp_unit_ns=stamp_unit_ns,
            stamp_width_bits=48,
            stamp_jitter_ns=2,
            stamp_points=tuple(
                StampPoints(
                    speed_gbps=speed_gbps,
                    ingress=StampPoint(
                        latency_ns=120, uncertainty_ns=switch_uncertainty_ns, at_frame_end=True
                    ),
                    egress=StampPoint(latency_ns=360, uncertainty_ns=switch_uncertainty_ns),
                )
                for speed_gbps in speeds_gbps
            ),
        ),
        DeviceModel(
            name=NIC_MODEL,
            kind=ClockKind.NIC,
            dialect=STANDARD.name,
            ptp_role=PtpRole.NONE,
            stamp_unit_ns=1,
            stamp_width_bits=64,
            stamp_jitter_ns=1,
            stamp_points=tuple(
                StampPoints(
                    speed_gbps=speed_gbps,
                    ingress=StampPoint(latency_ns=20, uncertainty_ns=nic_uncertainty_ns),
                    egress=StampPoint(latency_ns=20, uncertainty_ns=nic_uncertainty_ns),
                )
                for speed_gbps in speeds_gbps
            ),
        ),
    )


def default_qos() -> Qos:
    """RoCE in its own queue, PTP in best effort as in a fabric without QoS for it."""
    return Qos(
        default_queue=0,
        classes=(
            TrafficClass(name="best-effort", dscp=0, queue=0),
            TrafficClass(name="roce", dscp=26, marked_dscp=27, queue=1),
            TrafficClass(name="control", dscp=46, queue=2),
        ),
        ecn=(EcnThreshold(queue=1, threshold_packets=200),),
    )


def default_watchlists() -> tuple[Watchlist, ...]:
    """All RoCE packets by INT-MD with six instructions, Sync and Delay_Req by postcards."""
    return (
        Watchlist(
            name="roce",
            traffic=WatchTraffic.ROCE,
            traffic_class="roce",
            remaining_hop_count=8,
            instruction_bitmap=0xFC00,
        ),
        Watchlist(
            name="ptp-event",
            traffic=WatchTraffic.PTP,
            message_types=(0, 1),
            instruction_bitmap=0x7C00,
        ),
    )


def leaf_spine_link_count(*, leaves: int, spines: int, hosts_per_leaf: int) -> int:
    """Number of cables: uplinks first (leaf by leaf), then access links (host by host)."""
    return leaves * spines + leaves * hosts_per_leaf


def leaf_spine(
    *,
    leaves: int = 8,
    spines: int = 4,
    hosts_per_leaf: int = 2,
    name: str = "demo",
    speed_gbps: int = 100,
    lengths_m: Sequence[float] | None = None,
    length_tolerance_m: float = 1.0,
    asymmetry_sd_ns: float = 5.0,
    tenants: Sequence[str] = ("alpha", "beta"),
    models: Sequence[DeviceModel] | None = None,
    rate_offset_max_ppb: int = 100_000,
    wander_ns_per_s_sqrt_s: float = 10.0,
    link_latency_ns_max: float = LINK_LATENCY_NS_MAX,
) -> Fabric:
    """A two-tier Clos fabric in which every leaf has one uplink to every spine.

    Leaf l is node l with uplinks on ports 1 to `spines` and hosts from port 11 on; spine s is node
    100 + s with leaf l on port l. Host k of leaf l is 10.0.l.k and belongs to tenant
    (k - 1) mod the number of tenants. `models` are a switch and a NIC model, in this order.

    lengths_m: length of every cable, in the order of `leaf_spine_link_count`; None: unknown.
    """
    _check_size(leaves, spines, hosts_per_leaf, tenants)
    switch_model, nic_model = models or device_models(speeds_gbps=(speed_gbps,))
    ends = _ends(leaves, spines, hosts_per_leaf)
    if lengths_m is not None and len(lengths_m) != len(ends):
        raise ValueError(f"{len(lengths_m)} lengths for {len(ends)} links")
    port_max = max(end.port for pair in ends for end in pair)
    fabric = Fabric(
        name=name,
        ptp=Ptp(domain=0, grandmaster="h1"),
        collectors=(
            Collector(
                ip=parse_ip("10.255.0.1"), mac=parse_mac("02:00:00:ff:00:01"), udp_port=32766
            ),
        ),
        int_domain=IntDomain(domain_id=0, truncate_bytes=96),
        clock_limits=ClockLimits(
            rate_offset_max_ppb=rate_offset_max_ppb,
            wander_ns_per_s_sqrt_s=wander_ns_per_s_sqrt_s,
        ),
        propagation_ns_per_m_min=4.8,
        link_latency_ns_max=link_latency_ns_max,
        qos=default_qos(),
        watchlists=default_watchlists(),
        tenants=tuple(Tenant(name=tenant) for tenant in tenants),
        models=(switch_model, nic_model),
        switches=_switches(
            leaves, spines, switch_model.name, REPORT_PORT if port_max < REPORT_PORT else 500
        ),
        hosts=tuple(
            Host(
                name=f"h{(leaf - 1) * hosts_per_leaf + k}",
                model=nic_model.name,
                ip=parse_ip(f"10.0.{leaf}.{k}"),
                mac=parse_mac(f"02:00:00:00:{leaf:02x}:{k:02x}"),
                tenant=tenants[(k - 1) % len(tenants)],
            )
            for leaf in range(1, leaves + 1)
            for k in range(1, hosts_per_leaf + 1)
        ),
        links=tuple(
            Link(
                a=a,
                b=b,
                speed_gbps=speed_gbps,
                length_m=None if lengths_m is None else float(lengths_m[index]),
                length_tolerance_m=(
                    0.0 if lengths_m is None else min(length_tolerance_m, float(lengths_m[index]))
                ),
                asymmetry_sd_ns=asymmetry_sd_ns,
            )
            for index, (a, b) in enumerate(ends)
        ),
    )
    problems = check_fabric(fabric)
    if problems:
        raise ValueError(f"{format_key(problems[0].path)}: {problems[0].message}")
    return fabric


def _check_size(leaves: int, spines: int, hosts_per_leaf: int, tenants: Sequence[str]) -> None:
    for what, count, count_max in (
        ("leaves", leaves, _LEAF_COUNT_MAX),
        ("spines", spines, _SPINE_COUNT_MAX),
        ("hosts_per_leaf", hosts_per_leaf, _HOSTS_PER_LEAF_MAX),
        ("tenants", len(tenants), hosts_per_leaf),
    ):
        if not 1 <= count <= count_max:
            raise ValueError(f"{what} is {count}; expected 1 to {count_max}")


def _ends(leaves: int, spines: int, hosts_per_leaf: int) -> list[tuple[LinkEnd, LinkEnd]]:
    """Both ends of every cable, in the order that `leaf_spine_link_count` states."""
    host_port = max(HOST_PORT_BASE, spines + 1)
    uplinks = [
        (LinkEnd(node=f"leaf{leaf}", port=spine), LinkEnd(node=f"spine{spine}", port=leaf))
        for leaf in range(1, leaves + 1)
        for spine in range(1, spines + 1)
    ]
    access = [
        (
            LinkEnd(node=f"leaf{leaf}", port=host_port + k),
            LinkEnd(node=f"h{(leaf - 1) * hosts_per_leaf + k + 1}", port=1),
        )
        for leaf in range(1, leaves + 1)
        for k in range(hosts_per_leaf)
    ]
    return uplinks + access


def _switches(leaves: int, spines: int, model: str, report_port: int) -> tuple[Switch, ...]:
    spine_base = max(SPINE_NODE_ID_BASE, leaves + 1)

    def switch(name: str, node_id: int, prefixes: tuple[IPv4Network, ...]) -> Switch:
        high, low = divmod(node_id, 256)
        return Switch(
            name=name,
            node_id=node_id,
            model=model,
            ip=parse_ip(f"10.254.{high}.{low}"),
            mac=parse_mac(f"02:00:01:00:{high:02x}:{low:02x}"),
            prefixes=prefixes,
            report_port=report_port,
            cpu_port=CPU_PORT,
            device_id=node_id,
        )

    return tuple(
        switch(f"leaf{leaf}", leaf, (IPv4Network(f"10.0.{leaf}.0/24"),))
        for leaf in range(1, leaves + 1)
    ) + tuple(switch(f"spine{spine}", spine_base + spine - 1, ()) for spine in range(1, spines + 1))
