# SPDX-License-Identifier: Apache-2.0
"""Following a running fabric in this process: `correct follow --listen` and `serve --listen`."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from controller.collector.cores import make_core
from controller.collector.running import RunningCollector
from controller.collector.socket_source import SocketSource
from controller.fabric import Fabric, FabricError
from controller.fabric_file import load_fabric
from controller.fabric_model import fabric_model
from controller.following.following import Following, FollowPump
from tempotrace.errors import InputError
from tempotrace.waiting import COMPILING, told_if_long
from tracing_core.store import Store, links_of, nodes_of


class Reload:
    """SIGHUP as a request to read fabric.yaml again, looked at between steps."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._requested = False
        self._previous: Any = None

    def __enter__(self) -> "Reload":
        self._previous = signal.signal(signal.SIGHUP, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGHUP, self._previous)

    def apply(self, following: Following) -> Fabric | None:
        """The new description, with which the follower goes on, if there is one to be read."""
        if not self._requested:
            return None
        self._requested = False
        try:
            description = load_fabric(self._path)
        except (FabricError, OSError) as error:
            first = str(error).splitlines()[0]
            warn(f"{first} (the description in use stays)")
            return None
        following.follower.change(fabric_model(description))
        if following.exchanges is not None:
            following.exchanges.time_transmitter = description.ptp.grandmaster
        sys.stderr.write(f"{self._path}: read again\n")
        return description

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._requested = True


class LiveFollower:
    """Receives reports in this process and follows them."""

    def __init__(
        self,
        description: Fabric,
        addresses: list[tuple[str, int]],
        following: Following,
        *,
        store: Store | None = None,
    ) -> None:
        """store: gets the packets and the fabric's description, for the attribution of spans."""
        try:
            source = SocketSource(addresses, collector_clock_ns=time.time_ns)
        except OSError as error:
            raise InputError(f"correct follow: cannot listen: {error.strerror}") from None
        self._following, self._store = following, store
        with told_if_long(COMPILING):
            core = make_core(description)
        self._running = RunningCollector(
            source,
            core,
            FollowPump(following, now_collector_ns=time.time_ns, store=store),
            run=following.run,
            collector_clock_ns=time.time_ns,
        )
        self.addresses = source.addresses

    @property
    def listed(self) -> str:
        """The addresses in words."""
        return ", ".join(f"{host}:{port}" for host, port in self.addresses)

    def serve(self, *, is_ended: Callable[[], bool], reload: Reload | None = None) -> None:
        """Follow until told to end."""

        def ended() -> bool:
            description = None if reload is None else reload.apply(self._following)
            if description is not None:
                if self._store is not None:
                    model = fabric_model(description)
                    self._store.fabric.replace(nodes_of(model), links_of(model))
                self._running.change_core(make_core(description))
            return is_ended()

        self._running.serve(is_ended=ended)


def warn(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"warning: {text}\n")
