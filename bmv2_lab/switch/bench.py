# SPDX-License-Identifier: Apache-2.0
"""How many packets a second one core takes through the INT pipeline.

Three switches stand in a row: a leaf that starts INT, a spine that adds to it, and a leaf that
takes it off and reports. One packet crossing one switch counts as one packet, the sink's report
clones included in its time. Beside it stands the limit of any program: parse and deparse alone.
"""

import cProfile
import pstats
import time
from dataclasses import dataclass
from importlib import resources

from bmv2_lab.switch.packets import EgressCopy, Emitted
from bmv2_lab.switch.state import CloneSession, exact_match, lpm_match, ternary_match
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.translate import SwitchProgram
from controller.telemetry.frames import RoceFlow, roce_frame

HOST_PORT, UPLINK_PORT, REPORT_PORT, RECIRCULATION_PORT = 11, 1, 60, 509
MARKED_DSCP, ROCE_DSCP = 27, 26
SRC_IP, DST_IP, COLLECTOR_IP = 0x0A000101, 0x0A000201, 0x0AFF0001
PAYLOAD_BYTES = 1024
FLOWS = 64
INGRESS, EGRESS = "TempoIngress", "TempoEgress"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """Packets per second of one core; a packet is one frame received by one switch."""

    packets_per_s: float
    source_packets_per_s: float
    transit_packets_per_s: float
    sink_packets_per_s: float
    parse_deparse_packets_per_s: float
    profile_share: dict[str, float]


def load_program() -> SwitchProgram:
    """The packaged program."""
    return SwitchProgram.from_json(
        resources.files("p4src").joinpath("artifacts/tempotrace.json").read_bytes()
    )


def make_switch(program: SwitchProgram, node_id: int, *, edge: bool) -> EmbeddedSwitch:
    """A switch with the entries that a controller would give it, without P4Runtime."""
    switch = EmbeddedSwitch(program, device_id=node_id)
    state = switch.state
    state.set_default(
        f"{EGRESS}.tracing.node.int_node", f"{EGRESS}.tracing.node.set_int_node", (node_id, 0x5454)
    )
    state.set_default(
        f"{EGRESS}.tracing.report_configuration.report_config",
        f"{EGRESS}.tracing.report_configuration.set_report_config",
        (0x020000000000 + node_id, 0x0AFE0000 + node_id, 0, 96),
    )
    destination = f"{INGRESS}.tracing.destination"
    state.set_default(
        f"{destination}.report_destination",
        f"{destination}.set_report_destination",
        (0, COLLECTOR_IP, 32766),
    )
    qos = f"{INGRESS}.qos"
    for dscp in (ROCE_DSCP, MARKED_DSCP):
        state.add_entry(f"{qos}.qos_class", (exact_match(dscp),), f"{qos}.set_queue", (1,))
    edges = f"{INGRESS}.edge"
    state.add_entry(
        f"{edges}.int_marked_dscp",
        (exact_match(MARKED_DSCP),),
        f"{edges}.set_marked",
        (ROCE_DSCP,),
    )
    forward = f"{INGRESS}.routing.forward"
    if edge:
        state.add_entry(
            f"{edges}.int_edge_ports", (exact_match(HOST_PORT),), f"{edges}.set_int_source_edge"
        )
        state.add_entry(
            f"{INGRESS}.tracing.sink_ports.int_sink_ports",
            (exact_match(HOST_PORT),),
            f"{INGRESS}.tracing.sink_ports.set_int_sink",
        )
        wildcards = [ternary_match(0, 0)] * 10
        wildcards[2] = ternary_match(17, 0xFF)
        wildcards[4] = ternary_match(4791, 0xFFFF)
        state.add_entry(
            f"{INGRESS}.tracing.watchlist.int_watchlist",
            tuple(wildcards),
            f"{INGRESS}.tracing.watchlist.int_source",
            (0xFC00, 8, MARKED_DSCP),
            priority=10,
        )
    local = 0x0A000000 | (node_id << 8)
    state.add_route(
        f"{INGRESS}.routing.ipv4_lpm",
        (lpm_match(local, 24, 32),),
        [(forward, (HOST_PORT, 0x020000000101))],
    )
    state.add_route(
        f"{INGRESS}.routing.ipv4_lpm",
        (lpm_match(0x0A000000, 8, 32),),
        [(forward, (UPLINK_PORT + number, 0x0200000001FF)) for number in range(4)],
    )
    state.add_route(
        f"{INGRESS}.routing.ipv4_lpm",
        (lpm_match(COLLECTOR_IP, 32, 32),),
        [(forward, (REPORT_PORT, 0x02FF00000001))],
    )
    for number in (1, 2):
        state.clone_sessions[number] = CloneSession(
            session_id=number, replicas=((RECIRCULATION_PORT, 1),)
        )
    return switch


