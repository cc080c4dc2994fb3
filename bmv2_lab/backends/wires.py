# SPDX-License-Identifier: Apache-2.0
"""The process that stands between the two ends of every cable and holds frames back.

Used where the kernel has no netem. Each direction has its own delay, counted from the kernel's
receive stamp, so that the time this process takes to wake up is part of the delay and not on top
of it, as long as it is shorter. Reads a pickled `WiresPlan` from standard input, says `ready`, and
ends when standard input does; its last line says how late it was.
"""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass

from bmv2_lab.backends.delay_line import DelayLine
from bmv2_lab.backends.namespaces import Namespace
from bmv2_lab.backends.packet_port import FRAMES_PER_TURN, PacketPort, open_ports
from bmv2_lab.backends.process import be_punctual, read_value
from bmv2_lab.backends.readable import readable

READY = "ready"
LATE_KEPT_MAX = 1_000_000
"""Frames whose lateness is told: the first ones; 8 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One direction of a cable: from the interface that receives to the one that sends."""

    receives: str
    sends: str
    delay_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WiresPlan:
    """All directions of all cables."""

    namespace: str
    """Path of the namespace with all of these interfaces."""
    directions: tuple[Direction, ...]


class Wires:
    """The forwarder's loop, one turn at a time."""

    def __init__(self, plan: WiresPlan) -> None:
        names = {name for one in plan.directions for name in (one.receives, one.sends)}
        ports = open_ports(Namespace.at(plan.namespace), names)
        self._lanes = {
            ports[one.receives]: (lane, one.delay_ns, ports[one.sends])
            for lane, one in enumerate(plan.directions)
        }
        self._late_ns: list[int] = []
        self._by_fd = {port.fileno(): port for port in self._lanes}
        self._line: DelayLine[tuple[PacketPort, bytes]] = DelayLine()

    def turn(self, stop_fd: int) -> bool:
        """Wait for frames or for the next due time, and handle both; False when input ended."""
        due_ns = self._line.due_ns()
        timeout_s = None
        if due_ns is not None:
            timeout_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
        ready = readable([stop_fd, *self._by_fd], timeout_s)
        self._release()
        if stop_fd in ready:
            return False
        for fd in ready:
            self._take_in(self._by_fd[fd])
        self._release()
        return True

    def last_words(self) -> str:
        """One line of JSON: how late every frame was handed on, and how many were lost."""
        lost = self._line.lost + sum(port.refused for port in self._lanes)
        return json.dumps({"late_ns": self._late_ns, "lost": lost})

    def _take_in(self, port: PacketPort) -> None:
        lane, delay_ns, sender = self._lanes[port]
        for _ in range(FRAMES_PER_TURN):
            received = port.receive()
            if received is None:
                return
            age_ns = max(0, time.time_ns() - received.stamp_ns)
            due_ns = time.monotonic_ns() - age_ns + delay_ns
            self._line.put(lane, due_ns, (sender, received.frame))

    def _release(self) -> None:
        now_ns = time.monotonic_ns()
        while (due := self._line.take(now_ns)) is not None:
            due_ns, (sender, frame) = due
            sender.send(frame)
            if len(self._late_ns) < LATE_KEPT_MAX:
                self._late_ns.append(now_ns - due_ns)
            now_ns = time.monotonic_ns()


def main() -> None:
    """Entry point of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan: WiresPlan = read_value()
    wires = Wires(plan)
    be_punctual()
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    stop_fd = sys.stdin.fileno()
    os.set_blocking(stop_fd, False)
    while wires.turn(stop_fd):
        pass
    sys.stdout.write(wires.last_words() + "\n")


if __name__ == "__main__":
    main()
