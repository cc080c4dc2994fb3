# SPDX-License-Identifier: Apache-2.0
"""Log lines of PTP daemons, by the formats that linuxptp and facebook/time print with."""

import pytest

from controller.daemon_log import EventKind, Program, parse_daemon_log

# print.c: "%s[%lld.%03ld]: %s%s" on a terminal, "[%lld.%03ld] %s%s" to syslog; the tag ends in a
# blank. clock.c: "master offset %10PRId64 s%d freq %+7.0f path delay %9PRId64".
_SAMPLES = {
    "ptp4l": (
        "ptp4l[13.578]: master offset    1016835 s0 freq      -0 path delay      6759",
        (Program.PTP4L, "", 13.578, 1_016_835.0, 0, -0.0, 6_759.0),
    ),
    "ptp4l, syslog": (
        "Feb 06 09:33:42 host ptp4l[1052]: [740205.195] master offset  -17 s2 freq  +31 "
        "path delay       223",
        (Program.PTP4L, "", 740_205.195, -17.0, 2, 31.0, 223.0),
    ),
    "ptp4l with a tag": (
        "ptp4l[86400.001]: [ptp4l.0.config:6] master offset         -1 s3 freq   -1234 "
        "path delay       -20",
        (Program.PTP4L, "", 86_400.001, -1.0, 3, -1_234.0, -20.0),
    ),
    "ptp4l, name missing": (
        "[8.000] master offset          5 s2 freq    +999 path delay      4250",
        (Program.PTP4L, "", 8.0, 5.0, 2, 999.0, 4_250.0),
    ),
    "ptp4l, other word": (
        "ptp4l[1.000]: main offset          5 s1 freq    +999 path delay      4250",
        (Program.PTP4L, "", 1.0, 5.0, 1, 999.0, 4_250.0),
    ),
    "ptp4l before 2.0, fractions": (
        "ptp4l[1.000]: master offset     -2.500 s2 freq  +1.125 path delay   4250.250",
        (Program.PTP4L, "", 1.0, -2.5, 2, 1.125, 4_250.25),
    ),
    # phc2sys.c: "%s %s offset %9PRId64 s%d freq %+7.0f delay %6PRId64"
    "phc2sys": (
        "phc2sys[97.125]: CLOCK_REALTIME phc offset        12 s2 freq   -4500 delay   1507",
        (Program.PHC2SYS, "CLOCK_REALTIME", 97.125, 12.0, 2, -4_500.0, 1_507.0),
    ),
    "phc2sys, a PHC": (
        "phc2sys[4059.699]: enps0f0   sys offset         0 s2 freq  +97414 delay   3662",
        (Program.PHC2SYS, "enps0f0", 4_059.699, 0.0, 2, 97_414.0, 3_662.0),
    ),
    "phc2sys from a PPS": (
        "phc2sys[5.000]: CLOCK_REALTIME PPS offset        12 s2 freq   -4500",
        (Program.PHC2SYS, "CLOCK_REALTIME", 5.0, 12.0, 2, -4_500.0, None),
    ),
    # ts2phc.c: "%s offset %10PRId64 s%d freq %+7.0f%s"
    "ts2phc": (
        "ts2phc[20.250]: /dev/ptp4 offset         -4 s3 freq      +7 holdover",
        (Program.TS2PHC, "/dev/ptp4", 20.25, -4.0, 3, 7.0, None),
    ),
    "sptp": (
        "1705509028.124002 161053 sptp.go:395] offset        -1 s2 freq -23186 path delay   4493",
        (Program.SPTP, "", 1_705_509_028.124002, -1.0, 2, -23_186.0, 4_493.0),
    ),
    "sptp, other prefix": (
        "\t\tI0117 08:31:23.173349 161053 sptp.go:395] offset  96571 s3 freq +73361 path delay 4",
        (Program.SPTP, "", None, 96_571.0, 3, 73_361.0, 4.0),
    ),
}


@pytest.mark.parametrize("name", _SAMPLES)
def test_a_line_of_an_update_is_read(name):
    """Program, clock, time, offset, state, frequency and delay."""
    line, expected = _SAMPLES[name]
    (one,) = parse_daemon_log([line]).samples
    found = (one.program, one.clock, one.at_s, one.offset_ns, one.state)
    assert (*found, one.frequency_ppb, one.delay_ns) == expected


def test_summaries_are_read():
    """clock.c: "rms %4.0f max %4.0f freq %+6.0f +/- %3.0f delay %5.0f +/- %3.0f", the delay only
    where there is one; phc2sys names its clock before."""
    log = parse_daemon_log(
        [
            "ptp4l[10.000]: rms   13 max   33 freq   -218 +/-   0 delay   223 +/-   2",
            "phc2sys[11.000]: CLOCK_REALTIME rms   13 max   33 freq   -218 +/-   1",
        ]
    )
    first, second = log.summaries
    assert (first.program, first.rms_ns, first.max_ns) == (Program.PTP4L, 13.0, 33.0)
    assert (first.frequency_ppb, first.frequency_sd_ppb) == (-218.0, 0.0)
    assert (first.delay_ns, first.delay_sd_ns) == (223.0, 2.0)
    assert (second.program, second.clock, second.delay_ns) == (
        Program.PHC2SYS,
        "CLOCK_REALTIME",
        None,
    )


def test_what_else_happened_is_told():
    """clockcheck.c and the port's state machine."""
    log = parse_daemon_log(
        [
            "ptp4l[1.0]: clockcheck: clock jumped forward or running faster than expected!",
            "ptp4l[2.0]: clockcheck: clock jumped backward or running slower than expected!",
            "ptp4l[3.0]: clockcheck: clock frequency changed unexpectedly!",
            "ptp4l[4.0]: port 1 (eth0): SLAVE to UNCALIBRATED on SYNCHRONIZATION_FAULT",
            "ptp4l[5.0]: port 1 (eth0): UNCALIBRATED to SLAVE on MASTER_CLOCK_SELECTED",
        ]
    )
    assert [one.kind for one in log.events] == list(EventKind)
    assert log.other_lines == 1


def test_lines_printed_to_terminal_and_syslog_count_once():
    """The same moment, with and without the daemon's name; equal figures a second later are new."""
    text = "master offset          5 s2 freq    +999 path delay      4250"
    lines = [f"ptp4l[8.000]: {text}", f"[8.000] {text}", f"ptp4l[9.000]: {text}"]
    log = parse_daemon_log(lines)
    assert [one.at_s for one in log.samples] == [8.0, 9.0]
    assert log.repeated_lines == 1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "ptp4l[1.0]: master offset s2 freq path delay",
        "ptp4l[1.0]: master offset 5 s9 freq +1 path delay 3",
        "ptp4l[1.0]: selected /dev/ptp0 as PTP clock",
        "\x00\xff" * 50,
        "offset " * 2_000,
    ],
)
def test_other_lines_are_counted(line):
    """Never an error."""
    log = parse_daemon_log([line])
    assert (len(log.samples), len(log.summaries), len(log.events)) == (0, 0, 0)
    assert log.other_lines == 1
