# SPDX-License-Identifier: Apache-2.0
"""A running simple_switch_grpc for tests: started, programmed over P4Runtime, fed with frames.

It needs no root and no network interface. It has no CPU port of its own, so that frames for the
program's CPU port come out with their controller header, like those of any other port.
"""

import atexit
import contextlib
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from finsy.proto import p4i, p4r, p4r_grpc, rpc_code, rpc_status

from tests.support.bmv2_dataplane import Dataplane
from tests.support.bmv2_thrift import TestThrift

T = TypeVar("T")

PROGRAM = "simple_switch_grpc"
DEADLINE_S = 20.0
PRIORITY_QUEUE_COUNT = 8
MESSAGE_BYTES_MAX = 64 << 20


def bmv2_path() -> str | None:
    """Where simple_switch_grpc is, or None."""
    return shutil.which(PROGRAM)


def bmv2_version() -> str:
    """What the program says of itself: version and the start of its commit."""
    path = bmv2_path()
    assert path is not None
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


class Bmv2Error(Exception):
    """The switch refused something or is gone."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            held = stack.enter_context(socket.socket())
            held.bind(("127.0.0.1", 0))
            ports.append(int(held.getsockname()[1]))
        return ports


class Bmv2Switch:
    """One process; `push` gives it a program and forgets everything else.

    Without `primary` somebody else programs it, at `address`.
    """

    def __init__(self, device_id: int = 1, *, primary: bool = True) -> None:
        path = bmv2_path()
        if path is None:
            raise Bmv2Error(f"{PROGRAM} is not on the PATH")
        runtime, dataplane, thrift = free_ports(3)
        command = [path, "--no-p4", "--device-id", str(device_id), "--thrift-port", str(thrift)]
        command += ["--", "--grpc-server-addr", f"127.0.0.1:{runtime}"]
        command += ["--dp-grpc-server-addr", f"127.0.0.1:{dataplane}"]
        command += ["--priority-queues", str(PRIORITY_QUEUE_COUNT)]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the process
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self._stderr)
        atexit.register(self.close)
        self.device_id = device_id
        self.address = f"127.0.0.1:{runtime}"
        self._thrift_port = thrift
        self._thrift: TestThrift | None = None
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(
            self.address,
            options=[("grpc.max_send_message_length", MESSAGE_BYTES_MAX)],
        )
        try:
            grpc.channel_ready_future(self._channel).result(timeout=DEADLINE_S)
            self._stub = p4r_grpc.P4RuntimeStub(self._channel)
            if primary:
                self._become_primary()
            self._dataplane = Dataplane(f"127.0.0.1:{dataplane}", device_id)
        except BaseException:
            self.close()
            raise

    def _become_primary(self) -> None:
        def requests() -> Iterator[p4r.StreamMessageRequest]:
            while (message := self._requests.get()) is not None:
                yield message

        first = p4r.StreamMessageRequest()
        first.arbitration.device_id = self.device_id
        first.arbitration.election_id.low = 1
        self._requests.put(first)
        self._stream = self._stub.StreamChannel(requests())
        answer = next(iter(self._stream))
        if answer.arbitration.status.code != rpc_code.OK:
            raise Bmv2Error(f"not primary: {answer.arbitration.status.message}")
        # What else the stream may bring is of no interest, but must not pile up.
        threading.Thread(target=self._drain, daemon=True).start()

    def _drain(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            for _ in self._stream:
                pass

    @property
    def thrift(self) -> TestThrift:
        """The Thrift connection, opened at its first use."""
        if self._thrift is None:
            self._thrift = TestThrift(self._thrift_port)
        return self._thrift

    def push(self, p4info: p4i.P4Info, bmv2_json: bytes) -> None:
        """Run a program from now on, with empty tables and registers.

        The server forgets clone sessions and multicast groups at a push, the switch does not:
        what is there must be deleted before.
        """
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=p4r.SetForwardingPipelineConfigRequest.Action.VERIFY_AND_COMMIT,
        )
        request.election_id.low = 1
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = bmv2_json
        self._do(lambda: self._stub.SetForwardingPipelineConfig(request, timeout=DEADLINE_S))

    def write(self, updates: Iterable[p4r.Update]) -> None:
        """One write request; Bmv2Error tells which update was refused."""
        request = p4r.WriteRequest(device_id=self.device_id)
        request.election_id.low = 1
        request.updates.extend(updates)
        if not request.updates:
            return
        try:
            self._stub.Write(request, timeout=DEADLINE_S)
        except grpc.RpcError as error:
            raise Bmv2Error(self._refused(request, error)) from error

    def read_counter(self, number: int) -> dict[int, int]:
        """Packets by index of one indirect counter."""
        request = p4r.ReadRequest(device_id=self.device_id)
        request.entities.add().counter_entry.counter_id = number
        answers = self._do(lambda: list(self._stub.Read(request, timeout=DEADLINE_S)))
        entries = [entity.counter_entry for answer in answers for entity in answer.entities]
        return {entry.index.index: entry.data.packet_count for entry in entries}

    def read_entries(self, table: int) -> list[p4r.TableEntry]:
        """The entries of a table with their counters."""
        request = p4r.ReadRequest(device_id=self.device_id)
        wanted = request.entities.add().table_entry
        wanted.table_id = table
        wanted.counter_data.SetInParent()
        answers = self._do(lambda: list(self._stub.Read(request, timeout=DEADLINE_S)))
        return [entity.table_entry for answer in answers for entity in answer.entities]

    @staticmethod
    def _refused(request: p4r.WriteRequest, error: grpc.RpcError) -> str:
        """The first update that failed, in words."""
        trailing: Any = error.trailing_metadata()  # the stubs say one pair, it is a list
        for key, value in trailing or ():
            if key != "grpc-status-details-bin":
                continue
            details = rpc_status.Status.FromString(value).details
            for update, detail in zip(request.updates, details, strict=False):
                answer = p4r.Error()
                detail.Unpack(answer)
                if answer.canonical_code != rpc_code.OK:
                    return f"{answer.message} (code {answer.canonical_code}): {update}"
        return f"{error.code()}: {error.details()}: {request}"

    def send(self, frame: bytes, port: int) -> list[tuple[int, bytes]]:
        """Everything that leaves because of one frame, in no particular order of ports."""
        return self.send_all([(port, frame)])

    def send_all(self, frames: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Everything that leaves because of several frames sent back to back."""
        return self._do(lambda: self._dataplane.send(frames))

    def _do(self, work: Callable[[], T]) -> T:
        """Run an RPC; a switch that is gone says so instead of the channel's error."""
        try:
            return work()
        except grpc.RpcError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(1.0)
                self._stderr.seek(0)
                said = self._stderr.read().decode(errors="replace")[-1000:]
                raise Bmv2Error(f"{PROGRAM} ended with code {code}: {said}") from error
            raise Bmv2Error(f"{error.code()}: {error.details()}") from error

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._requests.put(None)
        if self._thrift is not None:
            self._thrift.close()
        self._channel.close()
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._stderr.close()
