# SPDX-License-Identifier: Apache-2.0
"""`tempotrace collect --listen`: one collector or several workers, their outputs and endpoint."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from controller.collector.aggregation import Aggregation
from controller.collector.cores import make_core
from controller.collector.diagnosis import Evidence, PortState
from controller.collector.endpoint import Endpoint
from controller.collector.metrics import metrics_text
from controller.collector.outputs.open_output import check_output, open_output
from controller.collector.outputs.output import Output, OutputError
from controller.collector.outputs.pump import OutputPump
from controller.collector.ring import RingSource
from controller.collector.running import RunningCollector
from controller.collector.socket_source import SocketSource
from controller.collector.sockets import port_holders
from controller.collector.state import CollectorState
from controller.collector.status import diagnose
from controller.collector.status_page import status_page
from controller.collector.workers import WorkerGroup
from controller.fabric import Fabric
from tempotrace.commands import collect_status
from tempotrace.commands.addresses import host_and_port
from tempotrace.errors import InputError
from tempotrace.interrupt import Interrupts
from tempotrace.waiting import COMPILING, told_if_long

STATUS_INTERVAL_NS = 500_000_000
"""How often a diagnosis is made at most: it decodes the samples anew, beside the collector."""
_NEVER_NS = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOptions:
    """How to receive live."""

    workers: int
    ring: str | None
    """Interface to read through a ring, None for sockets."""
    outputs: tuple[str, ...]
    run: str
    seconds: float | None
    metrics: str | None
    aggregation: Aggregation | None


class _Running(Protocol):
    """One process or several: the same to the command."""

    def serve(self, *, is_ended: Callable[[], bool]) -> None:
        """Collect until told to end."""

    def live_state(self) -> CollectorState:
        """The picture, as new as it can be."""

    @property
    def state_age_ns(self) -> int:
        """How old the oldest part of the picture is."""

    @property
    def hop_count(self) -> int:
        """Hops handed over so far."""


def _source(
    listen: Sequence[tuple[str, int]], options: ReceiveOptions
) -> SocketSource | RingSource:
    if options.ring is None:
        return SocketSource(listen, collector_clock_ns=time.time_ns)
    if len(listen) != 1:
        raise InputError("collect: --ring takes one --listen address")
    try:
        return RingSource(*listen[0], interface=options.ring)
    except PermissionError:
        raise InputError("collect: --ring needs root or CAP_NET_RAW") from None


def receive(
    fabric: Fabric, listen: Sequence[tuple[str, int]], options: ReceiveOptions
) -> tuple[CollectorState, int]:
    with ExitStack() as stack:
        running: _Running
        try:
            if options.workers > 1:
                if options.ring is not None:
                    raise InputError("collect: --ring and --workers exclude each other")
                if options.aggregation is not None:
                    raise InputError("collect: --statistics and --workers exclude each other")
                _check_outputs(options.outputs)
                group = WorkerGroup(
                    fabric,
                    listen,
                    workers=options.workers,
                    outputs=options.outputs,
                    run=options.run,
                    collector_clock_ns=time.time_ns,
                )
                running, addresses = group, group.addresses
            else:
                source = stack.enter_context(closing(_source(listen, options)))
                outputs = stack.enter_context(opened(options.outputs))
                with told_if_long(COMPILING):
                    core = make_core(fabric)
                running = RunningCollector(
                    source,
                    core,
                    OutputPump(outputs, run=options.run, aggregation=options.aggregation),
                    run=options.run,
                    collector_clock_ns=time.time_ns,
                )
                addresses = source.addresses
        except OSError as error:
            raise InputError(
                f"collect: cannot listen on {_listed(listen)}: {error.strerror}{_holders(listen)}"
            ) from None
        interrupts = stack.enter_context(Interrupts())
        stack.enter_context(_endpoint(options.metrics, fabric, running, addresses))
        sys.stderr.write(f"listening on {_listed(addresses)}\n")
        end_ns = _NEVER_NS
        if options.seconds is not None:
            end_ns = time.monotonic_ns() + round(options.seconds * 1e9)
        running.serve(is_ended=lambda: interrupts.is_requested or time.monotonic_ns() >= end_ns)
        return running.live_state(), running.hop_count


@contextmanager
def _endpoint(
    metrics: str | None,
    fabric: Fabric,
    running: _Running,
    addresses: Sequence[tuple[str, int]],
) -> Iterator[None]:
    """The HTTP endpoint while the collector runs, if one is wanted."""
    if metrics is None:
        yield
        return
    host, port = host_and_port("--metrics", metrics)
    names = {switch.node_id: switch.name for switch in fabric.switches}
    ports = [PortState(host=host, udp_port=udp_port, bound=True) for host, udp_port in addresses]
    ports += collect_status.missing_ports(fabric, [udp_port for _host, udp_port in addresses])

    pages: list[tuple[int, dict[str, object]]] = []

    def status() -> dict[str, object]:
        now_ns = time.monotonic_ns()
        if pages and now_ns - pages[0][0] < STATUS_INTERVAL_NS:
            return pages[0][1]
        pages[:] = [(now_ns, diagnosed())]
        return pages[0][1]

    def diagnosed() -> dict[str, object]:
        state = running.live_state()
        evidence = Evidence(
            fabric=fabric, ports=ports, state=state, state_age_s=running.state_age_ns / 1e9
        )
        return status_page(diagnose(evidence), state)

    try:
        endpoint = Endpoint(
            host, port, metrics=lambda: metrics_text(running.live_state(), names), status=status
        )
    except OSError as error:
        raise InputError(f"collect: cannot serve on {metrics}: {error.strerror}") from None
    sys.stderr.write(f"metrics on http://{_address(*endpoint.address)}/metrics\n")
    try:
        yield
    finally:
        endpoint.close()


def _check_outputs(texts: Sequence[str]) -> None:
    """Find out here what workers would find out one by one."""
    try:
        for text in texts:
            check_output(text)
    except OutputError as error:
        raise InputError(f"collect: {error}") from None


@contextmanager
def opened(texts: Sequence[str]) -> Iterator[list[Output]]:
    """The outputs that the command line names."""
    try:
        outputs = [open_output(text) for text in texts]
    except OutputError as error:
        raise InputError(f"collect: {error}") from None
    yield outputs


def _listed(addresses: Sequence[tuple[str, int]]) -> str:
    return ", ".join(_address(host, port) for host, port in addresses)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _holders(addresses: Sequence[tuple[str, int]]) -> str:
    """Who has the ports already, in brackets."""
    found = {str(holder) for _host, port in addresses if port for holder in port_holders(port)}
    return f" (held by {', '.join(sorted(found))})" if found else ""