def forward(
    switch: EmbeddedSwitch, frame: bytes, port: int, now: int
) -> tuple[bytes | None, list[bytes]]:
    """One frame through one switch without waiting; (frame that goes on, reports)."""
    sent: bytes | None = None
    reports = []
    work: list[EgressCopy] = list(switch.ingress(frame, port, now))
    while work:
        for output in switch.egress(
            work.pop(),
            enq_timestamp=now,
            enq_qdepth=0,
            deq_timedelta=400,
            deq_qdepth=3,
            egress_tstamp=now + 700,
        ):
            if isinstance(output, Emitted):
                if output.port == REPORT_PORT:
                    reports.append(output.frame)
                else:
                    sent = output.frame
            else:
                work.append(output)
    return sent, reports


def make_path(program: SwitchProgram) -> list[tuple[EmbeddedSwitch, int]]:
    """Source leaf, spine and sink leaf, each with the port where the packet comes in."""
    return [
        (make_switch(program, 1, edge=True), HOST_PORT),
        (make_switch(program, 101, edge=False), 1),
        (make_switch(program, 2, edge=True), UPLINK_PORT),
    ]


def host_frames(count: int) -> list[bytes]:
    """RoCEv2 frames of several flows."""
    return [
        roce_frame(
            RoceFlow(
                src_mac=0x020000000101,
                dst_mac=0x0200000001FF,
                src_ip=SRC_IP,
                dst_ip=DST_IP,
                src_port=49152 + number % FLOWS,
                dest_qp=17 + number % FLOWS,
            ),
            psn=number,
            payload=bytes(PAYLOAD_BYTES),
        )
        for number in range(count)
    ]


def _profile(program: SwitchProgram, frames: list[bytes]) -> dict[str, float]:
    """Share of the own time in each part of the switch.

    Measured with every action in a function of its own. Control is the flow between tables;
    checksums and header emission count as deparser, clones and recirculation as traffic manager,
    the loop of the measurement as rest.
    """
    path = make_path(program.without_inlining())
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    for number, frame in enumerate(frames):
        current: bytes | None = frame
        for switch, port in path:
            assert current is not None
            current, _ = forward(switch, current, port, 10**9 + number)
    profiler.disable()
    groups = dict.fromkeys(
        ("parser", "match", "actions", "control", "deparser", "traffic_manager", "rest"), 0.0
    )
    match = {"lookup", "_find_exact", "_find_lpm", "_find_ranked", *program.selectors.values()}
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]  # missing in typeshed
    for (file, _, name), (_, _, own_s, _, _) in stats.items():
        if name.startswith(("state_", "loop_", "parse", "verify")) or "unpack" in name:
            groups["parser"] += own_s
        elif name.startswith("action_"):
            groups["actions"] += own_s
        elif name.startswith("pipeline_"):
            groups["control"] += own_s
        elif name in match or "'get' of 'dict'" in name:
            groups["match"] += own_s
        elif name.startswith(("deparse", "calculation_")) or "'pack'" in name or "'join'" in name:
            groups["deparser"] += own_s
        elif name in ("ingress", "egress", "start") or file.endswith("switch/traffic_manager.py"):
            groups["traffic_manager"] += own_s
        else:
            groups["rest"] += own_s
    total = sum(groups.values()) or 1.0
    return {name: value / total for name, value in groups.items()}


def run(packets: int = 3000) -> BenchResult:
    """Measure; `packets` frames cross the three switches."""
    program = load_program()
    path = make_path(program)
    frames = host_frames(packets)
    for number, frame in enumerate(frames[:200]):  # let the interpreter specialise
        current: bytes | None = frame
        for switch, port in path:
            assert current is not None
            current, _ = forward(switch, current, port, number)
    times_s = []
    current_frames = frames
    for switch, port in path:
        following = []
        begin_s = time.process_time()
        for number, frame in enumerate(current_frames):
            sent, _ = forward(switch, frame, port, 10**9 + number * 1000)
            following.append(sent)
        times_s.append(time.process_time() - begin_s)
        current_frames = [frame for frame in following if frame is not None]
        assert len(current_frames) == packets
    assert [frame[14:] for frame in current_frames] != []
    spine = path[1][0]
    start, parse, deparse = (spine.namespace[n] for n in ("start", "parse_packet", "deparse"))
    begin_s = time.process_time()
    for frame in frames:
        packet = start(frame, len(frame))
        parse(packet)
        deparse(packet)
    bare_s = time.process_time() - begin_s
    return BenchResult(
        packets_per_s=3 * packets / sum(times_s),
        source_packets_per_s=packets / times_s[0],
        transit_packets_per_s=packets / times_s[1],
        sink_packets_per_s=packets / times_s[2],
        parse_deparse_packets_per_s=packets / bare_s,
        profile_share=_profile(program, frames[:1000]),
    )


def main() -> None:
    """Print the result."""
    result = run()
    print(f"packets per second, three-switch INT path: {result.packets_per_s:,.0f}")
    print(f"  source {result.source_packets_per_s:,.0f}")
    print(f"  transit {result.transit_packets_per_s:,.0f}")
    print(f"  sink {result.sink_packets_per_s:,.0f}")
    print(f"parse and deparse alone: {result.parse_deparse_packets_per_s:,.0f}")
    for name, share in result.profile_share.items():
        print(f"  {name} {share:.0%}")


if __name__ == "__main__":
    main()
