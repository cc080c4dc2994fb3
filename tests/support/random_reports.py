# SPDX-License-Identifier: Apache-2.0
"""Report datagrams of every kind, some of them lost, repeated, renumbered, late, cut or damaged.

Packets cross the fabric of `telemetry_reports` (leaf 1, spine, leaf 2) and are reported by stacks,
postcards, drops and congestion; the order of arrival, the gaps and the damage are random, from one
seed. For comparing two collectors: nothing here knows what they should make of it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from controller.telemetry.collector import Destination
from controller.telemetry.frames import roce_frame
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import NETWORK_ETHERNET, NETWORK_IPV6
from controller.telemetry.profiles import DIALECTS
from controller.telemetry.ptp import PtpTransport, ptp_sync
from controller.telemetry.report import IN_TYPE_ETHERNET, IN_TYPE_IPV6
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_reports,
    insert_stack,
)
from controller.telemetry.topology import TelemetryFabric
from tests.support import telemetry_reports as t

DESTINATIONS = (t.COLLECTOR, Destination(t.COLLECTOR.ip + 1, t.REPORT_PORT))
_US = 1_000
_IPV6 = (0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2)


@dataclass(frozen=True, slots=True)
class Arriving:
    """A datagram and when it is captured."""

    capture_collector_ns: int
    payload: bytes
    destination: Destination


def random_fabric() -> TelemetryFabric:
    """The three switches with dialects, units and widths of their own, and IPv6 and MAC hosts."""
    fabric = t.three_switch_fabric(stamp_width_bits=48)
    nodes = dict(fabric.nodes)
    nodes[t.SPINE] = replace(
        nodes[t.SPINE], dialect=DIALECTS["intel-switch-p4-16"], stamp_unit_ns=2, stamp_width_bits=34
    )
    nodes[t.LEAF2] = replace(nodes[t.LEAF2], stamp_width_bits=64)
    old = replace(nodes[t.LEAF1], node_id=7, dialect=DIALECTS["telemetry-report-v1.0"])
    nodes[7] = old
    return replace(
        fabric,
        nodes=nodes,
        int_udp_port=40_000,
        host_ips={
            (NETWORK_IPV6, _IPV6[0]): t.FLOW.src_ip,
            (NETWORK_ETHERNET, t.FLOW.src_mac): t.FLOW.src_ip,
        },
        host_ip_at={(t.LEAF1, 12): t.FLOW.src_ip + 1},
    )


class RandomReports:
    """An endless sequence of datagrams, the same for one seed.

    `damage` is the share of datagrams that are cut or of which bits are flipped.
    """

    def __init__(self, seed: int, *, damage: float = 0.1) -> None:
        self._random = random.Random(seed)
        self._damage = damage
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._now_ns = 10**18
        self._serial = 0
        self._recent: list[Arriving] = []
        self._kinds: list[tuple[int, Callable[[], Sequence[tuple[int, int, list[ReportSpec]]]]]] = [
            (6, self._stack_and_postcard),
            (6, self._sink_on_stack),
            (3, self._sink_in_report),
            (4, self._postcards),
            (2, self._mx),
            (2, self._ptp),
            (2, self._multicast),
            (1, self._probe),
            (1, self._event),
            (1, self._several_in_one),
            (1, self._odd),
        ]

    def take(self, count: int) -> list[Arriving]:
        """The next `count` datagrams in order of arrival."""
        arriving: list[Arriving] = []
        for _ in range(count):
            arriving.extend(self._next())
            if len(arriving) >= count:
                break
        arriving = arriving[:count]
        for _ in range(count // 20):  # late ones
            a = self._random.randrange(len(arriving))
            b = min(len(arriving) - 1, a + self._random.randrange(1, 30))
            arriving.insert(b, arriving.pop(a))
        return arriving

    # ------------------------------------------------------------ arrival

    def _next(self) -> Iterator[Arriving]:
        pick = self._random.random
        self._now_ns += int(10 ** (3 + 4 * pick() ** 3))
        if pick() < 0.001:
            self._now_ns += 1_100_000_000
        weights = [weight for weight, _ in self._kinds]
        kinds = [kind for _, kind in self._kinds]
        self._serial += 1
        datagrams = list(self._random.choices(kinds, weights)[0]())
        if pick() < 0.2:
            self._random.shuffle(datagrams)
        for node_id, hw_id, specs in datagrams:
            arrived = self._number(node_id, hw_id, specs)
            if pick() < 0.03:
                continue  # lost
            yield arrived
            if pick() < 0.02:
                yield arrived  # twice
            if pick() < 0.01:
                yield self._renumbered(arrived)
        if self._recent and pick() < 0.01:
            old = self._random.choice(self._recent)
            yield Arriving(self._now_ns, old.payload, old.destination)

    def _number(self, node_id: int, hw_id: int, specs: list[ReportSpec]) -> Arriving:
        pick = self._random.random
        place = 0 if pick() < 0.9 else 1
        key = (node_id, hw_id, place)
        number = self._numbers.get(key, self._random.choice((0, 4_194_200, 77_777)))
        if pick() < 0.003:
            number = self._random.choice((0, number + 70, number + 20_000, number - 5_000))
        self._numbers[key] = number + 1
        wire_hw_id = hw_id << 2 & 63 if node_id == t.SPINE else hw_id
        payload = encode_reports(
            node_id=node_id, hw_id=wire_hw_id, sequence_number=number % 2**22, reports=specs
        )
        if pick() < self._damage:
            payload = self._damaged(payload)
        self._now_ns += int(2_000 * pick())
        back = int(5_000 * pick()) if pick() < 0.02 else 0
        arrived = Arriving(self._now_ns - back, payload, DESTINATIONS[place])
        self._recent = [*self._recent[-20:], arrived]
        return arrived

    def _renumbered(self, arrived: Arriving) -> Arriving:
        """A copy under the next number."""
        word = (int.from_bytes(arrived.payload[:4], "big") + 1) % 2**32
        payload = word.to_bytes(4, "big") + arrived.payload[4:]
        return replace(arrived, payload=payload)

    def _damaged(self, payload: bytes) -> bytes:
        if not payload:
            return payload
        if self._random.random() < 0.3:
            return payload[: self._random.randrange(len(payload) + 1)]
        changed = bytearray(payload)
        for _ in range(self._random.choice((1, 1, 1, 2, 4))):
            changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    # ------------------------------------------------------------ what switches report

    def _hops(self) -> list[tuple[int, HopMetadata]]:
        """Hops of one packet now, some values missing or odd."""
        pick = self._random.random
        hops = []
        time_ns = self._now_ns - 10_000
        for (node_id, values), base_ns, unit in zip(
            t.PATH_HOPS, (3 * 10**12, 17, 10**18), (1, 2, 1), strict=True
        ):
            time_ns += 600 + int(300 * pick())
            ingress = (time_ns - 10**18 + base_ns) // unit
            egress = ingress + 250 + int(100 * pick())
            time_ns += 500
            if node_id == t.SPINE:
                ingress, egress = ingress % 2**34, egress % 2**34
            changed = values._replace(ingress_tstamp=ingress or 1, egress_tstamp=egress or 1)
            if pick() < 0.02:
                stamp = self._random.choice((None, 2**34 - 1, 2**48 - 1, 2**60, 1, 12345))
                if pick() < 0.5:
                    changed = changed._replace(ingress_tstamp=stamp)
                else:
                    changed = changed._replace(egress_tstamp=stamp)
            if pick() < 0.01:
                changed = changed._replace(ingress_port=self._random.choice((None, 2, 9, 11)))
                if changed.ingress_port is None:
                    changed = changed._replace(egress_port=None)
            if pick() < 0.01:
                changed = changed._replace(queue_id=None, queue_depth=None)
            hops.append((node_id, changed))
        return hops

    def _packet(self, *, ipv6: bool = False) -> bytes:
        """The packet under study from its IP header on."""
        flow = t.FLOW
        if ipv6:
            flow = replace(flow, src_ip=_IPV6[0], dst_ip=_IPV6[1], ip_version=6)
        psn = self._serial if self._random.random() < 0.9 else self._random.randrange(20)
        frame = roce_frame(flow, psn=psn % 2**24, payload=bytes(self._random.randrange(0, 64)))
        return frame[t.ETHERNET_BYTES :]

    def _stack(
        self, hops: Sequence[tuple[int, HopMetadata]], metadata: HopMetadata | None, bits: int
    ) -> ReportSpec:
        pick = self._random.random
        ipv6 = pick() < 0.1
        bitmap = 0xFC00
        if pick() < 0.15:
            bitmap = 0x8000 | self._random.randrange(2**15)
        domain, ds_words, source_only = 0, 0, b""
        if pick() < 0.1:
            domain, ds_words = 5, self._random.randrange(3)
            source_only = bytes(4 * self._random.randrange(3))
        npt, npt_value, marked = 0, t.UNMARKED << 2, t.MARKED
        if pick() < 0.1:
            npt, npt_value = self._random.choice(((1, 4791), (2, 17), (2, 6), (2, 99)))
        values = [
            hop._replace(
                node_id=node_id,
                domain_specific=bytes(4 * ds_words),
                checksum_complement=self._random.randrange(2**32) if bitmap & 1 else None,
            )
            for node_id, hop in hops
        ]
        words = bitmap.bit_count() + (bitmap & 0x0E00).bit_count() + ds_words
        if words > 31:
            bitmap, words = 0xFC00, 8 + ds_words
        spec = StackSpec(
            hops=tuple(values),
            instruction_bitmap=bitmap,
            npt=npt,
            npt_value=npt_value,
            domain_specific_id=domain,
            ds_words=ds_words,
            source_only=source_only if values else b"",
        )
        packet = self._packet(ipv6=ipv6)
        inner = insert_stack(packet, spec, marked_dscp=marked)
        if npt == 2:
            start = 40 if ipv6 else 20
            stack_bytes = len(inner) - len(packet)
            head = start + 8 + stack_bytes
            inner = inner[:head] + packet[start : start + 8] + inner[head:]
        return self._spec(inner, metadata, bits, ipv6=ipv6)

    def _spec(
        self, inner: bytes, metadata: HopMetadata | None, bits: int, *, ipv6: bool = False
    ) -> ReportSpec:
        pick = self._random.random
        inner_type = IN_TYPE_IPV6 if ipv6 else 4
        if pick() < 0.15:
            tag = b"\x81\x00\x00\x05" if pick() < 0.5 else b""
            kind = b"\x86\xdd" if ipv6 else b"\x08\x00"
            inner = bytes(12) + tag + kind + inner
            inner_type = IN_TYPE_ETHERNET
        if pick() < 0.05:
            inner = inner[: self._random.randrange(len(inner) + 1)]
        return ReportSpec(
            inner=inner,
            inner_type=inner_type,
            metadata_bits=bits if metadata is not None else 0,
            metadata=metadata,
            tracked_flow=pick() > 0.02,
            intermediate_report=pick() < 0.02,
        )

    def _stack_and_postcard(self) -> list[tuple[int, int, list[ReportSpec]]]:
        hops = self._hops()
        sink = hops[-1][1]
        stack = self._stack(hops[:-1], sink, t.STACK_REPORT_BITS)
        inner = self._packet_of(stack)
        postcard = ReportSpec(inner=inner, metadata_bits=t.POSTCARD_BITS, metadata=sink)
        return [(t.LEAF2, 0, [stack]), (t.LEAF2, 1, [postcard])]

    def _packet_of(self, _stack: ReportSpec) -> bytes:
        """The same packet, stripped: its PSN is that of the serial number, mostly."""
        frame = roce_frame(t.FLOW, psn=self._serial % 2**24, payload=bytes(8))
        return frame[t.ETHERNET_BYTES :][:48]

    def _sink_on_stack(self) -> list[tuple[int, int, list[ReportSpec]]]:
        hops = self._hops()
        own = hops[-1][1] if self._random.random() < 0.7 else None
        return [(t.LEAF2, 0, [self._stack(hops, own, t.STACK_REPORT_BITS)])]

    def _sink_in_report(self) -> list[tuple[int, int, list[ReportSpec]]]:
        hops = self._hops()
        bits = self._random.choice((t.POSTCARD_BITS, 0x0C00, 0x7D80, 0x4C01))
        return [(t.LEAF2, 0, [self._stack(hops[:-1], hops[-1][1], bits)])]

    def _postcards(self) -> list[tuple[int, int, list[ReportSpec]]]:
        inner = self._packet()[:64]
        return [
            (node_id, 1, [self._spec(inner, values, t.POSTCARD_BITS)])
            for node_id, values in self._hops()
        ]

    def _mx(self) -> list[tuple[int, int, list[ReportSpec]]]:
        return [
            (node_id, 1, [t.mx_postcard(values, psn=self._serial % 2**24, stripped=index == 2)])
            for index, (node_id, values) in enumerate(self._hops())
        ]

    def _ptp(self) -> list[tuple[int, int, list[ReportSpec]]]:
        transport = self._random.choice(list(PtpTransport))
        addresses = replace(t.PTP_ADDRESSES, transport=transport)
        if transport is PtpTransport.UDP_IPV6:
            addresses = replace(addresses, src_ip=_IPV6[0], dst_ip=_IPV6[1])
        frame = ptp_sync(
            addresses, domain=0, clock_identity=t.CLOCK_IDENTITY, sequence_id=self._serial % 2**16
        )
        on_link = transport is PtpTransport.ETHERNET or self._random.random() < 0.3
        inner_type = {PtpTransport.UDP_IPV4: 4, PtpTransport.UDP_IPV6: 5}.get(transport, 3)
        spec = ReportSpec(
            inner=frame if on_link else frame[t.ETHERNET_BYTES :],
            inner_type=3 if on_link else inner_type,
            metadata_bits=t.POSTCARD_BITS,
        )
        return [(node_id, 1, [replace(spec, metadata=values)]) for node_id, values in self._hops()]

    def _multicast(self) -> list[tuple[int, int, list[ReportSpec]]]:
        """A Sync to two hosts, whose sequence number may come again soon."""
        pick = self._random.random
        sequence_id = self._serial if pick() < 0.8 else self._random.randrange(20)
        hops = self._hops()
        source = hops[0][1]
        if pick() < 0.9:
            hops.append((t.LEAF1, source._replace(egress_port=self._random.choice((12, 12, 2)))))
        return [
            (node, 1, [t.multicast_postcard(values, sequence_id=sequence_id % 2**16)])
            for node, values in hops
        ]

    def _probe(self) -> list[tuple[int, int, list[ReportSpec]]]:
        out, bounced, home = self._hops()
        steps = (
            (t.LEAF1, 1, out[1]._replace(ingress_port=510), 0x5400, False),
            (t.SPINE, 1, bounced[1]._replace(egress_port=1), t.POSTCARD_BITS, True),
            (t.LEAF1, 0, home[1]._replace(ingress_port=1, egress_port=0xFFFF), 0x4800, True),
        )
        return [
            (
                node_id,
                hw_id,
                [
                    ReportSpec(
                        inner=t.probe_packet(sequence_number=self._serial, returning=returning),
                        metadata_bits=bits,
                        metadata=values,
                    )
                ],
            )
            for node_id, hw_id, values, bits, returning in steps
        ]

    def _event(self) -> list[tuple[int, int, list[ReportSpec]]]:
        node_id, values = self._random.choice(self._hops())
        tracked = self._random.random() < 0.5
        if self._random.random() < 0.5:
            inner = self._packet()
            if self._random.random() < 0.3:
                inner = self._random.randbytes(30)
            spec = t.drop_report(
                inner, reason=self._random.choice((26, 29, 31, 71, 80)), tracked_flow=tracked
            )
        else:
            spec = ReportSpec(
                inner=self._packet()[:64],
                metadata_bits=t.POSTCARD_BITS,
                metadata=values,
                congested_queue=True,
                tracked_flow=tracked,
            )
        return [(node_id, 0, [spec])]

    def _several_in_one(self) -> list[tuple[int, int, list[ReportSpec]]]:
        specs = []
        for _ in range(self._random.randrange(1, 5)):
            self._serial += 1
            for _node_id, _hw_id, some in self._sink_in_report():
                inner = some[0].inner + bytes(-len(some[0].inner) % 4)
                specs.append(replace(some[0], inner=inner))
        return [(t.LEAF2, 0, specs)]

    def _odd(self) -> list[tuple[int, int, list[ReportSpec]]]:
        node_id = self._random.choice((t.LEAF1, t.LEAF2, t.SPINE, 7, 99, 0xFFFFFFFF))
        choice = self._random.randrange(4)
        if choice == 0:
            return [(node_id, 0, [])]
        if choice == 1:
            inner = self._random.randbytes(self._random.randrange(80))
            kind = self._random.randrange(8)
            return [(node_id, 0, [ReportSpec(inner=inner, inner_type=kind)])]
        if choice == 2:
            stranger = [(99, t.SOURCE_HOP), *self._hops()[1:]]
            return [(node_id, 0, [self._stack(stranger, None, 0)])]
        return [(node_id, 63, [self._spec(self._packet(), None, 0)])]
