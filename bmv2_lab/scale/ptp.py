# SPDX-License-Identifier: Apache-2.0
"""PTP between the grandmaster and all clients, one round of all of them at a time.

As `bmv2_lab.simulator.ptp`: two-step Sync, Delay_Req, the client's PI servo with a median of ten
path delays. The servos start locked on the true rates and on the path's own asymmetry, so that a
few seconds of warm-up leave only what the network's noise makes of them.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.draw import Stream, stream
from bmv2_lab.scale.clocks import SteeredPhcs
from bmv2_lab.scale.settings import ScaleSettings
from bmv2_lab.scale.transit import Batch, Network, Transit
from bmv2_lab.scale.world import World
from bmv2_lab.simulator.ptp import DELAY_REQ_DELAY_NS_MAX, FOLLOW_UP_DELAY_NS
from bmv2_lab.simulator.servo import DELAY_FILTER_LENGTH, FREQUENCY_PPB_MAX
from controller.telemetry.datagram import UDP_PORT_PTP_EVENT
from correction.records import EXCHANGE_DTYPE, Exchanges

PTP_WIRE_BYTES = 90
"""Sync and Delay_Req over UDP and IPv4, with FCS."""
DELAY_REQ_DELAY_NS_MIN = 200_000
QUEUE_OF_DSCP = {0: 0, 46: 2}
"""As `controller.fabric_generate.default_qos`."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


