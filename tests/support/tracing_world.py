# SPDX-License-Identifier: Apache-2.0
"""A small fabric with known clocks and delays, as spans, packets, hops and corrections.

4 leaves x 2 spines, 8 hosts, two-packet transfers. Every clock has its own offset; corrections
are exact with a stated bound. One transfer may be made slow at a place of the caller's choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_ROCE, Hops, Packets
from tracing_core.model import (
    ClockStatus,
    Correction,
    FabricLink,
    FabricNode,
    Span,
    SpanEvent,
    SpanKind,
)
from tracing_core.store import Store

EPOCH_NS = 1_800_000_000_000_000_000
LEAVES, SPINES, HOSTS = 4, 2, 8
WIRE_BYTES = 4_170
GAP_NS = 340
"""Between two packets of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Extra time of one transfer at one place."""

    transfer: int
    kind: str
    """sender, nic, receiver, hop or link."""
    place: int
    """Hop 0..2, or link 0..3 along the path."""
    extra_ns: int


@dataclass(slots=True, kw_only=True)
class World:
    """Everything a store takes, and the truth about it."""

    nodes: tuple[FabricNode, ...]
    links: tuple[FabricLink, ...]
    spans: list[Span]
    packets: Packets
    hops: Hops
    corrections: list[Correction]
    offset_ns: dict[str, int]
    ids: list[tuple[str, str]]
    """Trace and send span id of each transfer."""
    paths: list[tuple[str, str, str, int]]
    """(src leaf, spine, dst leaf, spine number) of each transfer."""
    hosts: list[tuple[str, str]]
    extra: dict[str, object] = field(default_factory=dict)

    def fill(self, store: Store) -> None:
        """Puts everything into a store."""
        store.fabric.replace(self.nodes, self.links)
        store.spans.append(self.spans)
        store.telemetry.append(self.packets, self.hops)
        store.corrections.append(self.corrections)


def host_ip(host: int) -> int:
    """10.0.<leaf>.<k> of host number `host` (from 0)."""
    return (10 << 24) | ((host // 2 + 1) << 8) | (host % 2 + 1)


def dotted(ip: int) -> str:
    """An address as text."""
    return ".".join(str(ip >> shift & 255) for shift in (24, 16, 8, 0))


def fabric() -> tuple[tuple[FabricNode, ...], tuple[FabricLink, ...]]:
    """Nodes and links: leaf ports 1, 2 to the spines, 11, 12 to hosts; spine ports to leaves."""
    nodes = [
        FabricNode(name=f"h{h + 1}", kind="nic", node_id=0, ip=host_ip(h)) for h in range(HOSTS)
    ]
    nodes += [
        FabricNode(name=f"leaf{i + 1}", kind="switch", node_id=i + 1, ip=0) for i in range(LEAVES)
    ]
    nodes += [
        FabricNode(name=f"spine{i + 1}", kind="switch", node_id=101 + i, ip=0)
        for i in range(SPINES)
    ]
    links = [
        FabricLink(
            name=f"leaf{leaf + 1}-spine{spine + 1}",
            a=f"leaf{leaf + 1}",
            a_port=spine + 1,
            b=f"spine{spine + 1}",
            b_port=leaf + 1,
            rate_bps=100_000_000_000,
            access=False,
        )
        for leaf in range(LEAVES)
        for spine in range(SPINES)
    ]
    links += [
        FabricLink(
            name=f"h{h + 1}-leaf{h // 2 + 1}",
            a=f"h{h + 1}",
            a_port=1,
            b=f"leaf{h // 2 + 1}",
            b_port=11 + h % 2,
            rate_bps=100_000_000_000,
            access=True,
        )
        for h in range(HOSTS)
    ]
    return tuple(nodes), tuple(links)


def build(
    seed: int,
    *,
    transfers: int = 400,
    faults: tuple[Fault, ...] = (),
    bound_ns: int = 30,
    flagged: tuple[str, ...] = (),
    lost: Mapping[int, int] | None = None,
    noise_ns: int = 40,
    slow_host: tuple[str, int] = ("", 0),
) -> World:
    """A world; `lost[i]` is how many of transfer i's last packets were not reported."""
    rng = np.random.default_rng(seed)
    nodes, links = fabric()
    offset = {node.name: int(rng.integers(-(10**6), 10**6)) for node in nodes}
    for node in nodes:
        if node.kind == "switch":
            offset[node.name] += int(rng.integers(-(2**60), 2**60))
    cable = {(link.a, link.b): int(rng.integers(20, 500)) for link in links}
    cable |= {(b, a): delay + int(rng.integers(-9, 10)) for (a, b), delay in cable.items()}
    world = World(
        nodes=nodes,
        links=links,
        spans=[],
        packets=np.zeros(2 * transfers, PACKET_DTYPE),
        hops=np.zeros(6 * transfers, HOP_DTYPE),
        corrections=[
            Correction(
                clock=name,
                valid_from_local_ns=EPOCH_NS + value - 10**9,
                valid_to_local_ns=EPOCH_NS + value + 10**10,
                anchor_local_ns=EPOCH_NS + value,
                offset_ns=value,
                rate_ppb=0.0,
                bound_hard_ns=None if name in flagged else 10 * bound_ns,
                bound_conditional_ns=None if name in flagged else bound_ns,
                method="exact",
                prior="none",
                status=ClockStatus.FLAGGED if name in flagged else ClockStatus.SYNCHRONISED,
            )
            for name, value in offset.items()
        ],
        offset_ns=offset,
        ids=[],
        paths=[],
        hosts=[],
    )
    by_transfer = {fault.transfer: fault for fault in faults}
    kept: list[int] = []
    for index in range(transfers):
        missing = (lost or {}).get(index, 0)
        fault = by_transfer.get(index)
        _transfer(world, rng, index, fault, cable, noise_ns, slow_host)
        kept += [2 * index + k for k in range(2 - missing)]
    world.packets = world.packets[kept]
    return world


