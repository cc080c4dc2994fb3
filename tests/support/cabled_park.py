# SPDX-License-Identifier: Apache-2.0
"""A fabric's embedded switches with cables between them that a test may move."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bmv2_lab.cabled_switches import CabledSwitches
from controller.cabling.lldp import LldpFrame, PortSubtype, encode_lldp
from controller.fabric import Fabric, LinkEnd, cabling
from tests.support.kept_fabric import SwitchPark, park


@dataclass
class CabledPark:
    """Switches and cables."""

    park: SwitchPark
    carrier: CabledSwitches

    def swap(self, first: str, second: str) -> None:
        """The cables at these two ports change places."""
        cables = self.carrier.cables
        one, other = LinkEnd.parse(first), LinkEnd.parse(second)
        one_far, other_far = cables[one], cables[other]
        for near, far in ((one, other_far), (other, one_far)):
            cables[near], cables[far] = far, near

    def cut(self, sender: str) -> None:
        """Nothing that leaves this port arrives any more."""
        del self.carrier.cables[LinkEnd.parse(sender)]

    def host_says(self, port: str, *, name: str, mac: int) -> None:
        """A host sends LLDP into a switch port, as lldpd does: its MAC as both ids."""
        frame = LldpFrame(
            src_mac=mac,
            chassis_subtype=4,
            chassis_id=mac.to_bytes(6, "big"),
            port_subtype=PortSubtype.MAC_ADDRESS,
            port_id=mac.to_bytes(6, "big"),
            ttl_s=120,
            system_name=name,
        )
        self.carrier.arrive(LinkEnd.parse(port), encode_lldp(frame))


@asynccontextmanager
async def cabled_park(fabric: Fabric) -> AsyncIterator[CabledPark]:
    """All switches of a fabric, empty, and cabled as in its file."""
    async with park(fabric) as switches:
        yield CabledPark(switches, CabledSwitches(switches.switches, cabling(fabric)))
