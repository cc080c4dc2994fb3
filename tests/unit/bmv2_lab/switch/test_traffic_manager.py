# SPDX-License-Identifier: Apache-2.0
"""Clones, multicast, resubmit, recirculate, truncation, stamps and drops follow BMv2."""

from typing import Any

from bmv2_lab.switch import EmbeddedSwitch, Emitted
from bmv2_lab.switch.state import CloneSession
from bmv2_lab.switch.traffic_manager import (
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_REPLICATED,
)
from tests.unit.bmv2_lab.switch.bmv2_json import (
    Document,
    call,
    const,
    egress,
    extract,
    fld,
    goto,
    hdr,
    meta,
    op,
    send,
)


def base_document() -> Document:
    """`h` (8 bits) and `extra` (8 bits, not parsed); metadata `kept` and `lost`."""
    document = Document()
    document.header("extra", ("x", 8))
    document.header("h", ("value", 8))
    document.metadata("m", ("kept", 8), ("lost", 8))
    document.json["field_lists"] = [{"id": 1, "name": "fl", "elements": [fld("m", "kept")]}]
    document.state("start", extract("h"), go=(goto(None),))
    return document


def state_of(switch: EmbeddedSwitch, copy: Any, header: str, name: str) -> int:
    """A field of a copy at the traffic manager."""
    instance = switch.program.layout.headers[header]
    return int(copy.state[instance.base + instance.type.fields[name].pieces[0].slot])


def cloning_at_ingress() -> EmbeddedSwitch:
    """Changes the packet, then clones it with field list 1."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("assign", meta("priority"), const(3)),
        call("assign", fld("m", "kept"), const(0x11)),
        call("assign", fld("m", "lost"), const(0x22)),
        call("clone_ingress_pkt_to_egress", const(7), const(1)),
        call("assign", fld("h", "value"), const(0xEE)),
    )
    switch = document.switch()
    switch.state.clone_sessions[7] = CloneSession(session_id=7, replicas=((60, 1), (61, 2)))
    return switch


def test_ingress_clone_is_the_packet_as_received_with_listed_fields_only() -> None:
    """Headers anew, kept field kept, all other metadata zero, instance type 1, one per replica."""
    switch = cloning_at_ingress()
    first, second, original = switch.ingress(b"\x01rest", 5, 1234)
    assert [copy.egress_port for copy in (first, second, original)] == [60, 61, 2]
    assert [copy.queue_id for copy in (first, original)] == [0, 3]
    for clone, instance in ((first, 1), (second, 2)):
        assert state_of(switch, clone, "m", "kept") == 0x11
        assert state_of(switch, clone, "m", "lost") == 0
        assert state_of(switch, clone, "standard_metadata", "instance_type") == (
            INSTANCE_INGRESS_CLONE
        )
        assert state_of(switch, clone, "standard_metadata", "ingress_port") == 0
        assert state_of(switch, clone, "standard_metadata", "ingress_global_timestamp") == 0
        assert state_of(switch, clone, "standard_metadata", "egress_rid") == instance
        assert egress(switch, clone) == [Emitted(clone.egress_port, b"\x01rest")]
    assert egress(switch, original) == [Emitted(2, b"\xeerest")]


def test_clone_to_a_session_that_is_not_configured_is_no_clone() -> None:
    """As in BMv2: silently nothing."""
    switch = cloning_at_ingress()
    switch.state.clone_sessions.clear()
    assert [copy.egress_port for copy in switch.ingress(b"\x01", 5, 0)] == [2]


def test_egress_clone_has_the_headers_of_the_end_of_egress() -> None:
    """A header added in egress is in the clone; the clone runs egress from its start."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("assign", fld("m", "kept"), const(9)),
    )
    document.always("egress", call("add_header", hdr("extra")))
    number = document.action("clone", call("clone_egress_pkt_to_egress", const(7), const(1)))
    document.action("count_up", call("assign", fld("h", "value"), const(0x77)))
    pipeline = document.json["pipelines"][1]
    pipeline["conditionals"] = [
        {
            "name": "normal",
            "id": 50,
            "expression": op("==", meta("instance_type"), const(0)),
            "true_next": "clone_table",
            "false_next": "mark_table",
        }
    ]
    document.table("egress", "clone_table", [number], default=number)
    document.table("egress", "mark_table", [number + 1], default=number + 1)
    tables = pipeline["tables"]
    tables[0]["next_tables"] = dict.fromkeys(tables[0]["next_tables"], "normal")
    tables[0]["base_default_next"] = "normal"
    tables[1]["next_tables"] = dict.fromkeys(tables[1]["next_tables"])
    tables[1]["base_default_next"] = None
    switch = document.switch()
    switch.state.clone_sessions[7] = CloneSession(session_id=7, replicas=((60, 1),))
    (copy,) = switch.ingress(b"\x01", 5, 0)
    clone, sent = egress(switch, copy)
    assert sent == Emitted(2, b"\x00\x01")
    assert clone.egress_port == 60
    assert state_of(switch, clone, "m", "kept") == 9
    assert state_of(switch, clone, "standard_metadata", "instance_type") == INSTANCE_EGRESS_CLONE
    assert egress(switch, clone) == [Emitted(60, b"\x00\x77")]


