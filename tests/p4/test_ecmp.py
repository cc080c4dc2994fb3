# SPDX-License-Identifier: Apache-2.0
"""Which member a flow takes: the hash, its weights, failover, and several tiers in a row."""

import functools
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.p4.control import BUCKETS
from tests.p4.frames import HOST_V6, ip_frame, roce, udp_frame
from tests.p4.harness import Node
from tests.p4.nodes import transit_node
from tests.p4.wire import flow_hash

V6 = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def router(tier: int | None = None, seed: int = 0, hash_flow_label: int = 0) -> Node:
    """A leaf with four uplinks towards 10.0.2.0/24 and fd00:0:2::/48."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.0.0.0", 16, 1, 2, 3, 4)
    node.route("fd00::", 16, 1, 2, 3, 4)
    if tier is not None:
        node.set_default("ecmp_config", "set_ecmp_config", tier, seed, hash_flow_label)
    return node


@V6
def test_ecmp_spreads_flows_over_all_members(v6: bool) -> None:
    """512 source ports use each of four uplinks for 15 to 35 percent of the flows."""
    node = router()
    ports = Counter(node.send(roce(sport=0xC000 + n, v6=v6), 11).port for n in range(512))
    assert set(ports) == {1, 2, 3, 4}
    assert all(512 * 0.15 < count < 512 * 0.35 for count in ports.values())


@V6
@pytest.mark.parametrize(
    "change",
    [
        {"psn": 99},
        {"opcode": 17},
        {"payload": bytes(900)},
        {"ecn": 3},
        {"ttl": 9},
        {"dscp": 0},
        {"flow_label": 1},
        {"vlan": 5},
    ],
)
def test_ecmp_keeps_a_flow_on_its_path(change: dict[str, Any], v6: bool) -> None:
    """Nothing outside the 5-tuple moves a packet to another member (flow label off)."""
    node = router()
    for number in range(20):
        sport = 0xC000 + number
        first = node.send(roce(sport=sport, v6=v6), 11).port
        assert node.send(roce(sport=sport, v6=v6, **change), 11).port == first


@V6
def test_marking_does_not_move_a_flow(v6: bool) -> None:
    """A packet takes the same member with and without INT, at the source and in transit."""
    plain, marking, mx, transit = router(), router(), router(), Node(101)
    marking.watch()
    mx.watch_mx()
    transit.route("10.0.2.0", 24, 1, 2, 3, 4)
    transit.route("fd00:0:2::", 48, 1, 2, 3, 4)
    for number in range(40):
        frame = roce(sport=0xC000 + number, v6=v6)
        before = plain.send(frame, 11).port
        after = transit.send(frame, 7).port
        for source in (marking, mx):
            sent = source.send(frame, 11)
            assert sent.port == before
            assert len(sent.frame) > len(frame)
            assert transit.send(sent.frame, 7).port == after


@V6
def test_each_element_of_the_5_tuple_takes_part_in_the_hash(v6: bool) -> None:
    """Changing one of addresses, ports or protocol alone reaches several members."""
    node = router()
    some = range(1, 33)
    src, dst = HOST_V6 if v6 else ("10.0.1.1", "10.0.2.1")

    def near(address: str, n: int) -> str:
        return address[:-1] + (f"{n:x}" if v6 else str(n))

    def members(packets: list[bytes]) -> set[int]:
        return {node.send(packet, 11).port for packet in packets}

    body = bytes(20)
    variants = [
        [udp_frame(body, sport=1, dport=2, src=near(src, n), dst=dst) for n in some],
        [udp_frame(body, sport=1, dport=2, src=src, dst=near(dst, n)) for n in some],
        [udp_frame(body, sport=n, dport=2, src=src, dst=dst) for n in some],
        [udp_frame(body, sport=1, dport=n, src=src, dst=dst) for n in some],
        [ip_frame(bytes([0, n, 0, 2]) + body, 6, src=src, dst=dst) for n in some],
        [ip_frame(body, n + 100, src=src, dst=dst) for n in some],
    ]
    for packets in variants:
        assert len(members(packets)) == 4


def test_high_bits_of_ipv6_addresses_take_part_in_the_hash() -> None:
    """Hosts that differ only in their subnet reach several members."""
    node = router()
    ports = {
        node.send(roce(v6=True, src=f"fd00:0:{n:x}::1", sport=5), 11).port for n in range(16, 48)
    }
    assert len(ports) == 4


def test_fragments_of_a_datagram_take_one_path() -> None:
    """Later fragments have no ports, so no fragment uses them."""
    node = router()
    ports = set()
    for sport in range(16):
        first = bytearray(roce(sport=sport))
        first[20] = 0x20
        later = bytearray(first)
        later[20:22] = b"\x00\x10"
        for fragment in (first, later):
            fragment[24:26] = bytes(2)
            total = 0xFFFF - _header_sum(bytes(fragment[14:34]))
            fragment[24:26] = total.to_bytes(2, "big")
            ports.add(node.send(bytes(fragment), 11).port)
    assert len(ports) == 1


def _header_sum(header: bytes) -> int:
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    return (total & 0xFFFF) + (total >> 16)


@pytest.mark.parametrize("option", [0, 1])
def test_flow_label_takes_part_only_as_an_option(option: int) -> None:
    """hash_flow_label 1 spreads one 5-tuple by its labels; 0 keeps it together; IPv4 has none."""
    node = router(tier=0, hash_flow_label=option)
    labels = {node.send(roce(v6=True, flow_label=n * 37), 11).port for n in range(64)}
    assert len(labels) == (4 if option else 1)
    assert len({node.send(roce(flow_label=n), 11).port for n in range(8)}) == 1


@V6
def test_weights_are_shares_of_the_buckets(v6: bool) -> None:
    """48 buckets against 16 are three flows against one (WCMP)."""
    node = Node(1)
    prefix, bits = ("fd00:0:2::", 48) if v6 else ("10.0.2.0", 24)
    node.route(prefix, bits, 1, 2, buckets=[1] * 48 + [2] * 16)
    ports = Counter(node.send(roce(sport=n, v6=v6), 11).port for n in range(1200))
    assert 0.70 < ports[1] / 1200 < 0.80
    assert ports[1] + ports[2] == 1200


@V6
def test_failover_moves_only_the_flows_of_the_failed_member(v6: bool) -> None:
    """Rewriting the buckets of one member leaves every other flow where it was."""
    node = Node(1)
    prefix, bits = ("fd00:0:2::", 48) if v6 else ("10.0.2.0", 24)
    group = node.route(prefix, bits, 1, 2, 3, 4)
    frames = [roce(sport=n, v6=v6) for n in range(400)]
    before = [node.send(frame, 11).port for frame in frames]
    alive = [1, 2, 4]
    failed = [bucket for bucket in range(BUCKETS) if bucket % 4 == 2]
    for count, bucket in enumerate(failed):
        node.rewrite_bucket(group, bucket, alive[count % 3])
    after = [node.send(frame, 11).port for frame in frames]
    assert all(new == old for old, new in zip(before, after, strict=True) if old != 3)
    assert {new for old, new in zip(before, after, strict=True) if old == 3} == {1, 2, 4}
    for bucket in failed:
        node.rewrite_bucket(group, bucket, 3)
    assert [node.send(frame, 11).port for frame in frames] == before


@V6
def test_bucket_does_not_depend_on_the_route_or_the_switch(v6: bool) -> None:
    """Two switches of a tier with the same group choose alike, whatever else is in the tables."""
    first, second = router(tier=1, seed=5), transit_node()
    second.set_default("ecmp_config", "set_ecmp_config", 1, 5, 0)
    second.route("fd00:0:2::1" if v6 else "10.0.2.1", 128 if v6 else 32, 1, 2, 3, 4)
    for n in range(64):
        frame = roce(sport=n, v6=v6)
        assert first.send(frame, 11).port == second.send(frame, 1).port


# ---- several tiers in a row


def mixed(flow_hashes: npt.NDArray[np.uint32], tier: int, seed: int = 0) -> npt.NDArray[np.uint32]:
    """docs/p4.md: flow hash plus the tier's offset, through the finaliser of MurmurHash3."""
    value = flow_hashes + np.uint32((seed + tier * 0x9E3779B9) & 0xFFFFFFFF)
    value = (value ^ value >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    value = (value ^ value >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return value ^ value >> np.uint32(16)


@functools.cache
def many_flows() -> npt.NDArray[np.uint32]:
    """Flow hashes of 2^20 RoCEv2 flows: 16 hosts to 16 hosts, 4,096 source ports each."""

    def changes(offset: int, values: Iterable[bytes]) -> npt.NDArray[np.uint32]:
        # a CRC is linear: each part of the 5-tuple contributes on its own
        empty = zlib.crc32(bytes(13))
        parts = (bytes(offset) + value + bytes(13 - offset - len(value)) for value in values)
        return np.array([zlib.crc32(part) ^ empty for part in parts], np.uint32)

    base = np.uint32(zlib.crc32(bytes.fromhex("0a0000000a00000011") + bytes(2) + b"\x12\xb7"))
    hosts = [bytes([leaf, host]) for leaf in range(1, 9) for host in (1, 2)]
    sources, destinations = changes(2, hosts), changes(6, hosts)
    ports = changes(9, ((0xC000 + n).to_bytes(2, "big") for n in range(4096)))
    flows = sources[:, None, None] ^ destinations[None, :, None] ^ ports[None, None, :] ^ base
    return flows.ravel()


@pytest.mark.parametrize("tier", [0, 1, 2, 7])
@V6
def test_switch_chooses_the_bucket_that_the_model_says(tier: int, v6: bool) -> None:
    """500 flows, each in a bucket of its own port: hash, mix and remainder are as documented."""
    node = Node(1)
    seed = 0xDEADBEEF * tier & 0xFFFFFFFF
    node.set_default("ecmp_config", "set_ecmp_config", tier, seed, 0)
    node.route("fd00:0:2::" if v6 else "10.0.2.0", 48 if v6 else 24, *range(1, BUCKETS + 1))
    frames = [roce(sport=0xC000 + n, v6=v6) for n in range(500)]
    hashes = np.array([flow_hash(frame) for frame in frames], np.uint32)
    expected = mixed(hashes, tier, seed) % BUCKETS + 1
    assert [node.send(frame, 11).port for frame in frames] == expected.tolist()


def test_model_of_many_flows_is_the_flow_hash() -> None:
    """The fast way to a million flow hashes agrees with hashing packets one by one."""
    flows = many_flows().reshape(16, 16, 4096)
    for source, destination, port in ((0, 5, 0), (3, 1, 4095), (15, 8, 1234)):
        src = f"10.0.{source // 2 + 1}.{source % 2 + 1}"
        dst = f"10.0.{destination // 2 + 1}.{destination % 2 + 1}"
        frame = roce(src=src, dst=dst, sport=0xC000 + port)
        assert flows[source, destination, port] == flow_hash(frame)


@pytest.mark.parametrize("members", range(2, 17))
@pytest.mark.parametrize("tiers", [(0, 1), (1, 2), (0, 2)])
def test_flows_that_share_a_member_spread_over_the_next_tier(
    tiers: tuple[int, int], members: int
) -> None:
    """No polarisation: every second-tier member gets its share of buckets within 10 percent.

    A member's share is its number of the 64 buckets, which is not the same for all of them when
    the number of members does not divide 64.
    """
    first, second = (mixed(many_flows(), tier) % BUCKETS % members for tier in tiers)
    cells = np.bincount(first * members + second, minlength=members**2).reshape(members, members)
    share = np.bincount(np.arange(BUCKETS) % members) / BUCKETS
    ratio = cells / (cells.sum(axis=1, keepdims=True) * share)
    assert np.abs(ratio - 1).max() < 0.10


def test_crc_alone_would_polarise() -> None:
    """Why the mix is needed: with the bare hash, both tiers make the same choice."""
    flows = many_flows() % BUCKETS
    assert len(np.unique((flows % 4)[flows % 4 == 1])) == 1
    shifted = (many_flows() ^ np.uint32(0x5A5A5A5A)) % BUCKETS % 4  # another seed of a CRC
    assert len(np.unique(shifted[flows % 4 == 1])) == 1


@pytest.mark.parametrize("tiers", [(0, 1), (1, 2), (0, 2)])
def test_tiers_choose_independently_in_the_switch(tiers: tuple[int, int]) -> None:
    """The same on two switches: 3,000 flows fill all of 8 x 8 cells, 47 each on average."""
    nodes = [Node(number + 1) for number in range(2)]
    for node, tier in zip(nodes, tiers, strict=True):
        node.set_default("ecmp_config", "set_ecmp_config", tier, 0, 0)
        node.route("10.0.2.0", 24, *range(1, 9))
    cells: Counter[tuple[int, int]] = Counter()
    for n in range(3000):
        frame = roce(sport=0xC000 + n // 6, src=f"10.0.1.{n % 6 + 1}")
        cells[nodes[0].send(frame, 11).port, nodes[1].send(frame, 11).port] += 1
    assert len(cells) == 64
    assert max(cells.values()) < 94
    assert min(cells.values()) > 15


def test_seed_changes_the_choice() -> None:
    """Two fabrics may spread the same flows differently."""
    one, other = router(tier=0, seed=1), router(tier=0, seed=0x9E3779B9)
    frames = [roce(sport=n) for n in range(64)]
    assert [one.send(f, 11).port for f in frames] != [other.send(f, 11).port for f in frames]
