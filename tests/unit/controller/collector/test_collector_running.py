# SPDX-License-Identifier: Apache-2.0
"""The loop of a running collector, and captures through a core, with every clock an argument."""

from itertools import count

import pytest

from controller.collector.batch import batch_of_payloads
from controller.collector.collect_capture import CaptureCollector
from controller.collector.cores import make_core
from controller.collector.outputs.file_output import FileOutput, read_folder
from controller.collector.outputs.pump import OutputPump
from controller.collector.outputs.queue_output import QueueOutput
from controller.collector.running import RunningCollector
from controller.collector.state import ReceiveCounters, SampleRing
from controller.telemetry.collector import collect
from controller.telemetry.pcap import read_pcap, write_pcap
from controller.telemetry.topology import telemetry_fabric
from tests.support.collector_states import START_NS, small_fabric, whole_paths
from tests.support.telemetry_reports import report_frame

FABRIC = small_fabric()


class _Batches:
    """A source that gives these batches, then nothing."""

    def __init__(self, batches):
        self.batches = list(batches)
        self.is_closed = False

    def receive(self):
        return self.batches.pop(0) if self.batches else None

    def wait(self, timeout_ns):
        return bool(self.batches)

    @property
    def receive_counters(self):
        return ReceiveCounters(kernel_drops=9)

    def close(self):
        self.is_closed = True


def _batches(payloads, size=30):
    for first in range(0, len(payloads), size):
        rows = payloads[first : first + size]
        yield batch_of_payloads([row[1] for row in rows], [row[0] for row in rows])


def test_everything_received_reaches_the_outputs_before_the_end():
    """Also what was waiting for its reports; then ports and outputs are closed."""
    source = _Batches(_batches(whole_paths(packets=40)[:-1]))
    queue = QueueOutput()
    ticks = count(0, 150_000_000)
    collector = RunningCollector(
        source,
        make_core(FABRIC),
        OutputPump([queue], run="r7"),
        run="r7",
        collector_clock_ns=lambda: START_NS,
        monotonic_ns=lambda: next(ticks),
    )
    assert collector.state.counters.received == 0
    collector.serve(is_ended=lambda: not source.batches)
    assert source.is_closed
    parts = list(iter(queue.read, None))
    assert [part.number for part in parts] == list(range(len(parts)))
    assert sum(part.packet_count for part in parts) == 40
    assert len(parts) > 1
    state = collector.state
    assert (state.counters.received, state.counters.complete) == (119, 39)
    assert (state.pairing.complete, state.pairing.joined) == (39, 1)
    assert collector.hop_count == 119
    assert state.receive.kernel_drops == 9
    assert state.outputs["queue"].acknowledged_parts == 0  # not yet read when it ended
    assert set(state.last_report_ns) == {1, 2, 101}


def test_ports_are_released_when_the_core_fails():
    """A bug ends the collector, and not with the port still taken."""
    source = _Batches(_batches(whole_paths()))

    class _Broken:
        def __getattr__(self, name):
            return getattr(core, name)

        def feed_batch(self, batch):
            raise AssertionError("broken")

    core = make_core(FABRIC)
    collector = RunningCollector(
        source, _Broken(), OutputPump([], run="r"), run="r", collector_clock_ns=lambda: 0
    )
    with pytest.raises(AssertionError, match="broken"):
        collector.serve(is_ended=lambda: False)
    assert source.is_closed


def test_a_capture_gives_what_the_plain_collector_gives(tmp_path):
    """Packets, hops and counters, frames without a report included; twice: the same parts."""
    path = tmp_path / "r.pcap"
    frames = [(time_ns, report_frame(payload)) for time_ns, payload in whole_paths(packets=30)]
    frames += [(START_NS, report_frame(b"x", dst_port=53)), (START_NS, b"\x01" * 20)]
    write_pcap(path, frames)
    plain = collect(read_pcap(path), FABRIC)
    shares = []
    states = []
    for name in ("one", "two"):
        pump = OutputPump([FileOutput(tmp_path / name)], run=name)
        capture = CaptureCollector(telemetry_fabric(FABRIC), make_core(FABRIC))
        states.append(capture.run(path, pump, progress=shares.append))
        assert capture.hop_count == len(plain.hops) == 90
    assert states[0].counters == plain.counters
    assert states[0].counters.rejected_total == 2
    assert shares[-1] == 1.0
    one, two = (list(read_folder(tmp_path / name)) for name in ("one", "two"))
    assert [part.part_id for part in one] == [part.part_id for part in two]
    (part,) = one
    assert (part.arrays["packets"] == plain.packets).all()
    assert (part.arrays["hops"] == plain.hops).all()


def test_samples_are_few_and_spread_over_the_batch():
    """A bound on their number, and none from batches that follow at once."""
    rows = [(START_NS + number, bytes([number])) for number in range(100)]
    (batch,) = _batches(rows, size=100)
    ring = SampleRing(per_batch=5, interval_ns=1000, samples_max=8)
    ring.take(batch)
    assert [sample.payload[0] for sample in ring.samples] == [0, 24, 49, 74, 99]
    ring.take(batch)
    assert len(ring.samples) == 5
    (later,) = _batches([(time_ns + 5000, payload) for time_ns, payload in rows], size=100)
    ring.take(later)
    assert len(ring.samples) == 8
    assert ring.samples[-1].capture_collector_ns == START_NS + 5099
