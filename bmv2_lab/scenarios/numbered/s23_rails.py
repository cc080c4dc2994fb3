# SPDX-License-Identifier: Apache-2.0
"""Machines with eight NICs, each with a clock of its own, tied together by PTM."""

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.estimate_limits import determined
from bmv2_lab.scenarios.limits import Limit
from bmv2_lab.scenarios.parameters import Topology

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

RAILS = 8


def nics_per_machine(evidence: "Evidence") -> float:
    """Fewest NICs of a machine."""
    machines = sorted(host.machine or "" for host in evidence.fabric.hosts)
    return float(min(len(list(group)) for _, group in groupby(machines)))


def apart_ns(evidence: "Evidence") -> float:
    """Largest distance in true time of a cross-stamp's two readings, less what it declares."""
    found = []
    for true_ns, stamp in evidence.result.cross_stamps:
        system = np.array([stamp.system_local_ns], np.int64)
        oscillator = evidence.run.drawn.oscillators[stamp.machine]
        apart = abs(float(oscillator.true_of_ns(system)[0]) - true_ns)
        found.append(apart - stamp.uncertainty_ns)
    return max(found)


def pair_error_ns(evidence: "Evidence") -> float:
    """Largest error of the offset between two NICs of a machine, from cross-stamps alone, against
    the truth at the centres of the windows."""
    errors = []
    for window in evidence.truth.windows:
        offsets = {clock.clock: clock.local_ns for clock in window.clocks}
        by_machine: dict[str, list[float]] = {}
        for host in evidence.fabric.hosts:
            near = [
                (abs(true_ns - window.centre_true_ns), stamp)
                for true_ns, stamp in evidence.result.cross_stamps
                if stamp.clock == host.name
            ]
            (_, first), (_, second) = sorted(near, key=lambda one: one[0])[:2]
            # both around the centre: the PHC's reading where the counter reads what it does there
            oscillator = evidence.run.drawn.oscillators[first.machine]
            centre = oscillator.read_ns(window.centre_true_ns)
            rate = (second.phc_local_ns - first.phc_local_ns) / (
                second.system_local_ns - first.system_local_ns
            )
            phc_ns = first.phc_local_ns - offsets[host.name]
            phc_ns += round((centre - first.system_local_ns) * rate)
            by_machine.setdefault(first.machine, []).append(float(phc_ns))
        errors += [max(values) - min(values) for values in by_machine.values()]
    return max(errors)


def stamps_per_clock(evidence: "Evidence") -> float:
    """Fewest cross-stamps of a NIC."""
    names = [stamp.clock for _, stamp in evidence.result.cross_stamps]
    return float(min(names.count(host.name) for host in evidence.fabric.hosts))


SCENARIOS = (
    replace(
        SMALL,
        number=23,
        name="rail-optimised",
        summary="two machines with eight NICs, one on each of eight rail leaves: 16 clocks, and "
        "PTM cross-stamps that tie those of a machine together without the network; three NICs' "
        "cables are asymmetric, which shows by way of the machines",
        bad_access_links=3,
        leaves=RAILS,
        spines=2,
        hosts_per_leaf=2,
        tenants=("alpha",),
        topology=Topology.RAILS,
        qps_per_peer=4,
        limits=(
            *SOUND,
            Limit(
                name="NICs a machine, fewest", measure=nics_per_machine, at_least=8.0, at_most=8.0
            ),
            Limit(name="cross-stamps of a NIC, fewest", measure=stamps_per_clock, at_least=20.0),
            Limit(
                name="readings of a cross-stamp apart beyond the declared, largest, ns",
                measure=apart_ns,
                at_most=1.5,
            ),
            Limit(
                name="offset between NICs of a machine, error of the cross-stamps, largest, ns",
                measure=pair_error_ns,
                at_most=400.0,
            ),
        ),
        estimate_limits=(
            # where the grandmaster's own cable is a bad one, all hosts depend on its cross-stamps
            *determined(bound_ns=60.0),
            Limit(
                name="cables of NICs in no loop",
                measure=lambda e: e.estimates.hidden_access_links(),
                at_most=0.0,
            ),
            Limit(
                name="cables of NICs whose a_uv is outside its bounds",
                measure=lambda e: e.estimates.access_links_outside(),
                at_most=0.0,
            ),
        ),
    ),
)
