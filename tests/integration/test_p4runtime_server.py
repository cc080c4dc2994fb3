# SPDX-License-Identifier: Apache-2.0
"""The embedded switch's P4Runtime server, driven by finsy over gRPC on 127.0.0.1."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path

import finsy as fy
import pytest
from finsy.p4entity import P4Replica
from finsy.proto import U128, p4r, p4r_grpc
from google.protobuf import text_format
from grpc import StatusCode
from grpc.aio import AioRpcError, Channel, insecure_channel

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import Server, serve

ARTIFACTS = resources.files("p4src").joinpath("artifacts")
Scenario = Callable[[EmbeddedSwitch, Server, fy.Switch], Awaitable[None]]


def program() -> SwitchProgram:
    """The packaged program; the cache makes every call but the first cheap."""
    return SwitchProgram.from_json(ARTIFACTS.joinpath("tempotrace.json").read_bytes())


def options(device_id: int = 1, **more: object) -> fy.SwitchOptions:
    """finsy's options for the packaged pipeline."""
    return fy.SwitchOptions(
        p4info=Path(str(ARTIFACTS.joinpath("tempotrace.p4info.txtpb"))),
        p4blob=Path(str(ARTIFACTS.joinpath("tempotrace.json"))),
        device_id=device_id,
        **more,  # type: ignore[arg-type]
    )


def run(scenario: Scenario) -> None:
    """One switch, one server, one finsy client that is primary with the pipeline pushed."""

    async def whole() -> None:
        switch = EmbeddedSwitch(program(), device_id=1)
        server = await serve([switch])
        try:
            async with fy.Switch("s1", server.addresses[1], options()) as client:
                await asyncio.wait_for(scenario(switch, server, client), 30)
        finally:
            await server.stop()

    asyncio.run(whole())


async def read_all(client: fy.Switch, *wanted: object) -> list[object]:
    """Everything that a read returns."""
    return [entity async for entity in client.read(list(wanted))]


def wire(client: fy.Switch, entities: list[object]) -> list[bytes]:
    """Entities as sent, sorted: finsy decodes a value into another Python type than it took."""
    return sorted(entity.encode(client.p4info).SerializeToString() for entity in entities)


def route(prefix: str, group: int) -> fy.P4TableEntry:
    """A route to a group of the selector."""
    return fy.P4TableEntry(
        "ipv4_lpm",
        match=fy.P4TableMatch(dst_addr=prefix),
        action=fy.P4IndirectAction(group_id=group),
    )


def member(number: int, port: int) -> fy.P4ActionProfileMember:
    """A member that forwards to a port."""
    return fy.P4ActionProfileMember(
        "ecmp_selector",
        member_id=number,
        action=fy.P4TableAction("forward", port=port, dst_mac="02:00:00:00:00:01"),
    )


def group(number: int, *members: tuple[int, int]) -> fy.P4ActionProfileGroup:
    """A group of (member, weight)."""
    return fy.P4ActionProfileGroup(
        "ecmp_selector",
        group_id=number,
        max_size=8,
        members=[fy.P4Member(member_id=m, weight=w) for m, w in members],
    )


