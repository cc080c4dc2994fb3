# SPDX-License-Identifier: Apache-2.0
"""A fabric as arrays: what the compiled loops need to know of nodes, cables and marking."""

from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.collector import columns as c
from controller.collector.kernel import part
from controller.collector.loads import address_of, get
from controller.telemetry.profiles import STANDARD, Dialect, ReportFormat
from controller.telemetry.topology import HOST_END, TelemetryFabric

Array = NDArray[np.int64]

NO_CABLE = -1
AT_HOST = -2
"""Far end of an access link."""
_KNOWN_DIFFERENCES = {"name", "doc", "hw_id_shift", "sequence_constant", "shim_length_counts_shim"}
"""In what the compiled decoder follows a dialect; other deviations are left to the reference."""


class FabricTables(NamedTuple):
    """Addresses of read-only tables; nodes in the order of their ids, as in `StampTimelines`."""

    nodes: int
    """int64[nodes, N_COLUMNS]."""
    slots: int
    """Hash table of 2^k entries: row of a node, -1 free."""
    slots_mask: int
    far_ends: int
    """Per node's port: row << 16 | port at the other end, NO_CABLE or AT_HOST."""
    original_dscp: int
    """By DSCP: the one without the mark; -1 where it marks nothing."""
    int_udp_port: int
    """-1: none."""
    any_v05: int
    """1 where a node sends reports v0.5, whose sender the compiled decoder does not look for."""
    seed: int
    """Of all hashes: nobody can prepare reports that fall into one place of a table."""
    at: int
    """Where these numbers are themselves."""


class FabricArrays(NamedTuple):
    """The tables themselves, and where they are."""

    nodes: Array
    slots: Array
    far_ends: Array
    original_dscp: Array
    numbers: Array
    addresses: FabricTables


def fabric_tables(fabric: TelemetryFabric, *, seed: int) -> FabricArrays:
    """The tables of a fabric; `seed` is any odd 62-bit number."""
    nodes = sorted(fabric.nodes.values(), key=lambda node: node.node_id)
    row_of = {node.node_id: row for row, node in enumerate(nodes)}
    table = np.zeros((len(nodes), c.N_COLUMNS), np.int64)
    slots = np.full(max(8, 1 << (4 * len(nodes)).bit_length()), -1, np.int64)
    for row, node in enumerate(nodes):
        table[row, c.N_ID] = node.node_id
        table[row, c.N_VERSION] = node.dialect.report_version
        table[row, c.N_HW_ID_SHIFT] = node.dialect.hw_id_shift
        table[row, c.N_SEQUENCE_CONSTANT] = node.dialect.sequence_constant
        table[row, c.N_SHIM_COUNTS_SHIM] = node.dialect.shim_length_counts_shim
        table[row, c.N_COMPILED] = _is_compiled(node.dialect)
        egress_bits = node.egress_stamp_width_bits or node.stamp_width_bits
        table[row, c.N_INGRESS_ONES] = _ones(node.stamp_width_bits)
        table[row, c.N_EGRESS_ONES] = _ones(egress_bits)
        slot = _first_slot(node.node_id, len(slots))
        while slots[slot] >= 0:
            slot = (slot + 1) % len(slots)
        slots[slot] = row
    ports: dict[int, int] = {}
    for node_id, port in fabric.neighbours:
        ports[node_id] = max(ports.get(node_id, 0), port + 1)
    table[:, c.N_PORTS] = [ports.get(node.node_id, 0) for node in nodes]
    table[:, c.N_FIRST_PORT] = np.cumsum(table[:, c.N_PORTS]) - table[:, c.N_PORTS]
    far_ends = np.full(int(table[:, c.N_PORTS].sum()), NO_CABLE, np.int64)
    for (node_id, port), far in fabric.neighbours.items():
        if node_id in row_of and (far == HOST_END or far[0] in row_of):
            place = int(table[row_of[node_id], c.N_FIRST_PORT]) + port
            far_ends[place] = AT_HOST if far == HOST_END else row_of[far[0]] << 16 | far[1]
    original_dscp = np.full(64, -1, np.int64)
    for marked, original in fabric.original_dscp.items():
        original_dscp[marked] = original
    int_udp_port = -1 if fabric.int_udp_port is None else fabric.int_udp_port
    addresses = FabricTables(
        nodes=address_of(table),
        slots=address_of(slots),
        slots_mask=len(slots) - 1,
        far_ends=address_of(far_ends),
        original_dscp=address_of(original_dscp),
        int_udp_port=int_udp_port,
        any_v05=any(node.dialect.report_format is ReportFormat.V05 for node in nodes),
        seed=seed,
        at=0,
    )
    numbers = np.array(addresses, np.int64)
    addresses = addresses._replace(at=address_of(numbers))
    return FabricArrays(table, slots, far_ends, original_dscp, numbers, addresses)


@part
def tables_at(at: int) -> FabricTables:
    """The tables whose addresses are at an address."""
    return FabricTables(
        get(at, 0),
        get(at, 1),
        get(at, 2),
        get(at, 3),
        get(at, 4),
        get(at, 5),
        get(at, 6),
        get(at, 7),
        at,
    )


def _is_compiled(dialect: Dialect) -> bool:
    return all(
        getattr(dialect, row.name) == getattr(STANDARD, row.name)
        for row in fields(Dialect)
        if row.name not in _KNOWN_DIFFERENCES
    )


def _ones(width_bits: int) -> int:
    return (1 << width_bits) - 1 if width_bits < 64 else -1


def _first_slot(node_id: int, slot_count: int) -> int:
    return (node_id ^ node_id >> 7 ^ node_id >> 16) & (slot_count - 1)


@part
def node_at(tables: FabricTables, row: int) -> int:
    """Address of a node's row."""
    return tables.nodes + row * c.N_BYTES


@part
def node_row(tables: FabricTables, node_id: int) -> int:
    """Row of a node; -1 when it is not in the fabric."""
    slot = (node_id ^ node_id >> 7 ^ node_id >> 16) & tables.slots_mask
    while True:
        row = get(tables.slots, slot)
        if row < 0 or get(node_at(tables, row), c.N_ID) == node_id:
            return row
        slot = (slot + 1) & tables.slots_mask


@part
def far_end(tables: FabricTables, row: int, port: int) -> int:
    """What a cable leads to from a node's port."""
    node = node_at(tables, row)
    if port >= get(node, c.N_PORTS):
        return NO_CABLE
    return get(tables.far_ends, get(node, c.N_FIRST_PORT) + port)
