# SPDX-License-Identifier: Apache-2.0
"""`tempotrace verify` proves what a solve wrote, and says what does not hold."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from correction.mesh.solve import certificate, solve_mesh
from tempotrace.cli import app
from tests.support.mesh_fabric import leaf_spine_mesh

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "certificate.schema.json"


@pytest.fixture
def proof() -> dict:
    """One leaf in doubt, the others determined."""
    fabric = leaf_spine_mesh(6, 4, 6, bad={(3, 0): 300.0, (3, 2): 200.0})
    solution = solve_mesh(fabric.edges, fabric.reference)
    names = tuple(f"leaf{k}" for k in range(6)) + tuple(f"spine{k}" for k in range(4))
    return certificate(solution, fabric.edges, names + tuple(f"h{k}" for k in range(6)))


def _verify(tmp_path, document, *options):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return CliRunner().invoke(app, ["verify", str(path), *options])


def test_a_written_certificate_fits_its_schema_and_is_proved(tmp_path, proof):
    """Exit 0, the determined clocks counted, the others named."""
    jsonschema.validate(proof, json.loads(SCHEMA.read_text(encoding="utf-8")))
    result = _verify(tmp_path, proof)
    assert result.exit_code == 0
    assert "leaf3" in result.output
    assert f"proved: {len(proof['determined'])} clocks" in result.output


def test_json_says_what_was_proved(tmp_path, proof):
    """Counts by kind of claim."""
    answer = json.loads(_verify(tmp_path, proof, "--json").output)
    assert answer["proved"] is True
    assert answer["determined"] == len(proof["determined"]) > 4
    assert answer["cuts"] == len(proof["cuts"]) > 0


def test_a_claim_that_does_not_hold_is_named(tmp_path, proof):
    """Exit 1, not 2: the file is sound, the claim is not."""
    proof["determined"].append("leaf3")
    result = _verify(tmp_path, proof)
    assert result.exit_code == 1
    assert "leaf3" in result.output


def test_another_file_of_that_version_is_wrong_input(tmp_path):
    """Corrections, say: the missing key is named, and no claim counts as refuted."""
    result = _verify(tmp_path, {"version": 2, "corrections": []})
    assert result.exit_code == 2
    assert "ground" in result.output


@pytest.mark.parametrize("document", [[], {"version": 1}, {}])
def test_what_is_no_certificate_is_wrong_input(tmp_path, document):
    """One line, exit 2."""
    result = _verify(tmp_path, document)
    assert result.exit_code == 2
    assert "version 2" in result.output


def test_text_that_is_no_json_is_wrong_input(tmp_path):
    """One line, exit 2."""
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff{")
    result = CliRunner().invoke(app, ["verify", str(path)])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
