# SPDX-License-Identifier: Apache-2.0
"""Embedded switches with cables between them and no time: a frame that is sent has arrived.

For trying a controller on: packets from it and to it, LLDP, probes. There are no queues and no
clocks here; the virtual fabric has those (`simulator`).
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted
from controller.fabric import LinkEnd

FRAMES_MAX = 10_000
"""Hops that one frame and all its copies may cause: routes that loop must not last for ever."""


class CabledSwitches:
    """Carries frames between switches.

    switches, cables: may change at any time. cables: where a frame that leaves a port arrives; a
    cable that works both ways is two entries.
    """

    def __init__(
        self,
        switches: Mapping[str, EmbeddedSwitch],
        cables: Mapping[LinkEnd, LinkEnd],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.switches = dict(switches)
        self.cables = dict(cables)
        self.on_uncabled: Callable[[LinkEnd, bytes], None] = lambda _port, _frame: None
        """A frame leaves a port without a cable: a report to a collector out of band, say."""
        self._clock_ns = clock_ns
        for name, switch in self.switches.items():
            self.attach(name, switch)

    def attach(self, name: str, switch: EmbeddedSwitch) -> None:
        """The switch of that name is this one from now on."""
        self.switches[name] = switch
        switch.on_packet_out = partial(self._packet_out, name)

    def arrive(self, port: LinkEnd, frame: bytes) -> None:
        """A frame comes in on a switch port, and all that it causes happens."""
        waiting = deque([(port, frame)])
        for _ in range(FRAMES_MAX):
            if not waiting:
                return
            at, frame = waiting.popleft()
            for left_by, one in self._pass(at, frame):
                arrives_at = self.cables.get(left_by)
                if arrives_at is None:
                    self.on_uncabled(left_by, one)
                elif arrives_at.node in self.switches:
                    waiting.append((arrives_at, one))

    def _packet_out(self, name: str, frame: bytes) -> None:
        self.arrive(LinkEnd(node=name, port=self.switches[name].cpu_port), frame)

    def _pass(self, at: LinkEnd, frame: bytes) -> list[tuple[LinkEnd, bytes]]:
        """What leaves the switch because of a frame, and where."""
        switch = self.switches[at.node]
        stamp = self._clock_ns() // switch.stamp_unit_ns
        copies: deque[EgressCopy] = deque(switch.ingress(frame, at.port, stamp))
        left = []
        while copies:
            for output in switch.egress(
                copies.popleft(),
                enq_timestamp=stamp,
                enq_qdepth=0,
                deq_timedelta=0,
                deq_qdepth=0,
                egress_tstamp=stamp,
            ):
                if isinstance(output, Emitted):
                    left.append((LinkEnd(node=at.node, port=output.port), output.frame))
                else:
                    copies.append(output)
        return left
