# SPDX-License-Identifier: Apache-2.0
"""Streams of the P4Runtime server: arbitration, roles, packets, digests, idle entries."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from finsy.proto import U128, p4r, rpc_code, stratum
from google.protobuf.any_pb2 import Any as AnyMessage

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.controllers import STREAM_TOTAL_LIMIT
from bmv2_lab.switch.p4runtime import Server, serve
from tests.support.grpc_loop import in_grpc_loop
from tests.support.p4runtime_peer import (
    DELETE,
    INSERT,
    MODIFY,
    Peer,
    Program,
    exact,
    lpm,
    multicast,
    replica,
    ternary,
)
from tests.unit.bmv2_lab.switch.bmv2_json import send

SECOND_NS = 10**9
CONTROL = Program.load("control")
AGED = CONTROL.id("aged")


class World:
    """A switch with control.p4 on a clock of its own, its server, and one primary."""

    def __init__(self, switch: EmbeddedSwitch, peer: Peer) -> None:
        self.switch = switch
        self.peer = peer
        self.now_ns = 0
        self.server: Server

    @property
    def address(self) -> str:
        return self.server.addresses[1]

    def pass_time(self, duration_ns: int) -> None:
        """Let time pass in the switch."""
        self.now_ns += duration_ns
        self.server.advance()

    def frame(self, a: int, b: int = 0, c: int = 0, port: int = 1) -> list[tuple[int, bytes]]:
        """A packet; (port, frame) of what leaves."""
        data = bytes([a]) + b.to_bytes(2, "big") + c.to_bytes(2, "big")
        return send(self.switch, data, port=port)

    async def write(self, *updates: tuple[int, p4r.Entity]) -> None:
        """A batch that must succeed."""
        answer = await self.peer.write(*updates)
        assert answer.code == rpc_code.OK, answer

    async def quiet(self) -> None:
        """Nothing waits on the primary's stream: a question is answered first."""
        await self.peer.say(packet=p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=99)]))
        message = await self.peer.hear()
        assert message.WhichOneof("update") == "error", message


