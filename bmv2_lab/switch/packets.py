# SPDX-License-Identifier: Apache-2.0
"""What leaves the two halves of the switch."""

from typing import NamedTuple, Protocol


class EgressCopy:
    """One packet at the traffic manager, waiting for its queue; use each copy once.

    `packet_bytes_len` is its length in bytes as queued; headers that egress adds or removes come
    later. `state` is private to the switch.
    """

    __slots__ = ("egress_port", "packet_bytes_len", "queue_id", "state")

    def __init__(
        self, egress_port: int, queue_id: int, packet_bytes_len: int, state: list[object]
    ) -> None:
        self.egress_port = egress_port
        self.queue_id = queue_id
        self.packet_bytes_len = packet_bytes_len
        self.state = state

    def __repr__(self) -> str:
        return (
            f"EgressCopy(egress_port={self.egress_port}, queue_id={self.queue_id}, "
            f"packet_bytes_len={self.packet_bytes_len})"
        )


class Emitted(NamedTuple):
    """A frame that leaves the switch on a port."""

    port: int
    frame: bytes


Output = Emitted | EgressCopy


class IngressHalf(Protocol):
    """Parse and run ingress; the copies that arrive at the traffic manager, clones first."""

    def __call__(self, frame: bytes, port: int, ingress_tstamp: int) -> list[EgressCopy]: ...


class EgressHalf(Protocol):
    """Run egress and deparse; frames that leave, and further copies for the queues.

    A copy that was queued before another program was loaded is dropped.
    """

    def __call__(
        self,
        copy: EgressCopy,
        *,
        enq_timestamp: int,
        enq_qdepth: int,
        deq_timedelta: int,
        deq_qdepth: int,
        egress_tstamp: int,
    ) -> list[Output]: ...
