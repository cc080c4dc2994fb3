# SPDX-License-Identifier: Apache-2.0
"""Reports that BMv2 sent, not our encoder: captured in the lab's Mininet network, 64 frames.

BMv2 1.15.5 (9674187f), `tempotrace lab run tiny-2x2 --backend bmv2 --seed 1`, 2026-11-29, from the
first RoCEv2 messages on. What is expected is read from the raw bytes by struct and scapy.
"""

import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.fabric_file import load_fabric
from controller.telemetry.collector import Collection, collect
from controller.telemetry.pcap import read_pcap
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

DATA = Path(__file__).resolve().parents[1] / "data" / "bmv2"
FABRIC = load_fabric(DATA / "fabric.yaml")
FRAMES = list(read_pcap(DATA / "reports.pcap"))
UDP_PAYLOAD = 14 + 20 + 8
US = 1_000


@pytest.fixture(scope="module")
def collection() -> Collection:
    """What the collector makes of them."""
    return collect(FRAMES, FABRIC)


def test_every_report_of_bmv2_is_decoded(collection: Collection) -> None:
    """None is refused, none counts as lost or twice."""
    counters = collection.counters
    assert (counters.received, counters.decoded) == (64, 64)
    assert counters.rejected == {}
    assert (counters.lost, counters.duplicates, counters.restarts) == (0, 0, 0)


def test_headers_and_checksums_are_right() -> None:
    """scapy computes the same IP and UDP checksums, or finds none, and the same lengths."""
    for _, frame in FRAMES:
        packet = Ether(frame)
        sent = (packet[IP].chksum, packet[UDP].chksum, packet[IP].len, packet[UDP].len)
        del packet[IP].chksum, packet[IP].len, packet[UDP].len
        if sent[1]:
            del packet[UDP].chksum
        again = Ether(bytes(packet))
        assert (again[IP].chksum, again[UDP].chksum, again[IP].len, again[UDP].len) == sent
        assert len(frame) == 14 + sent[2]


def test_the_sender_is_the_node_of_the_report() -> None:
    """The group header's node id is that of the switch whose address sent it."""
    node_of_ip = {switch.ip: switch.node_id for switch in FABRIC.switches}
    for _, frame in FRAMES:
        (node_id,) = struct.unpack_from(">I", frame, UDP_PAYLOAD + 4)
        assert node_id == node_of_ip[int.from_bytes(frame[26:30], "big")]


def test_sequence_numbers_count_by_node_and_hw_id() -> None:
    """Every (node, hw id) counts its own reports, one by one, whatever order they came in."""
    numbers: dict[tuple[int, int], list[int]] = {}
    for _, frame in FRAMES:
        group, node_id = struct.unpack_from(">II", frame, UDP_PAYLOAD)
        assert group >> 28 == 2
        numbers.setdefault((node_id, group >> 22 & 0x3F), []).append(group & 0x3FFFFF)
    assert {hw_id for _, hw_id in numbers} == {0, 1}
    for found in numbers.values():
        assert sorted(found) == list(range(min(found), min(found) + len(found)))


def test_packets_are_put_together_of_their_reports(collection: Collection) -> None:
    """RoCE packets cross three switches, PTP one or three; one was cut by the end of the sample."""
    packets = collection.packets
    whole = packets[packets["complete"]]
    assert len(packets) - len(whole) == 1
    assert Counter(zip(whole["traffic"].tolist(), whole["hop_count"].tolist(), strict=True)) == {
        (TRAFFIC_ROCE, 3): 17,
        (TRAFFIC_PTP, 3): 8,
        (TRAFFIC_PTP, 1): 5,
    }
    assert set(whole["dscp"][whole["traffic"] == TRAFFIC_ROCE].tolist()) == {26}


def test_stamps_are_whole_microseconds_in_order(collection: Collection) -> None:
    """BMv2's unit is in the fabric file; a switch sends nothing before it got it."""
    hops = collection.hops
    ingress, egress = hops["ingress_tstamp_local_ns"], hops["egress_tstamp_local_ns"]
    known = egress > 0
    assert np.all(ingress % US == 0)
    assert np.all(egress[known] % US == 0)
    assert np.all(egress[known] > ingress[known])
