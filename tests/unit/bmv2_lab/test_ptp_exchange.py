# SPDX-License-Identifier: Apache-2.0
"""PTP of the lab's hosts: correctionField is honoured as an unmodified ptp4l does."""

from collections.abc import Callable

import numpy as np
import pytest

from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.ptp import PtpClient, PtpTransmitter
from controller.fabric_generate import leaf_spine
from controller.telemetry.ptp import PtpMessageType, parse_ptp

DURATION_NS = 20_000_000_000
CORRECTION_OFFSET = 14 + 20 + 8 + 8
"""correctionField in an Ethernet/IPv4/UDP frame."""
BASE_NS = 2_000


class _Path:
    """A way between two hosts that takes `delay_ns`, and adds to event messages' correction."""

    def __init__(self, engine: Engine, target: HostNode, delay: Callable[[], tuple[int, int]]):
        self._engine, self._target, self._delay = engine, target, delay

    def send(self, frame: bytes) -> None:
        delay_ns, correction_scaled_ns = self._delay()
        if parse_ptp(frame).message_type in (PtpMessageType.SYNC, PtpMessageType.DELAY_REQ):
            scaled = int.from_bytes(frame[CORRECTION_OFFSET : CORRECTION_OFFSET + 8], "big")
            added = (scaled + correction_scaled_ns) % 2**64
            tail = frame[CORRECTION_OFFSET + 8 :]
            frame = frame[:CORRECTION_OFFSET] + added.to_bytes(8, "big") + tail
        at_ns = self._engine.now_ns + delay_ns
        self._engine.at(at_ns, self._target.receive, frame, 1, at_ns)


def _run(
    there: Callable[[], tuple[int, int]], back: Callable[[], tuple[int, int]]
) -> tuple[float, list[np.void]]:
    """Client minus grandmaster at the end, ns, and the exchanges.

    Each way gives a delay in ns and a correction in 2^-16 ns.
    """
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=2)
    engine = Engine()
    nodes = []
    for index in range(2):
        oscillator = Oscillator(
            np.random.default_rng(index),
            epoch_ns=10**18 + 40_000 * index,
            rate_offset_ppb=3_000.0 * index,
            wander_ns_per_s_sqrt_s=0.0,
            duration_ns=DURATION_NS,
        )
        name = fabric.hosts[index].name
        nodes.append(HostNode(engine, name, SteeredClock(oscillator), 100_000_000_000))
    grandmaster, client = nodes
    grandmaster.attach(_Path(engine, client, there))  # type: ignore[arg-type]
    client.attach(_Path(engine, grandmaster, back))  # type: ignore[arg-type]
    exchanges: list[np.void] = []
    transmitter, host = fabric.hosts
    PtpTransmitter(
        engine, grandmaster, transmitter, (host,), fabric.ptp,
        dscp=0, interval_ns=125_000_000, until_ns=DURATION_NS, rng=np.random.default_rng(7),
    )  # fmt: skip
    PtpClient(
        engine, client, host, transmitter, fabric.ptp,
        dscp=0, interval_ns=125_000_000, rng=np.random.default_rng(8),
        on_exchange=lambda _client, row: exchanges.append(row), on_adjust=lambda *_: None,
    )  # fmt: skip
    engine.run(DURATION_NS)
    return client.phc.offset_from_ns(grandmaster.phc, DURATION_NS), exchanges


def test_without_corrections_a_client_is_off_by_half_the_difference() -> None:
    """6 us more on the way there leave it 3 us behind, and c1 and c2 are 0."""
    error_ns, exchanges = _run(lambda: (BASE_NS + 6_000, 0), lambda: (BASE_NS, 0))
    assert error_ns == pytest.approx(-3_000, abs=5)
    assert {(int(row["c1_ns"]), int(row["c2_ns"])) for row in exchanges} == {(0, 0)}


def test_what_transparent_clocks_add_is_taken_off_on_both_ways() -> None:
    """Queueing of up to 50 us there and 9 us back, all in correctionField, leaves no error."""
    rng = np.random.default_rng(3)

    def way(base_ns: int, most_ns: int) -> tuple[int, int]:
        queued_ns = int(rng.integers(0, most_ns))
        return base_ns + queued_ns, queued_ns << 16

    error_ns, exchanges = _run(lambda: way(BASE_NS, 50_000), lambda: way(BASE_NS, 9_000))
    assert error_ns == pytest.approx(0, abs=5)
    assert max(int(row["c1_ns"]) for row in exchanges) > 20_000
    assert max(int(row["c2_ns"]) for row in exchanges) > 4_000


def test_the_exchange_record_holds_both_corrections() -> None:
    """c1 is the Sync's, c2 what the Delay_Req had when it arrived; each may be negative."""
    _, exchanges = _run(lambda: (BASE_NS, 700 << 16), lambda: (BASE_NS, -300 << 16))
    assert {(int(row["c1_ns"]), int(row["c2_ns"])) for row in exchanges} == {(700, -300)}


def test_a_correction_that_did_not_fit_makes_no_exchange() -> None:
    """2^63 - 1 says that the residence was too long to state: such a Sync is not used."""
    _, exchanges = _run(lambda: (BASE_NS, 2**63 - 1), lambda: (BASE_NS, 0))
    assert not exchanges
    _, exchanges = _run(lambda: (BASE_NS, 0), lambda: (BASE_NS, 2**63 - 1))
    assert not exchanges
