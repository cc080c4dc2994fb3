# SPDX-License-Identifier: Apache-2.0
"""A host's system clock and GPU, and who reads them together: the PHC between two readings of the
system clock (PTP_SYS_OFFSET_EXTENDED), the GPU's timer between two more.

Where in its window a reading lies is hardly chance: one way over PCIe is longer than the other,
always the same one. The window itself is honest.
"""

from collections.abc import Callable, Mapping

from bmv2_lab.draw import DrawnFabric, Stream, gpu_timer_name, stream
from bmv2_lab.scenarios.parameters import HostClocks, Scenario
from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.ntp import NtpFollower
from controller.clock_pairs import ClockPair, PairKind, clock_pair_line, derived_clock_line
from controller.fabric import Host
from controller.host_clocks import KERNEL_STEERING_PPB
from correction.derived.readings import Behaviour
from tracing_core.clock_domains import ClockKind, clock_name

PHC_WINDOW_NS = (400, 600.0)
"""Shortest reading of a PHC over PCIe, and mean of what comes on top."""
GPU_WINDOW_NS = (1_800, 800.0)
"""The same of a GPU's timer."""
UNEVEN = 0.8
"""How far from the middle of a window, in half windows, one host's readings may always be."""
SCATTER = 0.15
"""By how much more a single reading may be."""
GPU_TICK_NS = 32
WANDER_MARGIN = 2.0
"""Declared wander of a pair over that of one oscillator: root two is true."""

Read = Callable[[int], int]


class HostClockReader:
    """The clocks of one host that no packet carries."""

    def __init__(
        self,
        engine: Engine,
        host: Host,
        scenario: Scenario,
        drawn: DrawnFabric,
        phcs: Mapping[str, SteeredClock],
        *,
        seed: int,
        number: int,
        lines: list[str],
    ) -> None:
        """number: of the host; lines: where the log goes."""
        settings = scenario.host_clocks
        assert settings is not None
        self._engine, self._lines, self._settings = engine, lines, settings
        self._rng = stream(seed, Stream.HOST_CLOCKS, number)
        self.system_name = clock_name(host.name, ClockKind.SYSTEM)
        self.gpu_name = gpu_timer_name(host.name)
        self.system = SteeredClock(drawn.oscillators[self.system_name])
        self.gpu: Oscillator = drawn.oscillators[self.gpu_name]
        steered = number % settings.ntp_every == 0
        if steered:
            self._follow_ntp(settings, phcs[drawn.fabric.ptp.grandmaster])
        nuisance = scenario.nuisance
        steering_ppb = KERNEL_STEERING_PPB if steered else 0.0
        for clock, parent, settable in (
            (self.system_name, host.name, True),
            (self.gpu_name, self.system_name, False),
        ):
            declared = Behaviour(
                steering_ppb=steering_ppb,
                wander_ns_per_s_sqrt_s=WANDER_MARGIN * nuisance.wander_ns_per_s_sqrt_s,
                rate_ppb_max=2.0 * nuisance.rate_offset_max_ppb + steering_ppb,
                settable=settable,
            )
            lines.append(derived_clock_line(clock, parent, declared))
        self._phc_share, self._gpu_share = self._rng.uniform(-UNEVEN, UNEVEN, 2).tolist()
        self._host, self._phc = host.name, phcs[host.name]
        start_ns = engine.now_ns + int(self._rng.integers(1_000, settings.interval_ns))
        engine.at(start_ns, self._read_phc)
        engine.at(start_ns + settings.interval_ns // 2, self._read_gpu)

    def set_by(self, step_ns: int) -> None:
        """Somebody sets the system clock."""
        now_ns = self._engine.now_ns
        self.system.adjust(now_ns, frequency_ppb=self.system.frequency_ppb, step_ns=step_ns)

    def readings(self) -> tuple[tuple[str, int], ...]:
        """What both clocks read now; for scoring alone."""
        now_ns = self._engine.now_ns
        return (
            (self.system_name, self.system.read_ns(now_ns)),
            (self.gpu_name, self.gpu.read_ns(now_ns)),
        )

    def _follow_ntp(self, settings: HostClocks, reference: SteeredClock) -> None:
        bias_ns = round(self._rng.uniform(-1.0, 1.0) * settings.ntp_bias_ns_max)
        NtpFollower(
            self._engine,
            self.system,
            reference,
            poll_ns=settings.ntp_poll_ns,
            bias_ns=bias_ns - settings.tai_utc_s * 1_000_000_000,
            noise_sd_ns=settings.ntp_noise_sd_ns,
            rng=self._rng,
            on_adjust=lambda *_: None,
        )

    def _read_phc(self) -> None:
        def keep(first_ns: int, phc_ns: int, last_ns: int) -> None:
            middle_ns = (first_ns + last_ns) // 2
            self._lines.append(
                clock_pair_line(
                    ClockPair(
                        kind=PairKind.PTP_EXTENDED,
                        clock=self.system_name,
                        parent=self._host,
                        clock_local_ns=middle_ns,
                        parent_local_ns=phc_ns,
                        uncertainty_ns=last_ns - middle_ns,
                    )
                )
            )

        self._bracket(self._phc.read_ns, PHC_WINDOW_NS, self._phc_share, keep)
        self._again(self._read_phc)

    def _read_gpu(self) -> None:
        def keep(first_ns: int, gpu_ns: int, last_ns: int) -> None:
            middle_ns = (first_ns + last_ns) // 2
            self._lines.append(
                clock_pair_line(
                    ClockPair(
                        kind=PairKind.GLOBALTIMER,
                        clock=self.gpu_name,
                        parent=self.system_name,
                        clock_local_ns=gpu_ns // GPU_TICK_NS * GPU_TICK_NS,
                        parent_local_ns=middle_ns,
                        uncertainty_ns=last_ns - middle_ns + GPU_TICK_NS,
                    )
                )
            )

        self._bracket(self.gpu.read_ns, GPU_WINDOW_NS, self._gpu_share, keep)
        self._again(self._read_gpu)

    def _bracket(
        self,
        read: Read,
        window_ns: tuple[int, float],
        share: float,
        keep: Callable[[int, int, int], None],
    ) -> None:
        """Read another clock between two readings of the system clock; instants are of true time,
        and each reading is taken when it is due."""
        engine, now_ns = self._engine, self._engine.now_ns
        shortest_ns, more_ns = window_ns
        length_ns = shortest_ns + self._rng.exponential(more_ns)
        place = share + SCATTER * self._rng.uniform(-1.0, 1.0)
        between_ns = now_ns + round(length_ns * (1.0 + place) / 2)
        found = [self.system.read_ns(now_ns)]
        engine.at(between_ns, lambda: found.append(read(engine.now_ns)))

        def end() -> None:
            keep(found[0], found[1], self.system.read_ns(engine.now_ns))

        engine.at(now_ns + round(length_ns), end)

    def _again(self, action: Callable[[], None]) -> None:
        self._engine.at(self._engine.now_ns + self._settings.interval_ns, action)