class PiServos:
    """The servos of all clients: as `simulator.servo.PiServo` once locked."""

    def __init__(self, interval_s: float, drift_ppb: Float64s) -> None:
        self._kp = min(0.7 * interval_s**-0.3, 0.7 / interval_s)
        self._ki = min(0.3 * interval_s**0.4, 0.3 / interval_s)
        self._drift_ppb = drift_ppb.copy()
        self._delays: deque[Float64s] = deque(maxlen=DELAY_FILTER_LENGTH)

    def path_delay(self, delay_ns: Float64s) -> None:
        """New mean path delays of all clients, ns."""
        self._delays.append(delay_ns)

    def filtered_delay_ns(self) -> Float64s | None:
        """The filtered mean path delays; None before the first exchange."""
        if not self._delays:
            return None
        return np.asarray(np.median(np.stack(self._delays), axis=0), np.float64)

    def sample(self, offset_ns: Float64s) -> Float64s:
        """Offsets in (client - time transmitter), frequencies to set, ppb."""
        ki_term = self._ki * offset_ns
        adjust_ppb = self._kp * offset_ns + self._drift_ppb + ki_term
        limit = FREQUENCY_PPB_MAX
        self._drift_ppb = np.clip(self._drift_ppb + ki_term, -limit, limit)
        return np.asarray(np.clip(-adjust_ppb, -limit, limit), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class PtpRound:
    """One exchange of every client."""

    exchanges: Exchanges
    syncs: Batch
    sync_transit: Transit
    delay_reqs: Batch
    delay_req_transit: Transit


class Ptp:
    """Runs PTP from true time 0 on, round by round."""

    def __init__(
        self, settings: ScaleSettings, world: World, network: Network, phcs: SteeredPhcs, seed: int
    ) -> None:
        self._settings = settings
        self._world = world
        self._network = network
        self._phcs = phcs
        self._seed = seed
        topology = world.topology
        self.reference = 0
        """The grandmaster's NIC."""
        rng = stream(seed, Stream.PTP)
        self.clients = np.arange(1, topology.nic_count)
        count = len(self.clients)
        self._first_ns = rng.integers(1_000_000, settings.ptp_interval_ns, count)
        self._sync_id = rng.integers(0, 1 << 16, count)
        self._delay_req_id = rng.integers(0, 1 << 16, count)
        self._identity = clock_identities(topology.nic_mac)
        there, back = self._path_delays_ns()
        oscillators = world.oscillators
        zero = np.zeros(topology.nic_count, np.int64)
        every = np.arange(topology.nic_count)
        rate_ppb = oscillators.rate_ppb(every, zero)
        drift_ppb = rate_ppb[self.clients] - rate_ppb[self.reference]
        self._servos = PiServos(settings.ptp_interval_ns / 1e9, drift_ppb)
        reference_ns = phcs.read_ns(zero[:1] + self.reference, zero[:1])[0]
        lag_ns = np.rint((there - back) / 2).astype(np.int64)
        now_ns = phcs.read_ns(self.clients, zero[self.clients])
        phcs.adjust(
            self.clients,
            zero[self.clients],
            frequency_ppb=-drift_ppb,
            step_ns=reference_ns - lag_ns - now_ns,
        )

    @property
    def round_count(self) -> int:
        """Rounds that end before the run does."""
        settings = self._settings
        return settings.end_ns // settings.ptp_interval_ns

    def telemetry_from(self) -> int:
        """First round that telemetry sees."""
        return self._settings.start_ns // self._settings.ptp_interval_ns

    def run_round(self, number: int) -> PtpRound:
        """All clients' next exchange; steers their PHCs."""
        rng = stream(self._seed, Stream.PTP, 1 + number)
        clients, count = self.clients, len(self.clients)
        reference = np.full(count, self.reference)
        sync_ns = self._first_ns + number * self._settings.ptp_interval_ns
        syncs = self._batch(reference, clients, sync_ns)
        sync_transit = self._network.carry(syncs, rng)
        t2_ns = sync_transit.received_ns
        wait_ns = rng.integers(DELAY_REQ_DELAY_NS_MIN, DELAY_REQ_DELAY_NS_MAX, count)
        delay_reqs = self._batch(clients, reference, t2_ns + wait_ns)
        delay_req_transit = self._network.carry(delay_reqs, rng)
        t1 = self._phcs.read_ns(reference, sync_transit.sent_ns)
        t2 = self._phcs.read_ns(clients, t2_ns)
        # the Follow_Up takes as long as its Sync did
        follow_up_ns = t2_ns + FOLLOW_UP_DELAY_NS
        delay_ns = self._servos.filtered_delay_ns()
        if delay_ns is not None:
            frequency_ppb = self._servos.sample((t2 - t1) - delay_ns)
            zero = np.zeros(count, np.int64)
            self._phcs.adjust(clients, follow_up_ns, frequency_ppb=frequency_ppb, step_ns=zero)
        t3 = self._phcs.read_ns(clients, delay_req_transit.sent_ns)
        t4 = self._phcs.read_ns(reference, delay_req_transit.received_ns)
        self._servos.path_delay(((t2 - t1) + (t4 - t3)) / 2)
        return PtpRound(
            exchanges=self._exchanges(number, t1, t2, t3, t4),
            syncs=syncs,
            sync_transit=sync_transit,
            delay_reqs=delay_reqs,
            delay_req_transit=delay_req_transit,
        )

    def sequence_ids(self, number: int, *, sync: bool) -> Int64s:
        """[client]: sequenceId of a round's message."""
        first = self._sync_id if sync else self._delay_req_id
        return (first + number + 1) & 0xFFFF

    def identity(self, nic: Int64s) -> NDArray[np.uint64]:
        """clockIdentity of NICs."""
        return self._identity[nic]

    def _batch(self, src: Int64s, dst: Int64s, ready_ns: Int64s) -> Batch:
        count = len(src)
        port = np.full(count, UDP_PORT_PTP_EVENT, np.int64)
        return Batch(
            src_nic=src,
            dst_nic=dst,
            src_port=port,
            dst_port=port,
            ready_ns=ready_ns,
            wire_bytes=np.full(count, PTP_WIRE_BYTES, np.int64),
            instrumented=np.zeros(count, np.bool_),
            queue_id=QUEUE_OF_DSCP[self._settings.ptp_dscp],
            message=-1 - np.arange(count),
            skipped_frames=np.zeros(count, np.int64),
        )

    def _path_delays_ns(self) -> tuple[Float64s, Float64s]:
        """Delays of wires and stamp points, one way each, of every client's own paths."""
        world, result = self._world, []
        reference = np.full(len(self.clients), self.reference)
        per_link = world.egress_ns + world.delay_ns + world.ingress_ns
        per_link = per_link + world.at_frame_end * PTP_WIRE_BYTES * world.ns_per_byte
        access = world.topology.access_link
        for src, dst in ((reference, self.clients), (self.clients, reference)):
            paths = self._network.paths(self._batch(src, dst, np.zeros(len(src), np.int64)))
            used = paths.link >= 0
            total = np.where(used, per_link[paths.link], 0.0).sum(axis=1)
            result.append(total + per_link[access[src] ^ 1])
        return result[0], result[1]

    def _exchanges(self, number: int, t1: Int64s, t2: Int64s, t3: Int64s, t4: Int64s) -> Exchanges:
        topology = self._world.topology
        rows = np.zeros(len(self.clients), EXCHANGE_DTYPE)
        rows["client"] = self.clients
        rows["time_transmitter_ip"] = topology.nic_ip[self.reference]
        rows["client_ip"] = topology.nic_ip[self.clients]
        rows["sync_clock_identity"] = self._identity[self.reference]
        rows["delay_req_clock_identity"] = self._identity[self.clients]
        rows["sync_port_number"] = rows["delay_req_port_number"] = 1
        rows["sync_sequence_id"] = self.sequence_ids(number, sync=True)
        rows["delay_req_sequence_id"] = self.sequence_ids(number, sync=False)
        rows["t1_reference_ns"], rows["t2_local_ns"] = t1, t2
        rows["t3_local_ns"], rows["t4_reference_ns"] = t3, t4
        return rows


def clock_identities(mac: Int64s) -> NDArray[np.uint64]:
    """EUI-64 made from MAC addresses (with FF FE inside)."""
    mac = mac.astype(np.uint64)
    high = (mac >> np.uint64(24)) << np.uint64(40)
    return np.asarray(high | np.uint64(0xFFFE << 24) | (mac & np.uint64(0xFFFFFF)), np.uint64)