def world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Decorator: a test that gets a World with the pipeline pushed."""

    async def run() -> None:
        switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
        given = World(switch, None)  # type: ignore[arg-type] # set below
        given.server = await serve([switch], clock_ns=lambda: given.now_ns)
        try:
            async with Peer(given.address) as given.peer:
                await given.peer.become_primary()
                assert (await given.peer.push(CONTROL.config())).code == rpc_code.OK
                await asyncio.wait_for(test(given), 30)
        finally:
            await given.server.stop()

    wrapped = in_grpc_loop(run)
    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


# Arbitration


@world
async def test_backup_is_told_of_each_change_and_takes_over(world: World) -> None:
    """ALREADY_EXISTS, then NOT_FOUND with the highest id, then OK for an id as high."""
    async with Peer(world.address) as backup:
        await backup.announce()  # no id: never primary
        answer = (await backup.hear()).arbitration
        assert answer.status.code == rpc_code.ALREADY_EXISTS
        assert U128.decode(answer.election_id) == 1
        world.peer.stream.cancel()
        answer = (await backup.hear()).arbitration
        assert (answer.status.code, U128.decode(answer.election_id)) == (rpc_code.NOT_FOUND, 1)
        assert (await backup.write(election_id=U128.encode(1))).code == rpc_code.PERMISSION_DENIED
        await backup.announce(0)
        assert (await backup.hear()).arbitration.status.code == rpc_code.NOT_FOUND
        await backup.announce(1)
        assert (await backup.hear()).arbitration.status.code == rpc_code.OK
        assert (await backup.write()).code == rpc_code.OK


@world
async def test_old_primary_hears_first_and_loses_its_rights(world: World) -> None:
    """A higher id takes over; the primary before it becomes a backup."""
    async with Peer(world.address) as second:
        await second.become_primary(9)
        assert (await world.peer.hear()).arbitration.status.code == rpc_code.ALREADY_EXISTS
        assert (await world.peer.write()).code == rpc_code.PERMISSION_DENIED
        assert (await world.peer.push(CONTROL.config())).code == rpc_code.PERMISSION_DENIED
        assert (await second.write()).code == rpc_code.OK
        await second.announce(3)  # lowers its own id: nobody is primary
        assert (await second.hear()).arbitration.status.code == rpc_code.NOT_FOUND
        assert (await world.peer.hear()).arbitration.status.code == rpc_code.NOT_FOUND


@in_grpc_loop
async def test_election_id_is_unset_until_there_was_a_primary() -> None:
    """Backups alone: NOT_FOUND without an id. The id 0 is an id like others."""
    server = await serve([EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))])
    async with Peer(server.addresses[1]) as peer:
        await peer.announce()
        answer = (await peer.hear()).arbitration
        assert answer.status.code == rpc_code.NOT_FOUND
        assert not answer.HasField("election_id")
        await peer.announce(0)
        answer = (await peer.hear()).arbitration
        assert answer.status.code == rpc_code.OK
        assert answer.HasField("election_id")
        assert (await peer.push(CONTROL.config())).code == rpc_code.OK
    await server.stop()


@pytest.mark.parametrize(
    ("device", "role", "election_id", "code"),
    [
        (9, "", 5, rpc_code.FAILED_PRECONDITION),
        (1, "other", 5, rpc_code.FAILED_PRECONDITION),
        (1, "", 1, rpc_code.INVALID_ARGUMENT),
    ],
    ids=["other device", "other role", "id of another stream"],
)
def test_wrong_announcements_end_the_stream(
    device: int, role: str, election_id: int, code: int
) -> None:
    """A live controller that says something impossible is cut off with its code."""

    @world
    async def test(world: World) -> None:
        async with Peer(world.address) as second:
            await second.announce(2)
            await second.hear()
            second.device_id = device
            await second.announce(election_id, **({"name": role} if role else {}))
            assert (await second.end()).code == code
        assert (await world.peer.hear()).arbitration.status.code == rpc_code.ALREADY_EXISTS
        assert (await world.peer.hear()).arbitration.status.code == rpc_code.NOT_FOUND

    test()


@world
async def test_first_announcement_for_an_unknown_device_is_not_found(world: World) -> None:
    """The stream of a wrong device id never begins."""
    async with Peer(world.address, device_id=7) as stranger:
        await stranger.announce(5)
        assert (await stranger.end()).code == rpc_code.NOT_FOUND


@world
async def test_streams_of_a_switch_are_limited(world: World) -> None:
    """RESOURCE_EXHAUSTED for the next one; a place is free again when one ends."""
    async with Peer(world.address) as crowd:
        streams = [crowd.stub.StreamChannel() for _ in range(STREAM_TOTAL_LIMIT - 1)]
        message = p4r.StreamMessageRequest()
        message.arbitration.device_id = 1
        await streams[0].write(message)
        await streams[0].read()
        while len(world.server.services[1].controllers._queues) < STREAM_TOTAL_LIMIT:
            await asyncio.sleep(0)
        async with Peer(world.address) as late:
            await late.announce(5)
            assert (await late.end()).code == rpc_code.RESOURCE_EXHAUSTED
        for stream in streams:
            stream.cancel()


# Roles


def role_config(**fields: object) -> AnyMessage:
    """A role configuration."""
    packed = AnyMessage()
    packed.Pack(stratum.P4RoleConfig(**fields))  # type: ignore[arg-type] # any field
    return packed


@world
async def test_roles_have_primaries_of_their_own(world: World) -> None:
    """The same election id in two roles; a role that nobody announced is NOT_FOUND."""
    async with Peer(world.address) as other:
        await other.announce(1, name="ageing")
        answer = (await other.hear()).arbitration
        assert (answer.status.code, answer.role.name) == (rpc_code.OK, "ageing")
        entry = CONTROL.entry("aged", exact(b"\1"), action=CONTROL.direct("to_port", b"\1"))
        assert (await other.write((INSERT, entry))).code == rpc_code.OK
        await world.write((DELETE, entry))
        other.role = "nobody"
        assert (await other.write((INSERT, entry))).code == rpc_code.NOT_FOUND


@world
async def test_roles_may_be_numbered_as_until_p4runtime_1_3(world: World) -> None:
    """The number comes back in answers; writes name it; a name of digits is another role."""
    async with Peer(world.address) as other, Peer(world.address) as named:
        await other.announce(1, id=7)
        answer = (await other.hear()).arbitration
        assert (answer.status.code, answer.role.id, answer.role.name) == (rpc_code.OK, 7, "")
        await named.announce(1, name="7")
        answer = (await named.hear()).arbitration
        assert (answer.status.code, answer.role.id, answer.role.name) == (rpc_code.OK, 0, "7")
        other.role = ""
        other.election_id = 1
        assert (await other.write(role_id=7)).code == rpc_code.OK
        assert (await other.write(role_id=8)).code == rpc_code.NOT_FOUND


@world
async def test_batch_is_finished_when_its_client_is_gone(world: World) -> None:
    """As in BMv2's server: a deadline of the client does not cut a batch in two."""
    count = 3000
    call = world.peer.stub.Write(
        p4r.WriteRequest(
            device_id=1,
            election_id=U128.encode(1),
            updates=[
                p4r.Update(type=INSERT, entity=multicast(number, replica(1)))
                for number in range(1, count + 1)
            ],
        )
    )
    groups = world.switch.state.multicast_groups
    while not groups:
        await asyncio.sleep(0)
    assert len(groups) < count
    call.cancel()
    while len(groups) < count:
        await asyncio.sleep(0)
    assert (await world.peer.write()).code == rpc_code.OK


