# SPDX-License-Identifier: Apache-2.0
"""What a large run fixes; everything random in it follows from these values and the seed."""

from dataclasses import dataclass, field
from enum import StrEnum, unique

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios import Congestion

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
STEP_START_NS = 20 * NS_PER_MS
"""From a window's start to its first step."""
STEP_MARGIN_NS = 60 * NS_PER_MS
"""A step's last message is posted so long before the next step starts."""


@unique
class Shape(StrEnum):
    """How NICs are cabled to leaves, and how many tiers there are."""

    RAIL_OPTIMISED = "rail-optimised"
    """NIC r of every host of a unit goes to leaf r of the unit; two or three tiers by size."""
    LEAF_SPINE = "leaf-spine"
    """All NICs of a host go to one leaf; two tiers."""
    THREE_TIER = "three-tier"
    """All NICs of a host go to one leaf; a fat tree of pods below cores."""


@unique
class Collective(StrEnum):
    """Who sends to whom in a step."""

    RING = "ring"
    """Every rank to both neighbours: a bidirectional ring all-reduce."""
    TREE = "tree"
    """Every rank to its parents and children in two complementary binary trees."""


@unique
class Placement(StrEnum):
    """How a job's hosts lie in the fabric."""

    PACKED = "packed"
    """Neighbouring hosts, ranks in their order."""
    SCATTERED = "scattered"
    """Hosts and the order of ranks drawn at random, as in a busy cluster: flows cross tiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    """One large run; times in ns of true time."""

    gpus: int = 512
    """Each has a NIC, and each NIC a PHC of its own."""
    nics_per_host: int = 8
    shape: Shape = Shape.RAIL_OPTIMISED
    radix: int = 64
    """Ports of a switch in the fabric; a leaf uses one half down and one half up."""
    speed_gbps: int = 400
    cable_m_min: int = 3
    cable_m_max: int = 100
    bad_link_share: float = 0.05
    """Share of the links between switches with a large asymmetry."""
    bad_link_ns_min: int = 20
    bad_link_ns_max: int = 500
    congestion: Congestion = field(default_factory=Congestion)
    nuisance: Nuisance = field(default_factory=Nuisance)
    warm_up_ns: int = 6 * NS_PER_S
    """PTP runs so long before telemetry starts; the servos start locked, but for their noise."""
    window_count: int = 1
    window_ns: int = NS_PER_S
    chunk_ns: int = 100 * NS_PER_MS
    """Messages posted within this time are computed together; it bounds the memory."""
    ptp_interval_ns: int = 250 * NS_PER_MS
    ptp_dscp: int = 0
    gpus_per_job: int = 1_024
    """One job is one tenant; the last one takes what is left."""
    placement: Placement = Placement.SCATTERED
    collective: Collective = Collective.RING
    steps_per_window: int = 1
    qps_per_peer: int = 16
    packets_per_message: int = 2
    payload_bytes: int = 4_096
    sample_psn_bits: int = 0
    """Telemetry sees the packets whose low so many bits of the PSN are zero, and their ACKs."""
    faults_hop: int = 4
    faults_link: int = 4
    faults_sender: int = 4
    faults_receiver: int = 4
    """Injected slow transfers by cause, in the whole run."""
    straggler_hosts: int = 0
    """Hosts whose software is slow throughout: every post and every completion waits longer."""

    @property
    def start_ns(self) -> int:
        """True time at which telemetry starts."""
        return self.warm_up_ns

    @property
    def end_ns(self) -> int:
        """True time at which the last window ends."""
        return self.warm_up_ns + self.window_count * self.window_ns

    @property
    def step_ns(self) -> int:
        """From the start of one step to the next one's."""
        return self.window_ns // self.steps_per_window

    def step_start_ns(self, step: int) -> int:
        """True time at which a step starts, counted over all windows."""
        window, within = divmod(step, self.steps_per_window)
        return self.start_ns + window * self.window_ns + STEP_START_NS + within * self.step_ns

    @property
    def post_spread_ns(self) -> int:
        """A step's messages are posted over this span of time."""
        return self.step_ns - STEP_MARGIN_NS

    def check(self) -> None:
        """ValueError, in one line, for what cannot be run."""
        if self.gpus < 2 * self.nics_per_host or self.gpus % self.nics_per_host:
            raise ValueError(
                f"gpus is {self.gpus}; expected a multiple of {self.nics_per_host}, at least "
                f"{2 * self.nics_per_host}"
            )
        if self.radix < 4 or self.radix % 4:
            raise ValueError(f"radix is {self.radix}; expected a multiple of 4")
        if self.gpus_per_job < 2 * self.nics_per_host or self.gpus_per_job % self.nics_per_host:
            raise ValueError(
                f"gpus_per_job is {self.gpus_per_job}; expected a multiple of "
                f"{self.nics_per_host}, at least {2 * self.nics_per_host}"
            )
        if self.ptp_dscp not in (0, 46):
            raise ValueError(f"ptp_dscp is {self.ptp_dscp}; expected 0 or 46")
        if not 0 <= self.sample_psn_bits <= 12:
            raise ValueError(f"sample_psn_bits is {self.sample_psn_bits}; expected 0 to 12")
        if self.step_ns < 2 * STEP_MARGIN_NS:
            raise ValueError(
                f"a step of {self.step_ns} ns; expected at least {2 * STEP_MARGIN_NS}, "
                "so longer windows or fewer steps"
            )
        if self.packets_per_message < 1 or self.qps_per_peer < 1 or self.window_count < 1:
            raise ValueError("packets_per_message, qps_per_peer and window_count are at least 1")
