# SPDX-License-Identifier: Apache-2.0
"""`link_delays.jsonl` says what was in force when, or is refused in one line that says where."""

import json
from pathlib import Path

import jsonschema
import pytest

from controller.ptp_log import PtpLogError
from controller.written_delays import WrittenDelays, read_link_delays, write_link_delays
from correction.injected import END_OF_TIME_NS

_SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "link-delays.schema.json"
_NODES = {"leaf1": 1, "spine2": 102}
_HEADER = '{"record":"header","version":1}'
_SPAN = {
    "record": "link_delay",
    "switch": "leaf1",
    "ingress_port": 2,
    "delay_scaled_ns": "327680",
    "from_collector_ns": "100",
    "to_collector_ns": "200",
}


def _read(tmp_path: Path, *lines: str):
    path = tmp_path / "link_delays.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return read_link_delays(path, _NODES)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Spans that have ended and those in force, and residence offsets that are not zero."""
    written = WrittenDelays(_NODES, {"leaf1": 0, "spine2": -5})
    written.record({"leaf1": {1: 5, 2: 7}, "spine2": {4: -9}}, 100)
    written.record({"leaf1": {1: 6}, "spine2": {4: -9}}, 200)
    path = tmp_path / "link_delays.jsonl"
    write_link_delays(path, written)
    found = read_link_delays(path, _NODES)
    assert sorted(found.rows.tolist()) == sorted(written.injected().rows.tolist())
    assert found.residence_offset_scaled_ns == {102: -5}
    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    for line in written.lines():
        jsonschema.validate(json.loads(line), schema)


def test_a_clock_that_is_set_back_leaves_a_record_that_can_be_read(tmp_path: Path) -> None:
    """What was recorded of times that are still to come is taken back, at the start too."""
    path = tmp_path / "link_delays.jsonl"
    written = WrittenDelays(_NODES)
    written.record({"leaf1": {1: 5, 2: 9}}, 100)
    written.record({"leaf1": {1: 6, 2: 9}}, 200)
    written.record({"leaf1": {1: 7, 2: 9}}, 300)
    written.record({"leaf1": {1: 8, 2: 9}}, 150)
    expected = [
        (1, 1, 5, 100, 150),
        (1, 1, 8, 150, END_OF_TIME_NS),
        (1, 2, 9, 100, END_OF_TIME_NS),
    ]
    write_link_delays(path, written)
    assert sorted(read_link_delays(path, _NODES).rows.tolist()) == expected
    again = WrittenDelays(_NODES)
    again.resume(read_link_delays(path, _NODES))
    again.record({"leaf1": {2: 9}}, 120)
    write_link_delays(path, again)
    assert sorted(read_link_delays(path, _NODES).rows.tolist()) == [
        (1, 1, 5, 100, 120),
        (1, 2, 9, 100, END_OF_TIME_NS),
    ]


def test_a_switch_with_another_node_id_goes_on_under_that(tmp_path: Path) -> None:
    """The record is by name; two that swap their ids swap nothing else."""
    path = tmp_path / "link_delays.jsonl"
    written = WrittenDelays(_NODES, {"leaf1": 3, "spine2": -5})
    written.record({"leaf1": {1: 5}, "spine2": {1: 6}}, 100)
    swapped = {"leaf1": 102, "spine2": 1}
    written.follow(swapped, {"leaf1": 3, "spine2": -5})
    written.record({"leaf1": {}, "spine2": {1: 6}}, 200)
    write_link_delays(path, written)
    found = read_link_delays(path, swapped)
    assert sorted(found.rows.tolist()) == [(1, 1, 6, 100, END_OF_TIME_NS), (102, 1, 5, 100, 200)]
    assert found.residence_offset_scaled_ns == {1: -5, 102: 3}
    written.follow({"leaf1": 50, "spine2": 1}, {})
    assert {json.loads(line).get("switch") for line in written.lines()} == {None, *_NODES}


def test_a_value_in_force_has_no_end(tmp_path: Path) -> None:
    """null, in the file."""
    found = _read(tmp_path, _HEADER, json.dumps(_SPAN | {"to_collector_ns": None}))
    assert found.rows.tolist() == [(1, 2, 327_680, 100, END_OF_TIME_NS)]


_BAD = {
    "no header": ([json.dumps(_SPAN)], 1, "record"),
    "other version": (['{"record":"header","version":2}'], 1, "record"),
    "not JSON": ([_HEADER, "{"], 2, "-"),
    "other record": ([_HEADER, '{"record":"x"}'], 2, "record"),
    "unknown switch": ([_HEADER, json.dumps(_SPAN | {"switch": "leaf9"})], 2, "switch"),
    "no port": ([_HEADER, json.dumps(_SPAN | {"ingress_port": 65_536})], 2, "ingress_port"),
    "a second": (
        [_HEADER, json.dumps(_SPAN | {"delay_scaled_ns": str(2**47)})],
        2,
        "delay_scaled_ns",
    ),
    "backwards": (
        [_HEADER, json.dumps(_SPAN | {"to_collector_ns": "99"})],
        2,
        "to_collector_ns",
    ),
    "two at once": (
        [_HEADER, json.dumps(_SPAN), json.dumps(_SPAN | {"from_collector_ns": "150"})],
        3,
        "from_collector_ns",
    ),
    "missing": (
        [_HEADER, json.dumps({key: _SPAN[key] for key in _SPAN if key != "switch"})],
        2,
        "switch",
    ),
}


@pytest.mark.parametrize("name", _BAD)
def test_a_line_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    """File, line and key."""
    lines, number, key = _BAD[name]
    with pytest.raises(PtpLogError) as error:
        _read(tmp_path, *lines)
    assert str(error.value).startswith(f"{tmp_path / 'link_delays.jsonl'}:{number}: {key}: ")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    """A header is expected."""
    with pytest.raises(PtpLogError, match="empty"):
        _read(tmp_path)