def test_multicast_makes_one_copy_per_replica() -> None:
    """Each copy has its own state, its rid and the replication type; an unknown group none."""
    document = base_document()
    document.always("ingress", call("assign", meta("mcast_grp"), const(4)))
    document.always("egress", call("assign", fld("h", "value"), meta("egress_rid")))
    switch = document.switch()
    assert switch.ingress(b"\x01", 1, 0) == []
    switch.state.multicast_groups[4] = ((10, 1), (11, 2))
    copies = switch.ingress(b"\x01", 1, 0)
    assert state_of(switch, copies[0], "standard_metadata", "instance_type") == (
        INSTANCE_REPLICATED
    )
    assert [egress(switch, copy)[0] for copy in copies] == [(10, b"\x01"), (11, b"\x02")]


def resubmit_document(primitive: str, pipeline: str) -> Document:
    """Starts over once with field list 1, then leaves by the port in `kept`."""
    document = base_document()
    document.always("ingress", call("assign", meta("egress_spec"), fld("m", "kept")))
    again = document.action(
        "again",
        call("assign", fld("m", "kept"), const(9)),
        call("assign", fld("m", "lost"), const(9)),
        call("assign", fld("h", "value"), const(0xEE)),
        call(primitive, const(1)),
    )
    where = document.json["pipelines"][0 if pipeline == "ingress" else 1]
    document.table(pipeline, "again_table", [again], default=again)
    where["conditionals"] = [
        {
            "name": "first_time",
            "id": 50,
            "expression": op("==", fld("m", "kept"), const(0)),
            "true_next": "again_table",
            "false_next": None,
        }
    ]
    if pipeline == "ingress":
        first = where["tables"][0]
        first["next_tables"] = dict.fromkeys(first["next_tables"], "first_time")
        first["base_default_next"] = "first_time"
    else:
        where["init_table"] = "first_time"
    return document


def test_resubmit_starts_over_with_the_received_packet() -> None:
    """Changes to headers are lost, the listed field stays."""
    switch = resubmit_document("resubmit", "ingress").switch()
    assert send(switch, b"\x01rest") == [(9, b"\x01rest")]


def test_recirculate_starts_over_with_the_deparsed_packet() -> None:
    """Changes to headers stay, and so does the listed field."""
    switch = resubmit_document("recirculate", "egress").switch()
    assert send(switch, b"\x01rest") == [(9, b"\xeerest")]


def test_endless_resubmit_is_cut_and_counted() -> None:
    """BMv2 would go on for ever."""
    document = base_document()
    document.always("ingress", call("resubmit", const(1)))
    switch = document.switch()
    assert switch.ingress(b"\x01", 1, 0) == []
    assert switch.dropped_restarts == 1


def test_endless_recirculation_is_cut_and_counted() -> None:
    """A clone that is cloned and recirculated again and again ends as well."""
    document = base_document()
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always("egress", call("recirculate", const(1)))
    switch = document.switch()
    assert send(switch, b"\x01") == []
    assert switch.dropped_restarts == 1