@world
async def test_role_configuration_limits_writes_reads_and_notifications(world: World) -> None:
    """Only the role's own tables; no packets; no pipeline; everybody hears the configuration."""
    ages, routes = CONTROL.id("aged"), CONTROL.id("aged_ternary")
    mine = CONTROL.entry("aged", exact(b"\1"), action=CONTROL.direct("to_port", b"\1"))
    foreign = CONTROL.entry(
        "aged_ternary", ternary(b"\1", b"\1"), priority=1, action=CONTROL.direct("learn_pair")
    )
    config = role_config(exclusive_p4_ids=[ages])
    async with Peer(world.address) as limited, Peer(world.address) as backup:
        await limited.announce(4, name="ageing", config=config)
        assert (await limited.hear()).arbitration.role.config == config
        await backup.announce(3, name="ageing", config=role_config())
        assert (await backup.hear()).arbitration.role.config == config
        answer = await limited.write((INSERT, mine), (INSERT, foreign))
        assert answer.details == [rpc_code.OK, rpc_code.PERMISSION_DENIED]
        await world.write((INSERT, foreign))
        everything = p4r.Entity(table_entry=p4r.TableEntry())
        found = await limited.read(everything, role="ageing")
        assert [e.table_entry.table_id for e in found.entities] == [ages]
        found = await limited.read(everything)
        assert {e.table_entry.table_id for e in found.entities} >= {ages, routes}
        assert (await limited.push(CONTROL.config())).code == rpc_code.PERMISSION_DENIED
        world.switch.on_packet_in(b"\0\0frame")  # type: ignore[misc] # the server set it
        assert (await world.peer.hear()).packet.payload == b"frame"
        await limited.announce(5, name="ageing", config=role_config(receives_packet_ins=True))
        assert (await limited.hear()).arbitration.status.code == rpc_code.OK
        world.switch.on_packet_in(b"\0\0frame")  # type: ignore[misc] # the server set it
        assert (await limited.hear()).packet.payload == b"frame"


@pytest.mark.parametrize(
    "config",
    [AnyMessage(type_url="type.googleapis.com/x.Y", value=b"1"), role_config(shared_p4_ids=[AGED])],
    ids=["unknown form", "overlap with an exclusive id"],
)
def test_role_configuration_that_cannot_hold_ends_the_stream(config: AnyMessage) -> None:
    """INVALID_ARGUMENT, as the specification wants it."""

    @world
    async def test(world: World) -> None:
        async with Peer(world.address) as first, Peer(world.address) as second:
            await first.announce(4, name="one", config=role_config(exclusive_p4_ids=[AGED]))
            await first.hear()
            await second.announce(4, name="two", config=config)
            assert (await second.end()).code == rpc_code.INVALID_ARGUMENT

    test()


