# SPDX-License-Identifier: Apache-2.0
"""Ground truth of one lab run: drawn from the seed, used by the simulator and the scoring alone.

No estimator can import this module (an import contract forbids it) and none reads `truth.json`.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

TRUTH_VERSION = 1
"""`version` of truth.json (docs/schemas/truth.schema.json)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueLink:
    """One cable: its two propagation delays; asymmetry = (a_to_b - b_to_a) / 2."""

    name: str
    a_to_b_ns: int
    b_to_a_ns: int
    bad: bool
    """Drawn as one of the asymmetric links."""

    @property
    def asymmetry_ns(self) -> float:
        """a_uv, half the one-way difference; positive when a -> b is the slower direction."""
        return (self.a_to_b_ns - self.b_to_a_ns) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueClockReading:
    """One clock at one true instant."""

    clock: str
    local_ns: int
    """What it read."""
    offset_ns: float | None
    """Reading minus the reference clock's at the same true instant, with its fraction. None for a
    switch, whose epoch is arbitrary: no float holds that difference exactly, the integers do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueWindow:
    """All clocks at one true instant: the centre of a telemetry window, or any other."""

    centre_true_ns: int
    reference_ns: int
    clocks: tuple[TrueClockReading, ...]


@dataclass(slots=True, kw_only=True)
class TrueFault:
    """One injected slow transfer and its cause."""

    kind: str
    """hop, link, sender or receiver; host: its software is slow in the whole run."""
    entity: str
    """What made it slow: `switch:port`, `u:port->v:port` or a host."""
    extra_ns: int
    trace_id: str = ""
    span_id: str = ""
    """The transfer's rdma.send span."""
    struck: bool = False
    """The fault met its packet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueEvent:
    """Something that the scenario did to the fabric, beyond chance."""

    kind: str
    """What: `stamp_bias`, `link_down`, `clock_step` ... (docs/scenarios.md)."""
    entity: str
    """Where: a switch, a host, `switch:port`, a link; empty: everywhere."""
    from_true_ns: int = 0
    until_true_ns: int | None = None
    """None: to the end of the run, or no matter of time."""
    value: float = 0.0
    """How much, in `unit`."""
    unit: str = ""


@dataclass(slots=True, kw_only=True)
class Truth:
    """Everything that is true of one run."""

    scenario: str
    seed: int
    links: tuple[TrueLink, ...]
    rate_offset_ppb: dict[str, float]
    windows: list[TrueWindow] = field(default_factory=list)
    faults: list[TrueFault] = field(default_factory=list)
    events: list[TrueEvent] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write truth.json."""
        document = {"version": TRUTH_VERSION, **asdict(self)}
        for link, entry in zip(self.links, document["links"], strict=True):
            entry["asymmetry_ns"] = link.asymmetry_ns
        for window in document["windows"]:
            window["reference_ns"] = str(window["reference_ns"])
            for clock in window["clocks"]:
                clock["local_ns"] = str(clock["local_ns"])
        text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
