# SPDX-License-Identifier: Apache-2.0
"""Frames of the table tests go through BMv2 as well where it is installed.

`--no-bmv2` leaves it out. The summary says over how many packets both switches were compared, or
why they were not.

Property tests draw the same examples every time, without a deadline, so that a change fails by
what it changes and not by chance; HYPOTHESIS_PROFILE=explore looks for new ones.
"""

import os
import resource
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.support.bmv2_mirror import Mirror

# Every store that is opened leaves threads of the embedded database, three open files each.
_SOFT, _HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_HARD, _HARD))

hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

PROGRAM = "simple_switch_grpc"
COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers `--no-bmv2` and how much goes through BMv2."""
    parser.addoption(
        "--bmv2-seeds", type=int, default=1, help="how many seeds of random frames go through BMv2"
    )
    parser.addoption(
        "--bmv2-packets", type=int, default=300, help="random packets for each compiled program"
    )
    parser.addoption(
        "--bmv2-programs",
        help="folder of NAME.json and NAME.p4info.txt that are compared as well",
    )
    parser.addoption("--bmv2-stf", help="folder of NAME.stf with their entries and packets")
    parser.addoption(
        "--no-bmv2", action="store_true", help=f"do not compare with {PROGRAM} although it is there"
    )


def _skip_reason(config: pytest.Config) -> str | None:
    """Why nothing is compared with BMv2."""
    if config.getoption("--no-bmv2"):
        return "--no-bmv2"
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not on the PATH"
    return None


@pytest.fixture(scope="session")
def optional_mirror(request: pytest.FixtureRequest) -> Iterator["Mirror | None"]:
    """BMv2 processes for the session, started at the first frame; None where there is no BMv2."""
    config = request.config
    counts = config.stash.setdefault(COUNTS, {})
    if _skip_reason(config) is not None:
        counts["skipped"] = 1
        yield None
        return
    from controller.pipeline import load_pipeline
    from tests.support.bmv2_mirror import Mirror

    mirror = Mirror(load_pipeline())
    yield mirror
    counts.update(asdict(mirror.counts))
    mirror.close()


@pytest.fixture(scope="session")
def bmv2_mirror(request: pytest.FixtureRequest, optional_mirror: "Mirror | None") -> "Mirror":
    """The same for tests that make no sense without; they skip."""
    if optional_mirror is None:
        pytest.skip(_skip_reason(request.config) or "")
    return optional_mirror


@pytest.fixture(scope="module")
def mirrored(optional_mirror: "Mirror | None") -> Iterator[None]:
    """Every `Node.send` of the module goes through BMv2 too, if there is one."""
    from tests.p4.harness import SEND_OBSERVERS, Node

    if optional_mirror is None:
        yield
        return
    mirror = optional_mirror

    def observe(node: Node, frame: bytes, port: int, _sent: object) -> None:
        mirror.compare(node.switch, frame, port)

    SEND_OBSERVERS.append(observe)
    yield
    SEND_OBSERVERS.remove(observe)


# Figures of worker processes (pytest-xdist) travel with their results.


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its counts to the process that prints the summary."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["bmv2"] = session.config.stash.get(COUNTS, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Add up what the workers compared."""
    del error
    total = node.config.stash.setdefault(COUNTS, {})
    for name, number in getattr(node, "workeroutput", {}).get("bmv2", {}).items():
        total[name] = total.get(name, 0) + number


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """One line on the comparison, if any test could have taken part in it."""
    counts = config.stash.get(COUNTS, {})
    if not counts:
        return
    if counts.get("packets"):
        from tests.support.bmv2_switch import bmv2_version

        text = (
            f"BMv2 {bmv2_version()} against the embedded switch: {counts['packets']} packets into "
            f"{counts['nodes']} switches, {counts['frames']} frames out, compared byte for byte"
        )
        if counts.get("undefined") or counts.get("fatal"):
            text += (
                f"; {counts['undefined']} packets that P4 leaves undefined, "
                f"{counts['fatal']} that ended BMv2"
            )
    elif (reason := _skip_reason(config)) is not None:
        text = f"BMv2 not compared: {reason}"
    else:
        return  # compared, but not by packets
    terminalreporter.write_line(text)
