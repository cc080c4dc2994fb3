# SPDX-License-Identifier: Apache-2.0
"""Errors of the oracle: the best that the run's own measurements allow to somebody who is told
which links are bad (design, Definitions)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scoring import BAD_LINK_NS
from bmv2_lab.truth import Truth
from correction.measure import Measured
from correction.oracle import oracle
from correction.records import NO_TSTAMP_NS
from correction.servo import ServoLog, steered_table
from correction.table import CorrectionTable


def oracle_errors_ns(
    truth: Truth,
    measured: Measured,
    servos: Mapping[int, ServoLog],
    *,
    asymmetry_sd_ns: float,
) -> dict[str, NDArray[np.float64]]:
    """Per clock, the oracle's error at each window's centre, ns; NaN where it has none.

    asymmetry_sd_ns: the true deviation of the healthy links' asymmetry.
    """
    bad = np.array([abs(link.asymmetry_ns) >= BAD_LINK_NS for link in truth.links])
    solution = oracle(measured, bad, asymmetry_sd_ns=np.full(len(bad), asymmetry_sd_ns))
    return table_errors_ns(truth, steered_table(solution.table, servos))


def table_errors_ns(truth: Truth, table: CorrectionTable) -> dict[str, NDArray[np.float64]]:
    """Per clock, the error of a table of corrections at each window's centre, ns.

    Offsets, so positive where the table puts a clock too far ahead. A switch's true offset is
    known in whole ns only.
    """
    errors: dict[str, list[float]] = {}
    for window in truth.windows:
        for reading in window.clocks:
            index = table.clock_names.index(reading.clock)
            reference_ns = int(
                table.convert(np.array([reading.local_ns], np.int64), index).reference_ns[0]
            )
            error_ns = (
                float(window.reference_ns - reference_ns)
                if reading.offset_ns is None
                else reading.local_ns - reference_ns - reading.offset_ns
            )
            known = reference_ns != NO_TSTAMP_NS
            errors.setdefault(reading.clock, []).append(error_ns if known else float("nan"))
    return {clock: np.array(values) for clock, values in errors.items()}
