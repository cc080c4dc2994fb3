# SPDX-License-Identifier: Apache-2.0
"""One transparent clock adds too much to the correctionField."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bmv2_lab.scenarios.common import SMALL, SOUND
from bmv2_lab.scenarios.disturbances import WrongCorrection
from bmv2_lab.scenarios.estimate_limits import DETERMINED
from bmv2_lab.scenarios.limits import Limit

if TYPE_CHECKING:
    from bmv2_lab.evidence import Evidence

WRONG = WrongCorrection(switch="spine1", error_ns=700)


def _unexplained(evidence: "Evidence", *, over_it: bool) -> np.ndarray:
    """What residence does not explain of the correctionFields of messages (not) over the switch."""
    rows = [
        (found.unexplained_ns, WRONG.switch in found.switches) for found in evidence.corrections
    ]
    return np.array([ns for ns, over in rows if over == over_it])


SCENARIOS = (
    replace(
        SMALL,
        number=19,
        name="wrong-correction-field",
        summary="all switches are transparent clocks; one spine adds 700 ns too much to each event "
        "message, which residence in telemetry does not explain",
        wrong_correction=WRONG,
        limits=(
            *SOUND,
            Limit(
                name="unexplained over the wrong switch less the true error, largest, ns",
                measure=lambda e: float(
                    np.abs(_unexplained(e, over_it=True) - WRONG.error_ns).max()
                ),
                at_most=1.5,
            ),
            Limit(
                name="unexplained elsewhere, largest, ns",
                measure=lambda e: float(np.abs(_unexplained(e, over_it=False)).max()),
                at_most=1.5,
            ),
            Limit(
                name="messages over it",
                measure=lambda e: float(len(_unexplained(e, over_it=True))),
                at_least=5.0,
            ),
        ),
        estimate_limits=DETERMINED,
    ),
)
