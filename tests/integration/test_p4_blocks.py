# SPDX-License-Identifier: Apache-2.0
"""The tracing blocks inside a program that is not ours (docs/p4-blocks.md)."""

import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

import p4src
from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted, SwitchProgram
from bmv2_lab.switch.state import CloneSession, exact_match, ternary_match
from controller.pipeline import Compiler, find_compiler
from controller.telemetry.frames import RoceFlow, roce_frame

HOST_PORT, FABRIC_PORT, REPORT_PORT, RECIRCULATION_PORT = 11, 1, 60, 509
SWITCH_MAC, HOST_MAC = 0x02EE00000001, 0x020000000201


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> SwitchProgram:
    """The example, compiled."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("p4c-bm2-ss is not on the PATH")
    return SwitchProgram.from_json(compile_example(compiler, tmp_path_factory.mktemp("p4")))


def compile_example(compiler: Compiler, folder: Path) -> str:
    """BMv2 JSON of p4src/examples/l2_switch.p4."""
    out = folder / "l2_switch.json"
    command = [str(compiler.path), "--std", "p4-16", "--Wdisable=unsupported", "-o", str(out)]
    if compiler.include_folder is not None:
        command += ["-I", str(compiler.include_folder)]
    source = str(files(p4src) / "examples/l2_switch.p4")
    subprocess.run([*command, source], check=True, capture_output=True, timeout=120)
    return out.read_text(encoding="utf-8")


class L2Switch:
    """One switch of the example program: a host on port 11, a fabric link on port 1."""

    def __init__(self, program: SwitchProgram, node_id: int) -> None:
        self.switch = EmbeddedSwitch(program, device_id=node_id)
        self.tables = {name.rsplit(".", 1)[-1]: name for name in self.switch.state.tables}
        self.default("int_node", "set_int_node", node_id, 0x5454)
        self.default("report_config", "set_report_config", SWITCH_MAC, 0x0AFE0001, 0, 64)
        self.default("report_destination", "set_report_destination", 0, 0x0AFF0001, 32766)
        self.default("report_way", "report_to", REPORT_PORT, 0x02FF00000001)
        self.add("int_edge_ports", "set_int_source_edge", HOST_PORT)
        self.add("int_sink_ports", "set_int_sink", HOST_PORT)
        state = self.switch.state
        name, action = self.action("int_marked_dscp", "set_marked")
        state.add_entry(name, (exact_match(27),), action, (26,))
        for session in (1, 2):
            state.clone_sessions[session] = CloneSession(
                session_id=session, replicas=((RECIRCULATION_PORT, 1),)
            )

    def action(self, table: str, action: str) -> tuple[str, str]:
        spec = self.switch.state.table(self.tables[table]).spec
        return spec.name, next(n for n in spec.action_names if n.endswith(action))

    def default(self, table: str, action: str, *arguments: int) -> None:
        self.switch.state.set_default(*self.action(table, action), arguments)

    def add(self, table: str, action: str, port: int) -> None:
        name, full = self.action(table, action)
        self.switch.state.add_entry(name, (exact_match(port),), full, ())

    def forward(self, mac: int, port: int) -> None:
        name, full = self.action("mac_forward", "to_port")
        self.switch.state.add_entry(name, (exact_match(mac),), full, (port, 7))

    def watch(self) -> None:
        name, full = self.action("int_watchlist", "int_source")
        keys = len(self.switch.state.table(name).spec.key)
        self.switch.state.add_entry(
            name, (ternary_match(0, 0),) * keys, full, (0xFC00, 8, 27), priority=1
        )

    def send(self, frame: bytes, port: int) -> list[Emitted]:
        waiting: list[EgressCopy] = list(self.switch.ingress(frame, port, 1000))
        emitted: list[Emitted] = []
        while waiting:
            for output in self.switch.egress(
                waiting.pop(0),
                enq_timestamp=1100,
                enq_qdepth=1,
                deq_timedelta=400,
                deq_qdepth=0,
                egress_tstamp=1500,
            ):
                if isinstance(output, Emitted):
                    emitted.append(output)
                else:
                    waiting.append(output)
        return emitted


def test_l2_switch_with_the_blocks_traces_and_restores(program: SwitchProgram) -> None:
    """A foreign program starts INT at one host's port and the other host gets its bytes."""
    flow = RoceFlow(
        src_mac=0x020000000101,
        dst_mac=HOST_MAC,
        src_ip=0x0A000101,
        dst_ip=0x0A000201,
        src_port=0xC123,
        dest_qp=7,
        dscp=26,
    )
    frame = roce_frame(flow, opcode=4, psn=7, payload=bytes(64))
    first, last = L2Switch(program, 1), L2Switch(program, 2)
    first.watch()
    first.forward(HOST_MAC, FABRIC_PORT)
    last.forward(HOST_MAC, HOST_PORT)

    (traced,) = first.send(frame, HOST_PORT)
    assert traced.port == FABRIC_PORT
    assert len(traced.frame) == len(frame) + 16 + 32

    sent = last.send(traced.frame, FABRIC_PORT)
    (restored,) = [output.frame for output in sent if output.port == HOST_PORT]
    assert restored == frame
    reports = [output.frame for output in sent if output.port == REPORT_PORT]
    hw_ids = {int.from_bytes(report[42:44], "big") >> 6 & 0x3F for report in reports}
    assert (len(reports), hw_ids) == (2, {0, 1})
