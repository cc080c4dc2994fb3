# SPDX-License-Identifier: Apache-2.0
"""Who is primary: election ids and what a switch says of them (P4Runtime 1.3 section 5).

Pure. Election ids have 128 bits. The upper half is a term, as in leader elections: a backup that
takes over bids its own id in the next term, so it is above whatever the old primary bid, two
backups never bid the same, and the higher of them wins on all switches. A primary that comes back
begins in term 0 and finds itself a backup.
"""

from dataclasses import dataclass

ELECTION_ID = 1_000
"""Election id of a controller that is given none."""
ELECTION_ID_MAX = (1 << 64) - 1
_TERM_SHIFT = 64
_BID_MAX = (1 << 128) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arbitration:
    """What a switch says of who is primary."""

    is_primary: bool
    """We are."""
    has_primary: bool
    highest_election_id: int
    """The highest election id that the switch has seen."""


def next_bid(own: int, highest: int) -> int:
    """The id to bid where nobody is primary and `highest` is the highest ever bid.

    >>> next_bid(1000, 700), next_bid(10, 1000) == (1 << 64) + 10
    (1000, True)
    """
    if own >= highest:
        return own
    return min(((highest >> _TERM_SHIFT) + 1 << _TERM_SHIFT) + own, _BID_MAX)


def show_election_id(bid: int) -> str:
    """An election id as people read it.

    >>> show_election_id(1000), show_election_id((2 << 64) + 7)
    ('1000', '7 in term 2')
    """
    term, own = bid >> _TERM_SHIFT, bid & ELECTION_ID_MAX
    return f"{own} in term {term}" if term else str(own)
