# SPDX-License-Identifier: Apache-2.0
"""What holds frames back between the two sides of every cable: netem, or our own forwarder.

With netem each cable is a bridge of its two sides and the delay is a queueing discipline of the
side that sends. It must not stand at a host's own interface, where it would delay the frame before
the kernel's transmit stamp. A kernel without netem has the forwarder of `wires.py`.
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
        cables = network.interfaces.cables
        for program, lines in (
            ("ip", bridge_commands(cables)),
            ("tc", netem_commands(cables, links)),
        ):
            network.namespace.command(program, "-batch", "-", stdin="\n".join(lines) + "\n")

    def check(self) -> None:
        """The kernel does not stop."""

    def finish(self) -> None:
        """Nothing is told."""

    def close(self) -> None:
        """Bridges go with their namespace."""


def start_cables(network: Network, links: Sequence[TrueLink]) -> CableDelays:
    """Have every cable delay frames, with netem where the kernel has it."""
    if kernel_has_netem():
        return Netem(network, links)
    return Forwarder(network, links)


def kernel_has_netem() -> bool:
    """Whether a bridge with netem at a port can be made; tried in a namespace of its own."""
    if find_program("tc") is None:
        return False
    scratch = Namespace.create()
    try:
        scratch.command("ip", "link", "add", "name", "b", "type", "bridge")
        scratch.command("ip", "link", "add", "name", "w", "type", "veth", "peer", "name", "x")
        scratch.command("tc", "qdisc", "add", "dev", "w", "root", "netem", "delay", "1ms")
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


def bridge_commands(cables: Sequence[Cable]) -> list[str]:
    """Lines for `ip -batch`: a bridge per cable, which forwards everything and learns nothing."""
    lines = []
    for number, cable in enumerate(cables, start=1):
        bridge = f"b{number}"
        lines.append(
            f"link add name {bridge} type bridge stp_state 0 ageing_time 0 mcast_snooping 0 "
            "group_fwd_mask 0xfff8"
        )
        lines += [f"link set dev {side} master {bridge}" for side in (cable.wire_a, cable.wire_b)]
        lines.append(f"link set dev {bridge} up")
    return lines


def netem_commands(cables: Sequence[Cable], links: Sequence[TrueLink]) -> list[str]:
    """Lines for `tc -batch`: what leaves on a cable's side was delayed on the way there."""
    return [
        f"qdisc add dev {one.sends} root netem delay {one.delay_ns / 1000:.3f}us "
        f"limit {NETEM_FRAMES_MAX}"
        for one in directions(cables, links)
    ]