@world
async def test_packet_in_filter_chooses_packets_by_metadata(world: World) -> None:
    """A role gets the packets of one ingress port only."""
    wanted = stratum.P4RoleConfig.PacketFilter(metadata_id=1, value=b"\x05")
    async with Peer(world.address) as other:
        config = role_config(receives_packet_ins=True, packet_in_filter=wanted)
        await other.announce(4, name="port5", config=config)
        await other.hear()
        for port in (4, 5):
            world.switch.on_packet_in((port << 7).to_bytes(2, "big") + b"x")  # type: ignore[misc]
        metadata = (await other.hear()).packet.metadata
        assert [(item.metadata_id, item.value) for item in metadata] == [(1, b"\5"), (2, b"\0")]


# Packets


@world
async def test_packet_out_that_does_not_fit_the_p4info_is_named(world: World) -> None:
    """The error carries the packet; a good one is passed on with its header in front."""
    taken: list[bytes] = []
    world.switch.on_packet_out = taken.append

    def packet(*metadata: tuple[int, bytes]) -> p4r.PacketOut:
        rows = [p4r.PacketMetadata(metadata_id=n, value=value) for n, value in metadata]
        return p4r.PacketOut(payload=b"p", metadata=rows)

    bad = {
        packet((1, b"\1")).SerializeToString(): rpc_code.INVALID_ARGUMENT,
        packet((1, b"\1"), (2, b"\0"), (3, b"\0")).SerializeToString(): rpc_code.INVALID_ARGUMENT,
        packet((1, b"\1"), (1, b"\1"), (2, b"\0")).SerializeToString(): rpc_code.INVALID_ARGUMENT,
        packet((1, b"\xff\xff"), (2, b"\0")).SerializeToString(): rpc_code.OUT_OF_RANGE,
    }
    for data, code in bad.items():
        await world.peer.say(packet=p4r.PacketOut.FromString(data))
        error = (await world.peer.hear()).error
        assert error.canonical_code == code
        assert error.packet_out.packet_out.SerializeToString() == data
    await world.peer.say(packet=packet((2, b"\0"), (1, b"\x01\xfe")))
    await world.quiet()
    assert taken == [(510 << 7).to_bytes(2, "big") + b"p"]


@world
async def test_only_the_primary_may_send_packets_and_acknowledge(world: World) -> None:
    """PERMISSION_DENIED for a backup; other messages are UNIMPLEMENTED; empty ones invalid."""
    async with Peer(world.address) as backup:
        await backup.announce()
        await backup.hear()
        await backup.say(packet=p4r.PacketOut(payload=b"p"))
        assert (await backup.hear()).error.canonical_code == rpc_code.PERMISSION_DENIED
    await world.peer.say(other=AnyMessage(type_url="x"))
    error = (await world.peer.hear()).error
    assert (error.canonical_code, error.other.other.type_url) == (rpc_code.UNIMPLEMENTED, "x")
    await world.peer.say()
    assert (await world.peer.hear()).error.canonical_code == rpc_code.INVALID_ARGUMENT
    await world.peer.say(digest_ack=p4r.DigestListAck(digest_id=5, list_id=1))
    error = (await world.peer.hear()).error
    assert error.canonical_code == rpc_code.INVALID_ARGUMENT
    assert error.digest_list_ack.digest_list_ack.digest_id == 5


@world
async def test_packet_in_shorter_than_its_header_is_dropped(world: World) -> None:
    """It is counted, and the stream lives on."""
    world.switch.on_packet_in(b"\0")  # type: ignore[misc] # the server set it
    world.switch.on_packet_in(b"\0\0")  # type: ignore[misc] # the server set it
    assert (await world.peer.hear()).packet.payload == b""
    assert world.server.services[1].malformed_packet_ins == 1


# Digests


def learn(world: World, *values: int) -> None:
    """Packets that make the program send digests of pair_t."""
    for value in values:
        world.frame(value, b=1)


async def enable(world: World, **config: int) -> None:
    """Every packet of an odd b is learned, with these limits."""
    every = CONTROL.entry(
        "aged_ternary", ternary(b"\1", b"\1"), priority=1, action=CONTROL.direct("learn_pair")
    )
    await world.write((INSERT, every), (INSERT, CONTROL.digest("pair_t", **config)))


def pairs(message: p4r.StreamMessageResponse) -> list[tuple[int, ...]]:
    """The members of a digest list as numbers."""
    return [
        tuple(int.from_bytes(member.bitstring, "big") for member in data.struct.members)
        for data in message.digest.data
    ]


