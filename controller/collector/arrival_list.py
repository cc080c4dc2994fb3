# SPDX-License-Identifier: Apache-2.0
"""Compiled: the list in which a worker writes sequence numbers down, see `arrivals`."""

from controller.collector.kernel import routine
from controller.collector.loads import get, put

COLUMNS = 3
"""Capture time, address of the sender's row, and what `arrival` gives for sender 0. The first row
of the list holds how many follow."""


@routine
def note(
    arrivals: int, sender: int, sequence_number: int, repeated: bool, captured_ns: int
) -> None:
    """Write one arrival down; there must be room."""
    count = get(arrivals, 0)
    place = COLUMNS * (count + 1)
    told = sequence_number
    if repeated:
        told |= 1 << 32
    put(arrivals, place, captured_ns)
    put(arrivals, place + 1, sender)
    put(arrivals, place + 2, told)
    put(arrivals, 0, count + 1)
