# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of the report decoders with atheris, by hand (docs/testing.md).

atheris is no dependency of the project: install it (3.0.0) beside the project's packages and run

    python tools/fuzz_reports.py -max_total_time=600 -max_len=1500 CORPUS_FOLDER

The first byte of an input picks the dialect, the rest is the datagram. Findings: an exception other
than `DecodeError`, books of the collector that do not balance, samples beyond their bound. Reading
past the end is not possible in Python; what it would give, an IndexError or a struct.error, is a
finding too. With --seed CORPUS_FOLDER the vectors of the tests become the first inputs.
"""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

_NOW_NS = 1_800_000_000_000_000_000
_DATAGRAMS_PER_COLLECTOR = 1000
"""A collector remembers contents and numbers: a new one now and then keeps inputs alike."""


def seed(folder: Path) -> None:
    """Write the vectors, each under its sender's dialect, as a corpus."""
    from controller.telemetry.profiles import DIALECTS
    from tests.support.report_vectors import VECTORS

    names = list(DIALECTS)
    folder.mkdir(parents=True, exist_ok=True)
    for index, vector in enumerate(VECTORS):
        content = bytes([names.index(vector.dialect)]) + vector.wire
        (folder / f"vector-{index:02}").write_bytes(content)


def fuzz() -> None:
    """Run until libFuzzer's limits are reached; a finding ends it."""
    import atheris  # type: ignore[import-untyped]

    compiled = ["controller.telemetry.stamp_kernel"]  # numba cannot compile what is instrumented
    with atheris.instrument_imports(include=["controller.telemetry"], exclude=compiled):
        from controller.telemetry.codec import DecodeError
        from controller.telemetry.collector import Collector
        from controller.telemetry.formats import claimed_node_id, decode_datagram
        from controller.telemetry.packet import IntMarking
        from controller.telemetry.profiles import DIALECTS, ReportFormat
        from controller.telemetry.rejected import SAMPLES_PER_NODE
        from controller.telemetry.topology import HOST_END, TelemetryFabric, TelemetryNode

    dialects = list(DIALECTS.values())
    dialects_v05 = [d for d in dialects if d.report_format is ReportFormat.V05]
    marking = IntMarking({27: 26}, 5000)
    fabric = TelemetryFabric(
        nodes={
            node_id: TelemetryNode(node_id=node_id, stamp_unit_ns=1, stamp_width_bits=48)
            for node_id in (1, 2, 101)
        },
        neighbours={(1, 1): (101, 1), (101, 1): (1, 1), (101, 2): (2, 1), (2, 1): (101, 2)}
        | {(1, 11): HOST_END, (2, 11): HOST_END},
        report_udp_ports=frozenset({32766}),
        original_dscp=marking.original_dscp,
        int_udp_port=marking.udp_port,
    )
    collectors: dict[str, Collector] = {}
    fed: dict[str, int] = {}

    def test_one_input(content: bytes) -> None:
        if not content:
            return
        dialect, payload = dialects[content[0] % len(dialects)], content[1:]
        with suppress(DecodeError):
            claimed_node_id(payload, 0, marking, dialects_v05)
        with suppress(DecodeError):
            decode_datagram(payload, 0, marking, dialect)
        name = dialect.name
        if name not in collectors or fed[name] >= _DATAGRAMS_PER_COLLECTOR:
            nodes = {n: replace(node, dialect=dialect) for n, node in fabric.nodes.items()}
            collectors[name], fed[name] = Collector(replace(fabric, nodes=nodes)), 0
        collector = collectors[name]
        collector.feed_payload(payload, _NOW_NS + fed[name] * 1_000_000)
        collector.feed(payload, _NOW_NS + fed[name] * 1_000_000)
        fed[name] += 1
        if fed[name] == _DATAGRAMS_PER_COLLECTOR:
            counters = collector.flush().counters
            taken = counters.decoded + counters.duplicates + counters.replicas
            assert counters.received == taken + counters.rejected_total
            samples = collector.rejected_samples
            assert len(samples) <= len(fabric.nodes) + 1
            assert all(len(payloads) <= SAMPLES_PER_NODE for payloads in samples.values())

    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seed"]:
        seed(Path(sys.argv[2]))
    else:
        fuzz()
