# SPDX-License-Identifier: Apache-2.0
"""An OpenTelemetry resource detector: host, clock, PHCs and GPUs of the machine it runs on.

    from tracing_core.sdk_resource import HostClockDetector
    provider = TracerProvider(resource=get_aggregated_resources([HostClockDetector()]))

The SDK stamps spans with the system clock, so that is the clock it names: `HOST/system`. Where the
system clock follows a NIC's hardware clock closely enough (phc2sys), say so: `clock="h3"`, or
TEMPOTRACE_CLOCK_DOMAIN=h3. What OTEL_RESOURCE_ATTRIBUTES says wins over what is found.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from opentelemetry.sdk.resources import OTELResourceDetector, Resource, ResourceDetector

from tracing_core.clock_domains import (
    RESOURCE_CLOCK_KIND,
    RESOURCE_HOST_ID,
    SPAN_RANK,
    ClockKind,
    clock_name,
    kind_of_name,
)
from tracing_core.model import RESOURCE_CLOCK_DOMAIN, RESOURCE_HOST, RESOURCE_TENANT

CLOCK_VARIABLE = "TEMPOTRACE_CLOCK_DOMAIN"
TENANT_VARIABLE = "TEMPOTRACE_TENANT"
RESOURCE_CLOCK_HARDWARE = "tempotrace.clock.hardware"
"""What the system clock counts with, such as tsc."""
RESOURCE_PHC = "tempotrace.phc"
"""Hardware clocks as INTERFACE=DEVICE, such as eth0=ptp0."""
RESOURCE_BOOT_ID = "tempotrace.boot_id"
"""Names the boot: time since boot is the clock HOST/monotonic/BOOT."""
RESOURCE_GPU_UUID = "tempotrace.gpu.uuid"
RESOURCE_GPU_MODEL = "tempotrace.gpu.model"
DEVICES_MAX = 64
"""Interfaces and GPUs looked at; no machine has more."""
_GPU_FIELD = re.compile(r"^(Model|GPU UUID):\s*(\S.*?)\s*$", re.MULTILINE)

Value = str | int | tuple[str, ...]


class HostClockDetector(ResourceDetector):
    """Reads `/sys`, `/proc` and the environment once, when `detect` is called."""

    def __init__(
        self,
        *,
        clock: str = "",
        root: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
        host: str = "",
    ) -> None:
        """`clock`: name of the clock of all stamps. `root` and `environment` are for tests."""
        super().__init__()
        self._clock = clock
        self._root = root
        self._environment = (
            os.environ  # noqa: TID251 - it describes the process that it runs in
            if environment is None
            else environment
        )
        self._host = host

    def detect(self) -> Resource:
        """The resource; what cannot be read is left out."""
        host = self._host or os.uname().nodename
        clock = self._clock or self._environment.get(CLOCK_VARIABLE, "")
        named = kind_of_name(clock) if clock.partition("/")[0] == host else ClockKind.UNKNOWN
        kind = ClockKind.SYSTEM if named is ClockKind.UNKNOWN else named
        gpus = list(self._gpus())
        found: dict[str, Value] = {
            RESOURCE_HOST: host,
            RESOURCE_HOST_ID: self._text("etc/machine-id"),
            RESOURCE_CLOCK_DOMAIN: clock or clock_name(host, ClockKind.SYSTEM),
            RESOURCE_CLOCK_KIND: kind.value,
            RESOURCE_CLOCK_HARDWARE: self._text(
                "sys/devices/system/clocksource/clocksource0/current_clocksource"
            ),
            RESOURCE_BOOT_ID: self._text("proc/sys/kernel/random/boot_id"),
            RESOURCE_PHC: tuple(self._phcs()),
            RESOURCE_GPU_UUID: tuple(uuid for uuid, _ in gpus),
            RESOURCE_GPU_MODEL: tuple(model for _, model in gpus),
            RESOURCE_TENANT: self._environment.get(TENANT_VARIABLE, ""),
        }
        rank = self._environment.get("RANK", "")
        if rank.isascii() and rank.isdigit() and len(rank) < 10:
            found[SPAN_RANK] = int(rank)
        known = {key: value for key, value in found.items() if value not in ("", ())}
        return Resource(known).merge(OTELResourceDetector().detect())

    def _phcs(self) -> Iterator[str]:
        """Network interfaces with their hardware clock, in order."""
        for interface in self._entries("sys/class/net"):
            for device in self._entries(f"sys/class/net/{interface}/device/ptp"):
                yield f"{interface}={device}"

    def _gpus(self) -> Iterator[tuple[str, str]]:
        """UUID and model of each GPU that a driver shows."""
        for address in self._entries("proc/driver/nvidia/gpus"):
            text = self._text(f"proc/driver/nvidia/gpus/{address}/information")
            fields = dict(_GPU_FIELD.findall(text))
            if "GPU UUID" in fields:
                yield fields["GPU UUID"], fields.get("Model", "unknown")
        for node in self._entries("sys/class/kfd/kfd/topology/nodes"):  # AMD
            folder = f"sys/class/kfd/kfd/topology/nodes/{node}"
            properties = dict(
                line.split(None, 1)
                for line in self._text(f"{folder}/properties").splitlines()
                if len(line.split(None, 1)) == 2
            )
            identity = properties.get("unique_id", "0")
            if identity not in ("", "0"):
                yield f"GPU-{int(identity):016x}", self._text(f"{folder}/name") or "AMD"

    def _entries(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / folder).iterdir())[:DEVICES_MAX]
        except OSError:
            return []

    def _text(self, path: str) -> str:
        try:
            return (self._root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""
