# SPDX-License-Identifier: Apache-2.0
"""The resource detector finds the machine's clocks and GPUs, and claims nothing that it cannot."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import ResourceDetector, get_aggregated_resources
from opentelemetry.sdk.trace import TracerProvider

from tracing_core.sdk_resource import HostClockDetector

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder as of a machine with two NICs and three GPUs."""
    files = {
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/class/net/eth0/device/ptp/ptp0/clock_name": "mlx5_ptp\n",
        "sys/class/net/eth1/device/ptp/ptp1/clock_name": "mlx5_ptp\n",
        "sys/class/net/lo/mtu": "65536\n",
        "proc/driver/nvidia/gpus/0000:17:00.0/information":
            "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42\n"
            "GPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\n",
        "proc/driver/nvidia/gpus/0000:65:00.0/information":
            "Model: \t\t NVIDIA H100 80GB HBM3\n"
            "GPU UUID: \t GPU-99999999-2222-3333-4444-555555555555\n",
        "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nunique_id 0\n",
        "sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\nunique_id 255\n",
        "sys/class/kfd/kfd/topology/nodes/1/name": "gfx942\n",
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def detected(root: Path, **options) -> dict:
    options = {"environment": {}, "host": "h3", **options}
    return dict(HostClockDetector(root=root, **options).detect().attributes)


def test_two_lines_give_every_span_its_clock():
    """As in the documentation: the provider's resource names host and clock."""
    provider = TracerProvider(
        resource=get_aggregated_resources([HostClockDetector()]), shutdown_on_exit=False
    )
    attributes = provider.resource.attributes
    provider.shutdown()
    assert attributes["tempotrace.clock.domain"] == f"{attributes['host.name']}/system"
    assert attributes["tempotrace.clock.kind"] == "system"
    assert "service.name" in attributes


def test_clocks_and_gpus_of_the_machine(machine: Path):
    """What sysfs and the drivers show, interfaces with their hardware clock."""
    found = detected(machine)
    assert found["host.id"] == "0123456789abcdef0123456789abcdef"
    assert found["tempotrace.clock.hardware"] == "tsc"
    assert found["tempotrace.phc"] == ("eth0=ptp0", "eth1=ptp1")
    assert found["tempotrace.gpu.uuid"] == (
        "GPU-11111111-2222-3333-4444-555555555555",
        "GPU-99999999-2222-3333-4444-555555555555",
        "GPU-00000000000000ff",
    )
    assert found["tempotrace.gpu.model"] == (
        "NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "gfx942",
    )  # fmt: skip


def test_the_boot_is_named(tmp_path: Path):
    """Part of the name of clocks that count from it; the kernel shows it."""
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("a0dba802-8d8f-45e7-8aab-fa23230db2f5\n", encoding="utf-8")
    assert detected(tmp_path)["tempotrace.boot_id"] == "a0dba802-8d8f-45e7-8aab-fa23230db2f5"


def test_a_machine_that_shows_nothing_claims_nothing(tmp_path: Path):
    """A container without sysfs: host and system clock, no empty attributes."""
    assert set(detected(tmp_path)) == {"host.name", "tempotrace.clock.domain",
                                       "tempotrace.clock.kind"}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "clock", "kind"),
    [
        ({}, "h3/system", "system"),
        ({"clock": "h3"}, "h3", "phc"),
        ({"environment": {"TEMPOTRACE_CLOCK_DOMAIN": "h3"}}, "h3", "phc"),
        ({"clock": "other"}, "other", "system"),
        ({"clock": "h3/monotonic/b1"}, "h3/monotonic/b1", "monotonic"),
    ],
    ids=str,
)
def test_the_user_may_say_what_the_system_clock_follows(tmp_path, options, clock, kind):
    """By argument or by environment; otherwise the system clock stands for itself."""
    found = detected(tmp_path, **options)
    assert (found["tempotrace.clock.domain"], found["tempotrace.clock.kind"]) == (clock, kind)


def test_ranks_and_tenant_come_from_the_launcher(tmp_path):
    """RANK as torchrun sets it; what is no number is left out."""
    found = detected(tmp_path, environment={"RANK": "17", "TEMPOTRACE_TENANT": "alpha"})
    assert (found["tempotrace.rank"], found["tempotrace.tenant"]) == (17, "alpha")
    assert "tempotrace.rank" not in detected(tmp_path, environment={"RANK": "first"})


def test_what_the_environment_says_wins(tmp_path, monkeypatch):
    """OTEL_RESOURCE_ATTRIBUTES is the user's own word."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=h9,tempotrace.clock.domain=h9")
    found = detected(tmp_path)
    assert (found["host.name"], found["tempotrace.clock.domain"]) == ("h9", "h9")


def test_the_sdk_finds_the_detector_by_name():
    """OTEL_EXPERIMENTAL_RESOURCE_DETECTORS=tempotrace loads it through its entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    target = project["entry-points"]["opentelemetry_resource_detector"]["tempotrace"]
    module, _, name = target.partition(":")
    assert issubclass(getattr(import_module(module), name), ResourceDetector)
