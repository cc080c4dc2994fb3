# SPDX-License-Identifier: Apache-2.0
"""Jobs, their collectives and the connected queue pairs between their ranks, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.settings import Collective, Placement, ScaleSettings
from bmv2_lab.scale.topology import Topology
from bmv2_lab.simulator.collective import QPN_BASE

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """One row per directed queue pair; every step sends one message on each."""

    job: Int64s
    src_nic: Int64s
    dst_nic: Int64s
    local_qpn: Int64s
    remote_qpn: Int64s
    src_port: Int64s
    """UDP source port, both ways."""
    psn_first: Int64s
    """Of the first step's message."""

    def __len__(self) -> int:
        return len(self.job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Who belongs to which job; every NIC (GPU) is a rank."""

    job_of_nic: Int64s
    rank_of_nic: Int64s
    root_nic: Int64s
    """[job]: NIC of rank 0."""

    @property
    def count(self) -> int:
        """Number of jobs."""
        return len(self.root_nic)


def tenant_name(job: int) -> str:
    """The tenant that runs a job."""
    return f"tenant{job + 1}"


def place_jobs(settings: ScaleSettings, rng: np.random.Generator) -> list[Int64s]:
    """Every job's hosts, in the order of its ranks."""
    hosts = settings.gpus // settings.nics_per_host
    per_job = settings.gpus_per_job // settings.nics_per_host
    order = np.arange(hosts)
    if settings.placement is Placement.SCATTERED:
        order = rng.permutation(hosts)
    starts = list(range(0, hosts, per_job))
    if len(starts) > 1 and hosts - starts[-1] < 2:
        starts.pop()  # a job has at least two hosts
    return np.split(order, starts[1:])


def jobs_of(settings: ScaleSettings, topology: Topology, members: Sequence[Int64s]) -> Jobs:
    """Jobs and ranks by NIC; `members` are the jobs' hosts."""
    job_of_nic = np.zeros(topology.nic_count, np.int64)
    rank_of_nic = np.zeros(topology.nic_count, np.int64)
    for job, mine in enumerate(members):
        nics = (mine[:, None] * settings.nics_per_host + np.arange(settings.nics_per_host)).ravel()
        job_of_nic[nics], rank_of_nic[nics] = job, np.arange(len(nics))
    roots = np.array([int(mine[0]) * settings.nics_per_host for mine in members], np.int64)
    return Jobs(job_of_nic=job_of_nic, rank_of_nic=rank_of_nic, root_nic=roots)


def edges(collective: Collective, hosts: int) -> tuple[Int64s, Int64s]:
    """Directed edges between places in the order of a job's hosts."""
    place = np.arange(hosts)
    if collective is Collective.RING:
        return np.tile(place, 2), np.concatenate([(place + 1) % hosts, (place - 1) % hosts])
    # two trees that mirror each other, so that a place is inner in one and outer in the other
    child = place[1:]
    parent = (child - 1) // 2
    low = np.concatenate([child, hosts - 1 - child])
    high = np.concatenate([parent, hosts - 1 - parent])
    return np.concatenate([low, high]), np.concatenate([high, low])


def connect(settings: ScaleSettings, members: Sequence[Int64s], rng: np.random.Generator) -> Flows:
    """Queue pairs of all jobs: within a rail, `qps_per_peer` along each edge."""
    jobs: list[Int64s] = []
    sources: list[Int64s] = []
    targets: list[Int64s] = []
    rails = np.arange(settings.nics_per_host)
    for job, hosts in enumerate(members):
        here, there = edges(settings.collective, len(hosts))
        for place, into in ((here, sources), (there, targets)):
            nic = hosts[place][:, None] * settings.nics_per_host + rails
            into.append(np.repeat(nic.ravel(), settings.qps_per_peer))
        jobs.append(np.full(len(sources[-1]), job))
    src, dst = np.concatenate(sources), np.concatenate(targets)
    local, remote = _queue_pair_numbers(src, dst, rng)
    return Flows(
        job=np.concatenate(jobs),
        src_nic=src,
        dst_nic=dst,
        local_qpn=local,
        remote_qpn=remote,
        src_port=udp_source_ports(local, remote),
        psn_first=rng.integers(0, 1 << 24, len(src)),
    )


def _queue_pair_numbers(
    src: Int64s, dst: Int64s, rng: np.random.Generator
) -> tuple[Int64s, Int64s]:
    """Numbers that rise by random steps at every NIC, over its ends of all connections."""
    nic = np.concatenate([src, dst])
    order = np.argsort(nic, kind="stable")
    total = np.cumsum(rng.integers(1, 40, len(nic)))
    first = np.r_[True, np.diff(nic[order]) != 0]
    base = np.maximum.accumulate(np.where(first, np.r_[0, total[:-1]], 0))
    numbers = np.zeros(len(nic), np.int64)
    numbers[order] = QPN_BASE + total - base
    return numbers[: len(src)], numbers[len(src) :]


def udp_source_ports(lqpn: Int64s, rqpn: Int64s) -> Int64s:
    """RoCEv2 source ports (`simulator.rdma.flow_label` and `udp_source_port`, as arrays)."""
    value = lqpn * rqpn
    value ^= value >> 20
    value ^= value >> 40
    label = value & 0xFFFFF
    return np.asarray(((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | 0xC000, np.int64)
