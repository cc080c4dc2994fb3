# SPDX-License-Identifier: Apache-2.0
"""The fabric's nodes and links as the API and attribution know them."""

from collections.abc import Sequence

from correction.model import FabricModel
from tracing_core.model import FabricLink, FabricNode
from tracing_core.store.engine import Engine


def nodes_of(model: FabricModel) -> tuple[FabricNode, ...]:
    """The model's clocks as nodes, in its order."""
    return tuple(
        FabricNode(name=clock.name, kind=clock.kind.value, node_id=clock.node_id, ip=clock.ip)
        for clock in model.clocks
    )


def links_of(model: FabricModel) -> tuple[FabricLink, ...]:
    """The model's links, in its order."""
    return tuple(
        FabricLink(
            name=link.name,
            a=model.clocks[link.a].name,
            a_port=link.a_port,
            b=model.clocks[link.b].name,
            b_port=link.b_port,
            rate_bps=link.rate_bps,
            access=link.access,
        )
        for link in model.links
    )


class FabricStore:
    """Replaces and reads the fabric description."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.revision = 0
        """Rises with every replacement."""

    def replace(self, nodes: Sequence[FabricNode], links: Sequence[FabricLink]) -> None:
        """Makes these the only nodes and links; every link ends at two of the nodes."""
        names = {node.name for node in nodes}
        for link in links:
            if not {link.a, link.b} <= names:
                raise ValueError(f"link {link.name} ends at a node that is not in the fabric")
        with self._engine.transaction_lock():
            self._engine.command("TRUNCATE TABLE fabric_nodes")
            self._engine.command("TRUNCATE TABLE fabric_links")
            if nodes:
                self._engine.insert(
                    "fabric_nodes",
                    {
                        "name": [node.name for node in nodes],
                        "kind": [node.kind for node in nodes],
                        "node_id": [node.node_id for node in nodes],
                        "ip": [node.ip for node in nodes],
                        "position": list(range(len(nodes))),
                    },
                )
            if links:
                self._engine.insert(
                    "fabric_links",
                    {
                        "name": [link.name for link in links],
                        "a": [link.a for link in links],
                        "a_port": [link.a_port for link in links],
                        "b": [link.b for link in links],
                        "b_port": [link.b_port for link in links],
                        "rate_bps": [link.rate_bps for link in links],
                        "access": [int(link.access) for link in links],
                        "position": list(range(len(links))),
                    },
                )
            self.revision += 1

    def nodes(self) -> tuple[FabricNode, ...]:
        """All nodes in the order in which they were given."""
        rows = self._engine.rows(
            "SELECT name, kind, node_id, ip FROM fabric_nodes FINAL ORDER BY position"
        )
        return tuple(FabricNode(name=r[0], kind=r[1], node_id=r[2], ip=r[3]) for r in rows)

    def links(self) -> tuple[FabricLink, ...]:
        """All links in the order in which they were given."""
        rows = self._engine.rows(
            "SELECT name, a, a_port, b, b_port, rate_bps, access FROM fabric_links FINAL"
            " ORDER BY position"
        )
        return tuple(
            FabricLink(
                name=r[0],
                a=r[1],
                a_port=r[2],
                b=r[3],
                b_port=r[4],
                rate_bps=r[5],
                access=bool(r[6]),
            )
            for r in rows
        )
