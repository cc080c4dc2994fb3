# SPDX-License-Identifier: Apache-2.0
"""PCIe PTM: a NIC's PHC and its machine's counter read at nearly one instant, again and again."""

from collections.abc import Callable

import numpy as np

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from bmv2_lab.simulator.engine import Engine
from controller.clock_pairs import CrossStamp
from controller.fabric import Host

OnCrossStamp = Callable[[int, CrossStamp], None]
"""`on_stamp(true_ns, stamp)`: the true instant of the PHC's reading, for scoring alone."""


class PtmReader:
    """Cross-stamps of one NIC, every `interval_ns`; how far their readings are apart is mostly the
    same in all of them."""

    def __init__(
        self,
        engine: Engine,
        host: Host,
        phc: SteeredClock,
        system: Oscillator,
        *,
        interval_ns: int,
        nuisance: Nuisance,
        rng: np.random.Generator,
        on_stamp: OnCrossStamp,
    ) -> None:
        assert host.machine is not None, "only NICs of a machine have a counter to compare with"
        self._engine = engine
        self._host = host
        self._machine = host.machine
        self._phc = phc
        self._system = system
        self._interval_ns = interval_ns
        self._rng = rng
        self._on_stamp = on_stamp
        self._uncertainty_ns = nuisance.ptm_uncertainty_ns
        # two whole readings add up to 1 ns
        room_ns = nuisance.ptm_uncertainty_ns - 1
        self._constant_ns = rng.uniform(-1.0, 1.0) * nuisance.ptm_constant_share * room_ns
        self._varying_ns = (1.0 - nuisance.ptm_constant_share) * room_ns
        engine.at(engine.now_ns + int(rng.integers(1_000, interval_ns)), self._read)

    def _read(self) -> None:
        now_ns = self._engine.now_ns
        apart_ns = round(self._constant_ns + self._rng.uniform(-1.0, 1.0) * self._varying_ns)
        stamp = CrossStamp(
            machine=self._machine,
            clock=self._host.name,
            phc_local_ns=self._phc.read_ns(now_ns),
            system_local_ns=self._system.read_ns(now_ns + apart_ns),
            uncertainty_ns=self._uncertainty_ns,
        )
        self._on_stamp(now_ns, stamp)
        self._engine.at(now_ns + self._interval_ns, self._read)
