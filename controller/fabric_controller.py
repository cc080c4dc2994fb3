# SPDX-License-Identifier: Apache-2.0
"""The section `controller` of a fabric file: how its controllers reach the switches.

Options of the command line take the place of single keys.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controller.access import AccessError, read_certificate
from controller.yaml_positions import KeyPath

SECTION = "controller"
RECONNECT_FIRST_MS = 250
"""Before the second attempt to reach a switch."""
RECONNECT_MAX_S = 15.0
"""A switch that boots is seen this late at most, half a minute after the worst luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """TLS towards the switches."""

    ca: Path
    """Authorities of the switches' certificates (PEM)."""
    certificate: Path | None = None
    key: Path | None = None
    """Of the certificate."""
    server_name: str = ""
    """Name in every switch's certificate; empty: the host of its address."""

    def paths(self) -> dict[str, Path]:
        """The files by key."""
        named = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return {key: path for key, path in named.items() if path is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """What a fabric's controllers have in common; None: not said."""

    tls: TlsFiles | None = None
    """None: plain TCP."""
    election_id: int | None = None
    role: str = ""
    """P4Runtime role; empty: the one with full access."""
    report_budget_rps: float | None = None
    """Reports a second that each collector gets at most."""
    reconnect_first_ms: int = RECONNECT_FIRST_MS
    reconnect_max_s: float = RECONNECT_MAX_S
    """First and longest wait between attempts to reach a switch."""


DEFAULT_CONTROLLER = ControllerSettings()


def read_controller(node: dict[str, Any] | None) -> ControllerSettings:
    """The section, after the schema; paths are as they are written."""
    if node is None:
        return DEFAULT_CONTROLLER
    tls: dict[str, str] | None = node.get("tls")
    reconnect = node.get("reconnect", {})
    return ControllerSettings(
        tls=None
        if tls is None
        else TlsFiles(
            ca=Path(tls["ca"]),
            certificate=Path(tls["certificate"]) if "certificate" in tls else None,
            key=Path(tls["key"]) if "key" in tls else None,
            server_name=tls.get("server_name", ""),
        ),
        election_id=node.get("election_id"),
        role=node.get("role", ""),
        report_budget_rps=node.get("report_budget_rps"),
        reconnect_first_ms=reconnect.get("first_ms", RECONNECT_FIRST_MS),
        reconnect_max_s=reconnect.get("max_s", RECONNECT_MAX_S),
    )


def below(settings: ControllerSettings, folder: Path) -> ControllerSettings:
    """The settings with paths relative to this folder."""
    if settings.tls is None:
        return settings
    tls = settings.tls
    return replace(
        settings,
        tls=replace(
            tls,
            ca=folder / tls.ca,
            certificate=None if tls.certificate is None else folder / tls.certificate,
            key=None if tls.key is None else folder / tls.key,
        ),
    )


def controller_lines(settings: ControllerSettings) -> Iterator[str]:
    """The section as text; nothing where nothing is said."""
    if settings == DEFAULT_CONTROLLER:
        return
    yield f"{SECTION}:  # how the controllers of this fabric reach its switches"
    if settings.tls is not None:
        yield "  tls:"
        for key, path in settings.tls.paths().items():
            yield f"    {key}: {_quoted(str(path))}"
        if settings.tls.server_name:
            yield f"    server_name: {_quoted(settings.tls.server_name)}"
    if settings.election_id is not None:
        yield f"  election_id: {settings.election_id}"
    if settings.role:
        yield f"  role: {_quoted(settings.role)}"
    if settings.report_budget_rps is not None:
        yield f"  report_budget_rps: {settings.report_budget_rps!r}"
    yield (
        f"  reconnect: {{first_ms: {settings.reconnect_first_ms}, "
        f"max_s: {settings.reconnect_max_s!r}}}"
    )
    yield ""


def _quoted(text: str) -> str:
    """A text that YAML reads as it is: its double-quoted form takes all of JSON's."""
    return json.dumps(text, ensure_ascii=False)


def check_controller(settings: ControllerSettings) -> Iterator[tuple[KeyPath, str]]:
    """What is wrong with the section beyond the types of its values."""
    if settings.reconnect_first_ms > settings.reconnect_max_s * 1000:
        yield (
            (SECTION, "reconnect", "first_ms"),
            f"the first wait of {settings.reconnect_first_ms} ms is longer than max_s = "
            f"{settings.reconnect_max_s:g}; expected at most that",
        )


def unusable_certificates(settings: ControllerSettings) -> Iterator[tuple[KeyPath, str]]:
    """Files that a connection would fail of; they are looked at where switches are reached."""
    if settings.tls is None:
        return
    for key, path in settings.tls.paths().items():
        try:
            read_certificate(path)
        except AccessError as error:
            text = str(error).replace(": expected", " is none; expected")
            wanted = "" if "expected" in text else "; expected a PEM file"
            yield (SECTION, "tls", key), f"{text}{wanted}"
