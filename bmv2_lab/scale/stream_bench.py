# SPDX-License-Identifier: Apache-2.0
"""What one window of a large leaf-spine fabric costs a follower, on one core, by stages.

Clocks, cables and samples are drawn; each directed link has as many samples as a window keeps of
it, each host as many PTP exchanges with packets of their own. The measuring process has one core,
and times are processor time. Windows after the first are measured: the solve starts warm.
"""

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from controller.following.documents import part_arrays
from correction.link_windows import LinkWindowing
from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint, link_ends
from correction.records import (
    EXCHANGE_DTYPE,
    HOP_DTYPE,
    LINK_SAMPLE_DTYPE,
    PACKET_DTYPE,
    TRAFFIC_PTP,
    Exchanges,
    Hops,
    LinkSamples,
    Packets,
)
from correction.stream.follow import Follower
from correction.stream.saved_follower import follower_arrays
from correction.table import Status

WINDOWS = 4
"""Followed; the first one is cold."""
WINDOW_NS = 1_000_000_000
EPOCH_NS = 1_800_000_000 * WINDOW_NS
REPORT_NS = 20_000
RATE_BPS = 100_000_000_000
BAD_SHARE = 0.1
BAD_NS = (20.0, 150.0)
HEALTHY_SD_NS = 5.0
JITTER_NS = 3.0
FABRIC_DELAY_NS, ACCESS_DELAY_NS, LEAST_NS = 600.0, 50.0, (400, 10)
PTP_BYTES, DATA_BYTES = 90, 1_100
PART_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBench:
    """Processor time of one window, seconds: the median of the warm ones."""

    leaves: int
    spines: int
    hosts: int
    links: int
    samples: int
    """Link samples a window."""
    exchanges: int
    """PTP exchanges a window."""
    envelopes_s: float
    """Samples of links between switches into windows, and their envelopes: what `collect
    --statistics` does elsewhere."""
    follow_s: float
    """Join exchanges, envelopes of access links, solve, make rows."""
    encode_s: float
    """Rows as arrays of parts."""
    state_s: float
    """The state as arrays, without the disk."""
    window_s: float
    """All of it."""
    first_window_s: float
    rows: int
    """Correction rows a window."""
    clocks_ok_share: float
    error_ns_rms: float
    """Of hosts against the drawn truth, their common part (the reference's own cable) removed."""
    bound_hard_coverage: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class _Fabric:
    model: FabricModel
    epoch_ns: np.ndarray
    rate: np.ndarray
    delay_ns: np.ndarray
    a_ns: np.ndarray


