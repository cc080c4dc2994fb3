# SPDX-License-Identifier: Apache-2.0
"""Whatever a client sends, the P4Runtime server answers with a canonical status and lives on."""

import asyncio
import logging
from collections.abc import Iterator
from random import Random

import grpc
import pytest
from finsy.proto import U128, p4r, rpc_status
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from tests.support import p4runtime_other_cases as other
from tests.support import p4runtime_table_cases as table
from tests.support.message_mutation import damage, mutate
from tests.support.p4runtime_peer import (
    INSERT,
    Answer,
    Peer,
    Program,
    exact,
    multicast,
    replica,
)
from tests.unit.bmv2_lab.switch.bmv2_json import send

CONTROL = Program.load("control")
KINDS = Program.load("kinds")
IDS = tuple(
    item.preamble.id
    for descriptor, value in CONTROL.p4info.ListFields()
    if descriptor.name not in ("pkg_info", "type_info")
    for item in value
)
METHODS = {
    "Write": p4r.WriteRequest,
    "Read": p4r.ReadRequest,
    "SetForwardingPipelineConfig": p4r.SetForwardingPipelineConfigRequest,
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest,
    "Capabilities": p4r.CapabilitiesRequest,
    "StreamChannel": p4r.StreamMessageRequest,
}
# What a server that has lost its head says; UNKNOWN is for batches with details only.
HEADLESS = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)


ELECTION_ID_MAX = (1 << 128) - 1


