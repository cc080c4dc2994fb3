# SPDX-License-Identifier: Apache-2.0
"""API v1: clocks, cables, asymmetries and observed paths of the fabric."""

import ipaddress
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response

from tracing_core.corrections import CorrectionTable
from tracing_core.service import examples, examples_fabric, schemas, schemas_fabric, views
from tracing_core.service.api import AsOf, as_version
from tracing_core.service.encoded_ids import ClockName
from tracing_core.service.paging import (
    Cursor,
    decode_cursor,
    link_next,
    page_of,
    page_of_more,
)
from tracing_core.service.problems import not_found
from tracing_core.service.views_fabric import LIMIT_NS, TRAFFIC, PathNames, asymmetry
from tracing_core.store import Store
from tracing_core.store.flow_paths import FlowPathStore

FABRIC_LIMIT_MAX = 10_000
"""A fabric's clocks or cables in one answer; the default, so that most come whole."""
LIST_LIMIT_MAX = 1000

EveryRow = Annotated[
    bool,
    Query(alias="all", description="All corrections in force instead of the newest window's."),
]
FabricLimit = Annotated[int, Query(ge=1, le=FABRIC_LIMIT_MAX)]
Limit = Annotated[int, Query(ge=1, le=LIST_LIMIT_MAX)]
Host = Annotated[str, Query(max_length=200, description="Name or IPv4 address of a host.")]