def draw(rng: np.random.Generator, leaves: int, spines: int, hosts: int) -> _Fabric:
    """Hosts first, then leaves, then spines; the reference is the first host."""
    switch = StampPoint(latency_ns=50, uncertainty_ns=4, group="switch")
    nic = StampPoint(latency_ns=50, uncertainty_ns=3, group="nic")

    def clock(name: str, kind: ClockKind, node_id: int, ip: int) -> Clock:
        return Clock(
            name=name, kind=kind, node_id=node_id, ip=ip, stamp_unit_ns=1,
            stamp_jitter_ns=round(JITTER_NS),
        )  # fmt: skip

    def link(name: str, a: int, a_port: int, b: int, b_port: int, *, access: bool) -> Link:
        at_a = nic if access else switch
        return Link(
            name=name, a=a, a_port=a_port, b=b, b_port=b_port, rate_bps=RATE_BPS, a_egress=at_a,
            a_ingress=at_a, b_egress=switch, b_ingress=switch, min_delay_ns=LEAST_NS[access],
            asymmetry_sd_ns=HEALTHY_SD_NS, access=access,
        )  # fmt: skip

    clocks = [clock(f"h{n + 1}", ClockKind.NIC, 0, 0x0A000001 + n) for n in range(hosts)]
    clocks += [clock(f"leaf{n + 1}", ClockKind.SWITCH, n + 1, 0) for n in range(leaves)]
    clocks += [clock(f"spine{n + 1}", ClockKind.SWITCH, leaves + n + 1, 0) for n in range(spines)]
    links = [
        link(f"leaf{leaf + 1}-spine{s + 1}", hosts + leaf, s + 1, hosts + leaves + s, leaf + 1,
             access=False)
        for leaf in range(leaves) for s in range(spines)
    ]  # fmt: skip
    per_leaf = -(-hosts // leaves)
    links += [
        link(f"h{n + 1}", n, 1, hosts + n * leaves // hosts, spines + 1 + n % per_leaf, access=True)
        for n in range(hosts)
    ]
    inner = leaves * spines
    a = rng.normal(0.0, HEALTHY_SD_NS, len(links))
    bad = np.flatnonzero(rng.random(inner) < BAD_SHARE)
    a[bad] = rng.choice([-1.0, 1.0], len(bad)) * rng.uniform(*BAD_NS, len(bad))
    model = FabricModel(
        clocks=tuple(clocks),
        links=tuple(links),
        reference=0,
        rate_offset_max_ppb=50_000,
        wander_ns_per_s_sqrt_s=10.0,
    )
    delay = np.where(np.arange(len(links)) < inner, FABRIC_DELAY_NS, ACCESS_DELAY_NS)
    return _Fabric(
        model,
        rng.integers(0, 10**18, len(clocks)),
        rng.normal(0.0, 8_000.0, len(clocks)),
        delay,
        a,
    )


def _read(fabric: _Fabric, clock: np.ndarray, t_ns: np.ndarray) -> np.ndarray:
    """What clocks show at true times since the epoch."""
    ahead = np.rint(t_ns * (1.0 + fabric.rate[clock] * 1e-9)).astype(np.int64)
    shown: np.ndarray = fabric.epoch_ns[clock] + ahead
    return shown


def samples_of(
    rng: np.random.Generator, fabric: _Fabric, window: int, per_direction: int
) -> LinkSamples:
    """Samples of all links between switches."""
    inner = np.flatnonzero([not link.access for link in fabric.model.links])
    link = np.repeat(inner, 2 * per_direction)
    reverse = np.tile(np.repeat([False, True], per_direction), len(inner))
    ends = link_ends(fabric.model)[link]
    sender = np.where(reverse, ends[:, 1], ends[:, 0])
    receiver = np.where(reverse, ends[:, 0], ends[:, 1])
    sent = window * WINDOW_NS + rng.uniform(1e6, 0.99e9, len(link))
    way = fabric.delay_ns[link] + np.where(reverse, -1.0, 1.0) * fabric.a_ns[link] + 100.0
    arrived = sent + way + rng.exponential(JITTER_NS, len(link))
    samples = np.zeros(len(link), LINK_SAMPLE_DTYPE)
    samples["link"], samples["reverse"] = link, reverse
    samples["egress_local_ns"] = _read(fabric, sender, sent)
    samples["ingress_local_ns"] = _read(fabric, receiver, arrived)
    samples["frame_bytes"], samples["queue_id"] = DATA_BYTES, 1
    samples["capture_collector_ns"] = EPOCH_NS + sent.astype(np.int64) + REPORT_NS
    return samples[np.argsort(samples["capture_collector_ns"])]


def exchanges_of(
    rng: np.random.Generator, fabric: _Fabric, window: int, per_host: int, leaves: int, spines: int
) -> tuple[Exchanges, Packets, Hops]:
    """Exchanges of all hosts with the first one, and the reported packets of their messages."""
    model = fabric.model
    hosts = len(model.clocks) - leaves - spines
    client = np.repeat(np.arange(1, hosts), per_host)
    count = len(client)
    sequence = (window * per_host + np.tile(np.arange(per_host), hosts - 1)) % 65_536
    rows = np.zeros(count, EXCHANGE_DTYPE)
    address = np.array([clock.ip for clock in model.clocks], np.int64)
    rows["client"], rows["client_ip"] = client, address[client]
    rows["time_transmitter_ip"] = address[0]
    t1 = window * WINDOW_NS + rng.uniform(1e6, 0.98e9, count)
    leaf = np.array([model.links[leaves * spines + n].b for n in range(hosts)])
    inner, first = leaves * spines, np.zeros(count, np.int64)
    parts = []
    for message, (sender, receiver, sent) in enumerate(
        ((first, client, t1), (client, first, t1 + 1e6))
    ):
        up, down = inner + sender, inner + receiver
        jitter = rng.exponential(JITTER_NS, (2, count))
        into = sent + fabric.delay_ns[up] + fabric.a_ns[up] + 100.0 + jitter[0]
        left = into + 3_000.0
        arrived = left + fabric.delay_ns[down] - fabric.a_ns[down] + 100.0 + jitter[1]
        hops = np.zeros((count, 2), HOP_DTYPE)
        for column, (end, at, name) in enumerate(
            ((sender, into, "ingress"), (receiver, left, "egress"))
        ):
            hops["node_id"][:, column] = leaf[end] - hosts + 1
            hops[f"{name}_port"][:, column] = spines + 1 + end % -(-hosts // leaves)
            hops[f"{name}_tstamp_local_ns"][:, column] = _read(fabric, leaf[end], at)
            other = "egress" if name == "ingress" else "ingress"
            hops[f"{other}_tstamp_local_ns"][:, column] = _read(
                fabric, leaf[end], at + (1_000.0 if name == "ingress" else -1_000.0)
            )
        hops["ingress_bytes"] = hops["egress_bytes"] = PTP_BYTES
        packets = np.zeros(count, PACKET_DTYPE)
        packets["first_hop"], packets["hop_count"] = 2 * np.arange(count), 2
        packets["traffic"], packets["ptp_message_type"] = TRAFFIC_PTP, message
        packets["src_ip"], packets["dst_ip"] = address[sender], address[receiver]
        packets["ptp_clock_identity"], packets["ptp_port_number"] = address[sender], 1
        packets["ptp_sequence_id"], packets["wire_bytes"] = sequence, PTP_BYTES
        packets["capture_collector_ns"] = EPOCH_NS + sent.astype(np.int64) + REPORT_NS
        prefix = "delay_req" if message else "sync"
        rows[f"{prefix}_clock_identity"], rows[f"{prefix}_port_number"] = address[sender], 1
        rows[f"{prefix}_sequence_id"] = sequence
        stamps = (
            ("t3_local_ns", "t4_reference_ns") if message else ("t1_reference_ns", "t2_local_ns")
        )
        rows[stamps[0]] = _read(fabric, sender, sent)
        rows[stamps[1]] = _read(fabric, receiver, arrived)
        parts.append((packets, hops.ravel()))
    (syncs, sync_hops), (requests, request_hops) = parts
    requests["first_hop"] += len(sync_hops)
    return rows, np.concatenate([syncs, requests]), np.concatenate([sync_hops, request_hops])


def measure(
    leaves: int, spines: int, hosts: int, per_direction: int, per_host: int, seed: int
) -> StreamBench:
    """In this process; `run` gives it one of its own."""
    rng = np.random.default_rng(seed)
    _follow(rng, 4, 2, 8, 10, 4)  # what is compiled is compiled before the clock runs
    return _follow(rng, leaves, spines, hosts, per_direction, per_host)


def _follow(
    rng: np.random.Generator,
    leaves: int,
    spines: int,
    hosts: int,
    per_direction: int,
    per_host: int,
) -> StreamBench:
    fabric = draw(rng, leaves, spines, hosts)
    follower = Follower(fabric.model)
    windowing = LinkWindowing(fabric.model, window_ns=WINDOW_NS, late_ns=0)
    times, windows = [], []
    samples, exchanges = np.zeros(0, LINK_SAMPLE_DTYPE), np.zeros(0, EXCHANGE_DTYPE)
    for number in range(WINDOWS):
        samples = samples_of(rng, fabric, number, per_direction)
        exchanges, packets, hops = exchanges_of(rng, fabric, number, per_host, leaves, spines)
        began = time.process_time()
        windowing.add(samples)
        rows = windowing.rest()
        fitted = time.process_time()
        follower.add_link_windows(rows)
        follower.add_exchanges(exchanges)
        follower.add_packets(packets, hops, sampled_elsewhere=True)
        (window,) = follower.close(EPOCH_NS + (number + 1) * WINDOW_NS + follower.late_ns)
        closed = time.process_time()
        for _ in part_arrays(window, bytes_max=PART_BYTES):
            pass
        encoded = time.process_time()
        follower_arrays(follower)
        ended = time.process_time()
        times.append((fitted - began, closed - fitted, encoded - closed, ended - encoded))
        windows.append(window)
    envelopes_s, follow_s, encode_s, state_s = np.median(times[1:], axis=0).tolist()
    error, hard = _errors(fabric, windows[-1].rows, hosts)
    tracked = windows[-1].tracked
    assert tracked is not None
    return StreamBench(
        leaves=leaves,
        spines=spines,
        hosts=hosts,
        links=len(fabric.model.links),
        samples=len(samples),
        exchanges=len(exchanges),
        envelopes_s=envelopes_s,
        follow_s=follow_s,
        encode_s=encode_s,
        state_s=state_s,
        window_s=envelopes_s + follow_s + encode_s + state_s,
        first_window_s=sum(times[0]),
        rows=len(windows[-1].rows),
        clocks_ok_share=float((tracked.status == Status.OK).mean()),
        error_ns_rms=float(np.std(error)),
        bound_hard_coverage=float((np.abs(error) <= hard).mean()),
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    )


def _errors(fabric: _Fabric, rows: np.ndarray, hosts: int) -> tuple[np.ndarray, np.ndarray]:
    """(error, hard bound) of hosts at their rows' anchors."""
    rows = rows[(rows["clock"] < hosts) & (rows["status"] == Status.OK)]
    clock = rows["clock"].astype(np.int64)
    rate, own = fabric.rate[clock], rows["anchor_local_ns"] - fabric.epoch_ns[clock]
    true_ns = own / (1.0 + rate * 1e-9)
    epochs = fabric.epoch_ns[clock] - fabric.epoch_ns[0]
    small = (rate - fabric.rate[0]) * 1e-9 * true_ns
    return (rows["offset_ns"] - epochs) - small, rows["bound_hard_ns"].astype(np.float64)


def run(
    leaves: int, spines: int, hosts: int, per_direction: int, per_host: int, seed: int
) -> StreamBench:
    """Measure in a process of its own, on one core, with single-threaded linear algebra."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    sizes = (leaves, spines, hosts, per_direction, per_host, seed)
    command = [sys.executable, "-m", __name__, *map(str, sizes)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **single}
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return StreamBench(**{one.name: found[one.name] for one in fields(StreamBench)})


def main() -> None:
    """The measuring process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    leaves, spines, hosts, per_direction, per_host, seed = map(int, sys.argv[1:])
    found = measure(leaves, spines, hosts, per_direction, per_host, seed)
    json.dump(asdict(found), sys.stdout)


if __name__ == "__main__":
    main()