class Server:
    """A served switch in a loop of its own, driven from outside of the loop."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.run = self.runner.run
        self.switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
        self.run(self._start())

    async def _start(self) -> None:
        self.server = await serve([self.switch])
        self.peer = Peer(self.server.addresses[1])
        await self.peer.become_primary()
        self.channel = grpc.aio.insecure_channel(self.server.addresses[1])
        await self.push()

    async def push(self) -> None:
        """The pipeline and one primary, whatever has happened before."""
        answer = await self.peer.push(CONTROL.config())
        if answer.code:  # somebody else had become primary, with any id
            await self.peer.announce(ELECTION_ID_MAX)
            answer = await self.peer.push(CONTROL.config())
        assert answer.code == 0, answer

    def changed(self, method: str, random: Random, changes: int = 3) -> bytes:
        """A request with something wrong in it, which nearly always passes the first checks."""
        message = METHODS[method]()
        message.CopyFrom(random.choice(REQUESTS[method]))
        mutate(message, random, IDS, changes=changes)
        known = message.DESCRIPTOR.fields_by_name
        if random.random() < 0.95:
            if "device_id" in known:
                message.device_id = 1  # type: ignore[attr-defined] # not in all of them
            if "election_id" in known:
                message.election_id.CopyFrom(U128.encode(self.peer.election_id))  # type: ignore[attr-defined]
                message.role = ""  # type: ignore[attr-defined] # as election_id
        return message.SerializeToString()

    async def send(self, method: str, data: bytes) -> grpc.StatusCode:
        """The status that some bytes get."""
        name = f"/p4.v1.P4Runtime/{method}"
        try:
            if method == "StreamChannel":
                stream = self.channel.stream_stream(name)(timeout=10)
                await stream.write(data)
                await stream.done_writing()
                async for _ in stream:
                    pass
            elif method == "Read":
                async for _ in self.channel.unary_stream(name)(data, timeout=10):
                    pass
            else:
                await self.channel.unary_unary(name)(data, timeout=10)
        except grpc.aio.AioRpcError as error:
            details = dict(error.trailing_metadata() or ())
            if "grpc-status-details-bin" in details and method == "Write":
                status = rpc_status.Status.FromString(details["grpc-status-details-bin"])
                assert status.details
                return grpc.StatusCode.OK
            if error.code() in HEADLESS:
                raise AssertionError(error.details()) from error
            return error.code()
        return grpc.StatusCode.OK

    def close(self) -> None:
        async def end() -> None:
            await self.peer.__aexit__()
            await self.channel.close()
            await self.server.stop()

        self.run(end())
        self.runner.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    """One server for all examples: what one of them breaks, the next one sees."""
    server = Server()
    yield server
    server.close()


def requests() -> dict[str, list[Message]]:
    """Requests that are in order, for each method."""
    cases = [*table.entries(CONTROL), *table.profiles(CONTROL)]
    cases += [*other.replication(CONTROL), *other.arrays(CONTROL), *other.digests(CONTROL)]
    cases += other.kinds(KINDS)
    made: dict[str, list[Message]] = {method: [] for method in METHODS}
    for case in cases:
        if case.wanted:
            made["Read"].append(p4r.ReadRequest(device_id=1, entities=case.wanted))
        else:
            write = p4r.WriteRequest(device_id=1, election_id=U128.encode(1))
            for kind, entity in case.updates:
                write.updates.add(type=kind, entity=entity)  # type: ignore[arg-type] # any int
            made["Write"].append(write)
    for action in range(1, 6):
        push = p4r.SetForwardingPipelineConfigRequest(
            device_id=1,
            election_id=U128.encode(1),
            action=action,  # type: ignore[arg-type] # any int
            config=CONTROL.config(1),
        )
        made["SetForwardingPipelineConfig"].append(push)
    made["GetForwardingPipelineConfig"].append(p4r.GetForwardingPipelineConfigRequest(device_id=1))
    made["Capabilities"].append(p4r.CapabilitiesRequest())
    hello = p4r.StreamMessageRequest()
    hello.arbitration.device_id = 1
    hello.arbitration.role.name = "r"
    hello.arbitration.election_id.low = 1
    made["StreamChannel"].append(hello)
    out = p4r.PacketOut(payload=b"p", metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\1")])
    made["StreamChannel"].append(p4r.StreamMessageRequest(packet=out))
    ack = p4r.DigestListAck(digest_id=CONTROL.id("pair_t"), list_id=1)
    made["StreamChannel"].append(p4r.StreamMessageRequest(digest_ack=ack))
    return made


REQUESTS = requests()


def check_alive(served: Server, caplog: pytest.LogCaptureFixture) -> None:
    """No exception was logged; the switch takes a push, an entry, and a packet."""
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []

    async def use() -> Answer:
        await served.push()
        entry = CONTROL.entry("aged", exact(b"\1"), action=CONTROL.direct("to_port", b"\1"))
        return await served.peer.write((INSERT, entry))

    assert served.run(use()).code == 0
    assert [port for port, _ in send(served.switch, b"\1" + bytes(4))] == [1]


def some(count: int) -> settings:
    """So many examples; the server is shared on purpose."""
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


@some(60)
@given(method=st.sampled_from(sorted(METHODS)), seed=st.integers(0, 1 << 32))
def test_changed_messages_get_a_canonical_status(
    served: Server, caplog: pytest.LogCaptureFixture, method: str, seed: int
) -> None:
    """Ten requests with other ids, numbers, missing and repeated parts."""
    caplog.clear()
    random = Random(seed)
    for _ in range(10):
        served.run(served.send(method, served.changed(method, random)))
    check_alive(served, caplog)


@some(30)
@given(method=st.sampled_from(sorted(METHODS)), seed=st.integers(0, 1 << 32))
def test_damaged_bytes_get_a_canonical_status(
    served: Server, caplog: pytest.LogCaptureFixture, method: str, seed: int
) -> None:
    """Ten requests with bytes changed, missing, doubled or put in."""
    caplog.clear()
    random = Random(seed)
    for _ in range(10):
        data = random.choice(REQUESTS[method]).SerializeToString()
        served.run(served.send(method, damage(data, random)))
    check_alive(served, caplog)


@some(10)
@given(seed=st.integers(0, 1 << 32))
def test_packets_pass_whatever_was_accepted(
    served: Server, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """After forty changed writes, packets of 0 to 64 bytes and reads of everything."""
    caplog.clear()
    random = Random(seed)
    served.run(served.push())
    for _ in range(40):
        served.run(served.send("Write", served.changed("Write", random, changes=1)))
    for length in range(65):
        send(served.switch, random.randbytes(length), port=random.choice((1, 510)))
    for wanted in REQUESTS["Read"]:
        served.run(served.send("Read", wanted.SerializeToString()))
    check_alive(served, caplog)


def test_huge_batch_gets_a_code_for_each_update(served: Server) -> None:
    """Twenty thousand updates; packets of the stream pass in the middle of them."""
    count = 20_000
    batch = [(INSERT, multicast(number, replica(1))) for number in range(1, count + 1)]
    progress: list[int] = []
    out = p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=n, value=b"\1") for n in (1, 2)])

    async def work() -> Answer:
        await served.push()
        groups = served.switch.state.multicast_groups
        served.switch.on_packet_out = lambda _: progress.append(len(groups))

        done = asyncio.Event()

        async def talk() -> None:
            while not done.is_set():  # cancelling it in the middle of a write would end the stream
                await served.peer.say(packet=out)
                await asyncio.sleep(0)

        talker = asyncio.create_task(talk())
        answer = await served.peer.write(*batch)
        done.set()
        await talker
        return answer

    answer = served.run(work())
    assert answer.code == 0, answer
    assert any(0 < number < count for number in progress)
    answer = served.run(served.peer.write(*batch))
    assert answer.details == [6] * count, answer.text
