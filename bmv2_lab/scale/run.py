# SPDX-License-Identifier: Apache-2.0
"""One large run: PTP first, then the jobs' steps, in chunks that are handed over as they are made.

PTP does not depend on RDMA here (their packets share no queue), so that all servo adjustments are
known when the NICs stamp data. Everything follows from the settings and the seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.draw import Stream, stream
from bmv2_lab.scale.clocks import SteeredPhcs, servo_logs
from bmv2_lab.scale.faults import Faults, draw_faults
from bmv2_lab.scale.flows import Flows, Jobs, connect, jobs_of, place_jobs
from bmv2_lab.scale.messages import (
    ROCE_DSCP,
    TRANSFER_DTYPE,
    Carried,
    Messages,
    Transfers,
    carry_messages,
)
from bmv2_lab.scale.ptp import Ptp, PtpRound
from bmv2_lab.scale.records import in_order_of_capture, joined, reported
from bmv2_lab.scale.settings import ScaleSettings
from bmv2_lab.scale.span_ids import span_ids, trace_ids
from bmv2_lab.scale.transit import Batch, Network, Transit
from bmv2_lab.scale.world import World, draw_world
from bmv2_lab.simulator.collective import (
    FIRST_POST_NS,
    RANK_END_NS,
    STEP_END_NS,
    STEP_START_NS,
)
from bmv2_lab.truth import TrueClockReading, TrueWindow, Truth
from controller.telemetry.frames import BthOpcode
from correction.records import (
    EXCHANGE_DTYPE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
    Exchanges,
    Hops,
    Packets,
)
from correction.servo import ServoLog

ROOT_WAIT_NS = 600
"""From a step's start to rank 0's own."""

RANK_DTYPE = np.dtype(
    [
        # One row per rank and step: its allreduce span; rank 0 is the step's root.
        ("job", np.int32),
        ("step", np.int32),
        ("rank", np.int32),
        ("clock", np.int32),
        ("start_local_ns", np.int64),
        ("end_local_ns", np.int64),
        ("step_start_local_ns", np.int64),  # rank 0 only: the step span
        ("step_end_local_ns", np.int64),
    ]
)
DELAY_DTYPE = np.dtype(
    [
        # One row per PTP event message: true one-way delay from NIC stamp to NIC stamp.
        ("client", np.int32),  # clock
        ("to_client", np.bool_),  # Sync; else Delay_Req
        ("sequence_id", np.uint16),
        ("sent_true_ns", np.int64),
        ("delay_ns", np.int64),
        ("residence_ns", np.int64),  # of all switches together
    ]
)

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Records of one stretch of time, packets in order of capture."""

    packets: Packets
    hops: Hops
    transfers: Transfers


