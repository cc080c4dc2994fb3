# SPDX-License-Identifier: Apache-2.0
"""A scenario as the real-time backends run it: the same fabric, traffic and schedule, with delays
and asymmetries that stand out from what an operating system's scheduling does to packets.

What is declared in `fabric.yaml` is what an operator of such a fabric would declare: stamps are
software's, links are as long as they are made, and both directions of a link may differ by what
the machine's load does to them.
"""

from dataclasses import dataclass, replace

from bmv2_lab.backends.refusals import check_supported
from bmv2_lab.draw import DrawnFabric, draw_fabric
from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scenarios import Congestion, Scenario
from bmv2_lab.scenarios.disturbances import (
    ClockStep,
    Event,
    GrandmasterFailover,
    LinkFlap,
    NtpFallback,
    PfcStorm,
    Rehash,
    SwitchRestart,
)
from bmv2_lab.scoring import BAD_LINK_NS
from controller.fabric import DeviceModel, Fabric
from correction.model import ClockKind, StampPoint

NS_PER_MS = 1_000_000
WARM_UP_NS = 3_000_000_000
"""No window starts earlier: daemons start, negotiate and find each other."""
PEERS = 2
"""Neighbours on a ring."""
DATA_AND_ACK = 2
TAIL_NS = 1_000_000_000
"""What was sent at the end of the last window arrives."""
MARGIN_NS = 60_000_000_000
"""Clocks are drawn for this much longer than the scenario lasts: the time to end everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendScale:
    """What a backend's kind of switch makes of time; ns."""

    cable_m_min: int
    cable_m_max: int
    """Emulated cables are this long at 5 ns a metre."""
    bad_link_ns_min: int
    bad_link_ns_max: int
    """|a_uv| of asymmetric links."""
    asymmetry_sd_ns: float
    """Declared: by how much a healthy link's a_uv may be off because of scheduling."""
    lateness_ns_max: int
    """Declared: a link may take this much longer than its cable."""
    stamp_jitter_ns: int
    """Declared: typical noise after the egress stamp."""
    stamp_unit_ns: int
    switch_clocks_run_free: bool
    """Whether each switch's clock has a rate of its own, or is the kernel's."""
    software_scale: int
    """Injected software delays (stalls, stragglers) are so many times the scenario's."""
    queue_rate_pps: int
    """BMv2: packets a second that each cabled port sends at most; 0: no limit, and no queue."""
    qps_per_peer_max: int
    steps_per_window_max: int
    step_spread_ns: int
    """A step's messages are posted over this."""
    roce_pps_max: int
    """RoCE packets a second, acknowledgements included, in all. 450 a second through three BMv2
    switches, with their reports and PTP, keep two cores three quarters busy, and 1,300 are too
    many; with embedded switches 1,300 keep one core half busy."""
    payload_bytes: int


SCALES = {
    "veth": BackendScale(
        cable_m_min=40_000,
        cable_m_max=100_000,
        bad_link_ns_min=500_000,
        bad_link_ns_max=1_500_000,
        asymmetry_sd_ns=30_000.0,
        lateness_ns_max=1 * NS_PER_MS,
        stamp_jitter_ns=50_000,
        stamp_unit_ns=1,
        switch_clocks_run_free=True,
        software_scale=200,
        queue_rate_pps=0,
        qps_per_peer_max=8,
        steps_per_window_max=2,
        step_spread_ns=400 * NS_PER_MS,
        roce_pps_max=2_000,
        payload_bytes=1_024,
    ),
    "bmv2": BackendScale(
        cable_m_min=40_000,
        cable_m_max=100_000,
        bad_link_ns_min=1 * NS_PER_MS,
        bad_link_ns_max=3 * NS_PER_MS,
        asymmetry_sd_ns=100_000.0,
        lateness_ns_max=1 * NS_PER_MS,
        stamp_jitter_ns=200_000,
        stamp_unit_ns=1_000,
        switch_clocks_run_free=False,
        software_scale=400,
        queue_rate_pps=2_000,
        qps_per_peer_max=6,
        steps_per_window_max=1,
        step_spread_ns=850 * NS_PER_MS,
        roce_pps_max=450,
        payload_bytes=1_024,
    ),
}
"""By backend. Asymmetries stand well above the noise: 1 ms and more where stamps are BMv2's."""