def test_entries_of_every_kind_are_read_back_as_written() -> None:
    """Exact, LPM, ternary, default, members, groups and clone sessions survive the round trip."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        written = [
            member(1, 1),
            member(2, 2),
            group(7, (1, 1), (2, 3)),
            route("10.0.1.0/24", 7),
            route("10.0.0.0/8", 7),
            fy.P4TableEntry(
                "qos_class",
                match=fy.P4TableMatch(dscp=26),
                action=fy.P4TableAction("set_queue", queue_id=1),
            ),
            fy.P4TableEntry(
                "int_watchlist",
                match=fy.P4TableMatch(protocol=(17, 0xFF), roce_psn=(0, 0x1F)),
                action=fy.P4TableAction(
                    "int_source",
                    instruction_bitmap=0xFC00,
                    remaining_hop_count=8,
                    marked_dscp=27,
                ),
                priority=10,
            ),
            fy.P4CloneSessionEntry(
                session_id=1,
                replicas=[P4Replica(60, instance=1)],
                class_of_service=0,
                packet_length_bytes=0,
            ),
            fy.P4MulticastGroupEntry(
                multicast_group_id=5, replicas=[P4Replica(1, instance=1), P4Replica(2, instance=1)]
            ),
        ]
        await client.insert(written)
        back = await read_all(
            client,
            fy.P4TableEntry(),
            fy.P4ActionProfileMember(),
            fy.P4ActionProfileGroup(),
            fy.P4CloneSessionEntry(),
            fy.P4MulticastGroupEntry(),
        )
        assert len(back) == len(written)
        assert wire(client, back) == wire(client, written)
        only = await read_all(client, route("10.0.1.0/24", 7))
        assert wire(client, only) == wire(client, [written[3]])

        default = fy.P4TableEntry(
            "int_node",
            action=fy.P4TableAction("set_int_node", node_id=101, domain_specific_id=1),
            is_default_action=True,
        )
        await client.modify([default])
        found = await read_all(client, fy.P4TableEntry("int_node", is_default_action=True))
        assert wire(client, found) == wire(client, [default])
        assert switch.state.tables["TempoEgress.tracing.node.int_node"].default[5:] == [101, 1]

        await client.delete([written[3], written[4], written[2], written[0]])
        assert len(await read_all(client, fy.P4TableEntry("ipv4_lpm"))) == 0
        assert len(await read_all(client, fy.P4ActionProfileMember("ecmp_selector"))) == 1

    run(scenario)


def test_each_failing_update_has_its_own_canonical_code() -> None:
    """A batch goes on after an error, and the details name every failed update."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        def entry(dscp: int) -> fy.P4TableEntry:
            return fy.P4TableEntry(
                "qos_class",
                match=fy.P4TableMatch(dscp=dscp),
                action=fy.P4TableAction("set_queue", queue_id=1),
            )

        with pytest.raises(fy.P4ClientError) as caught:
            await client.write(
                [
                    +entry(26),
                    +entry(26),
                    ~route("10.0.0.0/8", 1),
                    +route("1.0.0.0/8", 9),
                    +entry(27),
                ]
            )
        details = caught.value.details
        assert caught.value.code == fy.GRPCStatusCode.UNKNOWN
        assert {number: detail.canonical_code for number, detail in details.items()} == {
            1: fy.GRPCStatusCode.ALREADY_EXISTS,
            2: fy.GRPCStatusCode.NOT_FOUND,
            3: fy.GRPCStatusCode.NOT_FOUND,
        }
        assert len(await read_all(client, fy.P4TableEntry("qos_class"))) == 2
        assert len(await read_all(client, fy.P4TableEntry("ipv4_lpm"))) == 0

    run(scenario)


def test_members_and_groups_in_use_cannot_be_deleted() -> None:
    """FAILED_PRECONDITION keeps a route from pointing at nothing."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        await client.insert([member(1, 1), group(1, (1, 1)), route("10.0.0.0/8", 1)])
        for entity in (member(1, 1), group(1, (1, 1))):
            with pytest.raises(fy.P4ClientError) as caught:
                await client.delete([entity])
            assert caught.value.details[0].canonical_code == fy.GRPCStatusCode.FAILED_PRECONDITION

    run(scenario)


def test_modifying_a_member_changes_where_packets_go() -> None:
    """Groups and routes follow a member in place."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        await client.insert([member(1, 1), group(1, (1, 1)), route("10.0.0.0/8", 1)])
        frame = bytes.fromhex(
            "02000000000202000000000108004500002000004000401126ab0a0001010a000201c000000900040000"
        ) + bytes(8)
        frame = _with_checksum(frame)
        assert [copy.egress_port for copy in switch.ingress(frame, 11, 0)] == [1]
        await client.modify([member(1, 3)])
        assert [copy.egress_port for copy in switch.ingress(frame, 11, 0)] == [3]
        counted = await read_all(client, fy.P4DirectCounterEntry("ipv4_lpm_counter"))
        assert [entry.packet_count for entry in counted] == [2]

    run(scenario)


def _with_checksum(frame: bytes) -> bytes:
    """The frame with a correct IPv4 header checksum (RFC 1071)."""
    header = bytearray(frame[14:34])
    header[10:12] = b"\0\0"
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
    return frame[:14] + bytes(header) + frame[34:]


