# SPDX-License-Identifier: Apache-2.0
"""The numpy record types that pass between stages: hop records, path traces, exchanges, samples.

Every instant names its clock: `*_local_ns` is on the clock of the record's own node,
`*_reference_ns` on the reference time scale, `*_collector_ns` on the collector's clock.
All are int64 nanoseconds; `NO_TSTAMP_NS` marks a stamp that is not available (the wire's zero
or all-ones, INT v2.1 section 4.7) and must never reach an estimator.
"""

import numpy as np
from numpy.typing import NDArray

NO_TSTAMP_NS = -(2**63)
"""No stamp: decoded from zero or all-ones on the wire. Smallest int64, so no clock reads it."""

UNKNOWN_U32 = 2**32 - 1
"""A 32-bit quantity (queue depth, hop latency) that the node did not report."""

TRAFFIC_ROCE = 1
"""`traffic` of a RoCEv2 packet (UDP destination port 4791)."""
TRAFFIC_PTP = 2
"""`traffic` of a PTP event message, over UDP (destination port 319) or Ethernet."""
TRAFFIC_PROBE = 3
"""`traffic` of a link probe: three hops, out of one switch, back from its neighbour, and home."""

PACKET_DTYPE = np.dtype(
    [
        # One row per reported packet; its hops are hop[first_hop : first_hop + hop_count],
        # oldest (source) first.
        ("first_hop", np.int64),
        ("hop_count", np.int16),
        ("complete", np.bool_),  # source to sink with nothing missing in between
        ("traffic", np.uint8),  # TRAFFIC_*
        # IPv4 address of the packet, else the declared IPv4 address of the host that the packet's
        # IPv6 or MAC address belongs to, else 0
        ("src_ip", np.uint32),
        ("dst_ip", np.uint32),
        ("src_port", np.uint16),
        ("dst_port", np.uint16),
        ("dscp", np.uint8),  # the packet's own, marking removed
        ("wire_bytes", np.uint32),  # frame as it entered the fabric: no INT, with 4 bytes FCS
        # RoCEv2 (BTH); zero for PTP
        ("bth_opcode", np.uint8),
        ("dest_qp", np.uint32),
        ("psn", np.uint32),
        # PTP; zero for RoCEv2
        ("ptp_domain", np.uint8),
        ("ptp_message_type", np.uint8),  # 0 Sync, 1 Delay_Req
        ("ptp_clock_identity", np.uint64),  # sourcePortIdentity.clockIdentity
        ("ptp_port_number", np.uint16),  # sourcePortIdentity.portNumber
        ("ptp_sequence_id", np.uint16),
        ("capture_collector_ns", np.int64),  # arrival of the last report of this packet
    ]
)

HOP_DTYPE = np.dtype(
    [
        ("node_id", np.uint32),
        ("ingress_port", np.uint16),
        ("egress_port", np.uint16),
        ("queue_id", np.uint8),
        ("queue_depth", np.uint32),  # at dequeue, in the node's unit (packets here)
        ("ingress_tstamp_local_ns", np.int64),
        ("egress_tstamp_local_ns", np.int64),
        ("egress_bytes", np.uint32),  # frame on the egress link: with INT, with 4 bytes FCS
        ("ingress_bytes", np.uint32),  # frame on the ingress link: with INT, with 4 bytes FCS
    ]
)

EXCHANGE_DTYPE = np.dtype(
    [
        # One row per complete end-to-end exchange: a two-step Sync and a Delay_Req.
        ("client", np.int32),  # index of the client's clock in the fabric model
        ("ptp_domain", np.uint8),
        ("time_transmitter_ip", np.uint32),
        ("client_ip", np.uint32),
        ("sync_clock_identity", np.uint64),  # sourcePortIdentity of the Sync
        ("sync_port_number", np.uint16),
        ("sync_sequence_id", np.uint16),
        ("delay_req_clock_identity", np.uint64),  # sourcePortIdentity of the Delay_Req
        ("delay_req_port_number", np.uint16),
        ("delay_req_sequence_id", np.uint16),
        ("t1_reference_ns", np.int64),  # Sync leaves the time transmitter, its clock
        ("t2_local_ns", np.int64),  # Sync arrives, the client's clock
        ("t3_local_ns", np.int64),  # Delay_Req leaves, the client's clock
        ("t4_reference_ns", np.int64),  # Delay_Req arrives, the time transmitter's clock
        ("c1_ns", np.int64),  # correctionField total of Sync and Follow_Up
        ("c2_ns", np.int64),  # correctionField total of Delay_Req, echoed in Delay_Resp
    ]
)

LINK_SAMPLE_DTYPE = np.dtype(
    [
        # One row per packet and directed link: x = ingress at v - egress at u, two clocks.
        ("link", np.int32),  # index of the link in the fabric model
        ("reverse", np.bool_),  # False: a -> b as the model lists it; True: b -> a
        ("egress_local_ns", np.int64),  # on the clock of the sending end
        ("ingress_local_ns", np.int64),  # on the clock of the receiving end
        ("frame_bytes", np.uint32),  # on this link, with 4 bytes FCS
        ("queue_id", np.uint8),  # egress queue at the sending end
        ("capture_collector_ns", np.int64),
    ]
)

Packets = NDArray[np.void]
"""Array of `PACKET_DTYPE`."""
Hops = NDArray[np.void]
"""Array of `HOP_DTYPE`."""
Exchanges = NDArray[np.void]
"""Array of `EXCHANGE_DTYPE`."""
LinkSamples = NDArray[np.void]
"""Array of `LINK_SAMPLE_DTYPE`."""
