# SPDX-License-Identifier: Apache-2.0
"""Requests whose bytes are no message: INVALID_ARGUMENT, not an error of the server.

grpc answers UNKNOWN with the decoder's own exception, and logs a traceback.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

Context = grpc.aio.ServicerContext[Any, Any]


class _Undecodable(NamedTuple):
    """Stands for a request that could not be decoded."""

    byte_count: int


class UndecodableRequests(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]
    """Ends a call whose request cannot be decoded with INVALID_ARGUMENT."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - grpc's handlers have no public type
        """The method's handler, with a decoder that does not raise."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_deserializer is None:
            return handler
        codecs = {
            "request_deserializer": _tolerant(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        if handler.request_streaming:
            assert handler.response_streaming
            return grpc.stream_stream_rpc_method_handler(
                _of_stream(handler.stream_stream), **codecs
            )
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(_of_stream(handler.unary_stream), **codecs)
        return grpc.unary_unary_rpc_method_handler(_of_unary(handler.unary_unary), **codecs)


def _tolerant(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def decode_or_mark(data: bytes) -> Any:  # noqa: ANN401 - any message
        try:
            return decode(data)
        except DecodeError:
            return _Undecodable(len(data))

    return decode_or_mark


async def _refuse(context: Context, request: _Undecodable) -> None:
    await context.abort(
        grpc.StatusCode.INVALID_ARGUMENT,
        f"the request's {request.byte_count} bytes are no message of this method",
    )


def _of_unary(behaviour: Callable[[Any, Context], Awaitable[Any]]) -> Any:  # noqa: ANN401
    async def call(request: Any, context: Context) -> Any:  # noqa: ANN401 - any message
        if isinstance(request, _Undecodable):
            await _refuse(context, request)
        return await behaviour(request, context)

    return call


def _of_stream(behaviour: Callable[[Any, Context], AsyncIterator[Any]]) -> Any:  # noqa: ANN401
    async def call(requests: Any, context: Context) -> AsyncIterator[Any]:  # noqa: ANN401
        refused: list[_Undecodable] = []

        async def decoded() -> AsyncIterator[Any]:
            async for request in requests:
                if isinstance(request, _Undecodable):
                    refused.append(request)
                    return
                yield request

        if isinstance(requests, _Undecodable):
            await _refuse(context, requests)
        streams = hasattr(requests, "__aiter__")
        async for response in behaviour(decoded() if streams else requests, context):
            yield response
        if refused:
            await _refuse(context, refused[0])

    return call