@dataclass(slots=True, kw_only=True)
class ScaleRun:
    """A drawn run; `chunks` simulates it."""

    settings: ScaleSettings
    seed: int
    world: World
    network: Network
    phcs: SteeredPhcs
    ptp: Ptp
    jobs: Jobs
    flows: Flows
    faults: Faults
    truth: Truth
    exchanges: list[Exchanges] = field(default_factory=list)
    delays: list[NDArray[np.void]] = field(default_factory=list)
    ranks: list[NDArray[np.void]] = field(default_factory=list)
    packet_count: int = 0
    hop_count: int = 0
    transfer_count: int = 0

    def all_exchanges(self) -> Exchanges:
        """All exchanges of the telemetry's time so far."""
        return np.concatenate([np.zeros(0, EXCHANGE_DTYPE), *self.exchanges])

    def servos(self) -> dict[int, ServoLog]:
        """Servo logs by clock, from before telemetry started."""
        return servo_logs(self.phcs.adjustments())

    def chunks(self) -> Iterator[Chunk]:
        """Run everything, once; PTP's records first, then the jobs' in order of posting."""
        first = self.ptp.telemetry_from()
        for number in range(first):
            self.ptp.run_round(number)
        self.phcs.forget_before(first * self.settings.ptp_interval_ns)
        for number in range(first, self.ptp.round_count):
            yield self._counted(self._ptp_chunk(number))
        self._observe_windows()
        for step in range(self.settings.window_count * self.settings.steps_per_window):
            for chunk in self._step_chunks(step):
                yield self._counted(chunk)

    def _counted(self, chunk: Chunk) -> Chunk:
        self.packet_count += len(chunk.packets)
        self.hop_count += len(chunk.hops)
        self.transfer_count += len(chunk.transfers)
        return chunk

    def _ptp_chunk(self, number: int) -> Chunk:
        done = self.ptp.run_round(number)
        self.exchanges.append(done.exchanges)
        self.delays += [_delays(self.ptp, number, done, sync=sync) for sync in (True, False)]
        rng = stream(self.seed, Stream.REPORTS, 1_000_000 + number)
        parts = []
        for sync, batch, transit in (
            (True, done.syncs, done.sync_transit),
            (False, done.delay_reqs, done.delay_req_transit),
        ):
            packets, hops = reported(
                batch,
                transit,
                np.arange(len(batch)),
                self.world,
                rng,
                traffic=TRAFFIC_PTP,
                dscp=self.settings.ptp_dscp,
            )
            packets["ptp_message_type"] = 0 if sync else 1
            packets["ptp_clock_identity"] = self.ptp.identity(batch.src_nic)
            packets["ptp_port_number"] = 1
            packets["ptp_sequence_id"] = self.ptp.sequence_ids(number, sync=sync)
            parts.append((packets, hops))
        packets, hops = in_order_of_capture(*joined(parts))
        return Chunk(packets=packets, hops=hops, transfers=np.zeros(0, TRANSFER_DTYPE))

    def _step_chunks(self, step: int) -> Iterator[Chunk]:
        settings, flows = self.settings, self.flows
        rng = stream(self.seed, Stream.TRAFFIC, 1_000 + step)
        start_ns = settings.step_start_ns(step)
        nics = self.world.topology.nic_count
        rank_start_ns = start_ns + rng.integers(*STEP_START_NS, nics)
        rank_start_ns[self.jobs.root_nic] = start_ns + ROOT_WAIT_NS
        spread_ns = rng.integers(FIRST_POST_NS, settings.post_spread_ns, len(flows))
        post_ns = rank_start_ns[flows.src_nic] + spread_ns
        order = np.argsort(post_ns, kind="stable")
        bounds = np.arange(start_ns, start_ns + settings.step_ns, settings.chunk_ns)
        done_ns = rank_start_ns.copy()
        for index, mine in enumerate(np.split(order, np.searchsorted(post_ns[order], bounds[1:]))):
            if len(mine):
                carried = self._carry(step, index, mine, post_ns[mine])
                np.maximum.at(done_ns, flows.src_nic[mine], carried.acknowledged_ns)
                yield self._chunk(step, index, carried)
        self.ranks.append(self._rank_rows(step, start_ns, rank_start_ns, done_ns))

    def _carry(self, step: int, index: int, mine: Int64s, post_ns: Int64s) -> Carried:
        rng = stream(self.seed, Stream.TRAFFIC, 1_000_000 + step * 10_000 + index)
        messages = Messages(flow=mine, step=step, post_ns=post_ns)
        self.faults.slow_down(messages, self.flows, rng)
        struck = self.faults.strike(messages)
        for fault in struck:
            job = self.flows.job[mine[fault.message]]
            fault.truth.trace_id = trace_ids(self.seed, np.array([job]), step)[0]
            flow = mine[fault.message : fault.message + 1]
            fault.truth.span_id = f"{int(span_ids(self.seed, step, 'send', flow)[0]):016x}"
        carried = carry_messages(
            self.settings,
            self.flows,
            messages,
            self.network,
            self.phcs,
            rng,
            tuple(fault for fault in struck if fault.on_the_way),
        )
        for fault in struck:
            if fault.on_the_way:
                row = int(carried.first_packet[fault.message])
                fault.name_place(self.world.topology, carried.data_transit.paths, row)
        return carried

    def _chunk(self, step: int, index: int, carried: Carried) -> Chunk:
        rng = stream(self.seed, Stream.REPORTS, 2_000_000 + step * 10_000 + index)
        rows = np.flatnonzero(carried.data.instrumented)
        parts = []
        for batch, transit, qp, opcode in (
            (carried.data, carried.data_transit, carried.data_qp, carried.data_opcode),
            (carried.acks, carried.ack_transit, carried.ack_qp, None),
        ):
            packets, hops = reported(
                batch, transit, rows, self.world, rng, traffic=TRAFFIC_ROCE, dscp=ROCE_DSCP
            )
            packets["dest_qp"], packets["psn"] = qp[rows], carried.data_psn[rows]
            packets["bth_opcode"] = BthOpcode.ACKNOWLEDGE if opcode is None else opcode[rows]
            parts.append((packets, hops))
        packets, hops = in_order_of_capture(*joined(parts))
        return Chunk(packets=packets, hops=hops, transfers=carried.transfers)

    def _rank_rows(
        self, step: int, start_ns: int, rank_start_ns: Int64s, done_ns: Int64s
    ) -> NDArray[np.void]:
        jobs, phcs = self.jobs, self.phcs
        nics = np.arange(len(rank_start_ns))
        end_ns = done_ns + RANK_END_NS
        rows = np.zeros(len(nics), RANK_DTYPE)
        rows["job"], rows["step"], rows["rank"] = jobs.job_of_nic, step, jobs.rank_of_nic
        rows["clock"] = nics
        rows["start_local_ns"] = phcs.read_ns(nics, rank_start_ns)
        rows["end_local_ns"] = phcs.read_ns(nics, end_ns)
        step_end_ns = np.zeros(jobs.count, np.int64)
        np.maximum.at(step_end_ns, jobs.job_of_nic, end_ns)
        root = jobs.root_nic
        rows["step_start_local_ns"][root] = phcs.read_ns(root, np.full(len(root), start_ns))
        rows["step_end_local_ns"][root] = phcs.read_ns(root, step_end_ns + STEP_END_NS)
        return rows

    def _observe_windows(self) -> None:
        settings, world = self.settings, self.world
        nics, switches = world.topology.nic_count, world.topology.switch_count
        nic, switch = np.arange(nics), nics + np.arange(switches)
        for window in range(settings.window_count):
            now_ns = settings.start_ns + window * settings.window_ns + settings.window_ns // 2
            at = np.full(nics, now_ns)
            local_ns = self.phcs.read_ns(nic, at).tolist()
            offset_ns = self.phcs.offset_ns(nic, self.ptp.reference, at).tolist()
            switch_ns = world.oscillators.read_ns(switch, np.full(switches, now_ns)).tolist()
            readings = [
                TrueClockReading(clock=name, local_ns=local, offset_ns=offset)
                for name, local, offset in zip(
                    world.topology.nic_names, local_ns, offset_ns, strict=True
                )
            ]
            readings += [
                TrueClockReading(clock=name, local_ns=local, offset_ns=None)
                for name, local in zip(world.topology.switch_names, switch_ns, strict=True)
            ]
            self.truth.windows.append(
                TrueWindow(
                    centre_true_ns=now_ns,
                    reference_ns=local_ns[self.ptp.reference],
                    clocks=tuple(readings),
                )
            )


