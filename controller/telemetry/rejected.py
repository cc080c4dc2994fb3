# SPDX-License-Identifier: Apache-2.0
"""The newest rejected reports of each node, kept to find out what their sender really speaks."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from controller.telemetry.codec import Buffer
from controller.telemetry.report_old import NEXT_DROP_V05, NEXT_LOCAL_V05

SAMPLES_PER_NODE = 16
"""Enough to tell a wrong profile from a damaged report now and then."""
SAMPLE_BYTES_MAX = 2048
"""A report of a truncated packet fits; longer ones are not kept: cut they would decode to nothing.
At most 32 KiB a node."""
UNKNOWN_SENDER = 0
"""In place of the node id where it is not one of the fabric's. No switch has the id 0."""

_NODE_START = 4
_NODE_START_V05 = 12


class RejectedSamples:
    """Rejected payloads by the node that they name; bounded by the number of nodes."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._node_ids = frozenset(node_ids)
        self._samples: dict[int, deque[bytes]] = {}

    def add(self, payload: Buffer) -> None:
        """Keep a rejected UDP payload; the oldest of its node goes."""
        if len(payload) > SAMPLE_BYTES_MAX:
            return
        node_id = named_node_id(payload)
        if node_id not in self._node_ids:
            node_id = UNKNOWN_SENDER
        samples = self._samples.get(node_id)
        if samples is None:
            samples = self._samples[node_id] = deque(maxlen=SAMPLES_PER_NODE)
        samples.append(bytes(payload))

    @property
    def samples(self) -> Mapping[int, Sequence[bytes]]:
        """The newest payloads by node id, UNKNOWN_SENDER for strangers; oldest first."""
        return {node_id: tuple(payloads) for node_id, payloads in self._samples.items()}


def named_node_id(payload: Buffer) -> int:
    """The node id where the payload's version has it; 0 where there is none.

    >>> named_node_id(bytes.fromhex("20000000 00000007")), named_node_id(b"")
    (7, 0)
    """
    start = _NODE_START
    if payload and payload[0] >> 4 == 0:
        if payload[0] & 0xF not in (NEXT_DROP_V05, NEXT_LOCAL_V05):
            return UNKNOWN_SENDER
        start = _NODE_START_V05
    return int.from_bytes(payload[start : start + 4], "big") if len(payload) >= start + 4 else 0