def test_recirculation_undoes_truncation() -> None:
    """BMv2 cuts a packet only where it is sent: the next round starts with all bytes."""
    document = resubmit_document("recirculate", "egress")
    document.json["actions"][-1]["primitives"].append(call("truncate", const(2)))
    assert send(document.switch(), b"\x01rest") == [(9, b"\xeerest")]


def test_recirculated_packet_has_neither_port_nor_stamp_and_its_new_length() -> None:
    """Ingress port and stamp are 0, the instance type is 4, packet_length is the deparsed one."""
    document = base_document()
    seen: list[tuple[int, ...]] = []
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always(
        "egress",
        call("add_header", hdr("extra")),
        call("recirculate", const(1)),
    )
    switch = document.switch()
    (copy,) = switch.ingress(b"\x01rest", 5, 1234)
    for _ in range(2):
        (copy,) = egress(switch, copy)
        names = ("ingress_port", "ingress_global_timestamp", "packet_length")
        seen.append(tuple(state_of(switch, copy, "standard_metadata", name) for name in names))
    assert seen == [(0, 0, 6), (0, 0, 7)]


def test_dropped_packets_leave_nothing() -> None:
    """mark_to_drop in either pipeline; multicast is cancelled too."""
    document = base_document()
    standard = hdr("standard_metadata")
    document.always(
        "ingress", call("assign", meta("mcast_grp"), const(4)), call("mark_to_drop", standard)
    )
    switch = document.switch()
    switch.state.multicast_groups[4] = ((10, 1),)
    assert switch.ingress(b"\x01", 1, 0) == []
    document = base_document()
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    document.always("egress", call("mark_to_drop", standard))
    switch = document.switch()
    assert send(switch, b"\x01") == []


def test_truncate_cuts_the_sent_frame_to_the_smallest_request() -> None:
    """Headers count; the shortest of several lengths wins."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("truncate", const(4)),
        call("truncate", const(6)),
    )
    document.always("egress", call("add_header", hdr("extra")))
    assert send(document.switch(), b"\x01abcdefgh") == [(2, b"\x00\x01ab")]


def test_stamps_are_cut_to_their_fields() -> None:
    """48-bit global stamps and 32-bit queue stamps wrap; depths have 19 bits."""
    document = base_document()
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    switch = document.switch()
    (copy,) = switch.ingress(b"\x01", 1, (1 << 48) + 5)
    assert state_of(switch, copy, "standard_metadata", "ingress_global_timestamp") == 5
    egress(
        switch,
        copy,
        enq_timestamp=(1 << 32) + 6,
        enq_qdepth=3,
        deq_timedelta=(1 << 32) + 7,
        deq_qdepth=(1 << 19) + 8,
        egress_tstamp=(1 << 48) + 9,
    )
    names = ("enq_timestamp", "deq_timedelta", "deq_qdepth", "egress_global_timestamp")
    values = [state_of(switch, copy, "standard_metadata", name) for name in names]
    assert values == [6, 7, 8, 9]


def test_queued_length_follows_added_headers() -> None:
    """packet_bytes_len is the received length plus headers that ingress added."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("add_header", hdr("extra")),
    )
    (copy,) = document.switch().ingress(b"\x01abc", 1, 0)
    assert copy.packet_bytes_len == 5


def test_registers_keep_values_between_packets() -> None:
    """Read, add, write in one action; an index outside of the array does nothing."""
    document = base_document()
    document.json["register_arrays"] = [{"name": "r", "id": 0, "size": 2, "bitwidth": 4}]
    register = {"type": "register_array", "value": "r"}
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("register_read", fld("m", "kept"), register, fld("h", "value")),
        call("register_write", register, fld("h", "value"), op("+", fld("m", "kept"), const(7))),
    )
    document.always("egress", call("assign", fld("h", "value"), fld("m", "kept")))
    switch = document.switch()
    assert [send(switch, b"\x01")[0][1] for _ in range(4)] == [b"\0", b"\x07", b"\x0e", b"\x05"]
    assert send(switch, b"\x09") == [(2, b"\0")]
    assert switch.state.registers["r"] == [0, 12]


