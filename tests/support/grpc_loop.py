# SPDX-License-Identifier: Apache-2.0
"""One asyncio loop per process for tests that use gRPC.

gRPC hands the events of all loops through one poller. An event of a call that has just ended can
arrive when the loop of its test is closed already; the next test's loop would then get the error.
A loop that stays open until the process ends takes such latecomers.
"""

import asyncio
import atexit
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")

_RUNNER = asyncio.Runner()
atexit.register(_RUNNER.close)


def in_grpc_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Decorator: an async test that runs to its end in the shared loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _RUNNER.run(test(*args, **kwargs))

    return run
