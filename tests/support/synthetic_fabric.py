# SPDX-License-Identifier: Apache-2.0
"""Synthetic hop records and exchanges of a leaf-spine fabric, with the truth beside them.

Independent of the lab: vectorised, no packets, no switches. Clocks have huge arbitrary epochs,
rate errors and wander; links have a delay per direction; stamps have constants with residuals,
one-sided jitter and a quantum. Client clocks may be steered: their rate changes at each Sync.
"""

from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from correction.baselines.host_packets import HOST_PACKET_DTYPE
from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint
from correction.records import (
    EXCHANGE_DTYPE,
    HOP_DTYPE,
    PACKET_DTYPE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
)

RATE_BPS = 100_000_000_000
NS_PER_BYTE = 8e9 / RATE_BPS
NS_PER_M = 5.0
NS_PER_M_MIN = 4.9
NS_PER_M_MAX = 5.2
STEP_NS = 10_000_000
PTP_BYTES = 90
DATA_BYTES = 4_200
ACK_BYTES = 90


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Sizes and nuisances; the defaults are those of the 8 x 4 demo."""

    leaves: int = 8
    spines: int = 4
    hosts_per_leaf: int = 2
    windows: int = 6
    window_gap_s: float = 5.0
    bad_share: float = 0.1
    bad_min_ns: float = 20.0
    bad_max_ns: float = 500.0
    asymmetry_sd_ns: float = 5.0
    stamp_uncertainty_ns: int = 4
    nic_uncertainty_ns: int = 3
    jitter_mean_ns: float = 3.0
    module_ns: float = 30.0
    rate_sd_ppb: float = 8_000.0
    rate_max_ppb: int = 50_000
    wander: float = 10.0
    stamp_unit_ns: int = 1
    samples: int = 20
    """Packets per directed link, class and window."""
    exchanges: int = 20
    """Exchanges per client and window."""
    steer_sd_ppb: float = 0.0
    """Servo noise: sd of a client's rate change at each Sync."""
    ingress_at_frame_end: bool = False
    groups: bool = True
    report_ns: float = 20_000.0
    report_jitter_ns: float = 4_000.0
    length_tolerance_m: float = 1.0
    host_peers: int = 0
    """Neighbours on a ring of hosts that each host exchanges packets with, on either side."""
    host_packets: int = 40
    """Of those, per pair, direction and window."""

    def tripled(self) -> "Setup":
        """All nuisances and what is declared of them, three times as large."""
        return replace(
            self,
            asymmetry_sd_ns=3 * self.asymmetry_sd_ns,
            stamp_uncertainty_ns=3 * self.stamp_uncertainty_ns,
            nic_uncertainty_ns=3 * self.nic_uncertainty_ns,
            jitter_mean_ns=3 * self.jitter_mean_ns,
            module_ns=3 * self.module_ns,
            rate_sd_ppb=3 * self.rate_sd_ppb,
            rate_max_ppb=3 * self.rate_max_ppb,
            wander=3 * self.wander,
            report_ns=3 * self.report_ns,
            report_jitter_ns=3 * self.report_jitter_ns,
            length_tolerance_m=3 * self.length_tolerance_m,
        )


