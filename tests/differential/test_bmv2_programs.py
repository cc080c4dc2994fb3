# SPDX-License-Identifier: Apache-2.0
"""Random packets through compiled programs on BMv2 and on the embedded switch: equal bytes.

`--bmv2-packets 10000` compares more; `--bmv2-programs FOLDER` (and `--bmv2-stf FOLDER`) takes
programs of others, such as what tools/stf_samples.py has compiled.
"""

import functools
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from finsy import pbutil
from finsy.proto import p4i

import p4src
from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.state import CloneSession
from controller.pipeline import find_compiler, load_pipeline
from tests.differential.test_bmv2_random_frames import Configured
from tests.support.bmv2_mirror import Mirror
from tests.support.bmv2_programs import (
    Comparison,
    CompiledProgram,
    Unsuitable,
    compare_program,
)

DATA = Path(__file__).parents[1] / "data" / "switch"
OURS = ("control", "features", "kinds", "tempotrace", "l2_switch")
REPORT_SESSIONS, RECIRCULATION_PORT = (1, 2), 509
UNDEFINED_SHARE_MAX = 0.2
"""Of our own programs: more would compare too little."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Our programs; those of `--bmv2-programs` with entries of their tests, then random ones."""
    if "outside" not in metafunc.fixturenames:
        return
    folder = metafunc.config.getoption("--bmv2-programs")
    paths = sorted(Path(folder).glob("*.p4info.txt")) if folder else []
    names = [path.name.removesuffix(".p4info.txt") for path in paths]
    none = pytest.param("", marks=pytest.mark.skip("--bmv2-programs names no folder of programs"))
    metafunc.parametrize("outside", names or [none])


def replication(switch: EmbeddedSwitch) -> None:
    """What the programs of tests/data/switch and the reports need."""
    sessions = switch.state.clone_sessions
    sessions[7] = CloneSession(session_id=7, replicas=((20, 0),))
    for number in REPORT_SESSIONS:
        replicas = ((RECIRCULATION_PORT, 1),)
        sessions[number] = CloneSession(session_id=number, replicas=replicas)
    switch.state.multicast_groups[3] = ((21, 9), (22, 9), (23, 10))


def configured(switch: EmbeddedSwitch) -> None:
    """Entries in all tables of the INT program."""
    Configured(mode="plain", switch=switch)


@functools.cache
def compiled(name: str) -> CompiledProgram:
    """One of our own programs; skips where it must be compiled and p4c is not there."""
    if name == "tempotrace":
        pipeline = load_pipeline()
        return CompiledProgram(
            name=name,
            text=pipeline.bmv2_json.encode(),
            p4info=pbutil.from_text(pipeline.p4info, p4i.P4Info),
            setup=configured,
        )
    return CompiledProgram.read(DATA / f"{name}.json", setup=replication, random_entries=True)


def compiled_example(folder: Path) -> CompiledProgram:
    """p4src/examples/l2_switch.p4."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("p4c-bm2-ss is not on the PATH")
    out = folder / "l2_switch.json"
    command = [str(compiler.path), "--std", "p4-16", "--Wdisable=unsupported", "-o", str(out)]
    command += ["--p4runtime-files", str(folder / "l2_switch.p4info.txt")]
    if compiler.include_folder is not None:
        command += ["-I", str(compiler.include_folder)]
    source = str(files(p4src) / "examples/l2_switch.p4")
    subprocess.run([*command, source], check=True, capture_output=True, timeout=120)
    return CompiledProgram.read(out, setup=replication, random_entries=True)


def _count(mirror: Mirror, found: Comparison) -> None:
    counts = mirror.counts
    counts.packets += found.packets
    counts.frames += found.frames
    counts.nodes += 1
    counts.undefined += found.undefined
    counts.fatal += len(found.fatal)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", OURS)
def test_our_programs(
    bmv2_mirror: Mirror, pytestconfig: pytest.Config, tmp_path: Path, name: str
) -> None:
    """With random entries, or entries in all tables; no packet ends BMv2."""
    program = compiled_example(tmp_path) if name == "l2_switch" else compiled(name)
    found = compare_program(program, pytestconfig.getoption("--bmv2-packets"), 1)
    _count(bmv2_mirror, found)
    assert found.fatal == []
    assert found.undefined <= UNDEFINED_SHARE_MAX * found.packets


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("entries", ["own", "random"])
def test_programs_of_others(
    bmv2_mirror: Mirror, pytestconfig: pytest.Config, outside: str, entries: str
) -> None:
    """With the entries of their switch test, or with random ones as well."""
    folder = Path(pytestconfig.getoption("--bmv2-programs"))
    tests = pytestconfig.getoption("--bmv2-stf")
    try:
        program = CompiledProgram.read(
            folder / f"{outside}.json",
            Path(tests) if tests else folder,
            random_entries=entries == "random",
        )
        found = compare_program(program, pytestconfig.getoption("--bmv2-packets"), entries)
    except Unsuitable as why:
        pytest.skip(str(why))
    _count(bmv2_mirror, found)
    if found.fatal:
        pytest.xfail(f"BMv2 ended {len(found.fatal)} times; {found.fatal[0]}")
