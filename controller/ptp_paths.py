# SPDX-License-Identifier: Apache-2.0
"""Which addresses or ports give two hosts a symmetric pair of paths.

Pure. A switch chooses a path by what it hashes, so whoever chooses that chooses the path. PTP
event messages have fixed ports (319 both ways): what is free are further addresses of client and
reference, the IPv6 flow label, and the client's own port where requests may come from any (the
answers go back to it). RoCEv2 has its UDP source port, the same both ways for a queue pair.

Choices are predicted; ask `path_prediction.check_hash` first whether predictions are any good.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from controller.fabric import PTP_EVENT_UDP_PORT, ROCE_UDP_PORT, Fabric
from controller.path_prediction import Header, PathPredictor
from correction.flow_paths import Path
from correction.link_delays import LinkDelays
from correction.links import port_index
from correction.path_asymmetry import PathAsymmetry, path_asymmetry
from correction.path_delays import PTP_EVENT_BYTES, PathDelay, PathError, PathSource, path_delay

ROCE_SOURCE_PORTS = range(0xC000, 0x1_0000)
"""What a flow label can make of the UDP source port (`ibv_flow_label_to_udp_sport`)."""
CANDIDATES_MAX = 1 << 16
"""Considered in one ranking."""
STEP_NS = 5.0
"""Worst cases that differ by less count as equal; then the same cables both ways win, since their
lengths cancel whatever happens to them. It is the spread of a healthy cable's asymmetry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What could be configured, and what the switches would hash of it."""

    source: str
    """Sending host: the reference for PTP."""
    destination: str
    forward: Header
    reverse: Header

    def path_there(self, predictor: PathPredictor, fabric: Fabric) -> Path | None:
        """From source to destination."""
        hosts = self._hosts(fabric)
        return predictor.path(self.forward, src_host=hosts[0], dst_host=hosts[1])

    def path_back(self, predictor: PathPredictor, fabric: Fabric) -> Path | None:
        """From destination to source."""
        hosts = self._hosts(fabric)
        return predictor.path(self.reverse, src_host=hosts[1], dst_host=hosts[0])

    def _hosts(self, fabric: Fabric) -> tuple[int, int]:
        """Declared addresses of both hosts, in the header's family."""
        found = []
        for name in (self.source, self.destination):
            host = fabric.host(name)
            address = host.ipv6 if self.forward.ipv6 else host.ip
            if address is None:
                raise ValueError(f"{name} has no IPv6 address")
            found.append(address)
        return found[0], found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One pair of paths and the first candidate that leads to it."""

    candidate: Candidate
    asymmetry: PathAsymmetry
    alike: int
    """Candidates that take the same two paths, this one included."""

    @property
    def worst_ns(self) -> float:
        """Largest asymmetry under the prior."""
        estimate = self.asymmetry.asymmetry
        return abs(estimate.value_ns) + estimate.bound_conditional_ns

    @property
    def rank(self) -> tuple[int, bool, float, float]:
        """Smaller is better."""
        worst = self.worst_ns
        return (
            round(worst / STEP_NS),
            not self.asymmetry.same_links,
            worst,
            self.asymmetry.asymmetry.bound_hard_ns,
        )


def ptp_candidates(
    fabric: Fabric,
    client: str,
    *,
    client_addresses: Sequence[int] = (),
    reference_addresses: Sequence[int] = (),
    client_ports: Iterable[int] = (PTP_EVENT_UDP_PORT,),
    flow_labels: Iterable[int] | None = None,
) -> Iterator[Candidate]:
    """Declared and further addresses of both ends, and the client's ports.

    flow_labels: with IPv6 and these labels both ways (switches must hash them:
    `ecmp.hash_flow_label`); addresses are IPv6 ones then.
    """
    reference = fabric.ptp.grandmaster
    ipv6 = flow_labels is not None
    ours, theirs = (
        (*_declared(fabric, name, ipv6), *more)
        for name, more in ((reference, reference_addresses), (client, client_addresses))
    )
    for ref_ip, client_ip, port, label in product(
        ours, theirs, client_ports, flow_labels if flow_labels is not None else (0,)
    ):
        yield _candidate(
            reference, client, (ref_ip, client_ip), (PTP_EVENT_UDP_PORT, port), label, ipv6=ipv6
        )


def roce_candidates(
    fabric: Fabric, source: str, destination: str, ports: Iterable[int] = ROCE_SOURCE_PORTS
) -> Iterator[Candidate]:
    """UDP source ports; acknowledgements come back from the same one."""
    addresses = fabric.host(source).ip, fabric.host(destination).ip
    for port in ports:
        there = Header(
            src_ip=addresses[0], dst_ip=addresses[1], src_port=port, dst_port=ROCE_UDP_PORT
        )
        back = Header(
            src_ip=addresses[1], dst_ip=addresses[0], src_port=port, dst_port=ROCE_UDP_PORT
        )
        yield Candidate(source=source, destination=destination, forward=there, reverse=back)


def rank_choices(
    candidates: Iterable[Candidate],
    fabric: Fabric,
    predictor: PathPredictor,
    delays: LinkDelays,
    *,
    frame_bytes: float = PTP_EVENT_BYTES,
) -> tuple[Choice, ...]:
    """All pairs of paths that the candidates lead to, the best first.

    Pairs over links that were not measured are left out, and candidates without a prediction.
    """
    ports = port_index(delays.model)
    known: dict[Path, PathDelay | None] = {}

    def delay(path: Path) -> PathDelay | None:
        if path not in known:
            try:
                known[path] = path_delay(
                    path, delays, ports, source=PathSource.PREDICTED, frame_bytes=frame_bytes
                )
            except PathError:
                known[path] = None
        return known[path]

    first: dict[tuple[Path, Path], Candidate] = {}
    alike: dict[tuple[Path, Path], int] = {}
    for candidate in islice(candidates, CANDIDATES_MAX):
        there = candidate.path_there(predictor, fabric)
        back = candidate.path_back(predictor, fabric)
        if there is not None and back is not None:
            first.setdefault((there, back), candidate)
            alike[there, back] = alike.get((there, back), 0) + 1
    choices = []
    for (there, back), candidate in first.items():
        forward, reverse = delay(there), delay(back)
        if forward is None or reverse is None:
            continue
        asymmetry = path_asymmetry(forward, reverse, delays)
        if asymmetry.asymmetry.known:
            choices.append(
                Choice(candidate=candidate, asymmetry=asymmetry, alike=alike[there, back])
            )
    return tuple(sorted(choices, key=lambda choice: choice.rank))


def _declared(fabric: Fabric, name: str, ipv6: bool) -> tuple[int, ...]:
    host = fabric.host(name)
    address = host.ipv6 if ipv6 else host.ip
    return () if address is None else (address,)


def _candidate(
    source: str,
    destination: str,
    addresses: tuple[int, int],
    ports: tuple[int, int],
    label: int,
    *,
    ipv6: bool,
) -> Candidate:
    there = Header(
        src_ip=addresses[0],
        dst_ip=addresses[1],
        src_port=ports[0],
        dst_port=ports[1],
        flow_label=label,
        ipv6=ipv6,
    )
    back = Header(
        src_ip=addresses[1],
        dst_ip=addresses[0],
        src_port=ports[1],
        dst_port=ports[0],
        flow_label=label,
        ipv6=ipv6,
    )
    return Candidate(source=source, destination=destination, forward=there, reverse=back)
