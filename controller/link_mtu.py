# SPDX-License-Identifier: Apache-2.0
"""The IP MTU of a link: the smallest that is declared for it, its ports, or the devices there."""

from collections.abc import Iterator
from typing import NamedTuple

from controller.fabric import Fabric, Host, Link, LinkEnd, Switch
from controller.yaml_positions import KeyPath


class LinkMtu(NamedTuple):
    """What limits packets on a link, and where the file says so."""

    mtu_bytes: int
    path: KeyPath


class MtuTable:
    """MTUs of all ports of a fabric."""

    def __init__(self, fabric: Fabric) -> None:
        self._models = {
            model.name: LinkMtu(model.mtu_bytes, ("models", index, "mtu_bytes"))
            for index, model in enumerate(fabric.models)
            if model.mtu_bytes is not None
        }
        self._nodes: dict[str, tuple[KeyPath, Host | Switch]] = {
            **{host.name: (("hosts", i), host) for i, host in enumerate(fabric.hosts)},
            **{switch.name: (("switches", i), switch) for i, switch in enumerate(fabric.switches)},
        }
        self._cabled: dict[str, list[tuple[int, LinkMtu]]] = {}
        parts: tuple[Link | Switch, ...] = (*fabric.links, *fabric.switches)
        if not self._models and not any(map(_declares_mtu, parts)):
            return
        for index, link in enumerate(fabric.links):
            limit = self.of_link(link, index)
            if limit is not None:
                for end in (link.a, link.b):
                    self._cabled.setdefault(end.node, []).append((end.port, limit))

    def of_ports(self, name: str) -> list[tuple[int, LinkMtu]]:
        """Ports of a node whose links have an MTU, in the order of the links."""
        return self._cabled.get(name, [])

    def of_link(self, link: Link, index: int) -> LinkMtu | None:
        """The MTU of the link at this place of the file; None where none is declared."""
        declared = [found for end in (link.a, link.b) for found in self._of_port(end)]
        if link.mtu_bytes is not None:
            declared.insert(0, LinkMtu(link.mtu_bytes, ("links", index, "mtu_bytes")))
        return min(declared, key=lambda one: one.mtu_bytes, default=None)

    def _of_port(self, end: LinkEnd) -> Iterator[LinkMtu]:
        """What is declared closest to the port."""
        path, node = self._nodes[end.node]
        if isinstance(node, Switch):
            for position, (port, mtu_bytes) in enumerate(node.port_mtus):
                if port == end.port:
                    yield LinkMtu(mtu_bytes, (*path, "port_mtus", position, "mtu_bytes"))
                    return
            if node.mtu_bytes is not None:
                yield LinkMtu(node.mtu_bytes, (*path, "mtu_bytes"))
                return
        if node.model in self._models:
            yield self._models[node.model]


def _declares_mtu(one: Link | Switch) -> bool:
    return one.mtu_bytes is not None or (isinstance(one, Switch) and bool(one.port_mtus))
