# SPDX-License-Identifier: Apache-2.0
"""What a fabric is, as declared by its operator: devices, cables, tenants, classes, watchlists.

These are the values of `fabric.yaml` (docs/fabric.md) with their types, and nothing else: what the
switches must hold follows from them in `desired.py`, what an estimator may know of them in
`fabric_model.py`. Reading and writing the file is in `fabric_file.py` and `fabric_dump.py`.
What is declared about measuring has a file of its own, `fabric_telemetry.py`.

IP and MAC addresses are integers (`addresses.py` has their text forms).
"""

from dataclasses import dataclass, replace
from enum import Enum, unique
from ipaddress import IPv4Network, IPv6Network

from controller.fabric_controller import DEFAULT_CONTROLLER, ControllerSettings
from controller.fabric_fault import FabricError, FabricFault
from controller.fabric_qos import EcnThreshold, Qos, QosMaps, TrafficClass
from controller.fabric_telemetry import (
    DEFAULT_ECMP,
    DEFAULT_PUNT,
    DEFAULT_REPORTS,
    Collector,
    Ecmp,
    EthernetPtp,
    LinkEnd,
    Probes,
    PuntRule,
    Reports,
    Watchlist,
    WatchTraffic,
)
from controller.targets import BMV2, NO_PROGRAM, DeviceConfigFormat
from correction.model import ClockKind, StampPoint

__all__ = [
    "FABRIC_VERSION",
    "LINK_LATENCY_NS_MAX",
    "PROPAGATION_NS_PER_M_MAX",
    "PROTOCOL_UDP",
    "PTP_EVENT_UDP_PORT",
    "ROCE_UDP_PORT",
    "ClockLimits",
    "Collector",
    "DeviceModel",
    "EcnThreshold",
    "Fabric",
    "FabricError",
    "FabricFault",
    "Host",
    "IntDomain",
    "Link",
    "LinkEnd",
    "Ptp",
    "PtpRole",
    "Qos",
    "ReferenceClock",
    "StampPoints",
    "Switch",
    "Tenant",
    "TrafficClass",
    "WatchTraffic",
    "Watchlist",
    "cabling",
    "programmed_switches",
    "transparent_clocks",
]

FABRIC_VERSION = 1
"""`version` of the file format."""

ROCE_UDP_PORT = 4791
PTP_EVENT_UDP_PORT = 319
PROTOCOL_UDP = 17


@unique
class PtpRole(Enum):
    """What a device does to PTP event messages (IEEE 1588-2019 clause 3.1)."""

    NONE = "none"
    BOUNDARY_CLOCK = "boundary_clock"
    TRANSPARENT_CLOCK = "transparent_clock"


