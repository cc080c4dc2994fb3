# SPDX-License-Identifier: Apache-2.0
"""PTP between the grandmaster and its clients, as real packets: unicast over UDP, or multicast over
Ethernet (IEEE 1588-2019 annex E), where one Sync serves all.

Two-step Sync and Follow_Up, Delay_Req and Delay_Resp (IEEE 1588-2019 clauses 9.5 and 11.3); the
client's PI servo steers its PHC. correctionField is honoured as linuxptp does: what transparent
clocks added to a Sync (and its Follow_Up) is taken off the way there, what they added to a
Delay_Req comes back in the Delay_Resp and is taken off the way back. What the hosts could log is
kept: t1..t4, c1 and c2 with the identities of the messages, and every adjustment of the PHC.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_node import OnFrame, OnSent
from bmv2_lab.simulator.servo import PiServo
from controller.fabric import Host, Ptp
from controller.fabric_telemetry import EthernetPtp
from controller.ptp_entries import MULTICAST_PTP
from controller.telemetry.datagram import (
    ETHER_TYPE_PTP,
    UDP_PORT_PTP_EVENT,
    UDP_PORT_PTP_GENERAL,
)
from controller.telemetry.ptp import (
    PTP_EVENT_TYPE_MAX,
    PtpAddresses,
    PtpMessageType,
    PtpTransport,
    parse_ptp,
    parse_ptp_addresses,
    ptp_delay_req,
    ptp_delay_resp,
    ptp_follow_up,
    ptp_sync,
)
from correction.exchange import estimate_offset
from correction.records import EXCHANGE_DTYPE

FOLLOW_UP_DELAY_NS = 40_000
"""From a Sync's transmit stamp to its Follow_Up."""
DELAY_REQ_DELAY_NS_MAX = 3_000_000
"""A client answers a Sync with a Delay_Req after up to this long (random)."""
DELAY_RESP_DELAY_NS = 30_000
EVERYBODY = 0
"""In place of a client's address where one message serves all."""
NO_SEQUENCE_ID = -1
"""Of a message that has not been sent or received."""


def clock_identity(mac: int) -> int:
    """EUI-64 made from a 48-bit MAC address, as PTP clock identities are (with FF FE inside)."""
    return (mac >> 24) << 40 | 0xFFFE << 24 | (mac & 0xFFFFFF)


class PtpNode(Protocol):
    """What PTP needs of a host, or of a switch that is a boundary clock."""

    @property
    def phc(self) -> SteeredClock:
        """The clock that stamps, and is steered."""

    def handle(self, udp_dst_port: int, on_frame: OnFrame) -> None:
        """Give frames to this UDP port, or of the EtherType of PTP, to `on_frame`."""

    def send(self, frame: bytes, on_sent: OnSent | None = None) -> None:
        """Send; `on_sent` gets the stamp of an event message."""


def udp_path(source: Host, destination: Host, dscp: int) -> PtpAddresses:
    """Unicast over UDP and IPv4."""
    return PtpAddresses(
        src_mac=source.mac,
        dst_mac=destination.mac,
        src_ip=source.ip,
        dst_ip=destination.ip,
        dscp=dscp,
    )


def ethernet_path(source: Host) -> PtpAddresses:
    """Multicast over Ethernet."""
    return PtpAddresses(src_mac=source.mac, dst_mac=MULTICAST_PTP, transport=PtpTransport.ETHERNET)


@dataclass(slots=True)
class _Pending:
    """The exchange that a client is in the middle of."""

    sync_sequence_id: int = NO_SEQUENCE_ID
    t2_local_ns: int = 0
    c1_ns: int = 0
    """correctionField of the Sync; the Follow_Up's is added when it comes."""
    t1_reference_ns: int | None = None
    delay_req_sequence_id: int = NO_SEQUENCE_ID
    t3_local_ns: int = 0


