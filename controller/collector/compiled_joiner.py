# SPDX-License-Identifier: Apache-2.0
"""Joins reports with the compiled loop, and answers when it asks for the reference joiner."""

from collections.abc import Mapping

import numpy as np

from controller.collector import join_state as j
from controller.collector import run_batch as run
from controller.collector.decode_packet import hash_row
from controller.collector.decode_reports import BATCH_COLUMNS, DecodedRows
from controller.collector.fabric_tables import FabricTables
from controller.collector.join_reports import ASK_CLOSE, ASK_JOIN, ASK_ROOM
from controller.collector.join_tables import JoinTables, report_row
from controller.collector.loads import address_of
from controller.telemetry.postcards import PIECES_PER_PACKET_MAX, PathJoiner
from controller.telemetry.report import Report

_HOPS = DecodedRows._fields.index("hops")


class CompiledJoiner:
    """Takes the place of `PathJoiner`; `reference` sees to what is not simple."""

    def __init__(
        self,
        tables: JoinTables,
        fabric: FabricTables,
        reference: PathJoiner,
        node_rows: Mapping[int, int],
    ) -> None:
        self._tables = tables
        self._fabric = fabric
        self._reference = reference
        self._node_rows = node_rows
        self._progress = np.zeros(run.P_COLUMNS, np.int64)
        self._no_batch = np.zeros(BATCH_COLUMNS, np.int64)
        self._decoded = np.zeros(len(DecodedRows._fields), np.int64)
        self._rows_at = (
            address_of(self._no_batch),
            fabric.at,
            address_of(self._decoded),
            address_of(self._progress),
            address_of(tables.state),
        )

    @property
    def complete_count(self) -> int:
        """Packets with every hop from host to host."""
        return self._reference.complete_count + int(self._tables.state[j.J_COMPLETE])

    @property
    def incomplete_count(self) -> int:
        """Packets with some hops missing."""
        return self._reference.incomplete_count + int(self._tables.state[j.J_INCOMPLETE])

    @property
    def resent_count(self) -> int:
        """Packets that were sent more than once while their reports waited."""
        return self._reference.resent_count

    def add(self, node_id: int, report: Report, now_ns: int) -> None:
        """Take one report of the reference decoder; every node in it must be of the fabric."""
        node = self._node_rows[node_id]
        row, hops = report_row(node, report, now_ns, self._node_rows)
        hash_row(address_of(row), self._fabric.at)
        self._decoded[_HOPS] = address_of(hops)
        self._progress[run.P_REPORT] = address_of(row)
        self._progress[run.P_REPORTS_LEFT] = 1
        self._run()

    def close(self) -> None:
        """No more reports will come: close everything that waits."""
        state = self._tables.state
        pending_max = int(state[j.J_PENDING_MAX])
        state[j.J_PENDING_MAX] = 0
        self._run()
        state[j.J_PENDING_MAX] = pending_max

    def _run(self) -> None:
        """The compiled loop without a batch."""
        while (code := run.run_batch(*self._rows_at, 0)) != run.FINISHED:
            self.answer(code)

    def answer(self, code: int) -> None:
        """Do what the compiled loop has asked for."""
        self._tables.hand_over_epochs()
        group = int(self._tables.state[j.J_GROUP_AT_HAND])
        if code == ASK_ROOM:
            self._tables.make_room()
        elif code == ASK_JOIN:
            self._join(group)
        else:
            assert code == ASK_CLOSE
            self._reference.give_up([piece for _row, piece in self._tables.pieces(group)])
            self._tables.forget_group(group)

    def _join(self, group: int) -> None:
        waiting = self._tables.pieces(group)
        pieces = [piece for _row, piece in waiting]
        left = self._reference.join(pieces)
        if left is not None:
            kept = {id(piece) for piece in left}
            self._tables.forget(group, [row for row, piece in waiting if id(piece) not in kept])
        elif len(pieces) >= PIECES_PER_PACKET_MAX:
            self._reference.give_up(pieces)
            self._tables.forget_group(group)
