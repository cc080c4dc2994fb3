# SPDX-License-Identifier: Apache-2.0
"""Notifications of BMv2's P4Runtime server and the embedded switch's, and one-shot sets."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from finsy.proto import p4r, rpc_code

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from tests.support.bmv2_switch import Bmv2Switch
from tests.support.grpc_loop import in_grpc_loop
from tests.support.p4runtime_peer import (
    DELETE,
    INSERT,
    MODIFY,
    Peer,
    Program,
    exact,
    lpm,
    ternary,
)
from tests.unit.bmv2_lab.switch.bmv2_json import send

CONTROL = Program.load("control")
SECOND_NS = 10**9


@pytest.fixture(scope="module")
def bmv2(bmv2_mirror: object) -> Iterator[Bmv2Switch]:
    """One BMv2 for all tests of the module; each pushes its own pipeline."""
    del bmv2_mirror  # skips where there is no BMv2
    switch = Bmv2Switch(1, primary=False)
    yield switch
    switch.close()


@asynccontextmanager
async def both(bmv2: Bmv2Switch) -> AsyncIterator[tuple[EmbeddedSwitch, Peer, Peer]]:
    """An embedded switch, and primaries of it and of BMv2, with control.p4 pushed."""
    switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
    server = await serve([switch])
    try:
        async with Peer(server.addresses[1]) as ours, Peer(bmv2.address) as theirs:
            for peer in (ours, theirs):
                await peer.become_primary()
                assert (await peer.push(CONTROL.config())).code == rpc_code.OK
            yield switch, ours, theirs
    finally:
        await server.stop()


async def write(peers: tuple[Peer, Peer], *updates: tuple[int, p4r.Entity]) -> None:
    """The same batch to both."""
    for peer in peers:
        answer = await peer.write(*updates)
        assert answer.code == rpc_code.OK, answer


@in_grpc_loop
async def test_pipeline_actions_are_answered_alike(bmv2: Bmv2Switch) -> None:
    """Save, write to what was saved, commit; the codes differ where nothing can be committed."""
    actions = p4r.SetForwardingPipelineConfigRequest
    entry = CONTROL.entry("aged", exact(b"\1"), action=CONTROL.direct("to_port", b"\1"))
    async with both(bmv2) as (_, *peers):
        answers = []
        for peer in peers:
            found = [(await peer.push(None, actions.COMMIT)).code]
            found.append((await peer.push(CONTROL.config(3), actions.VERIFY)).code)
            found.append((await peer.push(CONTROL.config(), actions.UNSPECIFIED)).code)
            found.append((await peer.write((INSERT, entry))).code)
            found.append((await peer.push(CONTROL.config(4), actions.VERIFY_AND_SAVE)).code)
            found.append(len((await peer.read(CONTROL.entry("aged"))).entities))
            found.append((await peer.write((INSERT, entry))).code)
            request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
            answer = await peer.stub.GetForwardingPipelineConfig(request)
            found.append(answer.config.cookie.cookie)
            found.append((await peer.push(None, actions.COMMIT)).code)
            found.append(len((await peer.read(CONTROL.entry("aged"))).entities))
            for atomicity in (1, 2):
                found.append((await peer.write((INSERT, entry), atomicity=atomicity)).code)
            answers.append(found)
        ours, theirs = answers
        assert (ours[0], theirs[0]) == (rpc_code.NOT_FOUND, rpc_code.UNKNOWN)
        assert ours[1:] == theirs[1:] == [0, 3, 0, 0, 0, 0, 4, 0, 1, 12, 12]


@in_grpc_loop
async def test_idle_entries_are_notified_alike(bmv2: Bmv2Switch) -> None:
    """A second after insertion, with the same fields but metadata, which BMv2 forgets."""
    entry = CONTROL.entry(
        "aged",
        exact(b"\1"),
        action=CONTROL.direct("to_port", b"\1"),
        idle_timeout_ns=SECOND_NS,
        controller_metadata=5,
        metadata=b"m",
    )
    async with both(bmv2) as (_, ours, theirs):
        await write((ours, theirs), (INSERT, entry))
        mine, others = await asyncio.gather(ours.hear(), theirs.hear())
        (found,) = mine.idle_timeout_notification.table_entry
        assert found.metadata == b"m"
        found.ClearField("metadata")
        assert list(others.idle_timeout_notification.table_entry) == [found]
        await write((ours, theirs), (DELETE, entry))


@in_grpc_loop
async def test_digest_lists_hold_the_same_data(bmv2: Bmv2Switch) -> None:
    """Three messages of two structs, with an acknowledgement in between."""
    every = CONTROL.entry(
        "aged_ternary", ternary(b"\1", b"\1"), priority=1, action=CONTROL.direct("learn_pair")
    )
    word = CONTROL.entry("aged", exact(b"\2"), action=CONTROL.direct("learn_word"))
    async with both(bmv2) as (switch, ours, theirs):
        await write(
            (ours, theirs),
            (INSERT, every),
            (INSERT, word),
            (INSERT, CONTROL.digest("pair_t", ack_timeout_ns=100 * SECOND_NS, max_list_size=1)),
            (INSERT, CONTROL.digest("word_t", max_list_size=1)),
        )
        for frame, port in (
            (b"\1\0\1\0\0", 5),
            (b"\1\0\1\0\0", 5),  # was sent and not acknowledged
            (b"\1\0\1\0\0", 300),
            (b"\2\0\0\xff\xfe", 5),
        ):
            send(switch, frame, port=port)
            bmv2.send(frame, port)
        for list_id in (1, 2, 1):
            mine, others = await asyncio.gather(ours.hear(), theirs.hear())
            for message in (mine, others):
                assert message.digest.timestamp
                message.digest.timestamp = 0
            assert mine == others
            assert mine.digest.list_id == list_id
        ack = p4r.DigestListAck(digest_id=CONTROL.id("pair_t"), list_id=1)
        for peer in (ours, theirs):
            await peer.say(digest_ack=ack)
            await peer.read(CONTROL.digest("pair_t"))  # the ack has been taken when this is back
        send(switch, b"\1\0\1\0\0", port=5)
        bmv2.send(b"\1\0\1\0\0", 5)
        mine, others = await asyncio.gather(ours.hear(), theirs.hear())
        assert mine.digest.data == others.digest.data


@in_grpc_loop
async def test_one_shot_sets_spread_packets_alike(bmv2: Bmv2Switch) -> None:
    """By weight and by handle, after sets were changed and removed."""

    def route(prefix: bytes, *rows: tuple[int, int]) -> p4r.Entity:
        actions = [("to_port", bytes([port]), weight, b"") for port, weight in rows]
        return CONTROL.entry("routes", lpm(prefix + b"\0", 8), action=CONTROL.one_shot(*actions))

    first, second = b"\x80", b"\x90"
    async with both(bmv2) as (switch, ours, theirs):
        for batch in (
            [(INSERT, route(first, (1, 1), (2, 3)))],
            [(INSERT, route(second, (3, 2), (4, 1), (5, 1)))],
            [(MODIFY, route(first, (6, 2), (7, 2)))],
            [(DELETE, route(second)), (INSERT, route(second, (1, 1), (2, 2), (3, 1)))],
            [(MODIFY, route(first, (8, 1), (9, 1), (10, 1)))],
        ):
            await write((ours, theirs), *batch)
            for prefix in (first, second):
                for flow in range(24):
                    frame = bytes([flow]) + prefix + b"\1\0\0"
                    assert send(switch, frame) == bmv2.send(frame, 1)
            for table in (CONTROL.entry("routes"),):
                mine, others = await ours.read(table), await theirs.read(table)
                assert mine.entities == others.entities


@in_grpc_loop
async def test_only_bmv2_promotes_a_backup_by_itself(bmv2: Bmv2Switch) -> None:
    """P4Runtime 1.1 and later want a new announcement; codes and ids are the same until then."""
    async with both(bmv2) as (_, *primaries):
        codes = []
        for primary in primaries:
            async with Peer(primary.address) as backup:
                await backup.announce(7)
                assert (await primary.hear()).arbitration.status.code == rpc_code.ALREADY_EXISTS
                assert (await backup.hear()).arbitration.status.code == rpc_code.OK
                await primary.announce(3)
                answer = (await primary.hear()).arbitration
                assert (answer.status.code, answer.election_id.low) == (rpc_code.ALREADY_EXISTS, 7)
                backup.stream.cancel()
                codes.append((await primary.hear()).arbitration.status.code)
        assert codes == [rpc_code.NOT_FOUND, rpc_code.OK]
