# SPDX-License-Identifier: Apache-2.0
"""What a switch's target wants otherwise than the others: port numbers and clone (mirror) sessions.

Pure. Everything else of the P4Runtime contract is the same on every target (docs/p4.md). How clone
sessions reach a Tofino's mirror table is the business of the P4Runtime server on the switch
(Stratum and the vendor's do it); how long a mirrored copy may be is set here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from types import MappingProxyType

PORT_MAX = 510
"""Ports are 9 bits wide on every target, and one value is kept for dropped packets."""
CABLE_PORT_MAX = 508
"""BMv2's last port that a cable can be in; the three above are the program's own."""


@unique
class DeviceConfigFormat(Enum):
    """How a Tofino's P4Runtime server wants the compiled program packed (`tofino_config.py`)."""

    STRATUM = "stratum"
    """Stratum's `BfPipelineConfig`."""
    PI = "pi"
    """The blocks of p4lang/PI, which the vendor's server is built on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of switch that the program is compiled for."""

    name: str
    recirculation_port: int
    """Clones become reports behind this port and are routed from there; never a cable."""
    reserved_ports: Mapping[int, str] = field(default_factory=dict)
    """Ports that no cable can be in, and why."""
    cpu_ports: tuple[int, ...] = ()
    """What `cpu_port` may be: the program has it compiled in. Empty: anything."""
    cable_port_max: int = PORT_MAX
    """Last port that a cable can be in, where it is not a reserved one."""
    tags_ethernet_ptp: bool = True
    """PTP over Ethernet gets the tag of the link that it leaves over."""
    clone_instance: int = 1
    """Instance of a clone session's only replica; mirror sessions know none but 0."""
    cuts_in_session: bool = False
    """Copies are cut by their session; otherwise the program cuts (BMv2 refuses a length)."""


BMV2 = Target(
    name="bmv2",
    recirculation_port=509,
    reserved_ports=MappingProxyType(
        {509: "recirculation port", 510: "CPU port", 511: "port of dropped packets"}
    ),
    cpu_ports=(510,),
    cable_port_max=CABLE_PORT_MAX,
)
"""BMv2, and the embedded switch in its place."""
TOFINO = Target(
    name="tofino",
    recirculation_port=68,
    reserved_ports=MappingProxyType(
        {68: "recirculation port", 196: "recirculation port", 324: "recirculation port"}
        | {452: "recirculation port", 511: "port of dropped packets"}
    ),
    cpu_ports=(192, 320),
    tags_ethernet_ptp=False,
    clone_instance=0,
    cuts_in_session=True,
)
"""Tofino 1 (docs/tofino.md). Its CPU port: 192 with two pipes, 320 with four."""
TOFINO2 = Target(
    name="tofino2",
    recirculation_port=6,
    reserved_ports=MappingProxyType({6: "recirculation port", 511: "port of dropped packets"}),
    cpu_ports=(0,),
    tags_ethernet_ptp=False,
    clone_instance=0,
    cuts_in_session=True,
)
"""Tofino 2."""

NO_PROGRAM = Target(name="none", recirculation_port=0)
"""A switch that does not run the program, and that nobody here configures: it routes and queues,
and stamps and reports nothing."""

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (BMV2, TOFINO, TOFINO2, NO_PROGRAM)}
)

_ETHERNET_BYTES_MAX = 18
"""Ethernet with one tag."""
_INT_HEADERS_BYTES = 16
"""Shim and INT header."""
_INGRESS_MIRROR_BYTES = 27
"""Mirror header in front of a copy, at ingress: MIRROR_RECEIVED_BYTES of p4src/tna/headers.p4."""
_EGRESS_MIRROR_BYTES = 32
"""Likewise at egress: MIRROR_HOP_BYTES."""
_MAC_HEADER_BYTES = 8
"""What the MAC takes off the front of a PTP message that it corrects; a mirrored copy keeps it."""


def ingress_copy_bytes(target: Target, *, truncate_bytes: int, stack_bytes_max: int) -> int:
    """Length that the session of ingress copies is cut to; 0: not cut by the session.

    `stack_bytes_max` is the longest INT-MD stack of the domain: it is never cut (docs/p4.md).
    """
    if not target.cuts_in_session:
        return 0
    headers = _INGRESS_MIRROR_BYTES + _ETHERNET_BYTES_MAX + _INT_HEADERS_BYTES
    return headers + truncate_bytes + stack_bytes_max


def egress_copy_bytes(target: Target, *, truncate_bytes: int) -> int:
    """Length that the session of egress copies is cut to; 0: not cut by the session."""
    if not target.cuts_in_session:
        return 0
    return _EGRESS_MIRROR_BYTES + _MAC_HEADER_BYTES + _ETHERNET_BYTES_MAX + truncate_bytes
