# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 reliable-connection transfers between hosts: SEND packets, acknowledged one by one.

The NIC stamps what it sends and receives with its PHC; the host adds software time before the first
packet and after the completion. Every received frame's ICRC is checked, so that a switch that
alters a byte which it must not alter is seen at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from bmv2_lab.simulator.dcqcn import CNP_INTERVAL_NS, Dcqcn
from bmv2_lab.simulator.egress_port import OVERHEAD_BYTES
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_node import HostNode
from controller.fabric import ROCE_UDP_PORT, Host
from controller.telemetry.codec import decode
from controller.telemetry.frames import (
    BthOpcode,
    RoceFlow,
    icrc_is_valid,
    roce_ack_frame,
    roce_cnp_frame,
    roce_frame,
)
from controller.telemetry.layout import BTH, ETHERNET, IPV4, UDP

HOST_POST_NS = (250, 600)
"""Software and doorbell time from posting to the NIC's first packet, uniform."""
HOST_COMPLETION_NS = (300, 900)
"""From the last packet's arrival (or its ACK's) to the application's completion, uniform."""
NIC_ACK_NS = 180
"""The responder NIC's turnaround of an acknowledgement."""
PSN_MASK = 0xFF_FFFF
TRAFFIC_CLASS_OFFSET = ETHERNET.byte_count + 1
"""DSCP and ECN of an untagged IPv4 frame."""
ECN_MASK = ECN_CE = 3
SPRAY_STEP = 0x9E5
"""From one packet's UDP source port to the next one's, modulo 2^14: odd, so that none comes twice
in 2^14 packets."""
BTH_OFFSET = ETHERNET.byte_count + IPV4.byte_count + UDP.byte_count


def flow_label(lqpn: int, rqpn: int) -> int:
    """20-bit flow label of a queue pair, as the kernel's `rdma_calc_flow_label` makes it."""
    value = lqpn * rqpn
    value ^= value >> 20
    value ^= value >> 40
    return value & 0xFFFFF