def test_packet_out_and_packet_in_carry_their_metadata() -> None:
    """The controller header is in front of the frame on the switch side only."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        taken: asyncio.Queue[bytes] = asyncio.Queue()
        switch.on_packet_out = taken.put_nowait
        await client.write([fy.P4PacketOut(b"payload", egress_port=3, submit_to_ingress=1, pad=0)])
        assert await taken.get() == ((3 << 7) | (1 << 6)).to_bytes(2, "big") + b"payload"

        arrived = client.read_packets()
        waiting = asyncio.ensure_future(anext(arrived))
        await asyncio.sleep(0)
        assert switch.on_packet_in is not None
        switch.on_packet_in((11 << 7).to_bytes(2, "big") + b"frame")
        packet = await waiting
        assert packet.payload == b"frame"
        assert packet["ingress_port"] == 11
        await arrived.aclose()

    run(scenario)


def test_only_the_primary_writes_and_a_backup_takes_over() -> None:
    """The higher election id writes; when that controller leaves, the other becomes primary."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        entry = fy.P4TableEntry(
            "qos_class",
            match=fy.P4TableMatch(dscp=26),
            action=fy.P4TableAction("set_queue", queue_id=1),
        )
        second = fy.Switch("s1", server.addresses[1], options(initial_election_id=20))
        async with second:
            assert second.is_primary
            await second.insert([entry])
            with pytest.raises(fy.P4ClientError) as caught:
                await client.insert([entry])
            assert caught.value.code == fy.GRPCStatusCode.PERMISSION_DENIED
            became_primary = client.ee.event_future(fy.SwitchEvent.BECOME_PRIMARY)
        await became_primary
        assert client.is_primary
        await client.delete([entry])

    run(scenario)


def test_same_pipeline_is_not_translated_twice() -> None:
    """Switches share one translated program; a reconnect with the same cookie keeps state."""

    async def whole() -> None:
        switches = [EmbeddedSwitch(program(), device_id=number) for number in range(1, 5)]
        server = await serve(switches)
        try:
            for switch in switches:
                number = switch.device_id
                async with fy.Switch("s", server.addresses[number], options(number)) as client:
                    await client.insert([member(1, 1)])
                async with fy.Switch("s", server.addresses[number], options(number)) as client:
                    assert len(await read_all(client, fy.P4ActionProfileMember())) == 1
            assert len({id(switch.program) for switch in switches}) == 1
        finally:
            await server.stop()

    asyncio.run(whole())


def test_stopped_server_leaves_no_open_port_and_no_task() -> None:
    """After stop() the port is free and only the test's own task runs."""

    async def whole() -> None:
        server = await serve([EmbeddedSwitch(program(), device_id=1)])
        host, port = server.addresses[1].split(":")
        client = fy.Switch("s1", server.addresses[1], options())
        await client.__aenter__()
        stopped = asyncio.ensure_future(server.stop())
        await stopped
        await client.__aexit__(None, None, None)
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert {task.get_name() for task in others if "finsy" in repr(task)} == set()

    asyncio.run(whole())


# Raw requests, for what finsy would never send.


async def _raw(server: Server) -> p4r_grpc.P4RuntimeStub:
    channel = insecure_channel(server.addresses[1])
    return p4r_grpc.P4RuntimeStub(channel)


def raw_entry(table_id: int, *, dscp: bytes, queue: bytes = b"\1") -> p4r.Update:
    """An INSERT into a one-key exact table."""
    update = p4r.Update(type=p4r.Update.INSERT)
    entry = update.entity.table_entry
    entry.table_id = table_id
    entry.match.add(field_id=1).exact.value = dscp
    entry.action.action.action_id = 0x01000003
    entry.action.action.params.add(param_id=1, value=queue)
    return update


@pytest.mark.parametrize(
    ("update", "code"),
    [
        (raw_entry(0x02000003, dscp=b"\x7f"), fy.GRPCStatusCode.OUT_OF_RANGE),
        (raw_entry(0x02000003, dscp=b""), fy.GRPCStatusCode.INVALID_ARGUMENT),
        (raw_entry(0x020000FF, dscp=b"\1"), fy.GRPCStatusCode.INVALID_ARGUMENT),
        (raw_entry(0x02000003, dscp=b"\1", queue=b"\1\1"), fy.GRPCStatusCode.OUT_OF_RANGE),
        (raw_entry(0x02000002, dscp=b"\1"), fy.GRPCStatusCode.INVALID_ARGUMENT),
        (p4r.Update(), fy.GRPCStatusCode.INVALID_ARGUMENT),
        (
            p4r.Update(
                type=p4r.Update.INSERT,
                entity=p4r.Entity(register_entry=p4r.RegisterEntry(register_id=1)),
            ),
            fy.GRPCStatusCode.UNIMPLEMENTED,
        ),
    ],
    ids=[
        "key too wide",
        "empty value",
        "unknown table",
        "argument too wide",
        "action of another table",
        "empty update",
        "register",
    ],
)
def test_wrong_updates_get_their_code(update: p4r.Update, code: fy.GRPCStatusCode) -> None:
    """Values that do not fit, unknown ids and unsupported entities are refused by name."""

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        with pytest.raises(fy.P4ClientError) as caught:
            await client.write([update])
        assert caught.value.details[0].canonical_code == code
        assert len(switch.state.tables["TempoIngress.qos.qos_class"].entries) == 0

    run(scenario)


