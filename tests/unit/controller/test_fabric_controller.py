# SPDX-License-Identifier: Apache-2.0
"""The section `controller` of a fabric file, and options that take the place of its keys."""

from dataclasses import replace
from pathlib import Path

import pytest

from controller.fabric import FabricError
from controller.fabric_controller import (
    RECONNECT_FIRST_MS,
    RECONNECT_MAX_S,
    ControllerSettings,
    TlsFiles,
)
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric, parse_fabric
from controller.fabric_generate import leaf_spine
from tempotrace.commands.deploy_options import AccessOptions
from tempotrace.errors import InputError
from tests.support.fabric_faults import checked

PLAIN = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
TEXT = dump_fabric(PLAIN)
SECTION = """controller:
  tls: {ca: tls/ca.pem, certificate: tls/own.pem, key: tls/own.key, server_name: switch.example}
  election_id: 700  # the second of two
  role: fabric
  report_budget_rps: 50000
  reconnect: {first_ms: 100, max_s: 60}
"""
NO_OPTIONS = AccessOptions(ca=None, certificate=None, key=None, server_name=None)


def pem(path: Path) -> Path:
    """A file that passes for a certificate where nobody connects."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("-----BEGIN CERTIFICATE-----\n", encoding="utf-8")
    return path


def test_section_is_read_as_written(tmp_path: Path) -> None:
    """Every key has its value; files are those beside the fabric file, wherever one stands."""
    path = tmp_path / "fabric.yaml"
    path.write_text(TEXT + SECTION, encoding="utf-8")
    assert load_fabric(path).controller == ControllerSettings(
        tls=TlsFiles(
            ca=tmp_path / "tls/ca.pem",
            certificate=tmp_path / "tls/own.pem",
            key=tmp_path / "tls/own.key",
            server_name="switch.example",
        ),
        election_id=700,
        role="fabric",
        report_budget_rps=50_000,
        reconnect_first_ms=100,
        reconnect_max_s=60,
    )


def test_files_count_from_the_file_that_names_them(tmp_path: Path) -> None:
    """A section in an included file means files beside that one; absolute paths stay."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "controller.yaml").write_text(
        "controller: {tls: {ca: ca.pem, certificate: /etc/own.pem, key: ../own.key}}\n",
        encoding="utf-8",
    )
    path = tmp_path / "fabric.yaml"
    path.write_text("include: [site/controller.yaml]\n" + TEXT, encoding="utf-8")
    tls = load_fabric(path).controller.tls
    assert tls == TlsFiles(
        ca=tmp_path / "site/ca.pem",
        certificate=Path("/etc/own.pem"),
        key=tmp_path / "site/../own.key",
    )


def test_nothing_is_needed() -> None:
    """Without the section: plain TCP, usual election id, the waits of the product."""
    assert parse_fabric(TEXT).controller == ControllerSettings(
        reconnect_first_ms=RECONNECT_FIRST_MS, reconnect_max_s=RECONNECT_MAX_S
    )
    access = NO_OPTIONS.access(parse_fabric(TEXT).controller)
    assert (access.tls, access.election_id, access.role) == (None, 1_000, "")


@pytest.mark.parametrize(
    "settings",
    [
        ControllerSettings(),
        ControllerSettings(tls=TlsFiles(ca=Path("no: ca.pem"))),
        parse_fabric(TEXT + SECTION).controller,
    ],
)
def test_section_survives_the_file(settings: ControllerSettings) -> None:
    """What is written is read again."""
    fabric = replace(PLAIN, controller=settings)
    assert parse_fabric(dump_fabric(fabric)) == fabric


def test_all_errors_of_the_section_at_once() -> None:
    """Wrong types, ranges, unknown keys and half a pair: one line each, with what was expected."""
    section = """controller:
  tls: {ca: 7, key: own.key, cert: own.pem}
  election_id: 0
  role: ""
  report_budget_rps: .inf
  reconnect: {first_ms: 5, max_s: soon}
  addresses: {}
"""
    with pytest.raises(FabricError) as caught:
        parse_fabric(TEXT + section)
    first = len(TEXT.splitlines()) + 1
    faults = [(one.line - first, one.key) for one in checked(caught.value)]
    assert faults == [
        (1, "controller.tls.ca"),
        (1, "controller.tls.cert"),
        (1, "controller.tls.key"),
        (2, "controller.election_id"),
        (3, "controller.role"),
        (4, "controller.report_budget_rps"),
        (5, "controller.reconnect.first_ms"),
        (5, "controller.reconnect.max_s"),
        (6, "controller.addresses"),
    ]


def test_first_wait_is_not_the_longest() -> None:
    """A first wait beyond the longest one is told at its line."""
    with pytest.raises(FabricError) as caught:
        parse_fabric(TEXT + "controller: {reconnect: {first_ms: 3000, max_s: 2}}\n")
    (fault,) = checked(caught.value)
    assert fault.key == "controller.reconnect.first_ms"
    assert "expected at most that" in fault.message


def test_certificates_are_looked_at_where_switches_are_reached(tmp_path: Path) -> None:
    """A file that is missing or is no PEM file: file, line, key; only for commands that connect,
    and only if no option takes its place."""
    path = tmp_path / "fabric.yaml"
    path.write_text(TEXT + SECTION, encoding="utf-8")
    pem(tmp_path / "tls" / "ca.pem")
    (tmp_path / "tls" / "own.pem").write_text("nothing", encoding="utf-8")
    with pytest.raises(FabricError) as caught:
        load_fabric(path, check=NO_OPTIONS.check_deployable)
    line = len(TEXT.splitlines()) + 2
    assert [str(one) for one in checked(caught.value)] == [
        f"{path}:{line}: controller.tls.certificate: {tmp_path}/tls/own.pem is none; "
        "expected a PEM file",
        f"{path}:{line}: controller.tls.key: {tmp_path}/tls/own.key: No such file or directory; "
        "expected a PEM file",
    ]
    own = pem(tmp_path / "own.pem")
    other = replace(NO_OPTIONS, certificate=own, key=own)
    access = other.access(load_fabric(path, check=other.check_deployable).controller)
    assert access.tls is not None
    assert (access.tls.ca, access.tls.certificate) == (tmp_path / "tls/ca.pem", own)
    assert access.tls.server_name == "switch.example"


def test_options_take_the_place_of_keys(tmp_path: Path) -> None:
    """Each option that is given, and no other; TLS as a whole can be left out."""
    declared = parse_fabric(TEXT + SECTION).controller
    ca = pem(tmp_path / "other.pem")
    chosen = replace(NO_OPTIONS, ca=ca, server_name="", election_id=9, role="").settings(declared)
    assert declared.tls is not None
    assert chosen.tls == replace(declared.tls, ca=ca, server_name="")
    assert (chosen.election_id, chosen.role) == (9, "")
    assert replace(NO_OPTIONS, no_tls=True).access(declared).tls is None
    with pytest.raises(InputError, match="--no-tls does not go with"):
        replace(NO_OPTIONS, no_tls=True, ca=ca)
    with pytest.raises(InputError, match="need --tls-ca"):
        replace(NO_OPTIONS, key=ca).settings(ControllerSettings())