class TrueClock:
    """epoch + t + rate error and wander + steering, of true time t in ns (array)."""

    def __init__(self, rng, epoch_ns, rate_ppb, wander, duration_ns, knots_ns, steer_sd_ppb):
        steps = int(duration_ns // STEP_NS) + 2
        walk = np.cumsum(rng.normal(0.0, wander * (STEP_NS / 1e9) ** 0.5, steps))
        rate = (rate_ppb + walk) * 1e-9
        self.epoch_ns = int(epoch_ns)
        self.grid = np.arange(steps + 1) * float(STEP_NS)
        self.phase = np.concatenate([[0.0], np.cumsum(rate * STEP_NS)])
        self.knots = np.concatenate([[0.0], knots_ns, [duration_ns]])
        if steer_sd_ppb:
            # a servo holds the phase: pull each drawn rate back by the phase reached
            phase, at = [0.0], 0.0
            for gap in np.diff(self.knots):
                pull = -0.5 * at / max(gap, 1.0)
                at += (rng.normal(0.0, steer_sd_ppb) * 1e-9 + pull) * gap
                phase.append(at)
            self.steer = np.array(phase)
        else:
            self.steer = np.zeros(len(self.knots))
        self.steps: list[tuple[float, int]] = []

    def elapsed(self, true_ns):
        true_ns = np.asarray(true_ns, float)
        value = true_ns + np.interp(true_ns, self.grid, self.phase)
        value = value + np.interp(true_ns, self.knots, self.steer)
        for at, size in self.steps:
            value = value + np.where(true_ns >= at, size, 0)
        return value

    def stamp(self, true_ns, unit_ns):
        whole = np.floor(self.elapsed(true_ns) / unit_ns).astype(np.int64) * unit_ns
        return self.epoch_ns + whole


@dataclass
class Truth:
    """What only scoring may see."""

    clocks: list[TrueClock]
    a_ns: np.ndarray
    centre_true_ns: np.ndarray
    reference: int
    bad: np.ndarray = field(default_factory=lambda: np.zeros(0, bool))

    def offset_ns(self, clock: int, true_ns) -> np.ndarray:
        """Fractional part of clock - reference, without the epochs."""
        return self.clocks[clock].elapsed(true_ns) - self.clocks[self.reference].elapsed(true_ns)


@dataclass
class Run:
    """One draw: the inputs of `solve`, and the truth."""

    setup: Setup
    model: FabricModel
    packets: np.ndarray
    hops: np.ndarray
    exchanges: np.ndarray
    windows: np.ndarray
    truth: Truth
    host_packets: np.ndarray
    """Packets between hosts that both NICs stamped (`HOST_PACKET_DTYPE`)."""


def draw(
    seed: int,
    setup: Setup | None = None,
    *,
    a_ns: dict[str, float] | None = None,
    steps: dict[int, tuple[float, int]] | None = None,
    beside: dict[int, tuple[int, int]] | None = None,
) -> Run:
    """One run; `a_ns` overrides asymmetries by link name, `steps` puts a clock step (true ns),
    `beside` makes a clock show what another one does, ahead by a constant in ns."""
    setup = setup or Setup()
    rng = np.random.default_rng(seed)
    n_hosts = setup.leaves * setup.hosts_per_leaf
    leaf0, spine0 = n_hosts, n_hosts + setup.leaves
    names = [f"h{i + 1}" for i in range(n_hosts)]
    names += [f"leaf{i + 1}" for i in range(setup.leaves)]
    names += [f"spine{i + 1}" for i in range(setup.spines)]
    ends, ports, lengths = [], [], []
    for leaf in range(setup.leaves):
        for spine in range(setup.spines):
            ends.append((leaf0 + leaf, spine0 + spine))
            ports.append((spine + 1, leaf + 1))
    for host in range(n_hosts):
        ends.append((host, leaf0 + host // setup.hosts_per_leaf))
        ports.append((1, setup.spines + 7 + host % setup.hosts_per_leaf))
    n_links, n_fabric = len(ends), setup.leaves * setup.spines
    lengths = rng.integers(3, 101, n_links)

    # asymmetry: healthy everywhere, large on some fabric links
    a = rng.normal(0.0, setup.asymmetry_sd_ns, n_links)
    bad_count = round(setup.bad_share * n_fabric)
    for e in rng.choice(n_fabric, bad_count, replace=False):
        a[e] = rng.choice([-1, 1]) * rng.uniform(setup.bad_min_ns, setup.bad_max_ns)
    link_names = [f"{names[u]}-{names[v]}" for u, v in ends]
    for name, value in (a_ns or {}).items():
        a[link_names.index(name)] = value
    base = lengths * NS_PER_M + rng.uniform(0.0, setup.module_ns, n_links)
    delay = np.stack([base + np.maximum(2 * a, 0), base + np.maximum(-2 * a, 0)])

    # stamp points: declared constants, true residuals by model and by line card of four ports
    declared = {"switch": (359, 40), "nic": (25, 18)}
    limit = {"switch": setup.stamp_uncertainty_ns, "nic": setup.nic_uncertainty_ns}
    residual = {(m, d): 0.75 * limit[m] * rng.uniform(-1, 1) for m in declared for d in (0, 1)}

    def kind(clock: int) -> str:
        return "nic" if clock < n_hosts else "switch"

    cards: dict[tuple[int, int, int], float] = {}

    def true_latency(clock: int, port: int, direction: int) -> float:
        key = (clock, port // 4, direction)
        if key not in cards:
            cards[key] = 0.25 * limit[kind(clock)] * rng.uniform(-1, 1)
        return declared[kind(clock)][direction] + residual[kind(clock), direction] + cards[key]

    def point(clock: int, direction: int) -> StampPoint:
        model = kind(clock)
        return StampPoint(
            latency_ns=declared[model][direction],
            uncertainty_ns=limit[model],
            at_frame_end=bool(direction) and setup.ingress_at_frame_end and model == "switch",
            group=f"{model}/{direction}" if setup.groups else "",
        )

    links = tuple(
        Link(
            name=link_names[e], a=u, a_port=ports[e][0], b=v, b_port=ports[e][1],
            rate_bps=RATE_BPS, a_egress=point(u, 0), a_ingress=point(u, 1),
            b_egress=point(v, 0), b_ingress=point(v, 1),
            min_delay_ns=max(0, int((lengths[e] - setup.length_tolerance_m) * NS_PER_M_MIN)),
            max_delay_ns=int((lengths[e] + setup.length_tolerance_m) * NS_PER_M_MAX)
            + int(setup.module_ns) + 1,
            asymmetry_sd_ns=setup.asymmetry_sd_ns, access=u < n_hosts,
        )
        for e, (u, v) in enumerate(ends)
    )  # fmt: skip
    model = FabricModel(
        clocks=tuple(
            Clock(
                name=name,
                kind=ClockKind.NIC if i < n_hosts else ClockKind.SWITCH,
                node_id=0 if i < n_hosts else (i - leaf0 + 1 if i < spine0 else i - spine0 + 101),
                ip=0x0A000000 + i + 1 if i < n_hosts else 0,
                stamp_unit_ns=setup.stamp_unit_ns,
                stamp_jitter_ns=round(setup.jitter_mean_ns),
            )
            for i, name in enumerate(names)
        ),
        links=links,
        reference=0,
        rate_offset_max_ppb=setup.rate_max_ppb,
        wander_ns_per_s_sqrt_s=setup.wander,
    )

    # time: windows of 1 s, exchanges at a steady pace inside them
    starts = 2e9 + np.arange(setup.windows) * setup.window_gap_s * 1e9
    duration = starts[-1] + 4e9
    gap = 1e9 / setup.exchanges
    sync_times = {
        host: np.concatenate(
            [s + gap * (np.arange(setup.exchanges) + rng.uniform(0.1, 0.9)) for s in starts]
        )
        for host in range(1, n_hosts)
    }
    clocks = []
    for i in range(len(names)):
        epoch = 1_800_000_000 * 10**9 + rng.integers(-(10**6), 10**6)
        if i >= n_hosts:
            epoch = rng.integers(0, 10 * 3600) * 10**9 + rng.integers(0, 10**9)
        rate = float(
            np.clip(rng.normal(0, setup.rate_sd_ppb), -setup.rate_max_ppb, setup.rate_max_ppb)
        )
        knots = sync_times.get(i, np.zeros(0)) + 60_000.0
        clocks.append(
            TrueClock(
                rng, epoch, rate if i >= n_hosts or not setup.steer_sd_ppb else 0.0, setup.wander,
                duration, knots, setup.steer_sd_ppb if 0 < i < n_hosts else 0.0,
            )
        )  # fmt: skip
    for clock, (other, ahead_ns) in (beside or {}).items():
        clocks[clock] = copy(clocks[other])
        clocks[clock].epoch_ns += ahead_ns
    for clock, step in (steps or {}).items():
        clocks[clock].steps.append(step)

    latency = np.array(
        [
            [
                true_latency(u, ports[e][0], 0) + true_latency(v, ports[e][1], 1),
                true_latency(v, ports[e][1], 0) + true_latency(u, ports[e][0], 1),
            ]
            for e, (u, v) in enumerate(ends)
        ]
    ).T
    frame_end = np.array([[p.b_ingress.at_frame_end, p.a_ingress.at_frame_end] for p in links]).T

    def cross(e, backwards, t, size):
        """True ingress-stamp instants of frames whose egress stamps were taken at t."""
        jitter = rng.exponential(setup.jitter_mean_ns, len(t))
        serial = np.where(frame_end[backwards, e], size * NS_PER_BYTE, 0.0)
        return t + latency[backwards, e] + delay[backwards, e] + jitter + serial

    def stamps(clock, t):
        result = np.zeros(len(t), np.int64)
        for c in np.unique(clock):
            mine = clock == c
            result[mine] = clocks[c].stamp(t[mine], setup.stamp_unit_ns)
        return result

    collector = TrueClock(rng, 1_700_000_000 * 10**9, 3_000.0, 0.0, duration, np.zeros(0), 0.0)

    def journey(src_leaf, spine, dst_leaf, t, size):
        """Hop stamps of packets that cross leaf, spine, leaf (or one leaf where they are equal)."""
        local = src_leaf == dst_leaf
        residence = [800.0 + rng.exponential(3_000.0, len(t)) for _ in range(3)]
        up = src_leaf * setup.spines + spine
        down = dst_leaf * setup.spines + spine
        zero, one = np.zeros(len(t), int), np.ones(len(t), int)
        e0 = t + residence[0]
        i1 = cross(up, zero, e0, size)
        e1 = i1 + residence[1]
        i2 = cross(down, one, e1, size)
        e2 = i2 + residence[2]
        hops = np.zeros((len(t), 3), HOP_DTYPE)
        for k, (clock, into, out) in enumerate(
            ((leaf0 + src_leaf, t, e0), (spine0 + spine, i1, e1), (leaf0 + dst_leaf, i2, e2))
        ):
            hops["node_id"][:, k] = [model.clocks[c].node_id for c in clock]
            hops["ingress_tstamp_local_ns"][:, k] = stamps(clock, into)
            hops["egress_tstamp_local_ns"][:, k] = stamps(clock, out)
            hops["egress_bytes"][:, k] = hops["ingress_bytes"][:, k] = size
        hops["egress_port"][:, 0] = spine + 1
        hops["ingress_port"][:, 1] = src_leaf + 1
        hops["egress_port"][:, 1] = dst_leaf + 1
        hops["ingress_port"][:, 2] = spine + 1
        return hops, np.where(local, e0, e2), local

    blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # packets, hops[.,3], hop count

    def add(packets, hops, left, count):
        lag = setup.report_ns + rng.exponential(setup.report_jitter_ns, len(left))
        packets["capture_collector_ns"] = collector.stamp(left + lag, 1)
        packets["complete"] = True
        packets["hop_count"] = count
        blocks.append((packets, hops, count))

    for start in starts:
        for size in (DATA_BYTES, ACK_BYTES):
            leaf, spine = np.divmod(np.repeat(np.arange(n_fabric), setup.samples), setup.spines)
            other = (leaf + rng.integers(1, setup.leaves, len(leaf))) % setup.leaves
            # balance the spine -> leaf direction too
            other = (
                leaf + 1 + np.tile(np.arange(setup.samples), n_fabric) % (setup.leaves - 1)
            ) % (setup.leaves)
            t = start + rng.uniform(1e6, 9.98e8, len(leaf))
            hops, left, _ = journey(leaf, spine, other, t, np.full(len(t), size))
            hops["queue_id"] = 1
            hops["ingress_port"][:, 0] = hops["egress_port"][:, 2] = setup.spines + 7
            packets = np.zeros(len(t), PACKET_DTYPE)
            packets["traffic"], packets["wire_bytes"] = TRAFFIC_ROCE, size
            add(packets, hops, left, np.full(len(t), 3))

    exchange_parts = []
    for host in range(1, n_hosts):
        leaf = host // setup.hosts_per_leaf
        t1 = sync_times[host]
        n = len(t1)
        t3 = t1 + rng.uniform(0.2e6, 2e6, n)
        exchange = np.zeros(n, EXCHANGE_DTYPE)
        exchange["client"] = host
        exchange["time_transmitter_ip"] = model.clocks[0].ip
        exchange["client_ip"] = model.clocks[host].ip
        sequence = np.arange(n) % 65_536
        for sync in (True, False):
            sender, receiver = (0, host) if sync else (host, 0)
            out_link, in_link = n_fabric + sender, n_fabric + receiver
            sent = t1 if sync else t3
            one, zero = np.ones(n, int), np.zeros(n, int)
            size = np.full(n, PTP_BYTES)
            into = cross(np.full(n, out_link), zero, sent, size)
            spine = np.full(n, rng.integers(setup.spines))
            src = np.full(n, 0 if sync else leaf)
            dst = np.full(n, leaf if sync else 0)
            hops, left, local = journey(src, spine, dst, into, size)
            arrived = cross(np.full(n, in_link), one, left, size)
            count = np.where(local, 1, 3)
            hops["ingress_port"][:, 0] = links[out_link].b_port
            hops["egress_port"][np.arange(n), count - 1] = links[in_link].b_port
            packets = np.zeros(n, PACKET_DTYPE)
            packets["traffic"], packets["wire_bytes"] = TRAFFIC_PTP, PTP_BYTES
            packets["src_ip"], packets["dst_ip"] = (
                model.clocks[sender].ip,
                model.clocks[receiver].ip,
            )
            packets["ptp_message_type"] = 0 if sync else 1
            packets["ptp_clock_identity"] = model.clocks[sender].ip
            packets["ptp_port_number"] = 1
            packets["ptp_sequence_id"] = sequence
            add(packets, hops, left, count)
            prefix = "sync" if sync else "delay_req"
            exchange[f"{prefix}_clock_identity"] = model.clocks[sender].ip
            exchange[f"{prefix}_port_number"] = 1
            exchange[f"{prefix}_sequence_id"] = sequence
            names_of = (
                ("t1_reference_ns", "t2_local_ns") if sync else ("t3_local_ns", "t4_reference_ns")
            )
            exchange[names_of[0]] = clocks[sender].stamp(sent, setup.stamp_unit_ns)
            exchange[names_of[1]] = clocks[receiver].stamp(arrived, setup.stamp_unit_ns)
        exchange_parts.append(exchange)

    # last of all draws: without them everything else stays the same
    mesh_parts = [np.zeros(0, HOST_PACKET_DTYPE)]
    pairs = {
        tuple(sorted((host, (host + step) % n_hosts)))
        for host in range(n_hosts)
        for step in range(1, setup.host_peers + 1)
        if host != (host + step) % n_hosts
    }
    for one_host, other_host in sorted(pairs):
        for sender, receiver in ((one_host, other_host), (other_host, one_host)):
            count = setup.host_packets
            sent = np.concatenate([s + np.sort(rng.uniform(1e6, 9.98e8, count)) for s in starts])
            n = len(sent)
            one, zero = np.ones(n, int), np.zeros(n, int)
            size = np.full(n, DATA_BYTES)
            into = cross(np.full(n, n_fabric + sender), zero, sent, size)
            src = np.full(n, sender // setup.hosts_per_leaf)
            dst = np.full(n, receiver // setup.hosts_per_leaf)
            # one flow per direction: its hash chooses one spine
            spine = np.full(n, rng.integers(setup.spines))
            _, left, _ = journey(src, spine, dst, into, size)
            arrived = cross(np.full(n, n_fabric + receiver), one, left, size)
            rows = np.zeros(n, HOST_PACKET_DTYPE)
            rows["sender"], rows["receiver"] = sender, receiver
            rows["sent_local_ns"] = clocks[sender].stamp(sent, setup.stamp_unit_ns)
            rows["received_local_ns"] = clocks[receiver].stamp(arrived, setup.stamp_unit_ns)
            rows["residence_ns"] = np.nan
            mesh_parts.append(rows)

    packets = np.concatenate([b[0] for b in blocks])
    counts = np.concatenate([b[2] for b in blocks])
    all_hops = np.concatenate([b[1] for b in blocks])
    hops = all_hops[np.arange(3)[None, :] < counts[:, None]]
    packets["first_hop"] = np.cumsum(counts) - counts
    windows = np.stack(
        [collector.stamp(starts, 1), collector.stamp(starts + 1e9, 1)], axis=1
    ).astype(np.int64)
    bad = np.zeros(n_links, bool)
    bad[:n_fabric] = np.abs(a[:n_fabric]) >= 20.0
    return Run(
        setup=setup, model=model, packets=packets, hops=hops,
        exchanges=np.concatenate(exchange_parts) if exchange_parts else np.zeros(0, EXCHANGE_DTYPE),
        windows=windows,
        truth=Truth(clocks=clocks, a_ns=a, centre_true_ns=starts + 0.5e9, reference=0, bad=bad),
        host_packets=np.concatenate(mesh_parts),
    )  # fmt: skip
