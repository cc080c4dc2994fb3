# SPDX-License-Identifier: Apache-2.0
"""Which links are dead by what LLDP says. Pure.

Only silence counts, of a link between two switches of ours that has been heard before. What a frame
says moves no route: LLDP has no signature, but who can keep frames from passing can cut the link as
well. And a port that hears nothing counts only while another link of its switch is heard, so that
it is the link that is silent, and not the way to the controller.
"""

from collections import Counter

from controller.cabling.check import Cabling, FindingKind, LinkState
from controller.fabric import Fabric, Link, programmed_switches

_DEAD = (FindingKind.ONE_WAY, FindingKind.SILENT)


class LldpLinks:
    """The links of one fabric over the rounds."""

    def __init__(self, fabric: Fabric, before: "LldpLinks | None" = None) -> None:
        """before: under the file before, whose links are known as far as they are still there."""
        ours = {switch.name for switch in programmed_switches(fabric)}
        self._links: dict[str, Link] = {
            link.name: link for link in fabric.links if {link.a.node, link.b.node} <= ours
        }
        heard = set() if before is None else before._heard
        dead = {} if before is None else before._dead
        self._heard: set[str] = {name for name in heard if name in self._links}
        """Links that were right at least once."""
        self._dead: dict[str, str] = {
            name: reason for name, reason in dead.items() if name in self._links
        }

    def judge(self, cabling: Cabling) -> dict[str, str]:
        """Dead links and why; one that cannot be looked at now stays what it was."""
        right = {name for name in self._links if cabling.links.get(name) is LinkState.RIGHT}
        self._heard |= right
        heard_ends = Counter(
            end.node for name in right for end in (self._links[name].a, self._links[name].b)
        )
        silent = {one.ports: str(one) for one in cabling.findings if one.kind in _DEAD}
        for name, link in self._links.items():
            reason = silent.get(tuple(sorted((link.a, link.b))))
            if name in right:
                self._dead.pop(name, None)
            elif (
                reason is not None
                and name in self._heard
                and heard_ends[link.a.node]
                and heard_ends[link.b.node]
            ):
                self._dead[name] = f"LLDP: {reason}"
        return dict(self._dead)
