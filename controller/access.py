# SPDX-License-Identifier: Apache-2.0
"""How a controller reaches its switches: its claim to be primary, and TLS."""

from dataclasses import dataclass
from pathlib import Path

from controller.arbitration import ELECTION_ID
from controller.plain_file import require_plain_file


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
    role: str = ""
    """P4Runtime role; empty: the one with full access."""
    tls: Tls | None = None
    """None: plain TCP."""


DEFAULT_ACCESS = Access()


def read_certificate(path: Path) -> bytes:
    """The bytes of a PEM file; AccessError when it cannot be read or is none."""
    try:
        require_plain_file(path)
        text = path.read_bytes()
    except OSError as error:
        raise AccessError(f"{path}: {error.strerror}") from error
    if b"-----BEGIN " not in text:
        raise AccessError(f"{path}: expected a PEM file")
    return text
