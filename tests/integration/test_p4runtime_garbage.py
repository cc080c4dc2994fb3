# SPDX-License-Identifier: Apache-2.0
"""P4Runtime servers whose answers cannot be read: errors of the switch, whatever was asked."""

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import pytest
from finsy.proto import p4r, rpc_status
from google.protobuf.any_pb2 import Any

from controller.entries import ActionCall, Member
from controller.pipeline import load_pipeline
from controller.reconcile import Operation, Update
from controller.session import SwitchSession, open_session, program_schema
from controller.switch_error import SwitchError
from tests.support.grpc_loop import in_grpc_loop

SCHEMA = program_schema(load_pipeline())
NO_MESSAGE = b"\xff\xff\xff"


def status(code: int, *details: p4r.Error) -> bytes:
    """A status as it stands in `grpc-status-details-bin`."""
    found = rpc_status.Status(code=code, message="inner")
    for one in details:
        found.details.append(Any(type_url="type.googleapis.com/p4.v1.Error"))
        found.details[-1].value = one.SerializeToString()
    return found.SerializeToString()


class Answers(grpc.GenericRpcHandler):
    """Answers all calls but the stream with the same bytes, or with an error of these details."""

    def __init__(self, *, message: bytes = NO_MESSAGE, details: bytes | None = None) -> None:
        self._message = message
        self._details = details

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Of any call."""

        async def once(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
            if self._details is not None:
                context.set_trailing_metadata((("grpc-status-details-bin", self._details),))
                await context.abort(grpc.StatusCode.UNKNOWN, "outer")
            return self._message

        async def stream(
            request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]"
        ) -> AsyncIterator[bytes]:
            yield await once(request, context)

        if handler_call_details.method.endswith("/Read"):
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(once)


CALLS: dict[str, Callable[[SwitchSession], Awaitable[object]]] = {
    "cookie": lambda session: session.pipeline_cookie(),
    "pipeline": lambda session: session.running_pipeline(),
    "entries": lambda session: session.read_entries(),
    "counters": lambda session: session.packet_counts(["int_watchlist"]),
    "write": lambda session: session.write([UPDATE]),
    "push": lambda session: session.push_pipeline(),
}
UPDATE = Update(
    operation=Operation.INSERT,
    entry=Member(
        profile="ecmp_selector",
        member_id=1,
        action=ActionCall(name="forward", params=(("port", 1), ("dst_mac", 2))),
    ),
)
UNREADABLE = {
    "no status": b"\xff\xff\x01",
    "unknown code": status(77),
    "no error": status(0),
    "unknown code of an update": status(2, p4r.Error(canonical_code=77)),
    "more errors than updates": status(2, *[p4r.Error(canonical_code=3)] * 9),
}


async def asked(name: str, answers: Answers) -> SwitchError | None:
    """What comes of a call."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((answers,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with open_session(
            name="leaf1", address=f"127.0.0.1:{port}", device_id=1, schema=SCHEMA
        ) as session:
            await CALLS[name](session)
    except SwitchError as error:
        return error
    finally:
        await server.stop(None)
    return None


@pytest.mark.parametrize("name", CALLS)
@in_grpc_loop
async def test_answer_that_is_no_message_is_an_error_of_the_switch(name: str) -> None:
    """A write and a push have empty answers, in which nothing is looked for."""
    error = await asked(name, Answers())
    if name == "write":
        assert error is None
        return
    assert str(error) == "leaf1: INTERNAL: its answer is no P4Runtime message"
    assert error is not None
    assert not error.lost


@pytest.mark.parametrize("details", UNREADABLE)
@pytest.mark.parametrize("name", CALLS)
@in_grpc_loop
async def test_error_whose_details_cannot_be_read_is_still_an_error(
    name: str, details: str
) -> None:
    """The call's own code and message are told in place of details."""
    error = await asked(name, Answers(details=UNREADABLE[details]))
    assert error is not None
    assert error.message in ("UNKNOWN: outer", "UNKNOWN: inner")


@pytest.mark.parametrize(
    "entity",
    [
        p4r.Entity(),
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
        p4r.Entity(
            direct_counter_entry=p4r.DirectCounterEntry(
                table_entry=p4r.TableEntry(table_id=77), data=p4r.CounterData(packet_count=1)
            )
        ),
    ],
    ids=["nothing", "no table", "another table"],
)
@in_grpc_loop
async def test_counters_of_something_else_are_an_error_of_the_switch(entity: p4r.Entity) -> None:
    """It was asked for those of one table."""
    message = p4r.ReadResponse(entities=[entity]).SerializeToString()
    error = await asked("counters", Answers(message=message))
    assert error is not None
    assert error.switch == "leaf1"
