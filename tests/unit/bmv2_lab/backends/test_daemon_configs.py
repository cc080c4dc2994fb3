# SPDX-License-Identifier: Apache-2.0
"""What ptp4l and chronyd are told, and what chronyd's log says."""

from pathlib import Path

import pytest

from bmv2_lab.backends.chronyd import chronyd_config, parse_measurements
from bmv2_lab.backends.ptp4l import Ptp4lPlan, ptp4l_config, sync_interval_log2_s
from controller.addresses import parse_ip

SERVER, CLIENT = parse_ip("10.0.1.1"), parse_ip("10.0.2.1")

MEASUREMENTS = """\
=============================================================================================
   Date (UTC) Time     IP Address   L St 123 567 ABCD  LP RP Score    Offset  Peer del. Peer disp.
=============================================================================================
2026-11-29 21:20:11 10.0.1.1        N  1 111 111 1111  -1 -1 1.00 -1.250e-04  2.000e-03  1.193e-07
2026-11-29 21:20:12 10.0.1.1        N  1 111 111 1111  -1 -1 1.00  2.000e-05  2.100e-03  1.193e-07\
  0.000e+00  0.000e+00 7F7F0101 4B K K
2026-11-29 21:20:12 10.0.1.1        N  1 111 111 1111  -1 -1 1.00  rubbish  2.100e-03  1.193e-07 0 0
"""


def plan(
    transmitter_ip: int | None, major_version: int, *, may_transmit: bool | None = None
) -> dict[str, str]:
    """The options of a configuration, by name; who follows nobody transmits."""
    text = ptp4l_config(
        Ptp4lPlan(
            domain=3,
            transmitter_ips=() if transmitter_ip is None else (transmitter_ip,),
            may_transmit=transmitter_ip is None if may_transmit is None else may_transmit,
            patience=24,
            sync_interval_log2_s=-3,
            dscp=46,
            directory=Path("/run/x"),
            major_version=major_version,
        )
    )
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


@pytest.mark.parametrize("transmitter_ip", [None, SERVER])
def test_ptp4l_steers_nothing(transmitter_ip: int | None) -> None:
    """free_running is set on every host, with software stamps and a socket of its own."""
    options = plan(transmitter_ip, 3)
    assert options["free_running"] == "1"
    assert options["time_stamping"] == "software"
    assert options["uds_address"] == "/run/x/ptp4l"
    assert options["domainNumber"] == "3"
    assert options["dscp_event"] == "46"


def test_a_client_asks_the_time_transmitter_by_unicast() -> None:
    """Its table holds the address; the time transmitter listens and has no table."""
    client, transmitter = plan(SERVER, 3), plan(None, 3)
    assert client["UDPv4"] == "10.0.1.1"
    assert client["slave_event_monitor"] == "/run/x/events"
    assert "UDPv4" not in transmitter
    assert transmitter["unicast_listen"] == "1"


def test_a_successor_follows_until_it_hears_of_nobody() -> None:
    """It asks the grandmaster like a client, may become time transmitter, and is no better one."""
    successor = plan(SERVER, 3, may_transmit=True)
    assert successor["UDPv4"] == "10.0.1.1"
    assert successor["unicast_listen"] == "1"
    assert successor["announceReceiptTimeout"] == "24"
    assert not {"slaveOnly", "masterOnly", "priority1"} & set(successor)


def test_options_have_the_names_of_the_version() -> None:
    """linuxptp 4 renamed two and added a read-only socket, which 3 would refuse."""
    assert "slaveOnly" in plan(SERVER, 3)
    assert "masterOnly" in plan(None, 3)
    assert "clientOnly" in plan(SERVER, 4)
    assert "serverOnly" in plan(None, 4)
    assert "uds_ro_address" not in plan(SERVER, 3)
    assert plan(SERVER, 4)["uds_ro_address"] == "/run/x/ptp4lro"


@pytest.mark.parametrize(
    ("interval_ns", "log2_s"),
    [(2_000_000_000, 0), (1_000_000_000, 0), (250_000_000, -2), (200_000_000, -3), (1, -7)],
)
def test_intervals_become_powers_of_two(interval_ns: int, log2_s: int) -> None:
    """The longest that is not longer than asked for, from 1 s to 1/128 s."""
    assert sync_interval_log2_s(interval_ns) == log2_s


def test_chronyd_clients_measure_and_the_server_serves() -> None:
    """The client logs its measurements and serves nobody; the server asks nobody."""
    client = chronyd_config(SERVER, CLIENT, Path("/run/x")).splitlines()
    server = chronyd_config(None, SERVER, Path("/run/x")).splitlines()
    assert "server 10.0.1.1 minpoll -1 maxpoll -1 iburst" in client
    assert "port 0" in client
    assert "log measurements" in client
    assert "local stratum 1" in server
    assert not any(line.startswith("server") for line in server)


def test_measurements_are_read_with_their_sign() -> None:
    """chrony states what the client lacks: 20 us there is a client 20 us behind.

    A line that is cut short and one that cannot be read are left out.
    """
    (found,) = parse_measurements(MEASUREMENTS)
    assert found.offset_ns == pytest.approx(-20_000)
    assert found.round_trip_ns == pytest.approx(2_100_000)
