# SPDX-License-Identifier: Apache-2.0
"""The stream of a session: nothing that waits stops the rest, and what is dropped is counted."""

import asyncio

import pytest
from finsy.proto import U128, p4r, rpc_code, rpc_status

from controller.arbitration import ELECTION_ID_MAX, next_bid, show_election_id
from controller.p4channel import P4Channel
from controller.pipeline import load_pipeline
from controller.session import program_schema
from controller.switch_error import SwitchError
from controller.switch_stream import PACKET_IN_COUNT_MAX, StreamCounters, SwitchStream
from tests.support.grpc_loop import in_grpc_loop

SCHEMA = program_schema(load_pipeline())


class FedChannel(P4Channel):
    """Gives what a test puts in, in place of a switch."""

    def __init__(self, *messages: p4r.StreamMessageResponse) -> None:
        self.sent: list[p4r.StreamMessageRequest] = []
        self._waiting = [*messages]

    async def send(self, message: p4r.StreamMessageRequest) -> None:
        """Remembered."""
        self.sent.append(message)

    async def receive(self) -> p4r.StreamMessageResponse | None:
        """The next one; then the end of the stream."""
        return self._waiting.pop(0) if self._waiting else None


def answer(code: int, election_id: int) -> p4r.StreamMessageResponse:
    """An arbitration message."""
    return p4r.StreamMessageResponse(
        arbitration=p4r.MasterArbitrationUpdate(
            election_id=U128.encode(election_id), status=rpc_status.Status(code=code)
        )
    )


def packet(number: int) -> p4r.StreamMessageResponse:
    """A packet-in from a port."""
    header = SCHEMA.controller_packet_metadata["packet_in"]
    values = {field.name: 0 for field in header.metadata} | {"ingress_port": number % 500}
    message = p4r.StreamMessageResponse()
    message.packet.payload = number.to_bytes(4, "big")
    message.packet.metadata.extend(header.encode(values))
    return message


def stream_of(channel: P4Channel) -> SwitchStream:
    """A stream over that channel."""
    return SwitchStream("leaf1", 1, SCHEMA, channel, StreamCounters())


@in_grpc_loop
async def test_packets_that_nobody_fetches_are_bounded_and_counted() -> None:
    """The queue keeps the oldest, the rest is counted, and arbitration still comes through."""
    flood = [packet(number) for number in range(PACKET_IN_COUNT_MAX + 5)]
    stream = stream_of(FedChannel(*flood, answer(rpc_code.OK, 7)))
    await stream.announce(7)
    said = await stream.arbitration()
    assert said.is_primary
    assert stream.packets_in.qsize() == PACKET_IN_COUNT_MAX
    assert (stream.counters.packets, stream.counters.packets_dropped) == (len(flood), 5)
    first = stream.packets_in.get_nowait()
    assert first.frame == bytes(4)
    assert first.metadata["ingress_port"] == 0
    await stream.close()


@in_grpc_loop
async def test_refused_packet_outs_and_other_messages_are_counted() -> None:
    """A stream error is not the end of the stream."""
    refused, other = p4r.StreamMessageResponse(), p4r.StreamMessageResponse()
    refused.error.canonical_code = rpc_code.INVALID_ARGUMENT
    other.digest.digest_id = 1
    stream = stream_of(FedChannel(refused, other, answer(rpc_code.ALREADY_EXISTS, 9)))
    await stream.announce(7)
    said = await stream.arbitration()
    assert (said.is_primary, said.has_primary, said.highest_election_id) == (False, True, 9)
    assert (stream.counters.errors, stream.counters.others) == (1, 1)
    await stream.close()


@in_grpc_loop
async def test_end_of_the_stream_is_told_to_everybody_who_asks() -> None:
    """As an error that says that the switch is gone."""
    stream = stream_of(FedChannel(answer(rpc_code.NOT_FOUND, 9)))
    await stream.announce(7)
    assert not (await stream.arbitration()).has_primary
    for _ in range(2):
        with pytest.raises(SwitchError, match="closed the P4Runtime stream") as raised:
            await asyncio.wait_for(stream.arbitration(), 5)
        assert raised.value.lost


def test_terms_keep_bids_apart() -> None:
    """Any bid of a later term is above all of earlier ones, and two controllers never bid alike."""
    highest = next_bid(10, 1_000)
    assert highest > ELECTION_ID_MAX
    assert next_bid(20, highest) > next_bid(10, highest) > highest
    assert next_bid(1_000, 1_000) == 1_000
    assert show_election_id(highest) == "10 in term 1"