def _transfer(
    world: World,
    rng: np.random.Generator,
    index: int,
    fault: Fault | None,
    cable: Mapping[tuple[str, str], int],
    noise_ns: int,
    slow_host: tuple[str, int],
) -> None:
    src, dst = _pair(rng)
    spine = index % SPINES
    names = [
        f"h{src + 1}",
        f"leaf{src // 2 + 1}",
        f"spine{spine + 1}",
        f"leaf{dst // 2 + 1}",
        f"h{dst + 1}",
    ]
    ports = [
        (11 + src % 2, spine + 1),
        (src // 2 + 1, dst // 2 + 1),
        (spine + 1, 11 + dst % 2),
    ]
    world.paths.append((names[1], names[2], names[3], spine + 1))
    world.hosts.append((names[0], names[4]))

    def extra(kind: str, place: int = 0) -> int:
        usual = slow_host[1] if kind == "sender" and names[0] == slow_host[0] else 0
        return usual + (
            fault.extra_ns if fault and (fault.kind, fault.place) == (kind, place) else 0
        )

    def noise() -> int:
        return int(rng.integers(0, noise_ns))

    local = world.offset_ns
    start = EPOCH_NS + 1_000_000 * index
    first = start + 400 + noise() + extra("sender")
    last = first + GAP_NS + extra("nic")
    psn, qp, port = 2 * index, 0x100 + src * 16 + dst, 50_000 + dst
    arrival = [0, 0]
    for k, sent in enumerate((first, last)):
        row = 2 * index + k
        now = sent
        for hop in range(3):
            now += cable[names[hop], names[hop + 1]] + (extra("link", hop) if k else 0)
            ingress = now
            now += 600 + noise() + (extra("hop", hop) if k else 0)
            world.hops[3 * row + hop] = (
                1 + src // 2 if hop == 0 else 101 + spine if hop == 1 else 1 + dst // 2,
                ports[hop][0],
                ports[hop][1],
                1,
                3,
                ingress + local[names[hop + 1]],
                now + local[names[hop + 1]],
                WIRE_BYTES + 60,
                WIRE_BYTES + 60,
            )
        now += cable[names[3], names[4]] + (extra("link", 3) if k else 0)
        arrival[k] = now
        packet = world.packets[row]
        packet["first_hop"], packet["hop_count"], packet["complete"] = 3 * row, 3, True
        packet["traffic"], packet["wire_bytes"] = TRAFFIC_ROCE, WIRE_BYTES
        packet["src_ip"], packet["dst_ip"] = host_ip(src), host_ip(dst)
        packet["src_port"], packet["dst_port"], packet["dest_qp"] = port, 4791, qp
        packet["psn"] = psn + k
        world.packets[row] = packet
    received = arrival[1] + 500 + noise() + extra("receiver")
    acknowledged = received + 4_000
    world.ids.append((f"{index // 16 + 1:032x}", f"{2 * index + 2:016x}"))
    flow = (host_ip(src), host_ip(dst), port, qp, psn)
    world.spans += _spans(
        world, index, names, flow, start, first, last, arrival, received, acknowledged
    )


def _pair(rng: np.random.Generator) -> tuple[int, int]:
    src = int(rng.integers(HOSTS))
    dst = (src // 2 * 2 + 2 + int(rng.integers(HOSTS - 2))) % HOSTS  # never below the same leaf
    return src, dst


def _spans(
    world: World,
    index: int,
    names: list[str],
    flow: tuple[int, int, int, int, int],
    start: int,
    first: int,
    last: int,
    arrival: list[int],
    received: int,
    acknowledged: int,
) -> list[Span]:
    trace_id, send_id = world.ids[index]
    sender, receiver = names[0], names[4]
    a, b = world.offset_ns[sender], world.offset_ns[receiver]
    src_ip, dst_ip, port, qp, psn = flow
    attributes = {
        "rdma.src_ip": dotted(src_ip),
        "rdma.dst_ip": dotted(dst_ip),
        "rdma.src_port": port,
        "rdma.dest_qp": qp,
        "rdma.psn_first": psn,
        "rdma.psn_last": psn + 1,
        "rdma.bytes": 8192,
        "tempotrace.job": "job-1",
        "tempotrace.step": index // 16,
    }
    return [
        Span(
            tenant="alpha",
            trace_id=trace_id,
            span_id=send_id,
            parent_span_id="",
            name="rdma.send",
            kind=SpanKind.PRODUCER,
            start_local_ns=start + a,
            end_local_ns=acknowledged + a,
            clock_domain=sender,
            host=sender,
            service="trainer",
            attributes=attributes,
            events=(
                SpanEvent(name="nic.tx_first", time_local_ns=first + a),
                SpanEvent(name="nic.tx_last", time_local_ns=last + a),
            ),
        ),
        Span(
            tenant="alpha",
            trace_id=trace_id,
            span_id=f"{2 * index + 3:016x}",
            parent_span_id=send_id,
            name="rdma.recv",
            kind=SpanKind.CONSUMER,
            start_local_ns=arrival[0] + b,
            end_local_ns=received + b,
            clock_domain=receiver,
            host=receiver,
            service="trainer",
            attributes=attributes,
            events=(
                SpanEvent(name="nic.rx_first", time_local_ns=arrival[0] + b),
                SpanEvent(name="nic.rx_last", time_local_ns=arrival[1] + b),
            ),
        ),
    ]