RETRANSMIT_NS = 1_000_000_000
"""Ten times as long as a message and its acknowledgement take on a busy machine."""
EVENT_STRETCH = 3
"""What happens during a run takes so many times as long as in virtual time: BMv2 boots, and the
controller has real sockets to write through."""
LONG_STRETCH = 16
"""A client of ptp4l notices that its time transmitter is gone, asks the next one for messages, and
follows it: some 3 s in all. The controller reads all switches, writes, and reads back: 1 s or 2."""


def real_time_variant(scenario: Scenario, backend: str) -> Scenario:
    """The scenario with a backend's sizes.

    Background load and faults of switches and links are left out. What would change what the
    scenario is about is refused: BackendError names it.
    """
    check_supported(scenario, backend)
    scale = SCALES[backend]
    rate_sd_ppb = scenario.nuisance.rate_offset_sd_ppb if scale.switch_clocks_run_free else 0.0
    nuisance = replace(
        Nuisance(),
        link_asymmetry_sd_ns=scale.asymmetry_sd_ns,
        module_latency_ns_max=0,
        switch_stamp_uncertainty_ns=0,
        nic_stamp_uncertainty_ns=0,
        egress_jitter_mean_ns=float(scale.stamp_jitter_ns),
        rate_offset_sd_ppb=rate_sd_ppb,
        rate_offset_max_ppb=scenario.nuisance.rate_offset_max_ppb,
        wander_ns_per_s_sqrt_s=(
            scenario.nuisance.wander_ns_per_s_sqrt_s if scale.switch_clocks_run_free else 0.0
        ),
        stamp_unit_ns=scale.stamp_unit_ns,
    )
    schedule = _Schedule.of(scenario)
    straggler = scenario.straggler
    if straggler is not None:
        straggler = replace(straggler, stall_ns=straggler.stall_ns * scale.software_scale)
    wrong = scenario.wrong_correction
    if wrong is not None:
        wrong = replace(wrong, error_ns=wrong.error_ns * scale.software_scale)
    return replace(
        scenario,
        limits=(),
        duration_ns=schedule.at(scenario.duration_ns) + TAIL_NS,
        window_starts_ns=tuple(map(schedule.at, scenario.window_starts_ns)),
        events=tuple(_event(one, schedule, scale) for one in scenario.events),
        tier_gradient_ns=scenario.tier_gradient_ns * scale.bad_link_ns_min / BAD_LINK_NS,
        wrong_correction=wrong,
        straggler=straggler,
        retransmit_ns=None if scenario.retransmit_ns is None else RETRANSMIT_NS,
        queue_report_packets=0,
        cable_m_min=scale.cable_m_min,
        cable_m_max=scale.cable_m_max,
        bad_link_ns_min=scale.bad_link_ns_min,
        bad_link_ns_max=scale.bad_link_ns_max,
        congestion=Congestion(base_share=0.0, congested_ports_share=0.0),
        nuisance=nuisance,
        steps_per_window=min(scenario.steps_per_window, scale.steps_per_window_max),
        traffic=replace(scenario.traffic, spread_ns=scale.step_spread_ns),
        qps_per_peer=_qps_per_peer(scenario, scale),
        payload_bytes=min(scenario.payload_bytes, scale.payload_bytes),
        faults_hop=0,
        faults_link=0,
        probe_budget_pps=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schedule:
    """When what of the scenario comes in the variant: after the warm-up, and stretched."""

    first_window_ns: int
    """Of the scenario."""
    shifted_ns: int
    """Where that comes in the variant."""
    stretch: int

    @classmethod
    def of(cls, scenario: Scenario) -> "_Schedule":
        first_ns = min(scenario.window_starts_ns)
        stretch = EVENT_STRETCH if scenario.events else 1
        if any(isinstance(event, GrandmasterFailover | Rehash) for event in scenario.events):
            stretch = LONG_STRETCH
        return cls(first_window_ns=first_ns, shifted_ns=max(WARM_UP_NS, first_ns), stretch=stretch)

    def at(self, scenario_ns: int) -> int:
        """An instant."""
        return self.shifted_ns + self.span(scenario_ns - self.first_window_ns)

    def span(self, scenario_ns: int) -> int:
        """A time between two instants."""
        return scenario_ns * self.stretch


def _event(event: Event, schedule: _Schedule, scale: BackendScale) -> Event:
    """The same event at the variant's time; sizes grow as everything else of software does."""
    match event:
        case LinkFlap():
            return replace(
                event,
                down_ns=schedule.at(event.down_ns),
                up_ns=schedule.at(event.up_ns),
                detect_ns=schedule.span(event.detect_ns),
            )
        case SwitchRestart():
            return replace(
                event,
                at_ns=schedule.at(event.at_ns),
                detect_ns=schedule.span(event.detect_ns),
                boot_ns=schedule.span(event.boot_ns),
            )
        case ClockStep():
            step_ns = event.step_ns * scale.software_scale
            return replace(event, at_ns=schedule.at(event.at_ns), step_ns=step_ns)
        case Rehash():
            return replace(event, at_ns=schedule.at(event.at_ns))
        case GrandmasterFailover():  # its ptp4l is killed for good
            return replace(event, at_ns=schedule.at(event.at_ns), back_ns=None)
        case NtpFallback() | PfcStorm():
            raise AssertionError("refused before")


def _qps_per_peer(scenario: Scenario, scale: BackendScale) -> int:
    """As many as the scenario has and the backend's switches carry; each has a message a step."""
    hosts = scenario.leaves * scenario.hosts_per_leaf
    packets_per_qp = hosts * PEERS * scenario.packets_per_message * DATA_AND_ACK
    carried = scale.roce_pps_max * scale.step_spread_ns // (packets_per_qp * 1_000_000_000)
    return max(1, min(scenario.qps_per_peer, scale.qps_per_peer_max, carried))


def draw_real_time(variant: Scenario, backend: str, seed: int) -> DrawnFabric:
    """Draw the fabric, and declare it as its operator would.

    Healthy links are made symmetric; what makes them differ is the machine.
    """
    scale = SCALES[backend]
    exact = replace(
        variant,
        duration_ns=variant.duration_ns + MARGIN_NS,
        nuisance=replace(variant.nuisance, link_asymmetry_sd_ns=0.0),
    )
    drawn = draw_fabric(exact, seed)
    return replace(drawn, fabric=_declared(drawn.fabric, scale))


def _declared(fabric: Fabric, scale: BackendScale) -> Fabric:
    return replace(
        fabric,
        link_latency_ns_max=float(scale.lateness_ns_max),
        models=tuple(_software_stamps(model, scale) for model in fabric.models),
        links=tuple(replace(link, asymmetry_sd_ns=scale.asymmetry_sd_ns) for link in fabric.links),
    )


def _software_stamps(model: DeviceModel, scale: BackendScale) -> DeviceModel:
    """Stamps lie at the interface; all that software adds to them comes after egress."""
    point = StampPoint(latency_ns=0, uncertainty_ns=0)
    jitter_ns = scale.stamp_jitter_ns if model.kind is ClockKind.SWITCH else 1_000
    return replace(
        model,
        stamp_jitter_ns=jitter_ns,
        stamp_points=tuple(
            replace(points, ingress=point, egress=point) for points in model.stamp_points
        ),
    )
