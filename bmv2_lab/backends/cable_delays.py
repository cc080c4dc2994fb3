# SPDX-License-Identifier: Apache-2.0
"""What holds frames back between the two sides of every cable: netem, or our own forwarder.

With netem, what one side of a cable receives is copied to the other side's queueing discipline,
which delays it. Two things matter for software stamps. The delay must not stand at a host's own
interface, where it would come before the transmit stamp. And the frame must be copied (mirror; not
redirect, not a bridge): a frame that is passed on still belongs to its sender's socket, so the next
interface stamps it again, and ptp4l takes a second stamp for a fault.
A kernel without netem has the forwarder of `wires.py`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bmv2_lab.backends.namespaces import Namespace
from bmv2_lab.backends.needs import BackendError, find_program
from bmv2_lab.backends.network import Cable, Network
from bmv2_lab.backends.process import Child
from bmv2_lab.backends.wires import READY, Direction, WiresPlan
from bmv2_lab.truth import TrueLink

NETEM_FRAMES_MAX = 100_000
"""Frames that netem holds at once; its default of 1000 would lose some at 5 ms and 1 Gb/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireStatistics:
    """How exact the forwarder was; ns after the instant at which a frame was due."""

    frames: int
    lost: int
    late_ns_p50: int
    late_ns_p99: int
    late_ns_max: int


class CableDelays(Protocol):
    """Cables at work."""

    @property
    def method(self) -> str:
        """`netem` or `forwarder`."""

    def check(self) -> None:
        """BackendError if they work no more."""

    def finish(self) -> WireStatistics | None:
        """End; None where the kernel does not tell."""

    def close(self) -> None:
        """End, whatever happened."""


class Forwarder:
    """Our own process."""

    method = "forwarder"

    def __init__(self, network: Network, links: Sequence[TrueLink]) -> None:
        self._child = Child(
            "bmv2_lab.backends.wires",
            WiresPlan(
                directions=directions(network.interfaces.cables, links),
                namespace=network.namespace.path,
            ),
        )
        if self._child.line() != READY:
            self.close()
            raise BackendError("the forwarder did not start")

    def check(self) -> None:
        """BackendError if the process has ended."""
        self._child.check()

    def finish(self) -> WireStatistics:
        """End it; its last words are how late its frames were."""
        self._child.end_input()
        told = json.loads(self._child.line())
        late_ns = np.array(told["late_ns"] or [0], np.int64)
        p50, p99 = np.percentile(late_ns, (50, 99)).tolist()
        return WireStatistics(
            frames=len(told["late_ns"]),
            lost=told["lost"],
            late_ns_p50=round(p50),
            late_ns_p99=round(p99),
            late_ns_max=int(late_ns.max()),
        )

    def close(self) -> None:
        """End it."""
        self._child.close()


class Netem:
    """The kernel's."""

    method = "netem"

    def __init__(self, network: Network, links: Sequence[TrueLink]) -> None:
        lines = netem_commands(network.interfaces.cables, links)
        network.namespace.command("tc", "-batch", "-", stdin="\n".join(lines) + "\n")

    def check(self) -> None:
        """The kernel does not stop."""

    def finish(self) -> None:
        """Nothing is told."""

    def close(self) -> None:
        """Everything goes with its namespace."""


def start_cables(network: Network, links: Sequence[TrueLink]) -> CableDelays:
    """Have every cable delay frames, with netem where the kernel has it."""
    if kernel_has_netem():
        return Netem(network, links)
    return Forwarder(network, links)


def kernel_has_netem() -> bool:
    """Whether the kernel can do it all; tried in a namespace of its own."""
    if find_program("tc") is None:
        return False
    scratch = Namespace.create()
    try:
        for name, peer in (("a", "x"), ("b", "y")):
            scratch.command("ip", "link", "add", "name", name, "type", "veth", "peer", "name", peer)
        one = Direction(receives="a", sends="b", delay_ns=1_000_000)
        scratch.command("tc", "-batch", "-", stdin="\n".join(_delay_commands(one)) + "\n")
    except BackendError:
        return False
    else:
        return True
    finally:
        scratch.close()


def directions(cables: Sequence[Cable], links: Sequence[TrueLink]) -> tuple[Direction, ...]:
    """Both directions of every cable with their true delays."""
    result = []
    for cable, link in zip(cables, links, strict=True):
        result += [
            Direction(receives=cable.wire_a, sends=cable.wire_b, delay_ns=link.a_to_b_ns),
            Direction(receives=cable.wire_b, sends=cable.wire_a, delay_ns=link.b_to_a_ns),
        ]
    return tuple(result)


def netem_commands(cables: Sequence[Cable], links: Sequence[TrueLink]) -> list[str]:
    """Lines for `tc -batch`: both directions of all cables."""
    return [line for one in directions(cables, links) for line in _delay_commands(one)]


def _delay_commands(one: Direction) -> list[str]:
    return [
        f"qdisc add dev {one.sends} root netem delay {one.delay_ns / 1000:.3f}us "
        f"limit {NETEM_FRAMES_MAX}",
        f"qdisc add dev {one.receives} ingress",
        f"filter add dev {one.receives} ingress matchall "
        f"action mirred egress mirror dev {one.sends} action drop",
    ]
