# SPDX-License-Identifier: Apache-2.0
"""The wheel holds all packages and their data: a missing one is no error to the build backend."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_FOLDERS = {
    "tempotrace",
    "bmv2_lab",
    "controller",
    "tracing_core",
    "correction",
    "p4src",
}
DATA = (
    "p4src/artifacts/tempotrace.json",
    "p4src/artifacts/tempotrace.p4info.txtpb",
    "p4src/artifacts/manifest.json",
    "p4src/v1model/tempotrace.p4",
    "controller/schemas/fabric.schema.json",
    "tracing_core/service/static/index.html",
)


def test_wheel_holds_every_package_and_its_data(tmp_path: Path) -> None:
    """Six top-level folders beside the metadata, and what is read with importlib.resources."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == TOP_FOLDERS
    assert [name for name in DATA if name not in names] == []
    assert not any(name.startswith("tests/") for name in names)
