# SPDX-License-Identifier: Apache-2.0
"""Training steps of one tenant: a bidirectional ring all-reduce over many queue pairs, or incast.

A step is a trace: a root span on rank 0, one `allreduce` span per rank, and under each a pair of
`rdma.send` and `rdma.recv` spans per message. Messages of a step are spread over it, as bucketed
all-reduces that overlap with the backward pass are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from bmv2_lab.scenarios import Traffic
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.rdma import QueuePair, RdmaHost, Transfer
from controller.fabric import Host

STEP_START_NS = (1_500, 9_000)
"""From the root span's start to a rank's start, uniform: rank 0's go-ahead reaches it."""
FIRST_POST_NS = 20_000
"""A rank's first message is posted this long after its start."""
RANK_END_NS = 1_000
STEP_END_NS = 6_000
QPN_BASE = 0x100
RING = Traffic()
NO_STALLS: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class RankRun:
    """One rank's part of a step; stamps on its host's PHC."""

    host: Host
    rank: int
    start_local_ns: int = 0
    end_local_ns: int = 0
    transfers: list[Transfer] = field(default_factory=list)
    open_count: int = 0


@dataclass(slots=True, kw_only=True)
class StepRun:
    """One training step of one tenant."""

    tenant: str
    step: int
    ranks: list[RankRun]
    start_local_ns: int = 0
    end_local_ns: int = 0
    """Both on rank 0's PHC."""
    open_ranks: int = 0


class RingJob:
    """One tenant's job: its ranks in ring order and their queue pairs."""

    def __init__(
        self,
        engine: Engine,
        tenant: str,
        hosts: tuple[Host, ...],
        endpoints: dict[str, RdmaHost],
        *,
        qps_per_peer: int,
        packets_per_message: int,
        payload_bytes: int,
        rng: np.random.Generator,
        traffic: Traffic = RING,
        stalls_ns: Mapping[str, int] = NO_STALLS,
    ) -> None:
        """stalls_ns: by host, what its slow software adds before each message's first packet."""
        self.tenant = tenant
        self.hosts = hosts
        self.steps: list[StepRun] = []
        self._engine = engine
        self._endpoints = endpoints
        self._packets = packets_per_message
        self._payload_bytes = payload_bytes
        self._rng = rng
        self._traffic = traffic
        self._stalls_ns = stalls_ns
        self._qps = self._connect(qps_per_peer)

    def _connect(self, qps_per_peer: int) -> dict[str, list[QueuePair]]:
        """Queue pairs to all peers; numbers differ from host to host."""
        pairs_max = qps_per_peer * (len(self.hosts) if self._traffic.incast else 4)
        numbers = {
            host.name: iter((QPN_BASE + np.cumsum(self._rng.integers(1, 40, pairs_max))).tolist())
            for host in self.hosts
        }
        result: dict[str, list[QueuePair]] = {host.name: [] for host in self.hosts}
        for rank, host in enumerate(self.hosts):
            for neighbour in self._peers(rank):
                for _ in range(qps_per_peer):
                    result[host.name].append(
                        QueuePair(
                            local=host,
                            remote=neighbour,
                            local_qpn=next(numbers[host.name]),
                            remote_qpn=next(numbers[neighbour.name]),
                        )
                    )
        return result

    def _peers(self, rank: int) -> tuple[Host, ...]:
        """Whom a rank sends to: both neighbours on the ring, or rank 0."""
        if self._traffic.incast:
            return self.hosts[:1] if rank else ()
        count = len(self.hosts)
        return self.hosts[(rank + 1) % count], self.hosts[(rank - 1) % count]

    def schedule_step(
        self, start_ns: int, on_transfer: Callable[[StepRun, RankRun, Transfer], None]
    ) -> StepRun:
        """Schedule one step at true time `start_ns`; `on_transfer` sees each planned message."""
        run = StepRun(
            tenant=self.tenant,
            step=len(self.steps),
            ranks=[RankRun(host=host, rank=rank) for rank, host in enumerate(self.hosts)],
            open_ranks=sum(1 for host in self.hosts if self._qps[host.name]),
        )
        self.steps.append(run)
        self._engine.at(start_ns, self._start_root, run)
        for rank_run in run.ranks:
            wait_ns = 600 if rank_run.rank == 0 else int(self._rng.integers(*STEP_START_NS))
            rank_start_ns = start_ns + wait_ns
            self._engine.at(rank_start_ns, self._start_rank, rank_run)
            endpoint = self._endpoints[rank_run.host.name]
            for qp in self._qps[rank_run.host.name]:
                transfer = endpoint.new_transfer(qp, self._packets, self._payload_bytes)
                transfer.on_done = lambda _t, r=rank_run: self._transfer_done(run, r)
                rank_run.transfers.append(transfer)
                self._endpoints[qp.remote.name].expect(transfer)
                transfer.sender_stall_ns += self._stalls_ns.get(rank_run.host.name, 0)
                wait_ns = int(self._rng.integers(FIRST_POST_NS, self._traffic.spread_ns))
                post_ns = rank_start_ns + wait_ns
                self._engine.at(post_ns, endpoint.post, transfer)
                on_transfer(run, rank_run, transfer)
            rank_run.open_count = len(rank_run.transfers)
        return run

    def _start_root(self, run: StepRun) -> None:
        run.start_local_ns = self._read(run.ranks[0].host)

    def _start_rank(self, rank_run: RankRun) -> None:
        rank_run.start_local_ns = self._read(rank_run.host)

    def _transfer_done(self, run: StepRun, rank_run: RankRun) -> None:
        rank_run.open_count -= 1
        if rank_run.open_count == 0:
            end_ns = self._engine.now_ns + RANK_END_NS
            self._engine.at(end_ns, self._end_rank, run, rank_run)

    def _end_rank(self, run: StepRun, rank_run: RankRun) -> None:
        rank_run.end_local_ns = self._read(rank_run.host)
        run.open_ranks -= 1
        if run.open_ranks == 0:
            for waiting in run.ranks:  # ranks that only receive
                if not waiting.transfers:
                    waiting.end_local_ns = self._read(waiting.host)
            self._engine.at(self._engine.now_ns + STEP_END_NS, self._end_root, run)

    def _end_root(self, run: StepRun) -> None:
        run.end_local_ns = self._read(run.ranks[0].host)

    def _read(self, host: Host) -> int:
        return self._endpoints[host.name].node.stamp_ns(self._engine.now_ns)
