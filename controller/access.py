# SPDX-License-Identifier: Apache-2.0
"""How a controller reaches its switches: election id and TLS.

Election ids have 128 bits. The upper half is a term, as in leader elections: a backup that takes
over bids its own id in the next term, so it is above whatever the old primary bid, two backups
never bid the same, and the higher of them wins on all switches. A primary that comes back begins in
term 0 and finds itself a backup.
"""

from dataclasses import dataclass
from pathlib import Path

ELECTION_ID = 1_000
"""Election id of a controller that is given none."""
ELECTION_ID_MAX = (1 << 64) - 1
_TERM_SHIFT = 64


class AccessError(Exception):
    """Certificates that cannot be used; `str()` is one line naming the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """TLS towards switches. Files are read at every connection, so renewed ones are taken up."""

    ca: Path
    """Certificates of the authorities that the switches' certificates come from (PEM)."""
    certificate: Path | None = None
    """The controller's own certificate, for switches that ask for one (PEM)."""
    key: Path | None = None
    """Key of that certificate (PEM)."""
    server_name: str = ""
    """Name expected in every switch's certificate; empty: the host of its address."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise AccessError("a client certificate and its key go together")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to reach switches, and with which claim to be their primary controller."""

    election_id: int = ELECTION_ID
    """1 to 2^64 - 1: the controller with the highest one is primary."""
    tls: Tls | None = None
    """None: plain TCP."""


DEFAULT_ACCESS = Access()


def next_bid(own: int, highest: int) -> int:
    """The id to bid where nobody is primary and `highest` is the highest ever bid.

    >>> next_bid(1000, 700), next_bid(10, 1000) == (1 << 64) + 10
    (1000, True)
    """
    if own >= highest:
        return own
    return ((highest >> _TERM_SHIFT) + 1 << _TERM_SHIFT) + own


def show_election_id(bid: int) -> str:
    """An election id as people read it.

    >>> show_election_id(1000), show_election_id((2 << 64) + 7)
    ('1000', '7 in term 2')
    """
    term, own = bid >> _TERM_SHIFT, bid & ELECTION_ID_MAX
    return f"{own} in term {term}" if term else str(own)


def read_certificate(path: Path) -> bytes:
    """The bytes of a PEM file; AccessError when it cannot be read or is none."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from error
    if b"-----BEGIN " not in text:
        raise AccessError(f"{path}: expected a PEM file")
    return text
