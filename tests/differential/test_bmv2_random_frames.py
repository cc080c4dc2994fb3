# SPDX-License-Identifier: Apache-2.0
"""Random frames through one fully configured switch, embedded and BMv2: the same bytes come out."""

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.state import CloneSession, exact_match, lpm_match, ternary_match
from bmv2_lab.switch.tables import Match
from controller.pipeline import load_pipeline
from tests.support.bmv2_mirror import Mirror
from tests.support.bmv2_switch import Bmv2Error
from tests.support.random_frames import FABRIC_PORTS, HOST_PORTS, RandomFrames

REPORT_PORT, RECIRCULATION_PORT, CPU_PORT = 60, 509, 510
COLLECTOR_IP = 0x0AFF0001
NEVER = 0xFFFFFFFF
PACKETS = 1500


class Configured:
    """A switch with entries in all tables. Nothing in it depends on how long a packet takes."""

    def __init__(self, *, mode: str, switch: EmbeddedSwitch | None = None) -> None:
        if switch is None:
            switch = EmbeddedSwitch(SwitchProgram.from_json(load_pipeline().bmv2_json))
        self.switch = switch
        self.state = self.switch.state
        self.tables = {name.rsplit(".", 1)[-1]: name for name in self.state.tables}
        self.ports()
        self.routes()
        self.reports(filtered=mode == "filtered")
        self.watchlists(mode)
        self.clocks()
        for number in (1, 2):
            self.state.clone_sessions[number] = CloneSession(
                session_id=number, replicas=((RECIRCULATION_PORT, 1),)
            )
        self.state.multicast_groups[5] = ((1, 1), (2, 1), (11, 1))

    def default(self, table: str, action: str, *arguments: int) -> None:
        name = self.tables[table]
        self.state.set_default(name, self.action(table, action), arguments)

    def action(self, table: str, action: str) -> str:
        spec = self.state.table(self.tables[table]).spec
        return next(name for name in spec.action_names if name.rsplit(".", 1)[-1] == action)

    def add(
        self, table: str, match: list[Match], action: str, *arguments: int, priority: int = 0
    ) -> None:
        name = self.tables[table]
        self.state.add_entry(
            name, tuple(match), self.action(table, action), arguments, priority=priority
        )

    def ternary(
        self,
        table: str,
        wanted: dict[str, tuple[int, int]],
        action: str,
        *arguments: int,
        priority: int,
    ) -> None:
        """An entry of a ternary table; fields that are not named match all."""
        fields = self.state.table(self.tables[table]).spec.key
        assert set(wanted) <= {field.name for field in fields}
        match = [ternary_match(*wanted.get(field.name, (0, 0))) for field in fields]
        self.add(table, match, action, *arguments, priority=priority)

    def ports(self) -> None:
        for port in HOST_PORTS:
            self.add("int_edge_ports", [exact_match(port)], "set_int_source_edge")
        self.add("int_sink_ports", [exact_match(11)], "set_int_sink")
        self.add("int_sink_ports", [exact_match(12)], "set_int_strip")
        self.add("int_egress_mtu", [exact_match(2)], "set_mtu", 200)
        self.add("ingress_interface", [exact_match(1)], "set_ingress_interface", 0x10001)
        self.add("egress_interface", [exact_match(2)], "set_egress_interface", 0x20002)
        for marked, unmarked in ((27, 26), (1, 0), (47, 46)):
            self.add("int_marked_dscp", [exact_match(marked)], "set_marked", unmarked)
        for dscp, queue in ((26, 1), (27, 1), (46, 2), (47, 2)):
            self.add("qos_class", [exact_match(dscp)], "set_queue", queue)
        self.add("ecn_config", [exact_match(2)], "set_ecn_threshold", 0)
        self.ternary("punt", {"ether_type": (0x88CC, 0xFFFF)}, "punt_to_cpu", priority=3)
        self.ternary("punt", {"ether_type": (0x0806, 0xFFFF)}, "punt_to_cpu", priority=3)
        for kind in (133, 135, 136):
            self.ternary(
                "punt",
                {"protocol": (58, 0xFF), "icmp_type": (kind, 0xFF)},
                "punt_to_cpu",
                priority=2,
            )
        self.ternary("punt", {"dst_addr": (0x0A00FF01, NEVER)}, "punt_to_cpu", priority=1)

    def route(self, table: str, match: Match, *members: tuple[str, tuple[int, ...]]) -> None:
        name = self.tables[table]
        actions = [(self.action(table, action), arguments) for action, arguments in members]
        self.state.add_route(name, (match,), actions)

    def routes(self) -> None:
        self.default("ecmp_config", "set_ecmp_config", 2, 0x1234, 1)
        up = [("forward", (port, 0x020000000000 | port)) for port in FABRIC_PORTS]
        tagged = ("forward_vlan", (12, 0x02000000000C, 7))
        self.route("ipv4_lpm", lpm_match(0x0A000101, 32, 32), ("forward", (11, 0x02000000000B)))
        self.route("ipv4_lpm", lpm_match(0x0A000102, 32, 32), tagged)
        self.route("ipv4_lpm", lpm_match(0x0A000200, 24, 32), *up)
        self.route("ipv4_lpm", lpm_match(0x0A000300, 24, 32), up[1], up[1], up[0], tagged)
        self.route("ipv4_lpm", lpm_match(COLLECTOR_IP, 32, 32), ("forward", (REPORT_PORT, 0x2FF)))
        self.route("ipv4_lpm", lpm_match(0x0A00FF00, 24, 32), ("drop", ()))
        last = 0xFD << 120
        self.route("ipv6_lpm", lpm_match(last | 0x0101, 128, 128), ("forward", (11, 0x2000000000B)))
        self.route("ipv6_lpm", lpm_match(last | 0x0200, 120, 128), *up)
        self.ternary(
            "l2_ptp", {"dst_addr": (0x011B19000000, (1 << 48) - 1)}, "multicast_l2", 5, priority=2
        )
        self.ternary("l2_ptp", {"ingress_port": (11, 0x1FF)}, "forward_l2", 1, priority=1)
        self.ternary(
            "l2_ptp", {"ingress_port": (1, 0x1FF), "message_type": (8, 8)}, "punt_l2", priority=3
        )

    def reports(self, *, filtered: bool) -> None:
        self.default("int_node", "set_int_node", 77, 0x5454)
        self.default("report_config", "set_report_config", 0x02EE0000004D, 0x0AFE004D, 10, 100)
        self.default("report_destination", "set_report_destination", 0, COLLECTOR_IP, 32766)
        for bucket in range(0, 64, 3):
            self.add(
                "report_destination",
                [exact_match(bucket)],
                "set_report_destination",
                1 + bucket % 5,
                COLLECTOR_IP if bucket % 2 else 0x0A000201,
                40000 + bucket,
            )
        if filtered:  # no step and no interval ends in a test
            self.default("report_filter", "set_report_filter", 1, 1, 40, 44)
        self.ternary("drop_report", {}, "report_drop", priority=1)
        self.ternary(
            "queue_report",
            {"egress_port": (3, 0x1FF)},
            "set_queue_report",
            0,
            NEVER,
            1000,
            priority=2,
        )
        self.ternary(
            "queue_report", {"egress_port": (4, 0x1FF)}, "set_queue_report", 0, NEVER, 3, priority=2
        )
        self.ternary("queue_report", {}, "set_queue_report", 1000, NEVER, 9, priority=1)

    def watchlists(self, mode: str) -> None:
        roce = {"l4_dst_port": (4791, 0xFFFF)}
        for table in ("int_watchlist", "int_watchlist_ipv6"):
            self.ternary(table, {"l4_src_port": (0xFFFF, 0xFFFF)}, "int_exempt", priority=9)
            self.ternary(
                table, {**roce, "roce_psn": (0, 3)}, "int_source_mx", 0xFE00, 27, priority=8
            )
            self.ternary(
                table, {"roce_opcode": (0x81, 0xFF)}, "int_postcard", 0x7C00, 0, priority=7
            )
            self.ternary(
                table,
                {"roce_dest_qp": (0x34, 0xFFFFFF)},
                "int_postcard",
                0x7E00,
                int(mode == "filtered"),
                priority=6,
            )
            self.ternary(
                table, {"roce_syndrome": (0x60, 0xE0)}, "int_source", 0x8C00, 3, 27, priority=5
            )
            self.ternary(table, roce, "int_source", 0xFF81, 8, 27, priority=4)
            self.ternary(table, {"protocol": (17, 0xFF)}, "int_source", 0xFC00, 1, 1, priority=3)

    def clocks(self) -> None:
        self.ternary(
            "ptp_watchlist", {"domain_number": (24, 0xFF)}, "ptp_postcard", 0x7C00, priority=2
        )
        self.ternary("ptp_watchlist", {"sequence_id": (0, 3)}, "ptp_postcard", 0x0C00, priority=1)
        self.default("transparent_clock", "set_transparent_clock", 65536000, (1 << 64) - 12345)
        for port in (1, 11):
            self.add("ptp_link_delay", [exact_match(port)], "set_link_delay", 777_000 * port)
        self.default("probe_config", "set_probe_config", 0x7E00)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One seed in a usual run; `--bmv2-seeds` wants more."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(1, metafunc.config.getoption("--bmv2-seeds") + 1))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mode", ["plain", "filtered"])
def test_random_frames_leave_both_switches_alike(bmv2_mirror: Mirror, mode: str, seed: int) -> None:
    """Every frame, report and counter of thousands of valid and damaged frames is the same."""
    switch = Configured(mode=mode).switch
    bmv2_mirror.start_fresh(switch)
    frames = RandomFrames(seed)
    for number in range(PACKETS):
        frame, port = frames.next()
        try:
            bmv2_mirror.compare(switch, frame, port)
        except (AssertionError, Bmv2Error) as error:
            raise AssertionError(
                f"seed {seed}, frame {number}: {frame.hex()} on {port}: {error}"
            ) from None
    bmv2_mirror.compare_counters(switch)
