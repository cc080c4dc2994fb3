# SPDX-License-Identifier: Apache-2.0
"""`exchanges.jsonl` comes back as it was written, or is refused in one line that says where."""

import json
import re

import numpy as np
import pytest

from controller.ptp_log import (
    LINE_BYTES_MAX,
    PtpLogError,
    exchange_line,
    read_ptp_log,
    servo_line,
    write_ptp_log,
)
from correction.records import EXCHANGE_DTYPE

_HOSTS = {"h1": 0, "h2": 1, "h3": 2}
_HEADER = '{"record":"header","version":1}'
_EPOCH_NS = 1_790_000_000_000_000_000


def _row(**changes):
    row = np.zeros(1, EXCHANGE_DTYPE)[0]
    values = {
        "client": 1,
        "time_transmitter_ip": 0x0A000101,
        "client_ip": 0x0A000102,
        "sync_clock_identity": 0x020000FFFE000101,
        "delay_req_clock_identity": 0xF20000FFFE000102,
        "sync_sequence_id": 65535,
        "t1_reference_ns": _EPOCH_NS,
        "t2_local_ns": -5,
        "t3_local_ns": _EPOCH_NS + 2,
        "t4_reference_ns": _EPOCH_NS + 3,
    }
    for name, value in (values | changes).items():
        row[name] = value
    return row


def _exchange(**changes):
    """The text of an exchange; a change of None leaves the key out."""
    record = json.loads(exchange_line(_row(), "h2")) | changes
    return json.dumps({key: value for key, value in record.items() if value is not None})


def _servo(**changes):
    record = json.loads(servo_line("h2", _EPOCH_NS, 10, 1.5)) | changes
    return json.dumps({key: value for key, value in record.items() if value is not None})


def _read(tmp_path, data, **options):
    path = tmp_path / "exchanges.jsonl"
    path.write_bytes(data if isinstance(data, bytes) else "".join(f"{x}\n" for x in data).encode())
    return read_ptp_log(path, _HOSTS, **options)


def test_what_was_written_is_read(tmp_path):
    """Stamps, identities and adjustments to the last digit."""
    path = tmp_path / "exchanges.jsonl"
    row = _row()
    write_ptp_log(
        path, [exchange_line(row, "h2"), servo_line("h3", 5, -7, -0.125), servo_line("h3", 6, 0, 2)]
    )
    log = read_ptp_log(path, _HOSTS, time_transmitter="h1")
    assert log.exchanges.tolist() == [row.tolist()]
    assert log.servos["h3"].adjustments.tolist() == [(5, -7, -0.125), (6, 0, 2.0)]


def test_integers_may_be_numbers_or_digits_in_a_string(tmp_path):
    """And nothing else: both forms are the same number."""
    log = _read(
        tmp_path, [_HEADER, _exchange(c1_ns=-12, sync_port_number="3"), _servo(step_ns="-0012")]
    )
    assert log.exchanges[["c1_ns", "sync_port_number"]].tolist() == [(-12, 3)]
    assert log.servos["h2"].adjustments["step_ns"].tolist() == [-12]


def test_a_log_without_records_is_empty(tmp_path):
    """The header alone."""
    log = _read(tmp_path, [_HEADER])
    assert (len(log.exchanges), len(log.servos)) == (0, 0)


_WHOLE_FILES = {
    "empty": (b"", 1, "record"),
    "no header": (_exchange().encode(), 1, "record"),
    "other version": (b'{"record":"header","version":2}', 1, "version"),
    "version missing": (b'{"record":"header"}', 1, "version"),
    "UTF-16": ((_HEADER + "\n").encode("utf-16"), 1, "-"),
    "UTF-16 without a mark": ((_HEADER + "\n").encode("utf-16-le"), 1, "-"),
    "binary": (bytes(range(256)), 1, "-"),
    "one byte is not UTF-8": (_HEADER.encode() + b'\n{"record":"\xe9"}\n', 2, "-"),
    "a pcap": (b"\x4d\x3c\xb2\xa1\x02\x00\x04\x00" + bytes(100), 1, "-"),
    "one endless line": (b" " * (LINE_BYTES_MAX + 10), 1, "-"),
    "blank line": (_HEADER.encode() + b"\n\n", 2, "-"),
    "cut off": (_HEADER.encode() + b"\n" + _exchange().encode()[:-9], 2, "-"),
}


@pytest.mark.parametrize("name", _WHOLE_FILES)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, name):
    """File, line and key; never a decoder's own exception."""
    data, line, key = _WHOLE_FILES[name]
    with pytest.raises(PtpLogError) as error:
        _read(tmp_path, data)
    assert str(error.value).startswith(f"{tmp_path / 'exchanges.jsonl'}:{line}: {key}: ")
    assert str(error.value).isprintable()