class PtpClient:
    """One client: answers Syncs, logs exchanges, steers its PHC."""

    def __init__(
        self,
        engine: Engine,
        node: PtpNode,
        host: Host,
        transmitter: Host,
        ptp: Ptp,
        *,
        dscp: int,
        interval_ns: int,
        rng: np.random.Generator,
        on_exchange: Callable[[str, np.void], None],
        on_adjust: Callable[[str, int, int, float], None],
    ) -> None:
        self._engine = engine
        self._node = node
        self._host = host
        self._domain = ptp.domain
        self._dscp = dscp
        self._identity = clock_identity(host.mac)
        self._ethernet = ptp.ethernet is EthernetPtp.TREE
        self.follow(transmitter)
        self._servo = PiServo(interval_ns / 1e9)
        self._rng = rng
        self._delay_req_sequence_id = int(rng.integers(0, 1 << 16))
        self._on_exchange = on_exchange
        self._on_adjust = on_adjust
        node.handle(UDP_PORT_PTP_EVENT, self._on_event)
        node.handle(UDP_PORT_PTP_GENERAL, self._on_general)
        node.handle(ETHER_TYPE_PTP, self._on_any)

    def follow(self, transmitter: Host) -> None:
        """Take the time from this host from now on."""
        self._stopped = False
        self._transmitter = transmitter
        self._transmitter_identity = clock_identity(transmitter.mac)
        self._path = (
            ethernet_path(self._host)
            if self._ethernet
            else udp_path(self._host, transmitter, self._dscp)
        )
        self._pending = _Pending()

    def stop(self) -> None:
        """Answer and steer no more; the PHC goes on as it is."""
        self._stopped = True

    def _on_any(self, frame: bytes, rx_local_ns: int) -> None:
        if parse_ptp(frame).message_type <= PTP_EVENT_TYPE_MAX:
            self._on_event(frame, rx_local_ns)
        else:
            self._on_general(frame, rx_local_ns)

    def _on_event(self, frame: bytes, rx_local_ns: int) -> None:
        message = parse_ptp(frame)
        if (
            self._stopped
            or message.message_type != PtpMessageType.SYNC
            or message.clock_identity != self._transmitter_identity
        ):
            return
        correction_ns = message.correction_ns
        if correction_ns is None:  # too large to state: the delay of this Sync is not known
            return
        self._pending = _Pending(message.sequence_id, rx_local_ns, correction_ns)
        wait_ns = int(self._rng.integers(200_000, DELAY_REQ_DELAY_NS_MAX))
        self._engine.at(self._engine.now_ns + wait_ns, self._send_delay_req)

    def _send_delay_req(self) -> None:
        if self._stopped:
            return
        self._delay_req_sequence_id = (self._delay_req_sequence_id + 1) & 0xFFFF
        self._pending.delay_req_sequence_id = self._delay_req_sequence_id
        frame = ptp_delay_req(
            self._path,
            domain=self._domain,
            clock_identity=self._identity,
            port_number=1,
            sequence_id=self._delay_req_sequence_id,
        )
        self._node.send(frame, self._on_delay_req_sent)

    def _on_delay_req_sent(self, tx_local_ns: int) -> None:
        self._pending.t3_local_ns = tx_local_ns

    def _on_general(self, frame: bytes, rx_local_ns: int) -> None:
        message = parse_ptp(frame)
        pending, correction_ns = self._pending, message.correction_ns
        if self._stopped or correction_ns is None:
            return
        if message.message_type == PtpMessageType.FOLLOW_UP:
            if message.sequence_id == pending.sync_sequence_id:
                pending.c1_ns += correction_ns
                pending.t1_reference_ns = message.timestamp_ns
                self._steer(rx_local_ns)
        elif (
            message.message_type == PtpMessageType.DELAY_RESP
            and message.requesting_clock_identity == self._identity
            and message.sequence_id == pending.delay_req_sequence_id
        ):
            self._complete(pending, message.timestamp_ns, correction_ns)

    def _complete(self, pending: _Pending, t4_reference_ns: int, c2_ns: int) -> None:
        if pending.t1_reference_ns is None:
            return
        t1, t2, t3 = pending.t1_reference_ns, pending.t2_local_ns, pending.t3_local_ns
        exchange = estimate_offset(
            t1_reference_ns=t1,
            t2_local_ns=t2,
            t3_local_ns=t3,
            t4_reference_ns=t4_reference_ns,
            c1_ns=pending.c1_ns,
            c2_ns=c2_ns,
        )
        self._servo.path_delay(exchange.mean_path_delay_ns)
        row = np.zeros(1, dtype=EXCHANGE_DTYPE)[0]
        row["ptp_domain"] = self._domain
        row["time_transmitter_ip"] = self._transmitter.ip
        row["client_ip"] = self._host.ip
        row["sync_clock_identity"] = self._transmitter_identity
        row["sync_port_number"] = 1
        row["sync_sequence_id"] = pending.sync_sequence_id
        row["delay_req_clock_identity"] = self._identity
        row["delay_req_port_number"] = 1
        row["delay_req_sequence_id"] = pending.delay_req_sequence_id
        row["t1_reference_ns"] = t1
        row["t2_local_ns"] = t2
        row["t3_local_ns"] = t3
        row["t4_reference_ns"] = t4_reference_ns
        row["c1_ns"] = pending.c1_ns
        row["c2_ns"] = c2_ns
        self._on_exchange(self._host.name, row)

    def _steer(self, local_ns: int) -> None:
        """On a Follow_Up: offset from the Sync and the filtered path delay, as ptp4l does."""
        delay_ns = self._servo.filtered_delay_ns
        pending = self._pending
        if delay_ns is None or pending.t1_reference_ns is None:
            return
        there_ns = pending.t2_local_ns - pending.t1_reference_ns - pending.c1_ns
        offset_ns = there_ns - delay_ns
        adjustment = self._servo.sample(offset_ns, local_ns)
        if adjustment is None:
            return
        before_ns = self._node.phc.adjust(
            self._engine.now_ns,
            frequency_ppb=adjustment.frequency_ppb,
            step_ns=adjustment.step_ns,
        )
        self._on_adjust(self._host.name, before_ns, adjustment.step_ns, adjustment.frequency_ppb)