@world
async def test_digest_is_silent_until_it_is_enabled(world: World) -> None:
    """An INSERT of the DigestEntry starts it, a DELETE ends it."""
    learn(world, 1)
    await enable(world)
    learn(world, 2)
    assert pairs(await world.peer.hear()) == [(2, 1)]
    await world.write((DELETE, CONTROL.digest("pair_t")))
    learn(world, 3)
    await world.quiet()


@world
async def test_digest_list_is_sent_when_it_is_full_or_old(world: World) -> None:
    """Equal messages are sent once; list ids count from 1; the time is the switch's."""
    await enable(world, max_list_size=3, max_timeout_ns=SECOND_NS)
    learn(world, 1, 1, 2, 1, 3, 4)
    message = await world.peer.hear()
    assert pairs(message) == [(1, 1), (2, 1), (3, 1)]
    assert (message.digest.digest_id, message.digest.list_id) == (CONTROL.id("pair_t"), 1)
    world.pass_time(SECOND_NS - 1)
    await world.quiet()
    world.pass_time(1)
    message = await world.peer.hear()
    assert (pairs(message), message.digest.list_id) == ([(4, 1)], 2)
    assert message.digest.timestamp == SECOND_NS


@world
async def test_what_was_sent_is_not_sent_again_until_acknowledged_or_expired(world: World) -> None:
    """The cache of one list ends with its ack, or after the timeout."""
    await enable(world, ack_timeout_ns=SECOND_NS)
    learn(world, 1)
    first = await world.peer.hear()
    learn(world, 1)
    await world.quiet()
    ack = p4r.DigestListAck(digest_id=first.digest.digest_id, list_id=first.digest.list_id)
    await world.peer.say(digest_ack=ack)
    await world.quiet()
    learn(world, 1)
    assert pairs(await world.peer.hear()) == [(1, 1)]
    world.pass_time(SECOND_NS)
    learn(world, 1)
    assert pairs(await world.peer.hear()) == [(1, 1)]


@world
async def test_new_primary_is_told_what_the_old_one_did_not_acknowledge(world: World) -> None:
    """A change of the primary empties the cache."""
    await enable(world, ack_timeout_ns=SECOND_NS)
    learn(world, 1)
    await world.peer.hear()
    async with Peer(world.address) as second:
        await second.become_primary(2)
        learn(world, 1)
        assert pairs(await second.hear()) == [(1, 1)]


@world
async def test_digest_limits_can_be_changed(world: World) -> None:
    """A smaller list is sent at once if it is full already."""
    await enable(world, max_list_size=3, max_timeout_ns=SECOND_NS)
    learn(world, 1, 2)
    await world.quiet()
    change = CONTROL.digest("pair_t", max_list_size=2, max_timeout_ns=SECOND_NS)
    await world.write((MODIFY, change))
    assert pairs(await world.peer.hear()) == [(1, 1), (2, 1)]


# Idle timeouts


def aged(key: bytes, timeout_ns: int, **more: object) -> p4r.Entity:
    """An entry that ages."""
    return CONTROL.entry(
        "aged",
        exact(key),
        action=CONTROL.direct("to_port", b"\1"),
        idle_timeout_ns=timeout_ns,
        **more,
    )


async def elapsed_ns(world: World, table: str = "aged") -> list[int]:
    """Time since the last hit of each entry."""
    wanted = CONTROL.entry(table, time_since_last_hit=p4r.TableEntry.IdleTimeout())
    answer = await world.peer.read(wanted)
    assert answer.code == rpc_code.OK
    return [e.table_entry.time_since_last_hit.elapsed_ns for e in answer.entities]