def test_indirect_counters_count_packets_and_received_bytes() -> None:
    """An index from the packet chooses the counter; outside of the array nothing counts."""
    document = base_document()
    document.json["counter_arrays"] = [{"name": "c", "id": 0, "size": 3, "is_direct": False}]
    document.always(
        "ingress", call("count", {"type": "counter_array", "value": "c"}, fld("h", "value"))
    )
    switch = document.switch()
    for frame in (b"\x01ab", b"\x01", b"\x07"):
        switch.ingress(frame, 1, 0)
    assert switch.state.counter_packets["c"] == [0, 2, 0]
    assert switch.state.counter_bytes["c"] == [0, 4, 0]


def test_digest_hands_over_the_listed_values() -> None:
    """The hook gets the list id and the values at the end of ingress."""
    document = base_document()
    document.json["learn_lists"] = [
        {"id": 3, "name": "d", "elements": [fld("h", "value"), fld("m", "kept")]}
    ]
    document.always(
        "ingress",
        call("assign", fld("m", "kept"), const(5)),
        call("generate_digest", const(1), const(3)),
    )
    switch = document.switch()
    seen: list[tuple[int, list[int]]] = []
    switch.on_digest = lambda number, values: seen.append((number, values))
    switch.ingress(b"\x42", 1, 0)
    assert seen == [(3, [0x42, 5])]


def test_exit_ends_the_pipeline_but_not_the_packet() -> None:
    """Tables behind `exit` do not run; egress does."""
    document = base_document()
    document.always(
        "ingress", call("assign", meta("egress_spec"), const(2)), {"op": "exit", "parameters": []}
    )
    document.always("ingress", call("assign", meta("egress_spec"), const(3)))
    document.always("egress", call("assign", fld("h", "value"), const(0xAB)))
    assert send(document.switch(), b"\x01") == [(2, b"\xab")]


def test_jumps_in_actions_choose_what_runs() -> None:
    """_jump_if_zero skips primitives, _jump joins behind them."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("_jump_if_zero", fld("h", "value"), const(4)),
        call("assign", fld("h", "value"), const(0x11)),
        call("_jump", const(5)),
        call("assign", fld("h", "value"), const(0x22)),
        call("no_op"),
    )
    switch = document.switch()
    assert [send(switch, bytes([value]))[0][1] for value in (0, 7)] == [b"\x22", b"\x11"]


def test_random_is_the_same_for_the_same_seed() -> None:
    """Two switches with one seed draw the same numbers, within the bounds."""
    document = base_document()
    document.always(
        "ingress",
        call("assign", meta("egress_spec"), const(2)),
        call("modify_field_rng_uniform", fld("h", "value"), const(10), const(20)),
    )
    runs = []
    for _ in range(2):
        switch = EmbeddedSwitch(document.program(), seed=5)
        runs.append([send(switch, b"\0")[0][1][0] for _ in range(20)])
    assert runs[0] == runs[1]
    assert all(10 <= value <= 20 for value in runs[0])
    assert len(set(runs[0])) > 3


def test_log_messages_are_kept() -> None:
    """log_msg fills in its values."""
    document = base_document()
    text = {"type": "string", "value": "value is {}!"}
    values = {"type": "parameters_vector", "value": [fld("h", "value")]}
    document.always("ingress", call("log_msg", text, values))
    switch = document.switch()
    switch.ingress(b"\x07", 1, 0)
    assert switch.state.log == ["value is 7!"]


def test_copies_queued_before_a_new_program_are_dropped() -> None:
    """A pipeline push while packets wait in queues must not run them through the new program."""
    document = base_document()
    document.always("ingress", call("assign", meta("egress_spec"), const(2)))
    switch = document.switch()
    (copy,) = switch.ingress(b"\x01", 1, 0)
    other = Document()
    other.state("start", go=(goto(None),))
    other.always("ingress", call("assign", meta("egress_spec"), const(3)))
    switch.load(other.program())
    assert egress(switch, copy) == []
    assert send(switch, b"\x01") == [(3, b"\x01")]
