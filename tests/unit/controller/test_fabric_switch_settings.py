# SPDX-License-Identifier: Apache-2.0
"""What is declared of single switches: PTP role, stamp origin, MTUs, maps; and the port of INT."""

from dataclasses import replace

import pytest

from controller.desired import desired_entries
from controller.fabric import Fabric, PtpRole, StampOrigin
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_qos import EcnProfile, QosMaps
from controller.telemetry.topology import telemetry_fabric
from tests.support.fabric_cases import SMALL
from tests.support.fabric_faults import fault_at, faults_of

FABRIC = parse_fabric(SMALL)
MAPS = QosMaps(
    queues=(((26, 27), 3), ((46, 47), 6)),
    default_queue=1,
    priorities=(((26, 27), 3),),
    default_priority=2,
    pfc_priorities=(3, 4),
    ecn=(
        EcnProfile(queue=3, min_bytes=100, max_bytes=200, max_percent=5),
        EcnProfile(dscps=(46, 47), min_bytes=1, max_bytes=1),
    ),
)


def full() -> Fabric:
    """The small fabric with every key."""
    switch = replace(
        FABRIC.switches[0],
        ptp_role=PtpRole.TRANSPARENT_CLOCK,
        stamp_origin=StampOrigin.PTP,
        mtu_bytes=9_100,
        port_mtus=((1, 9_000), (2, 4_200)),
        qos_maps=MAPS,
    )
    model = replace(FABRIC.models[0], mtu_bytes=9_216, qos_maps=QosMaps())
    roce = replace(FABRIC.qos.classes[1], packet_bytes_max=4_160)
    return replace(
        FABRIC,
        int_domain=replace(FABRIC.int_domain, udp_port=5_000),
        qos=replace(FABRIC.qos, classes=(FABRIC.qos.classes[0], roce, FABRIC.qos.classes[2])),
        models=(model, replace(FABRIC.models[1], mtu_bytes=4_200)),
        switches=(switch, *FABRIC.switches[1:]),
    )


def test_every_key_is_written_as_it_is_read() -> None:
    """parse_fabric(dump_fabric(f)) == f."""
    assert parse_fabric(dump_fabric(full())) == full()


def test_ptp_role_and_origin_of_one_switch_take_the_place_of_its_models() -> None:
    """Entries and the decoder of its stamps follow the switch."""
    fabric = full()

    def clock(name: str) -> str:
        entries = desired_entries(fabric, name)
        return next(str(one) for one in entries if one.key[1] == "transparent_clock")

    assert "set_transparent_clock" in clock("leaf1")
    assert "NoAction" in clock("leaf2")
    nodes = telemetry_fabric(fabric).nodes
    assert (nodes[1].stamp_origin_ns, nodes[2].stamp_origin_ns) == (37_000_000_000, None)


def test_port_of_int_reaches_the_decoder() -> None:
    """Devices that mark by UDP port are understood."""
    assert telemetry_fabric(full()).int_udp_port == 5_000
    assert telemetry_fabric(FABRIC).int_udp_port is None


def test_mtu_entries_are_the_smaller_of_both_ends() -> None:
    """INT pushes nothing that the port, or the one at the other end, would not take."""
    entries = {str(entry) for entry in desired_entries(full(), "leaf1")}
    assert "int_egress_mtu [egress_port=1]: set_mtu(mtu_bytes=9000)" in entries
    assert "int_egress_mtu [egress_port=2]: set_mtu(mtu_bytes=4200)" in entries
    assert "int_egress_mtu [egress_port=11]: set_mtu(mtu_bytes=4200)" in entries  # the NIC's
    entries = {str(entry) for entry in desired_entries(full(), "spine1")}
    assert "int_egress_mtu [egress_port=1]: set_mtu(mtu_bytes=9000)" in entries


SWITCH = "name: leaf1, "
JITTER = "    stamp_jitter_ns: 2\n"
CASES = [
    (SWITCH, "ptp_role: boundary", "switches[0].ptp_role", "expected none, boundary_clock"),
    (SWITCH, "stamp_origin: tai", "switches[0].stamp_origin", "expected arbitrary, ptp or unix"),
    (SWITCH, "mtu_bytes: 100", "switches[0].mtu_bytes", "an IP MTU, 576 to 65535"),
    (SWITCH, "port_mtus: [{port: 1}]", "switches[0].port_mtus[0].mtu_bytes", "missing key"),
    (
        SWITCH,
        "port_mtus: [{port: 510, mtu_bytes: 1500}]",
        "switches[0].port_mtus[0].port",
        "does not exist",
    ),
    (
        SWITCH,
        "port_mtus: [{port: 1, mtu_bytes: 1500}, {port: 1, mtu_bytes: 1500}]",
        "switches[0].port_mtus[1].port",
        "the port 1 is used by switches[0].port_mtus[0].port already",
    ),
    (
        SWITCH,
        "qos_maps: {queues: [{dscps: [1, 2], queue: 1}, {dscps: [2], queue: 2}]}",
        "switches[0].qos_maps.queues[1].dscps[0]",
        "DSCP 2 is used by switches[0].qos_maps.queues[0].dscps[1] already",
    ),
    (
        SWITCH,
        "qos_maps: {ecn: [{min_bytes: 1, max_bytes: 2}]}",
        "switches[0].qos_maps.ecn[0]",
        "expected a mapping with queue or dscps",
    ),
    (
        SWITCH,
        "qos_maps: {ecn: [{queue: 1, min_bytes: 3, max_bytes: 2}]}",
        "switches[0].qos_maps.ecn[0].max_bytes",
        "2 is less than min_bytes; expected at least 3",
    ),
    (
        SWITCH,
        "qos_maps: {queue: []}",
        "switches[0].qos_maps.queue",
        "unknown key (did you mean queues?)",
    ),
    ("  domain_id: 0", "udp_port: 4791", "int.udp_port", "4791 is RoCEv2's"),
    ("  domain_id: 0", "udp_port: 32766", "int.udp_port", "32766 is collector.udp_port"),
    ("  domain_id: 0", "udp_port: 32767", "int.udp_port", "that of link probes"),
    (
        "    stamp_jitter_ns: 1\n",
        "qos_maps: {}",
        "models[1].qos_maps",
        "it has no meaning for a NIC",
    ),
]


@pytest.mark.parametrize(("place", "added", "key", "message"), CASES)
def test_settings_that_cannot_be_are_one_line(
    place: str, added: str, key: str, message: str
) -> None:
    """Line, key and what was expected."""
    line = {SWITCH: f"{SWITCH}{added}, ", "  domain_id: 0": f"{'  domain_id: 0'}\n  {added}"}
    text = SMALL.replace(place, line.get(place, f"{place}    {added}\n"), 1)
    faults = faults_of(text)
    assert len(faults) == 1, "\n".join(map(str, faults))
    assert message in fault_at(faults, key).message


def test_a_coarse_model_is_no_transparent_clock_on_any_switch() -> None:
    """The data plane cannot scale its stamps."""
    text = SMALL.replace("stamp_unit_ns: 1", "stamp_unit_ns: 65536", 1)
    text = text.replace(SWITCH, f"{SWITCH}ptp_role: transparent_clock, ", 1)
    (fault,) = faults_of(text)
    assert fault.key == "switches[0].ptp_role"
