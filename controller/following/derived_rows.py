# SPDX-License-Identifier: Apache-2.0
"""Corrections of hosts' other clocks as rows of the store."""

from controller.following.clock_status import CLOCK_STATUS
from correction.derived.chain import DerivedClocks
from correction.table import UNBOUNDED_NS, Status
from tracing_core.model import Correction

DERIVED_PRIOR = (
    "clocks read in pairs lie within the windows of their readings and are steered no more than "
    "twice as much as these show"
)
"""What the conditional bound of a derived clock rests on besides that of its parent."""


def derived_corrections(
    derived: DerivedClocks, *, prior: str, window: int | None = None
) -> list[Correction]:
    """One row each; the method is the chain of clocks. window: number of all rows, if of one."""
    return [
        Correction(
            clock=clock.clock,
            valid_from_local_ns=int(row["valid_from_local_ns"]),
            valid_to_local_ns=int(row["valid_to_local_ns"]),
            anchor_local_ns=int(row["anchor_local_ns"]),
            offset_ns=int(row["offset_ns"]),
            rate_ppb=float(row["rate_ppb"]),
            bound_hard_ns=_bound(int(row["bound_hard_ns"])),
            bound_conditional_ns=_bound(int(row["bound_conditional_ns"])),
            method=clock.method,
            prior=prior,
            status=CLOCK_STATUS[Status(int(row["status"]))],
            reason=clock.reasons[int(row["reason"])],
            window_index=int(row["window"]) if window is None else window,
        )
        for clock in derived.clocks
        for row in clock.rows
    ]


def _bound(bound_ns: int) -> int | None:
    return None if bound_ns == UNBOUNDED_NS else bound_ns
