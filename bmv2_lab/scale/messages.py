# SPDX-License-Identifier: Apache-2.0
"""One step's RDMA messages: which packets are simulated, what became of them, transfers.

Telemetry samples packets by the low bits of their PSN; those are simulated, with their ACKs, and
besides them each message's first and last packet, whose stamps the spans need. The rest of a
message only takes up time at its NIC and work at the ports.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.clocks import SteeredPhcs
from bmv2_lab.scale.flows import Flows
from bmv2_lab.scale.ports import send_in_order
from bmv2_lab.scale.settings import ScaleSettings
from bmv2_lab.scale.transit import Batch, Network, Transit, TransitFault
from bmv2_lab.simulator.rdma import HOST_COMPLETION_NS, HOST_POST_NS, NIC_ACK_NS, PSN_MASK
from controller.fabric import ROCE_UDP_PORT
from controller.telemetry.frames import BthOpcode

ROCE_HEADER_BYTES = 14 + 20 + 8 + 12 + 4 + 4
"""Ethernet, IPv4, UDP, BTH, ICRC, FCS."""
ACK_WIRE_BYTES = ROCE_HEADER_BYTES + 4
"""With AETH."""
ROCE_QUEUE = 1
ROCE_DSCP = 26

TRANSFER_DTYPE = np.dtype(
    [
        # One row per message; stamps on the PHC of the NIC they are taken at.
        ("job", np.int32),
        ("step", np.int32),
        ("flow", np.int32),  # index of the directed queue pair
        ("src_clock", np.int32),  # clock of the sending NIC
        ("dst_clock", np.int32),
        ("src_port", np.uint16),
        ("local_qpn", np.uint32),
        ("dest_qp", np.uint32),
        ("psn_first", np.uint32),
        ("psn_last", np.uint32),
        ("bytes", np.uint32),
        ("post_local_ns", np.int64),  # sender: start of rdma.send
        ("tx_first_local_ns", np.int64),
        ("tx_last_local_ns", np.int64),
        ("acknowledged_local_ns", np.int64),  # sender: end of rdma.send
        ("rx_first_local_ns", np.int64),  # receiver: start of rdma.recv
        ("rx_last_local_ns", np.int64),
        ("received_local_ns", np.int64),  # receiver: end of rdma.recv
    ]
)

Int64s = NDArray[np.int64]
Transfers = NDArray[np.void]
"""Array of `TRANSFER_DTYPE`."""


@dataclass(slots=True, kw_only=True)
class Messages:
    """Messages posted in one chunk of one step."""

    flow: Int64s
    step: int
    post_ns: Int64s
    """True time."""
    post_stall_ns: Int64s = field(init=False)
    """Extra software time before the first packet, at the sender."""
    completion_stall_ns: Int64s = field(init=False)
    """Likewise after the last packet, at the receiver."""
    acknowledge_stall_ns: Int64s = field(init=False)
    """Likewise after the last acknowledgement, at the sender."""

    def __post_init__(self) -> None:
        """No stalls to begin with."""
        self.post_stall_ns, self.completion_stall_ns, self.acknowledge_stall_ns = np.zeros(
            (3, len(self.flow)), np.int64
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenFault:
    """A fault on the way of one message of a chunk."""

    message: int
    hop: int
    extra_ns: int
    on_link: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What became of a chunk's messages."""

    data: Batch
    data_transit: Transit
    data_psn: Int64s
    data_opcode: Int64s
    data_qp: Int64s
    acks: Batch
    """One per data packet, in the same order and with the same PSN."""
    ack_transit: Transit
    ack_qp: Int64s
    transfers: Transfers
    first_packet: Int64s
    """[message]: row of its first packet."""
    acknowledged_ns: Int64s
    """[message]: true time at which the sender's application knows."""