_LINES = {
    "deep nesting": ("[" * 60_000, "-"),
    "deep mapping": ('{"a":' * 10_000, "-"),
    "a list": ("[1]", "-"),
    "a number": ("5", "-"),
    "two objects": ("{}{}", "-"),
    "no record": ("{}", "record"),
    "record is a number": ('{"record":5}', "record"),
    "unknown record": ('{"record":"x"}', "record"),
    "second header": (_HEADER, "record"),
    "a key twice": ('{"record":"servo","record":"servo"}', "'record'"),
    "5000 digits": (_exchange(c1_ns=0).replace('"c1_ns": 0', f'"c1_ns": {"9" * 5000}'), "c1_ns"),
    "5000 digits, text": (_exchange(c1_ns="9" * 5000), "c1_ns"),
    "underscore": (_exchange(c1_ns="1_000"), "c1_ns"),
    "spaces": (_exchange(c1_ns=" 12 "), "c1_ns"),
    "line end in a number": (_exchange(c1_ns="12\n"), "c1_ns"),
    "plus": (_exchange(c1_ns="+12"), "c1_ns"),
    "empty text": (_exchange(c1_ns=""), "c1_ns"),
    "Arabic digits": (_exchange(c1_ns="\u0661\u0662"), "c1_ns"),
    "a fraction": (_exchange(c1_ns=1.0), "c1_ns"),
    "NaN stamp": (_exchange(c1_ns=float("nan")), "c1_ns"),
    "truth value": (_exchange(c1_ns=True), "c1_ns"),
    "null": (_exchange(c1_ns=0).replace('"c1_ns": 0', '"c1_ns": null'), "c1_ns"),
    "2^63": (_exchange(t1_reference_ns=str(2**63)), "t1_reference_ns"),
    "-2^63 - 1": (_exchange(t1_reference_ns=str(-(2**63) - 1)), "t1_reference_ns"),
    "2^64": (_exchange(t1_reference_ns=2**64), "t1_reference_ns"),
    "negative sequence": (_exchange(sync_sequence_id=-1), "sync_sequence_id"),
    "sequence too large": (_exchange(sync_sequence_id=65536), "sync_sequence_id"),
    "missing": (_exchange(t3_local_ns=None), "t3_local_ns"),
    "hex prefix": (_exchange(sync_clock_identity="0x12_3"), "sync_clock_identity"),
    "15 digits": (_exchange(sync_clock_identity="0" * 15), "sync_clock_identity"),
    "17 digits": (_exchange(sync_clock_identity="0" * 17), "sync_clock_identity"),
    "identity is a number": (_exchange(sync_clock_identity=5), "sync_clock_identity"),
    "full width digits": (_exchange(sync_clock_identity="\uff11" * 16), "sync_clock_identity"),
    "address": (_exchange(client_ip="10.0.0.256"), "client_ip"),
    "unknown client": (_exchange(client="h9"), "client"),
    "client is a switch": (_exchange(client="leaf1"), "client"),
    "unknown servo host": (_servo(host="h9"), "host"),
    "servo of a switch": (_servo(host="leaf1"), "host"),
    "servo of the time transmitter": (_servo(host="h1"), "host"),
    "servo 2^63": (_servo(phc_local_ns=str(2**63)), "phc_local_ns"),
    "servo 2^62": (_servo(phc_local_ns=str(2**62)), "phc_local_ns"),
    "servo step": (_servo(step_ns=str(-(2**62))), "step_ns"),
    "servo step overflows": (_servo(step_ns=str(2**62 - 1)), "step_ns"),
    "infinite": (_servo(frequency_ppb=float("inf")), "frequency_ppb"),
    "infinite by size": (_servo(frequency_ppb=0).replace(": 0}", ": 1e999}"), "frequency_ppb"),
    "NaN": (_servo(frequency_ppb=float("nan")), "frequency_ppb"),
    "too fast": (_servo(frequency_ppb=1_000_000.5), "frequency_ppb"),
    "stopped": (_servo(frequency_ppb=-1e9), "frequency_ppb"),
    "5000 digits of ppb": (
        _servo(frequency_ppb=0).replace(": 0}", f": {'9' * 5000}}}"),
        "frequency_ppb",
    ),
    "ppb as text": (_servo(frequency_ppb="5"), "frequency_ppb"),
}


@pytest.mark.parametrize("name", _LINES)
def test_a_line_that_cannot_be_used_is_refused_by_line_and_key(tmp_path, name):
    """The lines around it are sound."""
    text, key = _LINES[name]
    with pytest.raises(PtpLogError) as error:
        _read(tmp_path, [_HEADER, _exchange(), text, _exchange()], time_transmitter="h1")
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'exchanges.jsonl'}:3: {key}: ")
    assert message.isprintable()
    assert len(message) < len(str(tmp_path)) + 250


def test_servo_lines_out_of_order_name_the_line_that_goes_back(tmp_path):
    """Per host: lines of others in between, and a backward step, are in order."""
    lines = [
        _HEADER,
        _servo(phc_local_ns="1000", step_ns="-500"),
        _servo(host="h3", phc_local_ns="5"),
        _servo(phc_local_ns="600", step_ns="0"),
        _exchange(),
    ]
    log = _read(tmp_path, lines)
    assert log.servos["h2"].adjustments["phc_local_ns"].tolist() == [1000, 600]
    with pytest.raises(PtpLogError, match=re.escape("exchanges.jsonl:6: phc_local_ns: 599 is")):
        _read(tmp_path, [*lines, _servo(phc_local_ns="599")])
