# SPDX-License-Identifier: Apache-2.0
"""The bench measures what it says: valid reports, all taken, and decoders that read them right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller.collector.bench import payloads
from controller.collector.bench_loopback import LoopbackRun
from controller.collector.bench_plain import decode_with_struct
from controller.collector.bench_reports import ReportKind, ReportLoad, bench_fabric
from controller.collector.bench_send import LoadSender
from controller.collector.receive import BatchReceiver, ReceiveOptions, bind_udp
from controller.telemetry.collector import Collector
from controller.telemetry.packet import IntMarking
from controller.telemetry.report import decode_reports

MARKING = IntMarking({27: 26}, None)
SCAPY_DECODER = Path(__file__).parents[4] / "tools" / "scapy_decoder.py"


@pytest.mark.parametrize("kind", list(ReportKind))
def test_reports_are_of_whole_packets_and_never_equal(kind: ReportKind) -> None:
    """Two buffers of reports are taken whole by the plain collector: every packet has its three
    hops, no number is missing and no content comes twice."""
    load = ReportLoad(kind)
    rows = load.room(1)
    collector = Collector(bench_fabric())
    for round_number in range(2):
        now_ns = 1_000_000_000 * (1 + round_number)
        load.fill(rows, now_ns=now_ns)
        for start, size in zip(rows.start.tolist(), rows.byte_count.tolist(), strict=True):
            collector.feed_payload(rows.buffer[start : start + size].tobytes(), now_ns)
    collection = collector.flush()
    counters = collection.counters
    assert counters.received == counters.decoded == 2 * load.reports_per_round
    assert counters.complete * kind.reports_per_packet == counters.received
    assert (counters.lost, counters.unconfirmed, counters.incomplete) == (0, 0, 0)
    assert set(collection.packets["hop_count"].tolist()) == {3}


def test_struct_decoder_reads_what_the_collector_reads() -> None:
    """The plain decoder that the bench compares with gives the values of the reference decoder."""
    for payload in payloads(ReportKind.STACK)[::50]:
        plain = decode_with_struct(payload)
        [report] = decode_reports(payload, 8, MARKING)
        stack = report.packet.stack
        assert report.metadata is not None
        assert stack is not None
        assert plain.node_id == int.from_bytes(payload[4:8], "big")
        assert plain.ingress_tstamp == report.metadata.ingress_tstamp
        assert plain.dest_qp == report.packet.key.dest_qp
        assert plain.psn == report.packet.key.psn
        assert [(hop[0], hop[5], hop[6]) for hop in reversed(plain.hops)] == [
            (hop.node_id, hop.ingress_tstamp, hop.egress_tstamp) for hop in stack.hops
        ]


def test_scapy_decoder_reads_the_same() -> None:
    """The scapy program decodes the bench's reports to the values of the struct decoder."""
    payload = payloads(ReportKind.STACK)[70]
    request = json.dumps({"seconds": 0.0, "reports": [payload.hex()]})
    done = subprocess.run(
        [sys.executable, str(SCAPY_DECODER)],
        input=request,
        capture_output=True,
        text=True,
        check=True,
    )
    read = json.loads(done.stdout)["first"]
    plain = decode_with_struct(payload)
    assert (read["node_id"], read["sequence_number"]) == (plain.node_id, plain.sequence_number)
    assert (read["dest_qp"], read["psn"]) == (plain.dest_qp, plain.psn)
    assert [(hop[0], hop[6], hop[7]) for hop in read["hops"]] == [
        (hop[0], hop[5], hop[6]) for hop in plain.hops
    ]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", list(ReportKind))
def test_what_the_sender_sends_arrives(kind: ReportKind, single: bool) -> None:
    """Coalesced or one by one, the receiver gets the reports that were generated."""
    receiver = BatchReceiver(
        [bind_udp("127.0.0.1", 0)], collector_clock_ns=lambda: 0, options=ReceiveOptions()
    )
    sender = LoadSender(kind, receiver.sockets[0].sock.getsockname(), single=single)
    sent = sender.send(fresh=False, now_ns=0)
    messages = receiver.prepare()
    sizes: list[int] = []
    while receiver.receive(messages):
        sizes += messages.batch.byte_count[: messages.batch.count].tolist()
    arrived = len(sizes)
    assert arrived + (receiver.kernel_drops if single else 0) == sent
    assert set(sizes) == {len(payload) for payload in payloads(kind)}
    sender.close()
    receiver.close()


@pytest.mark.parametrize(("share", "overloaded"), [(0.05, False), (0.051, True), (0.0, False)])
def test_overloaded_is_more_than_five_percent(share: float, overloaded: bool) -> None:
    """A run counts when the kernel dropped more than 5 %."""
    assert LoopbackRun(cpu_ns=1.0, kernel_drop_share=share, reports=1).is_overloaded is overloaded
