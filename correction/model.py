# SPDX-License-Identifier: Apache-2.0
"""What an estimator may know of a fabric: its clocks, links, stamp points and declared priors.

The unknowns of a solve are clocks, not machines: every NIC's PHC and every switch's INT clock; what
else ties clocks together (cross-stamps, reference clocks, PTP clocks of switches, paths without
telemetry) is added by `correction.ties`.
Built by `controller.fabric` from `fabric.yaml`; holds no measured and no true value.
"""

from dataclasses import dataclass
from enum import Enum, unique

import numpy as np
from numpy.typing import NDArray

from correction.remembered import remembered


@unique
class ClockKind(Enum):
    """What a clock times."""

    NIC = "nic"
    SWITCH = "switch"
    """A switch's INT clock."""
    PTP = "ptp"
    """The PTP clock of a switch that is a boundary clock, besides its INT clock."""
    COUNTER = "counter"
    """A machine's system counter, which cross-stamps compare its NICs with."""
    TIMESCALE = "timescale"
    """What several reference clocks are held against; no device shows it."""


UNCALIBRATED_NS = 500
"""What a stamp point's constant may be off the declared latency where nobody has measured it: MAC,
FEC and pipeline of a switch take 40 to 360 ns each (clocks.md section 4, DPTP's public log)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StampPoint:
    """Where a stamp is taken relative to the wire, as declared per device model and port speed.

    ingress: true stamp instant = arrival of the frame's reference point on the wire + latency.
    egress: departure of the frame's first bit on the wire = true stamp instant + latency.
    The real constant lies in latency_ns +- uncertainty_ns (hard limits, not a deviation).
    """

    latency_ns: int
    uncertainty_ns: int
    at_frame_end: bool = False
    """The reference point is the frame's last bit, so the stamp includes serialisation."""
    group: str = ""
    """Ports with the same group share one true constant (device model, port speed and direction),
    so it cancels between two ports of a group. Empty: independent of every other port."""
    calibrated: bool = True
    """False: nobody has measured it; `uncertainty_ns` is UNCALIBRATED_NS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One clock; `kind` says of what."""

    name: str
    kind: ClockKind
    node_id: int
    """INT node id of a switch; 0 for a NIC."""
    ip: int
    """IPv4 address of a NIC as an integer; 0 for a switch."""
    stamp_unit_ns: int
    """Quantum of its stamps."""
    stamp_jitter_ns: int
    """Declared one-sided noise after the egress stamp (MAC FIFO, pipeline), typical size."""
    stamp_bits: int = 64
    """Width of its stamps; narrower ones wrap and are unwrapped by capture time."""
    transparent: bool = False
    """Its switch adds the residence of PTP event messages to their correctionField
    (IEEE 1588-2019 section 10.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One cable between two ports, or another tie of two clocks, with what is declared about it."""

    name: str
    a: int
    """Index of the clock at end a."""
    a_port: int
    b: int
    b_port: int
    rate_bps: int
    a_egress: StampPoint
    a_ingress: StampPoint
    b_egress: StampPoint
    b_ingress: StampPoint
    min_delay_ns: int
    """Certified minimum one-way propagation (declared length minus tolerance); 0 if unknown."""
    asymmetry_sd_ns: float
    """Prior standard deviation of a healthy cable's a_uv (half the one-way difference), beyond
    `asymmetry_ns`."""
    access: bool
    """One end is a NIC: no loop goes through it, so its asymmetry is not observable."""
    max_delay_ns: int = 0
    """Declared largest one-way delay between the two ports (longest cable at its slowest, modules,
    FEC); 0 if unknown. A longer round trip refutes that both directions are alike."""
    asymmetry_ns: float = 0.0
    """Part of a_uv that has been measured (fibres that were swapped): it is taken off both
    directions, and estimates are of the rest. Hard bounds do not rest on it."""
    cable: bool = True
    """Between the two ports that it names. False: a tie by other means, with ports of no meaning
    and a `min_delay_ns` that may be negative."""
    firm: bool = False
    """Its asymmetry is never larger than declared, so that it cannot be a bad link: a cross-stamp
    inside a machine, a reference clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One clock that shows reference time, but for an error of its own."""

    clock: int
    """Index of a NIC's clock."""
    sd_ns: float
    """Standard deviation of its constant error."""
    hard_ns: float
    """Its error is never larger; infinite if nobody vouches for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryClock:
    """A switch that PTP ends at and starts anew (IEEE 1588-2019 clause 3.1)."""

    switch: int
    """Index of its INT clock."""
    ip: int
    """IPv4 address that PTP knows it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricModel:
    """Clocks and links; `reference` is the index of the time transmitter's clock."""

    clocks: tuple[Clock, ...]
    links: tuple[Link, ...]
    reference: int
    rate_offset_max_ppb: int
    """Declared largest |rate error| of any clock against the reference."""
    wander_ns_per_s_sqrt_s: float
    """Declared random walk of a clock's rate: ns/s per square root of a second."""
    references: tuple[Reference, ...] = ()
    """Several reference clocks with their errors (`correction.references`); empty: `reference` is
    without error."""
    boundary_clocks: tuple[BoundaryClock, ...] = ()
    """Switches with a PTP clock besides their INT clock (`correction.boundary_clocks`)."""


@remembered
def link_ends(model: FabricModel) -> NDArray[np.int64]:
    """[link, 2]: clocks a and b. Not to be written to."""
    ends = np.array([(link.a, link.b) for link in model.links], np.int64).reshape(-1, 2)
    ends.setflags(write=False)
    return ends
