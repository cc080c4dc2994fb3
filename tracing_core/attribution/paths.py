# SPDX-License-Identifier: Apache-2.0
"""Finds, for each transfer, the reported packet whose hops tell where its time went.

The packet is the last one of the message that was reported source to sink: the message is
complete when its last packet is, so what delayed that one delayed the transfer. Packets are
matched on (src_ip, dst_ip, src_port, dest_qp, PSN range); a PSN that was used more than once is
told apart by the transfer's time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.records import NO_TSTAMP_NS, Hops, Packets
from tracing_core.attribution.transfers import PSN_MODULUS, Transfers

OPCODE_ACK = 0x11
"""BTH opcode of an RC acknowledgement, which carries no message data."""
NO_PACKET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedPackets:
    """Per transfer, the packet that stands for it."""

    packet: NDArray[np.int64]
    """Index into the packets, NO_PACKET where none was reported completely."""
    behind_last: NDArray[np.int64]
    """How many packets before the message's last one it is; 0: it is the last one."""
    copies: NDArray[np.int64]
    """Reports of the message's packets beyond one per PSN: retransmissions."""


def usable_packets(packets: Packets, hops: Hops) -> NDArray[np.bool_]:
    """Data packets with a hop at least, none missing and every stamp there."""
    usable: NDArray[np.bool_] = (
        packets["complete"] & (packets["hop_count"] > 0) & (packets["bth_opcode"] != OPCODE_ACK)
    )
    if len(hops):
        missing = (hops["ingress_tstamp_local_ns"] == NO_TSTAMP_NS) | (
            hops["egress_tstamp_local_ns"] == NO_TSTAMP_NS
        )
        before = np.concatenate([[0], np.cumsum(missing)])
        first = packets["first_hop"]
        last = first + packets["hop_count"]
        usable &= before[last] == before[first]
    return usable


def match_packets(
    transfers: Transfers,
    packets: Packets,
    usable: NDArray[np.bool_],
    sent_reference_ns: NDArray[np.int64],
    *,
    window_reference_ns: tuple[NDArray[np.int64], NDArray[np.int64]],
    slack_ns: int,
) -> MatchedPackets:
    """Matches all transfers.

    `sent_reference_ns` is each packet's first ingress on the reference scale (NO_TSTAMP_NS where
    unknown, then time does not exclude it); the window is each transfer's, widened by `slack_ns`.
    """
    count = len(transfers)
    chosen = np.full(count, NO_PACKET, np.int64)
    behind = np.zeros(count, np.int64)
    copies = np.zeros(count, np.int64)
    flows = _Flows(packets, np.flatnonzero(usable))
    for row in range(count):
        flow = flows.of(transfers, row)
        if flow is None:
            continue
        indices, psn = flow
        first = int(transfers.psn_first[row])
        length = (int(transfers.psn_last[row]) - first) % PSN_MODULUS
        position = (psn - first) % PSN_MODULUS
        near = position <= length
        sent_ns = sent_reference_ns[indices]
        near &= (sent_ns == NO_TSTAMP_NS) | (
            (sent_ns >= window_reference_ns[0][row] - slack_ns)
            & (sent_ns <= window_reference_ns[1][row] + slack_ns)
        )
        if not near.any():
            continue
        candidates, position, sent_ns = indices[near], position[near], sent_ns[near]
        best = np.lexsort((sent_ns, position))[-1]  # the last PSN, and its last copy
        chosen[row] = candidates[best]
        behind[row] = length - int(position[best])
        copies[row] = len(position) - len(np.unique(position))
    return MatchedPackets(packet=chosen, behind_last=behind, copies=copies)


class _Flows:
    """Usable packets grouped by flow."""

    def __init__(self, packets: Packets, usable: NDArray[np.int64]) -> None:
        self._groups: dict[tuple[int, int, int, int], NDArray[np.int64]] = {}
        self._psn = packets["psn"].astype(np.int64)
        if len(usable) == 0:
            return
        fields = [
            packets[name][usable].astype(np.int64)
            for name in ("src_ip", "dst_ip", "src_port", "dest_qp")
        ]
        order = np.lexsort(fields)
        keys = np.stack([field[order] for field in fields], axis=1)
        starts = np.flatnonzero(np.any(keys[1:] != keys[:-1], axis=1)) + 1
        for part, first in zip(np.split(usable[order], starts), [0, *starts.tolist()], strict=True):
            src_ip, dst_ip, src_port, dest_qp = keys[first].tolist()
            self._groups[src_ip, dst_ip, src_port, dest_qp] = part

    def of(
        self, transfers: Transfers, row: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Packets of the transfer's flow and their PSNs."""
        key = (
            int(transfers.src_ip[row]),
            int(transfers.dst_ip[row]),
            int(transfers.src_port[row]),
            int(transfers.dest_qp[row]),
        )
        group = self._groups.get(key)
        return None if group is None else (group, self._psn[group])
