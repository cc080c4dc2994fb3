# SPDX-License-Identifier: Apache-2.0
"""What the estimation's statuses are called in answers."""

from correction.table import Status
from tracing_core.model import ClockStatus

CLOCK_STATUS = {
    Status.OK: ClockStatus.SYNCHRONISED,
    Status.AMBIGUOUS: ClockStatus.FLAGGED,
    Status.STALE: ClockStatus.UNKNOWN,
    Status.INCONSISTENT: ClockStatus.DISRUPTED,
    Status.FLOATING: ClockStatus.UNKNOWN,
}