class PtpTransmitter:
    """The grandmaster: sends Sync and Follow_Up to each client, answers Delay_Req."""

    def __init__(
        self,
        engine: Engine,
        node: PtpNode,
        host: Host,
        clients: tuple[Host, ...],
        ptp: Ptp,
        *,
        dscp: int,
        interval_ns: int,
        until_ns: int,
        rng: np.random.Generator,
    ) -> None:
        self._engine = engine
        self._node = node
        self._domain = ptp.domain
        self._identity = clock_identity(host.mac)
        self._interval_ns = interval_ns
        self._until_ns = until_ns
        self._paths = (
            {EVERYBODY: ethernet_path(host)}
            if ptp.ethernet is EthernetPtp.TREE
            else {client.ip: udp_path(host, client, dscp) for client in clients}
        )
        self._sequence_ids = {ip: int(rng.integers(0, 1 << 16)) for ip in self._paths}
        node.handle(UDP_PORT_PTP_EVENT, self._on_event)
        node.handle(ETHER_TYPE_PTP, self._on_event)
        for ip in self._paths:
            first_ns = engine.now_ns + int(rng.integers(1_000_000, interval_ns))
            engine.at(first_ns, self._sync, ip)

    def stop(self) -> None:
        """Fall silent."""
        self._until_ns = -1

    def _sync(self, client_ip: int) -> None:
        now_ns = self._engine.now_ns
        if now_ns > self._until_ns:
            return
        sequence_id = (self._sequence_ids[client_ip] + 1) & 0xFFFF
        self._sequence_ids[client_ip] = sequence_id
        frame = ptp_sync(
            self._paths[client_ip],
            domain=self._domain,
            clock_identity=self._identity,
            port_number=1,
            sequence_id=sequence_id,
        )
        self._node.send(
            frame, lambda t1_ns: self._schedule_follow_up(client_ip, sequence_id, t1_ns)
        )
        self._engine.at(now_ns + self._interval_ns, self._sync, client_ip)

    def _schedule_follow_up(self, client_ip: int, sequence_id: int, t1_ns: int) -> None:
        frame = ptp_follow_up(
            self._paths[client_ip],
            domain=self._domain,
            clock_identity=self._identity,
            port_number=1,
            sequence_id=sequence_id,
            timestamp_ns=t1_ns,
        )
        self._engine.at(self._engine.now_ns + FOLLOW_UP_DELAY_NS, self._node.send, frame)

    def _on_event(self, frame: bytes, rx_local_ns: int) -> None:
        message = parse_ptp(frame)
        if self._until_ns < 0 or message.message_type != PtpMessageType.DELAY_REQ:
            return
        response = ptp_delay_resp(
            self._paths[parse_ptp_addresses(frame).src_ip],  # EVERYBODY over Ethernet: no address
            domain=self._domain,
            clock_identity=self._identity,
            port_number=1,
            sequence_id=message.sequence_id,
            timestamp_ns=rx_local_ns,
            requesting_clock_identity=message.clock_identity,
            requesting_port_number=message.port_number,
            correction_scaled_ns=message.correction_scaled_ns,
        )
        self._engine.at(self._engine.now_ns + DELAY_RESP_DELAY_NS, self._node.send, response)