@unique
class StampOrigin(Enum):
    """From when a device's stamps count."""

    ARBITRARY = "arbitrary"
    """Any instant: start of the device or its process."""
    PTP = "ptp"
    """The PTP epoch: 1970-01-01 TAI (IEEE 1588-2019 clause 7.2.3)."""
    UNIX = "unix"
    """1970-01-01 UTC, without leap seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampPoints:
    """Declared ingress and egress stamp points of a device model at one port speed."""

    speed_gbps: int
    ingress: StampPoint
    egress: StampPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceModel:
    """A kind of switch or NIC: how it stamps, and which report dialect it speaks."""

    name: str
    kind: ClockKind
    dialect: str
    """Name of the telemetry report dialect; of no meaning for a NIC."""
    ptp_role: PtpRole
    stamp_unit_ns: int
    """Quantum of its stamps: 1 for a nanosecond clock, 1000 for BMv2."""
    stamp_width_bits: int
    """Width of the stamp register: stamps wrap at 2^width units."""
    stamp_jitter_ns: int
    """Typical one-sided noise after the egress stamp (MAC FIFO, pipeline)."""
    stamp_points: tuple[StampPoints, ...]
    target: str = BMV2.name
    """What the P4 program was compiled for (`targets.py`); of no meaning for a NIC."""
    device_config: DeviceConfigFormat = DeviceConfigFormat.STRATUM
    """How its P4Runtime server wants the program; of no meaning but for a Tofino."""
    egress_stamp_width_bits: int | None = None
    """Width of egress stamps, where it is less: Tofino 1 tells 18 bits of the dequeue time."""
    stamp_origin: StampOrigin = StampOrigin.ARBITRARY
    gnmi_port: int | None = None
    """Where its switches serve gNMI, on the host of their P4Runtime server; None: nowhere."""
    mtu_bytes: int | None = None
    """IP MTU of its ports, where nothing else says what it is; None: not known."""
    qos_maps: QosMaps | None = None
    """How its switches treat packets by DSCP, besides the program; None: not known."""

    def stamp_points_at(self, speed_gbps: int) -> StampPoints | None:
        """The stamp points at a port speed, or None where the model declares none."""
        return next((p for p in self.stamp_points if p.speed_gbps == speed_gbps), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """One switch: its identity in INT, P4Runtime and IP, and the prefixes it serves."""

    name: str
    node_id: int
    """INT node id, unique in the fabric."""
    model: str
    ip: int
    """Source address of its telemetry reports."""
    mac: int
    prefixes: tuple[IPv4Network, ...] = ()
    """Address ranges of the hosts cabled to it; other switches route these as a whole."""
    ipv6_prefixes: tuple[IPv6Network, ...] = ()
    """Likewise for IPv6."""
    tier: int | None = None
    """Its tier in the ECMP hash; None: its distance from the nearest switch with hosts."""
    interfaces: tuple[tuple[int, int], ...] = ()
    """(port, INT level 2 interface id); ports without one have no level 2 interface."""
    report_port: int | None = None
    """Port that leads out of band to the collectors that are not cabled to a switch; None where all
    of them are."""
    cpu_port: int
    """Port of packet-in and packet-out."""
    device_id: int
    """P4Runtime device id."""
    p4runtime: str | None = None
    """`HOST:PORT` of its P4Runtime server; None where the address comes from elsewhere."""
    gnmi: str | None = None
    """`HOST:PORT` of its gNMI server; None: `gnmi_port` of its model says whether it has one."""
    ptp_role: PtpRole | None = None
    """What it does to PTP event messages; None: what its model does."""
    stamp_origin: StampOrigin | None = None
    """From when its stamps count; None: as those of its model."""
    mtu_bytes: int | None = None
    """IP MTU of its ports; None: that of its model."""
    port_mtus: tuple[tuple[int, int], ...] = ()
    """(port, IP MTU) of ports with another one."""
    qos_maps: QosMaps | None = None
    """How it treats packets by DSCP; None: as its model does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One NIC, whose PHC is the clock of the host's name; a host with one NIC is that NIC.

    It may be cabled to several switches, which all lead to its one address.
    """

    name: str
    model: str
    ip: int
    mac: int
    tenant: str
    ipv6: int | None = None
    """Its IPv6 address as an integer, if it has one."""
    machine: str | None = None
    """The machine that it is in together with the other NICs that name it; None: alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One cable, with what is known of its length."""

    a: LinkEnd
    b: LinkEnd
    speed_gbps: int
    length_m: float | None = None
    """Length from the cable inventory; None where it is not known."""
    length_tolerance_m: float = 0.0
    """The true length lies within length_m +- this."""
    asymmetry_sd_ns: float
    """Prior standard deviation of a healthy cable's a_uv (half the one-way difference)."""
    asymmetry_ns: float = 0.0
    """Part of a_uv that has been measured; positive: a -> b is slower."""
    mtu_bytes: int | None = None
    """IP MTU, where it is smaller than any packet with its INT headers; None: no limit."""
    weight: int | None = None
    """Share among the links of one ECMP set (WCMP); None: its speed in Gb/s."""
    vlan: int | None = None
    """802.1Q tag of the frames on it; None: untagged."""
    drained: bool = False
    """Out of use for routed traffic, for maintenance: flows go over the rest of its ECMP set."""

    @property
    def name(self) -> str:
        """Both ends, as in the file."""
        return f"{self.a}-{self.b}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant; its hosts name it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceClock:
    """A host's clock that shows reference time (GNSS, PPS), but for a constant error."""

    clock: str
    """Host whose NIC's clock it is."""
    sd_ns: float
    hard_ns: float | None = None
    """Its error is never larger; None where nobody vouches for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptp:
    """The PTP domain that the fabric carries."""

    domain: int
    grandmaster: str
    """Host whose NIC is the time transmitter: its clock is the reference."""
    ethernet: EthernetPtp = EthernetPtp.DROP
    """PTP over Ethernet; over UDP it is routed like anything else."""
    references: tuple[ReferenceClock, ...] = ()
    """All clocks that show reference time, with their errors; empty: the grandmaster, without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntDomain:
    """Settings of the INT domain that all its switches share."""

    domain_id: int
    """DomainSpecificID of INT-MD and of the reports; 0 reserves all domain-specific bits."""
    udp_port: int | None = None
    """UDP destination port by which other devices than ours mark packets with INT, if they do."""
    truncate_bytes: int
    """A report keeps this much of the reported IPv4 packet, INT headers not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockLimits:
    """Declared limits of how clocks run against the reference."""

    rate_offset_max_ppb: int
    wander_ns_per_s_sqrt_s: float
    """Random walk of the rate: ns/s per square root of a second."""


PROPAGATION_NS_PER_M_MAX = 5.2
"""Default of `propagation_ns_per_m_max`: fibre and copper in use stay below."""
LINK_LATENCY_NS_MAX = 100.0
"""Default of `link_latency_ns_max`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Everything declared about one fabric; the order of its parts is that of the file."""

    name: str
    ptp: Ptp
    collectors: tuple[Collector, ...]
    """At least one; the flows' reports are spread over all."""
    int_domain: IntDomain
    clock_limits: ClockLimits
    propagation_ns_per_m_min: float
    """Certified smallest propagation delay of any cable used, per metre."""
    propagation_ns_per_m_max: float = PROPAGATION_NS_PER_M_MAX
    """Largest propagation delay of any cable used, per metre."""
    link_latency_ns_max: float = LINK_LATENCY_NS_MAX
    """Largest delay of a link beyond its cable, one way: optical modules, retimers, FEC."""
    qos: Qos
    watchlists: tuple[Watchlist, ...]
    tenants: tuple[Tenant, ...]
    models: tuple[DeviceModel, ...]
    switches: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    links: tuple[Link, ...]
    ecmp: Ecmp = DEFAULT_ECMP
    reports: Reports = DEFAULT_REPORTS
    punt: tuple[PuntRule, ...] = DEFAULT_PUNT
    probes: Probes | None = None
    """None: no switch answers or sends probes."""
    controller: ControllerSettings = DEFAULT_CONTROLLER
    """How its controllers reach its switches."""

    @property
    def collector(self) -> Collector:
        """The first collector; the only one in most fabrics."""
        return self.collectors[0]

    @property
    def nodes(self) -> tuple[Host | Switch, ...]:
        """Hosts, then switches: the order of the clocks in `fabric_model`."""
        return (*self.hosts, *self.switches)

    def switch(self, name: str) -> Switch:
        """The switch of that name; KeyError if there is none."""
        for switch in self.switches:
            if switch.name == name:
                return switch
        raise KeyError(name)

    def host(self, name: str) -> Host:
        """The host of that name; KeyError if there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise KeyError(name)

    def model(self, name: str) -> DeviceModel:
        """The device model of that name; KeyError if there is none."""
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(name)

    def model_of(self, switch: Switch) -> DeviceModel:
        """The model of a switch, with what is declared otherwise for this one."""
        model = self.model(switch.model)
        if switch.ptp_role is None and switch.stamp_origin is None:
            return model
        return replace(
            model,
            ptp_role=switch.ptp_role or model.ptp_role,
            stamp_origin=switch.stamp_origin or model.stamp_origin,
        )


def programmed_switches(fabric: Fabric) -> tuple[Switch, ...]:
    """The switches that run the P4 program: all but those of the target `none`."""
    models = {model.name: model for model in fabric.models}
    return tuple(
        switch for switch in fabric.switches if models[switch.model].target != NO_PROGRAM.name
    )


def gnmi_address(fabric: Fabric, switch: Switch) -> str | None:
    """`HOST:PORT` of the switch's gNMI server; None where it has none that is known."""
    port = fabric.model_of(switch).gnmi_port
    if switch.gnmi is not None or switch.p4runtime is None or port is None:
        return switch.gnmi
    return f"{switch.p4runtime.rpartition(':')[0]}:{port}"


def transparent_clocks(fabric: Fabric) -> tuple[str, ...]:
    """Names of the programmed switches that are transparent clocks."""
    return tuple(
        switch.name
        for switch in programmed_switches(fabric)
        if fabric.model_of(switch).ptp_role is PtpRole.TRANSPARENT_CLOCK
    )


def cabling(fabric: Fabric) -> dict[LinkEnd, LinkEnd]:
    """For every cabled port, the port at the other end."""
    ends: dict[LinkEnd, LinkEnd] = {}
    for link in fabric.links:
        ends[link.a] = link.b
        ends[link.b] = link.a
    return ends