def fabric_router(store: Store) -> APIRouter:
    """Everything about the fabric itself."""
    router = APIRouter(prefix="/v1", tags=["fabric"])
    flow_paths = FlowPathStore(store.engine)

    def table_of(as_of: int | None) -> CorrectionTable:
        return store.corrections.table(as_version(store, as_of))

    @router.get("/clocks", responses=examples.shown(examples.CLOCKS))
    def clocks(
        request: Request, response: Response, every_row: EveryRow = False,
        limit: FabricLimit = FABRIC_LIMIT_MAX, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.ClockList:  # fmt: skip
        """Every clock at the centre of its newest window, with that window's corrections.

        In the fabric's order, then by name. `all=true` lists every correction in force, from which
        stored spans are corrected.
        """
        after = decode_cursor(cursor, "clocks", (int, str))
        table = table_of(as_of)
        items = list(enumerate(views.clocks(store.fabric.nodes(), table, every_row=every_row)))
        page = page_of(
            items, kind="clocks", key=lambda item: (item[0], item[1].clock), after=after,
            limit=limit,
        )  # fmt: skip
        return schemas.ClockList(
            correction_version=table.version,
            prior=views.prior(table),
            clocks=[clock for _, clock in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/clocks/{clock}", responses=examples.shown(examples_fabric.CLOCK))
    def clock(
        request: Request, response: Response, clock: ClockName,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas_fabric.ClockAnswer:  # fmt: skip
        """A clock and its history: each correction with the version that it came with."""
        before = decode_cursor(cursor, f"clock {clock}", (int, int))
        table = table_of(as_of)
        known = {item.clock: item for item in views.clocks(store.fabric.nodes(), table)}
        if clock not in known:
            raise not_found(f"there is no clock {clock}")
        rows = store.corrections.history(
            clock, table.version, limit=limit + 1,
            before=None if before is None else (max(0, int(before[0])), int(before[1])),
        )  # fmt: skip
        page = page_of_more(
            rows, kind=f"clock {clock}", key=lambda row: (row[0], row[1].valid_from_local_ns),
            limit=limit,
        )  # fmt: skip
        in_force = set(table.effective_rows_of(clock))
        return schemas_fabric.ClockAnswer(
            correction_version=table.version,
            clock=known[clock],
            history=[
                schemas_fabric.ClockHistoryRow(
                    **dict(views.correction(row)),
                    since_version=version,
                    in_force=row in in_force,
                    prior=row.prior,
                )
                for version, row in page.items
            ],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/links", responses=examples.shown(examples.LINKS))
    @router.get("/fabric/links", responses=examples.shown(examples.LINKS))
    def links(
        request: Request, response: Response,
        limit: FabricLimit = FABRIC_LIMIT_MAX, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.LinkList:  # fmt: skip
        """Every cable with its delay per direction and its asymmetry, in the fabric's order."""
        after = decode_cursor(cursor, "links", (int, str))
        table = table_of(as_of)
        items = views.links(store.fabric.links(), store.corrections.links(table.version))
        page = page_of(
            list(enumerate(items)), kind="links", key=lambda item: (item[0], item[1].name),
            after=after, limit=limit,
        )  # fmt: skip
        return schemas.LinkList(
            correction_version=table.version,
            links=[link for _, link in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/fabric", responses=examples.shown(examples.FABRIC))
    def fabric(as_of: AsOf = None) -> schemas.Fabric:
        """Nodes and links whole, as drawn on the web page."""
        table = table_of(as_of)
        estimates = store.corrections.links(table.version)
        return schemas.Fabric(
            correction_version=table.version,
            nodes=views.nodes(store.fabric.nodes(), table),
            links=views.links(store.fabric.links(), estimates),
        )

    @router.get("/fabric/asymmetry", responses=examples.shown(examples_fabric.ASYMMETRY))
    def asymmetries(
        request: Request, response: Response,
        limit: FabricLimit = FABRIC_LIMIT_MAX, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas_fabric.AsymmetryList:  # fmt: skip
        """Every cable's asymmetry with its interval, and which side of the limit that is on."""
        after = decode_cursor(cursor, "asymmetry", (int, str))
        table = table_of(as_of)
        estimates = store.corrections.links(table.version)
        page = page_of(
            list(enumerate(store.fabric.links())), kind="asymmetry",
            key=lambda item: (item[0], item[1].name), after=after, limit=limit,
        )  # fmt: skip
        return schemas_fabric.AsymmetryList(
            correction_version=table.version,
            limit_ns=LIMIT_NS,
            links=[asymmetry(link, estimates.get(link.name)) for _, link in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/fabric/paths", responses=examples.shown(examples_fabric.PATHS))
    def paths(
        request: Request, response: Response, src: Host = "", dst: Host = "",
        traffic: Annotated[Literal["", "roce", "ptp", "probe"], Query()] = "",
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas_fabric.FlowPathList:  # fmt: skip
        """Flows with the ways that their packets were seen to take; incomplete reports are left
        out. By traffic, source, destination and ports."""
        after = decode_cursor(cursor, "flows", (int, int, int, int, int))
        table = table_of(as_of)
        nodes = store.fabric.nodes()
        by_name = {node.name: node.ip for node in nodes if node.ip}
        flows = flow_paths.flows(
            src_ip=_address(by_name, "src", src), dst_ip=_address(by_name, "dst", dst),
            traffic=TRAFFIC.get(traffic, 0), limit=limit + 1,
            after=None if after is None else _flow(after),
        )  # fmt: skip
        page = page_of_more(flows, kind="flows", key=lambda flow: flow, limit=limit)
        names = PathNames(nodes, store.fabric.links(), store.corrections.links(table.version))
        found = flow_paths.paths(page.items) if page.items else []
        return schemas_fabric.FlowPathList(
            correction_version=table.version,
            flows=names.flows(found),
            next_cursor=link_next(request, response, page.next_cursor),
        )

    return router


def _flow(key: tuple[str | int | float, ...]) -> tuple[int, int, int, int, int]:
    one, src, dst, src_port, dst_port = (int(value) for value in key)
    return one & 0xFF, src & 0xFFFFFFFF, dst & 0xFFFFFFFF, src_port & 0xFFFF, dst_port & 0xFFFF


def _address(by_name: dict[str, int], parameter: str, value: str) -> int:
    """IPv4 address of a host; 0 for any."""
    if not value or value in by_name:
        return by_name.get(value, 0)
    try:
        return int(ipaddress.IPv4Address(value))
    except ValueError as error:
        raise HTTPException(
            422, f"{parameter}: expected a host of the fabric or an IPv4 address; found {value}"
        ) from error
