# SPDX-License-Identifier: Apache-2.0
"""What a scenario fixes; everything random in a run follows from these values and the seed."""

from dataclasses import dataclass, field
from enum import Enum, unique

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios.disturbances import Event, StampBias, Straggler, WrongCorrection
from bmv2_lab.scenarios.limits import Limit


@unique
class Topology(Enum):
    """How switches and hosts are cabled (`bmv2_lab/topologies.py`)."""

    LEAF_SPINE = "leaf-spine"
    THREE_TIER = "three-tier"
    """Pods of two leaves and two spines each, joined by cores: `leaves` leaves, as many spines."""
    DUAL_HOMED = "dual-homed"
    """Each NIC has two cables, to the two leaves of a pair."""
    RAILS = "rails"
    """A leaf per rail; `hosts_per_leaf` machines have a NIC on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Congestion:
    """Background load: every fabric port has the base load, some are congested."""

    base_share: float = 0.15
    """Load of the best-effort queue on every fabric port, as a share of its rate."""
    congested_ports_share: float = 0.2
    """Share of the directed fabric ports that are congested."""
    best_effort_share: float = 0.7
    """Best-effort load on a congested port."""
    roce_share: float = 0.15
    """RoCE background load on a congested port."""
    burst_frames: float = 16.0
    """Mean burst of the congested best-effort queue."""
    only_at: tuple[str, ...] = ()
    """Switches whose fabric ports may be congested; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Who sends to whom in a training step, and over what span of time."""

    incast: bool = False
    """All ranks send to rank 0, in place of each to its two neighbours on the ring."""
    spread_ns: int = 400_000_000
    """Messages of a step are posted over this, as buckets of an overlapped all-reduce are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LosslessRoce:
    """PFC for the RoCE class in every switch and NIC, and DCQCN in the NICs."""

    xoff_bytes: int
    """What one ingress port may have in a switch before its peer is paused."""
    xon_bytes: int
    """Below this the peer may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClocks:
    """Every host has a system clock in UTC and a GPU, and logs readings of them. Some system clocks
    follow NTP, the others run free."""

    interval_ns: int = 100_000_000
    """Between two readings of a pair."""
    ntp_every: int = 2
    """The system clock of every so many-th host, from the first, follows NTP."""
    tai_utc_s: int = 37
    ntp_poll_ns: int = 500_000_000
    ntp_bias_ns_max: int = 50_000
    """By how much NTP is off on a host, because of its path."""
    ntp_noise_sd_ns: int = 5_000
    step_host: str = ""
    """Whose system clock is set, once; none."""
    step_at_ns: int = 0
    step_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """The engine feeds transparent clocks while the fabric runs; instants of true time in ns."""

    residence_from_ns: int
    """Until then switches leave PTP alone; from then on they add residence."""
    delays_from_ns: int
    """The first window that ends after this is the first whose link delays are written."""
    settle_ns: int
    """Clients have settled so long after a change of what switches do."""
    windows_kept: int = 6
    """Windows solved together: the newest so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One lab scenario; times in ns of true time."""

    name: str
    summary: str
    """What is in it, and what for."""
    number: int | None = None
    """Place in the catalogue of scenarios with limits."""
    limits: tuple[Limit, ...] = ()
    """What telemetry and truth of every run must satisfy."""
    estimate_limits: tuple[Limit, ...] = ()
    """What the engine's answers to every run must satisfy."""
    leaves: int = 8
    spines: int = 4
    hosts_per_leaf: int = 2
    plain_spines: bool = False
    """Spines are ordinary routers, which do not run the P4 program."""
    topology: Topology = Topology.LEAF_SPINE
    speed_gbps: int = 100
    cable_m_min: int = 3
    cable_m_max: int = 100
    bad_link_share: float = 0.1
    """Share of fabric links with a large asymmetry."""
    bad_access_links: int = 0
    """Cables of NICs with a large asymmetry."""
    bad_link_ns_min: int = 20
    bad_link_ns_max: int = 500
    congestion: Congestion = field(default_factory=Congestion)
    nuisance: Nuisance = field(default_factory=Nuisance)
    duration_ns: int = 62_000_000_000
    window_starts_ns: tuple[int, ...] = (
        32_000_000_000,
        37_000_000_000,
        42_000_000_000,
        47_000_000_000,
        52_000_000_000,
        57_000_000_000,
    )
    window_ns: int = 1_000_000_000
    ptp_interval_ns: int = 250_000_000
    """Between two Syncs to one client (logSyncInterval -2)."""
    ptp_dscp: int = 0
    """0: best effort, as in a fabric without QoS for PTP; 46: the control queue."""
    boundary_clocks: bool = False
    """Every switch ends PTP and serves its neighbours further down."""
    ptp_over_ethernet: bool = False
    """Multicast over Ethernet along the grandmaster's tree, in place of unicast over UDP."""
    qps_per_peer: int = 16
    """Queue pairs from a rank to each of its two ring neighbours."""
    steps_per_window: int = 2
    packets_per_message: int = 2
    payload_bytes: int = 4_096
    faults_hop: int = 7
    faults_link: int = 6
    faults_sender: int = 4
    faults_receiver: int = 3
    """Injected slow transfers by cause."""
    closed_loop: ClosedLoop | None = None
    probe_budget_pps: int = 0
    """Link probes a second in windows, all links together; 0: none."""
    tenants: tuple[str, ...] = ("alpha", "beta")
    traffic: Traffic = field(default_factory=Traffic)
    ecn_threshold_packets: int = 200
    """Of the RoCE queue."""
    queue_report_packets: int = 0
    """RoCE packets that leave this many behind are reported as congested; 0: none are."""
    tier_gradient_ns: float = 0.0
    """a_uv of every uplink of leaf n is (n - 1) times this more than chance makes it."""
    stamp_biases: tuple[StampBias, ...] = ()
    straggler: Straggler | None = None
    wrong_correction: WrongCorrection | None = None
    host_clocks: HostClocks | None = None
    """None: hosts have no clock but their NIC's."""
    lossless: LosslessRoce | None = None
    """None: queues are cut off at their limit, and NICs send at line rate."""
    spraying: bool = False
    """NICs give each packet of a message a UDP source port of its own, and so a path."""
    retransmit_ns: int | None = None
    """A NIC sends again what is not acknowledged after this; None: never."""
    report_loss_share: float = 0.0
    """Share of the reports that never reach the collector, each by chance."""
    events: tuple[Event, ...] = ()
    """What happens while it runs."""