def udp_source_port(label: int) -> int:
    """RoCEv2 UDP source port of a flow label (`ibv_flow_label_to_udp_sport`): 49152..65535."""
    return ((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | 0xC000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """One direction's identity of a connected queue pair."""

    local: Host
    remote: Host
    local_qpn: int
    remote_qpn: int

    @property
    def udp_source_port(self) -> int:
        """The product of the two numbers is symmetric, so both directions use the same port."""
        return udp_source_port(flow_label(self.local_qpn, self.remote_qpn))


@dataclass(slots=True, kw_only=True)
class Transfer:
    """One message from post to completion; stamps on the PHC of the host they are taken at.

    NICs take packets in any order (selective repeat), so spraying and loss need nothing else.
    """

    qp: QueuePair
    psn_first: int
    psn_last: int
    bytes: int
    post_local_ns: int = 0
    tx_first_local_ns: int = 0
    tx_last_local_ns: int = 0
    rx_first_local_ns: int = 0
    rx_last_local_ns: int = 0
    received_local_ns: int = 0
    """The receiver's application has it."""
    acknowledged_local_ns: int = 0
    """The sender's application knows."""
    sender_stall_ns: int = 0
    """Injected fault: extra software time before the first packet."""
    receiver_stall_ns: int = 0
    """Injected fault: extra software time after the last packet."""
    done: bool = False
    overtaken: bool = False
    """Packets of it were overtaken by its last one."""
    unreceived: set[int] = field(default_factory=set)
    """Packet sequence numbers that the receiver waits for."""
    unacknowledged: set[int] = field(default_factory=set)
    """Those that the sender waits to be acknowledged."""
    on_post: Callable[[], None] | None = None
    on_received: Callable[["Transfer"], None] | None = None
    on_done: Callable[["Transfer"], None] | None = None

    @property
    def packets(self) -> int:
        """How many packets it has."""
        return ((self.psn_last - self.psn_first) & PSN_MASK) + 1


@dataclass(slots=True, kw_only=True)
class RdmaCounters:
    """What the NICs saw."""

    data_frames: int = 0
    ack_frames: int = 0
    icrc_errors: int = 0
    unexpected: int = 0
    repeated: int = 0
    """Data frames that had arrived before; acknowledged again."""
    retransmitted: int = 0
    """Data frames sent again because no acknowledgement came."""
    congestion_notifications: int = 0
    """CNPs received."""
    congestion_marks: int = 0
    """Data frames that came marked Congestion Experienced."""


class RdmaHost:
    """The RoCEv2 side of one host."""

    def __init__(
        self,
        engine: Engine,
        node: HostNode,
        *,
        dscp: int,
        rng: np.random.Generator,
        retransmit_ns: int | None = None,
        spraying: bool = False,
        line_rate_bps: int | None = None,
        cnp_dscp: int = 0,
    ) -> None:
        """retransmit_ns: what is not acknowledged after this is sent again; None: never.
        spraying: each data packet has a UDP source port, and so a path, of its own.
        line_rate_bps: of the NIC whose queue pairs are under DCQCN; None: they are not."""
        self.node = node
        self.counters = RdmaCounters()
        self._engine = engine
        self._dscp = dscp
        self._rng = rng
        self._retransmit_ns = retransmit_ns
        self._spraying = spraying
        self._line_rate_bps = line_rate_bps
        self._cnp_dscp = cnp_dscp
        self.rates: dict[int, Dcqcn] = {}
        """By local queue pair, where DCQCN is on."""
        self._cnp_sent_ns: dict[tuple[int, int], int] = {}
        self._psn_next: dict[int, int] = {}
        self._flows: dict[tuple[int, int], RoceFlow] = {}
        self._sending: dict[tuple[int, int], Transfer] = {}
        self._receiving: dict[tuple[int, int], Transfer] = {}
        node.handle(ROCE_UDP_PORT, self._on_frame)

    def new_transfer(self, qp: QueuePair, packets: int, payload_bytes: int) -> Transfer:
        """The next message on a queue pair: reserves its packet sequence numbers."""
        first = self._psn_next.setdefault(qp.local_qpn, int(self._rng.integers(0, 1 << 24)))
        last = (first + packets - 1) & PSN_MASK
        self._psn_next[qp.local_qpn] = (last + 1) & PSN_MASK
        numbers = {(first + index) & PSN_MASK for index in range(packets)}
        return Transfer(
            qp=qp,
            psn_first=first,
            psn_last=last,
            bytes=packets * payload_bytes,
            unreceived=numbers,
            unacknowledged=set(numbers),
        )

    def expect(self, transfer: Transfer) -> None:
        """The receiving side of a transfer (its receive is posted)."""
        for psn in transfer.unreceived:
            self._receiving[transfer.qp.remote_qpn, psn] = transfer

    def post(self, transfer: Transfer) -> None:
        """The application posts the message now."""
        now_ns = self._engine.now_ns
        transfer.post_local_ns = self.node.stamp_ns(now_ns)
        if transfer.on_post is not None:
            transfer.on_post()
        for psn in transfer.unacknowledged:
            self._sending[transfer.qp.local_qpn, psn] = transfer
        wait_ns = int(self._rng.integers(*HOST_POST_NS)) + transfer.sender_stall_ns
        self._engine.at(now_ns + wait_ns, self._transmit, transfer)

    def _transmit(self, transfer: Transfer) -> None:
        """Send all packets of the message that are not acknowledged."""
        if self._line_rate_bps is None:
            for index in range(transfer.packets):
                self._send_packet(transfer, index)
        else:
            self._send_paced(transfer, 0)
        if self._retransmit_ns is not None:
            self._engine.at(self._engine.now_ns + self._retransmit_ns, self._repeat, transfer)

    def _send_paced(self, transfer: Transfer, index: int) -> None:
        """Send one packet, and the next when the queue pair's rate allows."""
        assert self._line_rate_bps is not None
        self._send_packet(transfer, index)
        if index + 1 < transfer.packets:
            rate = self.rates.setdefault(transfer.qp.local_qpn, Dcqcn())
            rate.advance(self._engine.now_ns)
            bits = (transfer.bytes // transfer.packets + OVERHEAD_BYTES) * 8
            gap_ns = round(bits * 1e9 / (self._line_rate_bps * rate.rate_share))
            self._engine.at(self._engine.now_ns + gap_ns, self._send_paced, transfer, index + 1)

    def _send_packet(self, transfer: Transfer, index: int) -> None:
        psn = (transfer.psn_first + index) & PSN_MASK
        if psn not in transfer.unacknowledged:
            return
        frame = roce_frame(
            self._sprayed(transfer.qp, psn) if self._spraying else self._flow(transfer.qp),
            opcode=_opcode(index, transfer.packets),
            psn=psn,
            ack_request=True,
            payload=bytes([transfer.psn_first & 0xFF]) * (transfer.bytes // transfer.packets),
        )
        self.node.send(frame, partial(_sent, transfer, index, transfer.packets))

    def _repeat(self, transfer: Transfer) -> None:
        if transfer.unacknowledged:
            self.counters.retransmitted += len(transfer.unacknowledged)
            self._transmit(transfer)

    def _sprayed(self, qp: QueuePair, psn: int) -> RoceFlow:
        port = 0xC000 | (qp.udp_source_port + psn * SPRAY_STEP) & 0x3FFF
        return replace(self._flow(qp), src_port=port)

    def _flow(self, qp: QueuePair) -> RoceFlow:
        key = (qp.local_qpn, qp.remote_qpn)
        if key not in self._flows:
            self._flows[key] = RoceFlow(
                src_mac=qp.local.mac,
                dst_mac=qp.remote.mac,
                src_ip=qp.local.ip,
                dst_ip=qp.remote.ip,
                src_port=qp.udp_source_port,
                dest_qp=qp.remote_qpn,
                dscp=self._dscp,
            )
        return self._flows[key]

    def _on_frame(self, frame: bytes, rx_local_ns: int) -> None:
        if not icrc_is_valid(frame):
            self.counters.icrc_errors += 1
            return
        bth = decode(BTH, frame, BTH_OFFSET)
        if bth.opcode == BthOpcode.ACKNOWLEDGE:
            self._on_ack(bth.dest_qp, bth.psn)
        elif bth.opcode == BthOpcode.CNP:
            self.counters.congestion_notifications += 1
            if bth.dest_qp in self.rates:
                self.rates[bth.dest_qp].on_cnp(self._engine.now_ns)
        else:
            marked = frame[TRAFFIC_CLASS_OFFSET] & ECN_MASK == ECN_CE
            self.counters.congestion_marks += marked
            self._on_data(bth.dest_qp, bth.psn, rx_local_ns, marked=marked)

    def _on_data(self, dest_qp: int, psn: int, rx_local_ns: int, *, marked: bool) -> None:
        self.counters.data_frames += 1
        transfer = self._receiving.get((dest_qp, psn))
        if transfer is None:
            self.counters.unexpected += 1
            return
        now_ns = self._engine.now_ns
        if psn not in transfer.unreceived:
            self.counters.repeated += 1
        else:
            transfer.unreceived.discard(psn)
            if not transfer.rx_first_local_ns:
                transfer.rx_first_local_ns = rx_local_ns
            if psn == transfer.psn_last and transfer.unreceived:
                transfer.overtaken = True
            if not transfer.unreceived:
                transfer.rx_last_local_ns = rx_local_ns
                wait_ns = int(self._rng.integers(*HOST_COMPLETION_NS)) + transfer.receiver_stall_ns
                self._engine.at(now_ns + wait_ns, self._received, transfer)
        reverse = QueuePair(
            local=transfer.qp.remote,
            remote=transfer.qp.local,
            local_qpn=transfer.qp.remote_qpn,
            remote_qpn=transfer.qp.local_qpn,
        )
        if marked and self._line_rate_bps is not None:
            self._notify(reverse)
        ack = roce_ack_frame(self._flow(reverse), psn=psn, msn=self.counters.data_frames)
        self._engine.at(now_ns + NIC_ACK_NS, self.node.send, ack)

    def _notify(self, reverse: QueuePair) -> None:
        """DCQCN's notification point: a CNP for a marked packet, not too many."""
        key, now_ns = (reverse.local_qpn, reverse.remote_qpn), self._engine.now_ns
        if now_ns - self._cnp_sent_ns.get(key, -CNP_INTERVAL_NS) < CNP_INTERVAL_NS:
            return
        self._cnp_sent_ns[key] = now_ns
        cnp = roce_cnp_frame(replace(self._flow(reverse), dscp=self._cnp_dscp))
        self._engine.at(now_ns + NIC_ACK_NS, self.node.send, cnp)

    def _received(self, transfer: Transfer) -> None:
        transfer.received_local_ns = self.node.stamp_ns(self._engine.now_ns)
        if transfer.on_received is not None:
            transfer.on_received(transfer)

    def _on_ack(self, dest_qp: int, psn: int) -> None:
        self.counters.ack_frames += 1
        transfer = self._sending.pop((dest_qp, psn), None)
        if transfer is None:
            return
        transfer.unacknowledged.discard(psn)
        if not transfer.unacknowledged:
            wait_ns = int(self._rng.integers(*HOST_COMPLETION_NS))
            self._engine.at(self._engine.now_ns + wait_ns, self._acknowledged, transfer)

    def _acknowledged(self, transfer: Transfer) -> None:
        transfer.acknowledged_local_ns = self.node.stamp_ns(self._engine.now_ns)
        transfer.done = True
        if transfer.on_done is not None:
            transfer.on_done(transfer)


def _opcode(index: int, packets: int) -> BthOpcode:
    if packets == 1:
        return BthOpcode.SEND_ONLY
    if index == 0:
        return BthOpcode.SEND_FIRST
    return BthOpcode.SEND_LAST if index == packets - 1 else BthOpcode.SEND_MIDDLE


def _sent(transfer: Transfer, index: int, packets: int, tx_local_ns: int) -> None:
    if not transfer.tx_first_local_ns:
        transfer.tx_first_local_ns = tx_local_ns
    if index == packets - 1 or transfer.tx_last_local_ns:  # or sent again
        transfer.tx_last_local_ns = tx_local_ns
