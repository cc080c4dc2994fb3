# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the `openssl` program; tests skip where there is none."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


def _openssl(*arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl")
    subprocess.run([program, *arguments], check=True, capture_output=True)


def make_authority(folder: Path, name: str) -> Pair:
    """A certificate authority."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(pair.key), "-out", str(pair.certificate)),
    )
    return pair


def make_certificate(folder: Path, name: str, authority: Pair, *, alt_name: str) -> Pair:
    """A certificate of that authority, for a name such as `IP:127.0.0.1` or `DNS:leaf1`."""
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={alt_name}\n", encoding="utf-8")
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
        *("-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(request)),
    )
    _openssl(
        *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions)),
        *("-CA", str(authority.certificate), "-CAkey", str(authority.key), "-CAcreateserial"),
        *("-out", str(pair.certificate)),
    )
    return pair