@world
async def test_idle_entry_is_notified_once_per_time_to_live(world: World) -> None:
    """With key, metadata and timeout; hits put it off."""
    entry = aged(b"\1", SECOND_NS, metadata=b"m", controller_metadata=3)
    await world.write((INSERT, entry), (INSERT, aged(b"\2", 0)))
    world.pass_time(SECOND_NS // 2)
    assert world.frame(1)[0][0] == 1
    assert await elapsed_ns(world) == [0, SECOND_NS // 2]
    world.pass_time(SECOND_NS // 2)
    await world.quiet()
    for _ in range(2):
        world.pass_time(SECOND_NS)
        message = (await world.peer.hear()).idle_timeout_notification
        assert message.timestamp == world.now_ns
        expected = p4r.TableEntry()
        expected.CopyFrom(entry.table_entry)
        expected.ClearField("action")
        assert list(message.table_entry) == [expected]
    assert await elapsed_ns(world) == [5 * SECOND_NS // 2, 3 * SECOND_NS]
    found = await world.peer.read(CONTROL.entry("aged", exact(b"\1")))
    assert found.entities == [entry]


@world
async def test_entries_that_are_due_together_share_a_notification(world: World) -> None:
    """And an entry that was deleted is not in it."""
    keys = [bytes([number]) for number in range(1, 6)]
    await world.write(*((INSERT, aged(key, SECOND_NS)) for key in keys))
    await world.write((DELETE, aged(keys[0], 0)))
    world.pass_time(2 * SECOND_NS)
    message = (await world.peer.hear()).idle_timeout_notification
    assert [entry.match[0].exact.value for entry in message.table_entry] == keys[1:]
    await world.quiet()


@world
async def test_modifying_an_entry_starts_its_time_anew(world: World) -> None:
    """With the new time to live; 0 ends the ageing."""
    await world.write((INSERT, aged(b"\1", SECOND_NS)))
    world.pass_time(SECOND_NS // 2)
    await world.write((MODIFY, aged(b"\1", 3 * SECOND_NS)))
    world.pass_time(2 * SECOND_NS)
    await world.quiet()
    world.pass_time(SECOND_NS)
    assert (await world.peer.hear()).idle_timeout_notification.table_entry
    await world.write((MODIFY, aged(b"\1", 0)))
    world.pass_time(10 * SECOND_NS)
    await world.quiet()


@world
async def test_members_of_a_selector_table_age_by_entry(world: World) -> None:
    """A hit of any member of the set is a hit of the entry; a miss is none."""
    spread = CONTROL.one_shot(("to_port", b"\1", 1, b""), ("to_port", b"\2", 1, b""))
    route = CONTROL.entry("routes", lpm(b"\x80\0", 8), action=spread, idle_timeout_ns=SECOND_NS)
    await world.write((INSERT, route))
    world.pass_time(SECOND_NS // 2)
    assert world.frame(7, b=0x8001)[0][0] in (1, 2)
    world.frame(7, b=0x9001)
    assert await elapsed_ns(world, "routes") == [0]
    world.pass_time(SECOND_NS)
    message = (await world.peer.hear()).idle_timeout_notification
    assert [entry.table_id for entry in message.table_entry] == [CONTROL.id("routes")]


@world
async def test_set_leaves_out_members_whose_watch_port_is_down(world: World) -> None:
    """While the port is down, whatever pipeline is pushed meanwhile."""
    spread = CONTROL.one_shot(("to_port", b"\1", 1, b"\1"), ("to_port", b"\2", 1, b"\2"))
    route = CONTROL.entry("routes", lpm(b"\x80\0", 8), action=spread)

    def ports() -> set[int]:
        return {world.frame(flow, b=0x8001)[0][0] for flow in range(8, 40)}

    await world.write((INSERT, route))
    assert ports() == {1, 2}
    world.switch.set_port(2, up=False)
    assert ports() == {1}
    assert (await world.peer.push(CONTROL.config())).code == rpc_code.OK
    await world.write((INSERT, route))
    assert ports() == {1}
    world.switch.set_port(2, up=True)
    assert ports() == {1, 2}
    found = await world.peer.read(CONTROL.entry("routes"))
    assert found.entities == [route]


@in_grpc_loop
async def test_real_time_runs_timeouts_by_itself() -> None:
    """Without a clock of its own a server notifies in real time, stamped since 1970."""
    switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
    server = await serve([switch])
    async with Peer(server.addresses[1]) as peer:
        await peer.become_primary()
        await peer.push(CONTROL.config())
        await peer.write((INSERT, aged(b"\1", 20_000_000)))
        message = (await peer.hear()).idle_timeout_notification
        assert message.timestamp > 1_700_000_000 * SECOND_NS
        assert message.table_entry[0].match[0].exact.value == b"\1"
    await server.stop()