def test_requests_that_are_wrong_as_a_whole_get_their_status() -> None:
    """Wrong device, no pipeline, atomicity, broken JSON: canonical codes; the server lives on."""

    async def whole() -> None:
        server = await serve([EmbeddedSwitch(program(), device_id=1)])
        try:
            stub = await _raw(server)
            with pytest.raises(AioRpcError) as caught:
                await stub.GetForwardingPipelineConfig(
                    p4r.GetForwardingPipelineConfigRequest(device_id=1)
                )
            assert caught.value.code() == StatusCode.FAILED_PRECONDITION
            with pytest.raises(AioRpcError) as caught:
                await stub.Write(p4r.WriteRequest(device_id=9))
            assert caught.value.code() == StatusCode.NOT_FOUND
            with pytest.raises(AioRpcError) as caught:
                await stub.Write(p4r.WriteRequest(device_id=1))
            assert caught.value.code() == StatusCode.PERMISSION_DENIED

            stream = stub.StreamChannel()
            hello = p4r.StreamMessageRequest()
            hello.arbitration.device_id = 1
            hello.arbitration.election_id.CopyFrom(U128.encode(5))
            await stream.write(hello)
            answer = await stream.read()
            assert answer.arbitration.status.code == 0
            request = p4r.SetForwardingPipelineConfigRequest(
                device_id=1,
                election_id=U128.encode(5),
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            )
            request.config.p4_device_config = b"{"
            with pytest.raises(AioRpcError) as caught:
                await stub.SetForwardingPipelineConfig(request)
            assert caught.value.code() == StatusCode.INVALID_ARGUMENT
            assert "not JSON" in (caught.value.details() or "")

            request.config.p4_device_config = ARTIFACTS.joinpath("tempotrace.json").read_bytes()
            text_format.Parse(
                ARTIFACTS.joinpath("tempotrace.p4info.txtpb").read_text(), request.config.p4info
            )
            actions = p4r.SetForwardingPipelineConfigRequest
            request.action = actions.VERIFY
            await stub.SetForwardingPipelineConfig(request)
            with pytest.raises(AioRpcError) as caught:
                await stub.GetForwardingPipelineConfig(
                    p4r.GetForwardingPipelineConfigRequest(device_id=1)
                )
            assert caught.value.code() == StatusCode.FAILED_PRECONDITION
            request.action = actions.VERIFY_AND_SAVE
            await stub.SetForwardingPipelineConfig(request)
            request.action = actions.COMMIT
            request.ClearField("config")
            await stub.SetForwardingPipelineConfig(request)
            found = await stub.GetForwardingPipelineConfig(
                p4r.GetForwardingPipelineConfigRequest(device_id=1)
            )
            assert found.config.p4info.tables
            with pytest.raises(AioRpcError) as caught:
                await stub.Write(
                    p4r.WriteRequest(
                        device_id=1,
                        election_id=U128.encode(5),
                        atomicity=p4r.WriteRequest.ROLLBACK_ON_ERROR,
                    )
                )
            assert caught.value.code() == StatusCode.UNIMPLEMENTED
            duplicate = stub.StreamChannel()
            await duplicate.write(hello)
            with pytest.raises(AioRpcError) as caught:
                await duplicate.read()
            assert caught.value.code() == StatusCode.INVALID_ARGUMENT
            stream.cancel()
        finally:
            await server.stop()

    asyncio.run(whole())


@pytest.mark.parametrize(
    "method", ["Write", "Read", "SetForwardingPipelineConfig", "StreamChannel", "Capabilities"]
)
def test_bytes_that_are_no_message_are_an_invalid_argument(method: str) -> None:
    """The client is told what is wrong, and the next request is served."""
    garbage = b"\xff" * 9

    async def call(channel: Channel, name: str, method: str) -> None:
        if method == "StreamChannel":
            stream = channel.stream_stream(name)()
            await stream.write(garbage)
            await stream.read()
        elif method == "Read":
            await channel.unary_stream(name)(garbage).read()
        else:
            await channel.unary_unary(name)(garbage)

    async def scenario(switch: EmbeddedSwitch, server: Server, client: fy.Switch) -> None:
        async with insecure_channel(server.addresses[1]) as channel:
            name = f"/p4.v1.P4Runtime/{method}"
            with pytest.raises(AioRpcError) as error:
                await call(channel, name, method)
            assert error.value.code() is StatusCode.INVALID_ARGUMENT
            assert error.value.details() == "the request's 9 bytes are no message of this method"
        assert await read_all(client, fy.P4TableEntry("ipv4_lpm")) == []

    run(scenario)
