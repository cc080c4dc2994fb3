# SPDX-License-Identifier: Apache-2.0
"""What clients' correctionFields hold that nothing explains.

Explained are the residences of the transparent clocks that the packets passed, and link delays
that were written to their ports (`injected`). A client that is configured with a `delayAsymmetry`
shows it as c1 = +A and c2 = -A, since ptp4l adds it to Syncs and sends its negative in Delay_Reqs.
"""

from dataclasses import dataclass

import numpy as np

from correction.injected import Accounted

EXPLAINED_NS = 20.0
"""Residence offsets are declared to some ns, and stamps may be coarse by more."""
UNEXPLAINED_SHARE_MAX = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFields:
    """One client's correctionFields; medians over its exchanges, or over those that leave something
    unexplained, where these are more than UNEXPLAINED_SHARE_MAX."""

    client: int
    exchanges: int
    """Of which both messages' paths were reported whole."""
    unexplained: int
    """Of these, with more than EXPLAINED_NS left over in either field."""
    written_ns: tuple[float, float]
    """(c1, c2): link delays and residence offsets that were in force."""
    unexplained_ns: tuple[float, float]
    """(c1, c2) beyond that and residence."""

    @property
    def explained(self) -> bool:
        """Nothing is left over, but in single exchanges."""
        return self.unexplained <= UNEXPLAINED_SHARE_MAX * self.exchanges

    @property
    def applied_asymmetry_ns(self) -> float | None:
        """A `delayAsymmetry` that the client has applied itself; None where that explains it
        not."""
        c1, c2 = self.unexplained_ns
        if self.explained or abs(c1 + c2) > EXPLAINED_NS:
            return None
        return (c1 - c2) / 2


def client_fields(accounted: Accounted) -> tuple[ClientFields, ...]:
    """Every client that has exchanges with both messages known, by clock index."""
    known = accounted.known.all(axis=1)
    left_over = np.max(np.abs(accounted.unexplained_ns), axis=1) > EXPLAINED_NS
    result = []
    for client in np.unique(accounted.exchanges["client"][known]).tolist():
        mine = known & (accounted.exchanges["client"] == client)
        count, odd = np.count_nonzero(mine), np.count_nonzero(mine & left_over)
        told = mine & left_over if odd > UNEXPLAINED_SHARE_MAX * count else mine
        written = np.median(accounted.injected_ns[told], axis=0)
        left = np.median(accounted.unexplained_ns[told], axis=0)
        result.append(
            ClientFields(
                client=int(client),
                exchanges=int(count),
                unexplained=int(odd),
                written_ns=(float(written[0]), float(written[1])),
                unexplained_ns=(float(left[0]), float(left[1])),
            )
        )
    return tuple(result)
