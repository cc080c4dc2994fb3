# SPDX-License-Identifier: Apache-2.0
"""The JetStream output against a real server: stored once, confirmed, bounded, patient."""

import asyncio
import threading

import nats
import pytest

from controller.collector.outputs.nats_jetstream import JetStreamOutput
from controller.collector.outputs.output import OutputError, WhenFull
from controller.collector.outputs.part import decode_part
from tests.support.collected import part
from tests.support.nats_server import nats_server

SUBJECT = "fabric.packets"


@pytest.fixture
def server(tmp_path):
    """A fresh server with its own store."""
    with nats_server(tmp_path) as running:
        yield running


def test_parts_are_stored_once_and_confirmed(server):
    """What is offered twice is in the stream once; ids are those of the content."""
    output = JetStreamOutput(server.url, SUBJECT)
    for number in (0, 1, 1, 2, 0):
        output.write(part(number))
    output.close()
    counters = output.counters
    assert (counters.acknowledged_parts, counters.duplicates) == (5, 2)
    assert (counters.waiting_parts, counters.failed_parts, counters.dropped_parts) == (0, 0, 0)
    stored = server.parts(SUBJECT)
    assert sorted(found.number for _id, found in stored) == [0, 1, 2]
    assert all(message_id == found.part_id for message_id, found in stored)


def test_a_server_that_goes_away_and_comes_back_loses_nothing(server):
    """Parts wait while the server is down, and are stored once when it is up again."""
    output = JetStreamOutput(server.url, SUBJECT)
    output.write(part(0))
    server.stop()
    for number in (1, 2, 3):
        output.write(part(number))
    server.start()
    output.close()
    assert output.counters.acknowledged_parts == 4
    assert sorted(found.number for _id, found in server.parts(SUBJECT)) == [0, 1, 2, 3]


def test_a_full_output_drops_and_counts_or_waits(server):
    """Without a server nothing is confirmed: at most `in_flight_max` parts are kept."""
    dropping = JetStreamOutput(server.url, SUBJECT, when_full=WhenFull.DROP, in_flight_max=2)
    blocking = JetStreamOutput(server.url, "fabric.others", stream="OTHERS", in_flight_max=1)
    server.stop()
    for number in range(5):
        dropping.write(part(number))
    assert (dropping.counters.waiting_parts, dropping.counters.dropped_parts) == (2, 3)
    writer = threading.Thread(target=lambda: [blocking.write(part(n)) for n in range(3)])
    writer.start()
    assert blocking.counters.dropped_parts == 0
    server.start()
    writer.join()
    dropping.close()
    blocking.close()
    assert dropping.counters.acknowledged_parts == 2
    assert blocking.counters.acknowledged_parts == 3
    assert blocking.counters.blocked_ns > 0


def test_what_is_never_confirmed_counts_as_failed(server, monkeypatch):
    """Closing does not wait for ever for a server that is gone."""
    monkeypatch.setattr("controller.collector.outputs.nats_jetstream.CLOSE_S", 0.1)
    output = JetStreamOutput(server.url, SUBJECT)
    server.stop()
    output.write(part(0))
    output.close()
    counters = output.counters
    assert (counters.acknowledged_parts, counters.failed_parts) == (0, 1)
    assert (counters.failed_packets, counters.waiting_parts) == (5, 0)


def test_an_existing_stream_is_taken_as_it_is(server):
    """The operator's own stream, with wildcards and limits, stores the subject."""

    async def prepare():
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="MINE", subjects=["fabric.>"], max_msgs=100)
        await client.close()

    asyncio.run(prepare())
    output = JetStreamOutput(server.url, SUBJECT)
    output.write(part(0))
    output.close()

    async def read():
        client = await nats.connect(server.url)
        try:
            return await client.jetstream().get_last_msg("MINE", SUBJECT)
        finally:
            await client.close()

    assert decode_part(asyncio.run(read()).data).number == 0


def test_a_stream_that_cannot_be_made_is_an_error_at_the_start(server):
    """More replicas than servers: one line that says so, before anything is received."""
    with pytest.raises(OutputError, match="no JetStream stream for the subject, and TEMPOTRACE"):
        JetStreamOutput(server.url, SUBJECT, replicas=3)