def carry_messages(
    settings: ScaleSettings,
    flows: Flows,
    messages: Messages,
    network: Network,
    phcs: SteeredPhcs,
    rng: np.random.Generator,
    faults: Sequence[ChosenFault] = (),
) -> Carried:
    """Send a chunk of messages and their acknowledgements."""
    flow, count = messages.flow, len(messages.flow)
    packets = settings.packets_per_message
    psn_first = (flows.psn_first[flow] + messages.step * packets) & PSN_MASK
    message, index = simulated_packets(psn_first, packets, settings.sample_psn_bits)
    psn = (psn_first[message] + index) & PSN_MASK
    sampled = (psn & ((1 << settings.sample_psn_bits) - 1)) == 0
    first = np.searchsorted(message, np.arange(count))
    last = np.r_[first[1:], len(message)] - 1

    payload_bytes = settings.payload_bytes + -settings.payload_bytes % 4
    wire_bytes = np.full(len(message), ROCE_HEADER_BYTES + payload_bytes, np.int64)
    frame_ns = network.frame_work_ns(wire_bytes[:1])[0]
    posted = messages.post_ns + rng.integers(*HOST_POST_NS, count)
    posted += messages.post_stall_ns
    start_ns = send_in_order(flows.src_nic[flow], posted, np.full(count, packets * frame_ns))
    data = Batch(
        src_nic=flows.src_nic[flow][message],
        dst_nic=flows.dst_nic[flow][message],
        src_port=flows.src_port[flow][message],
        dst_port=np.full(len(message), ROCE_UDP_PORT, np.int64),
        ready_ns=start_ns[message] + index * frame_ns,
        wire_bytes=wire_bytes,
        instrumented=sampled,
        queue_id=ROCE_QUEUE,
        message=message,
        skipped_frames=np.where(index > 0, np.diff(index, prepend=0) - 1, 0),
        stream_of_message=True,
    )
    transit = network.carry(
        data,
        rng,
        tuple(
            TransitFault(
                row=int(first[fault.message]),
                hop=fault.hop,
                extra_ns=fault.extra_ns,
                on_link=fault.on_link,
            )
            for fault in faults
        ),
    )
    acks = Batch(
        src_nic=data.dst_nic,
        dst_nic=data.src_nic,
        src_port=data.src_port,
        dst_port=data.dst_port,
        ready_ns=transit.received_ns + NIC_ACK_NS,
        wire_bytes=np.full(len(message), ACK_WIRE_BYTES, np.int64),
        instrumented=sampled,
        queue_id=ROCE_QUEUE,
        message=message,
        skipped_frames=np.zeros(len(message), np.int64),
    )
    ack_transit = network.carry(acks, rng)
    received_ns = transit.received_ns[last] + rng.integers(*HOST_COMPLETION_NS, count)
    received_ns += messages.completion_stall_ns
    acknowledged_ns = ack_transit.received_ns[last] + rng.integers(*HOST_COMPLETION_NS, count)
    acknowledged_ns += messages.acknowledge_stall_ns

    transfers = np.zeros(count, TRANSFER_DTYPE)
    src, dst = flows.src_nic[flow], flows.dst_nic[flow]
    transfers["job"], transfers["step"], transfers["flow"] = flows.job[flow], messages.step, flow
    transfers["src_clock"], transfers["dst_clock"] = src, dst
    transfers["src_port"] = flows.src_port[flow]
    transfers["local_qpn"], transfers["dest_qp"] = flows.local_qpn[flow], flows.remote_qpn[flow]
    transfers["psn_first"] = psn_first
    transfers["psn_last"] = (psn_first + packets - 1) & PSN_MASK
    transfers["bytes"] = packets * settings.payload_bytes
    for name, nic, true_ns in (
        ("post", src, messages.post_ns),
        ("tx_first", src, transit.sent_ns[first]),
        ("tx_last", src, transit.sent_ns[last]),
        ("acknowledged", src, acknowledged_ns),
        ("rx_first", dst, transit.received_ns[first]),
        ("rx_last", dst, transit.received_ns[last]),
        ("received", dst, received_ns),
    ):
        transfers[f"{name}_local_ns"] = phcs.read_ns(nic, true_ns)
    return Carried(
        data=data,
        data_transit=transit,
        data_psn=psn,
        data_opcode=opcodes(index, packets),
        data_qp=flows.remote_qpn[flow][message],
        acks=acks,
        ack_transit=ack_transit,
        ack_qp=flows.local_qpn[flow][message],
        transfers=transfers,
        first_packet=first,
        acknowledged_ns=acknowledged_ns,
    )


def simulated_packets(psn_first: Int64s, packets: int, sample_bits: int) -> tuple[Int64s, Int64s]:
    """Message and index within it of every packet to simulate: sampled, first and last ones.

    >>> message, index = simulated_packets(np.array([6]), 8, 2)  # PSN 6 to 13: 8 and 12 sampled
    >>> index.tolist()
    [0, 2, 6, 7]
    """
    step = 1 << sample_bits
    offset = -psn_first % step
    number = np.maximum(0, (packets - offset + step - 1) // step)
    message = np.repeat(np.arange(len(psn_first)), number)
    within = np.arange(len(message)) - np.repeat(np.cumsum(number) - number, number)
    index = offset[message] + within * step
    every = np.arange(len(psn_first))
    ends = np.concatenate([every * packets, every * packets + packets - 1])
    place = np.unique(np.concatenate([message * packets + index, ends]))
    return place // packets, place % packets


def opcodes(index: Int64s, packets: int) -> Int64s:
    """BTH opcodes of a SEND's packets."""
    if packets == 1:
        return np.full(len(index), int(BthOpcode.SEND_ONLY), np.int64)
    opcode = np.full(len(index), int(BthOpcode.SEND_MIDDLE), np.int64)
    opcode[index == 0] = int(BthOpcode.SEND_FIRST)
    opcode[index == packets - 1] = int(BthOpcode.SEND_LAST)
    return opcode
