# SPDX-License-Identifier: Apache-2.0
"""Writing several switches: what is known of them follows, and a slow one holds nobody up."""

import asyncio
from typing import cast

import pytest

from controller.entries import ActionCall, DefaultEntry, Entry, EntryKey, TableEntry
from controller.fabric_generate import leaf_spine
from controller.held_switch import HeldSwitch, write_in_rounds
from controller.reconcile import Operation, Update, by_key
from controller.session import SwitchSession
from controller.switch_error import SwitchError
from tests.support.grpc_loop import in_grpc_loop

FABRIC = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])


class FakeSession:
    """Takes writes when it is let."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.fails = False
        self.written: list[Update] = []

    async def write(self, batch: list[Update]) -> None:
        """The batch is taken as soon as the session is free."""
        await self.free.wait()
        if self.fails:
            raise SwitchError(switch="leaf1", message="no")
        self.written += batch


def entry(number: int) -> TableEntry:
    """Some entry."""
    return TableEntry.of("qos_class", {"dscp": number}, ActionCall.of("set_queue", queue_id=1))


def held(name: str, *entries: Entry) -> tuple[HeldSwitch, FakeSession]:
    """A switch that holds these."""
    session = FakeSession()
    switch = HeldSwitch(name, cast("SwitchSession", session))
    switch.entries = by_key(entries)
    return switch, session


@in_grpc_loop
async def test_what_is_known_follows_the_writes() -> None:
    """Inserted and modified entries are there afterwards, deleted ones are not."""
    switch, _ = held("leaf1", entry(1), entry(2))
    default = DefaultEntry(table="qos_class", action=ActionCall.of("set_queue", queue_id=0))
    await switch.write(
        [
            Update(operation=Operation.INSERT, entry=entry(3)),
            Update(operation=Operation.MODIFY, entry=default),
            Update(operation=Operation.DELETE, entry=entry(1)),
        ]
    )
    expected: dict[EntryKey, Entry] = by_key([entry(2), entry(3), default])
    assert switch.known() == expected


@in_grpc_loop
async def test_after_an_error_nothing_is_known() -> None:
    """The switch may have taken a part."""
    switch, session = held("leaf1")
    session.fails = True
    with pytest.raises(SwitchError):
        await switch.write([Update(operation=Operation.INSERT, entry=entry(3))])
    with pytest.raises(SwitchError, match="not known"):
        switch.known()


@in_grpc_loop
async def test_slow_switch_is_not_waited_for() -> None:
    """The others are told as written while it still hangs; it is told when it is through."""
    slow, slow_session = held("leaf1")
    quick, _ = held("leaf2")
    slow_session.free.clear()
    told: list[str] = []
    quick_written = asyncio.Event()

    def on_written(name: str) -> None:
        told.append(name)
        if name == "leaf2":
            quick_written.set()

    updates = [Update(operation=Operation.INSERT, entry=entry(3))]
    task = asyncio.create_task(
        write_in_rounds(
            FABRIC,
            {"leaf1": slow, "leaf2": quick},
            {"leaf1": updates, "leaf2": updates},
            round_s_max=0.01,
            on_written=on_written,
        )
    )
    await asyncio.wait_for(quick_written.wait(), 10)
    assert told == ["leaf2"]
    slow_session.free.set()
    assert await asyncio.wait_for(task, 10) == []
    assert told == ["leaf2", "leaf1"]


@in_grpc_loop
async def test_failed_switch_is_told_once_and_the_others_go_on() -> None:
    """The error is in the result too."""
    bad, session = held("leaf1")
    good, _ = held("leaf2")
    session.fails = True
    updates = [Update(operation=Operation.INSERT, entry=entry(3))]
    failed: list[SwitchError] = []
    errors = await write_in_rounds(
        FABRIC,
        {"leaf1": bad, "leaf2": good},
        {"leaf1": updates, "leaf2": updates},
        on_failed=failed.append,
    )
    assert errors == failed
    assert [error.switch for error in errors] == ["leaf1"]
    assert entry(3).key in good.known()