def start_run(
    settings: ScaleSettings,
    seed: int,
    world: World | None = None,
    members: Sequence[Int64s] | None = None,
) -> ScaleRun:
    """Draw a run; `world` replaces the generated fabric (it must fit the settings' size).

    members: every job's hosts in the order of ranks, in place of a drawn placement.
    """
    settings.check()
    world = world or draw_world(settings, seed)
    topology = world.topology
    network = Network(world, stream(seed, Stream.BACKGROUND))
    phcs = SteeredPhcs(world.oscillators, topology.nic_count)
    rng = stream(seed, Stream.TRAFFIC)
    if members is None:
        members = place_jobs(settings, rng)
    flows = connect(settings, members, rng)
    names = [*topology.nic_names, *topology.switch_names, "collector"]
    jobs = jobs_of(settings, topology, members)
    faults = draw_faults(settings, topology, flows, stream(seed, Stream.FAULTS))
    return ScaleRun(
        settings=settings,
        seed=seed,
        world=world,
        network=network,
        phcs=phcs,
        ptp=Ptp(settings, world, network, phcs, seed),
        jobs=jobs,
        flows=flows,
        faults=faults,
        truth=Truth(
            scenario="scale",
            seed=seed,
            links=world.true_links(),
            rate_offset_ppb=dict(zip(names, world.rate_offset_ppb.tolist(), strict=True)),
            faults=faults.truth,
        ),
    )


def _delays(ptp: Ptp, number: int, done: PtpRound, *, sync: bool) -> NDArray[np.void]:
    batch: Batch = done.syncs if sync else done.delay_reqs
    transit: Transit = done.sync_transit if sync else done.delay_req_transit
    rows = np.zeros(len(batch), DELAY_DTYPE)
    rows["client"], rows["to_client"] = ptp.clients, sync
    rows["sequence_id"] = ptp.sequence_ids(number, sync=sync)
    rows["sent_true_ns"] = transit.sent_ns
    rows["delay_ns"] = transit.received_ns - transit.sent_ns
    rows["residence_ns"] = (transit.egress_ns - transit.ingress_ns).sum(axis=1)
    return rows
