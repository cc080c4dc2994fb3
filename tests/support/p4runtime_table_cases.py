# SPDX-License-Identifier: Apache-2.0
"""Requests to tables and action profiles, and what they are answered.

Each case says what the embedded switch answers; `bmv2` is what BMv2's server answers where it is
something else, `alike=False` marks entities that it returns otherwise. The cases of one function
build on each other.
"""

from functools import partial

from finsy.proto import p4r

from tests.support.p4runtime_peer import (
    DELETE,
    INSERT,
    MODIFY,
    UNSPECIFIED,
    Case,
    Program,
    exact,
    lpm,
    read,
    ternary,
    write,
)


def entries(P: Program) -> list[Case]:
    """Table entries and default entries of control.p4."""
    to_1 = P.direct("to_port", b"\1")
    aged = partial(P.entry, "aged")
    return [
        write("insert", (INSERT, aged(exact(b"\x01"), action=to_1)), code="OK"),
        write("insert again", (INSERT, aged(exact(b"\x01"), action=to_1)), code="ALREADY_EXISTS"),
        write("modify missing", (MODIFY, aged(exact(b"\x02"), action=to_1)), code="NOT_FOUND"),
        write("delete missing", (DELETE, aged(exact(b"\x02"))), code="NOT_FOUND"),
        write(
            "unknown table",
            (INSERT, p4r.Entity(table_entry=p4r.TableEntry(table_id=33554433 + 77, action=to_1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "table id 0",
            (INSERT, p4r.Entity(table_entry=p4r.TableEntry(action=to_1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "action id as table",
            (INSERT, p4r.Entity(table_entry=p4r.TableEntry(table_id=P.id("to_port"), action=to_1))),
            code="INVALID_ARGUMENT",
        ),
        write("no type", (UNSPECIFIED, aged(exact(b"\x03"), action=to_1)), code="INVALID_ARGUMENT"),
        write("type 9", (9, aged(exact(b"\x03"), action=to_1)), code="INVALID_ARGUMENT"),
        write("empty entity", (INSERT, p4r.Entity()), code="INVALID_ARGUMENT", bmv2="UNKNOWN"),
        write(
            "register",
            (MODIFY, p4r.Entity(register_entry=p4r.RegisterEntry(register_id=P.id("kept")))),
            code="UNIMPLEMENTED",
        ),
        write("extern", (MODIFY, p4r.Entity(extern_entry=p4r.ExternEntry())), code="UNIMPLEMENTED"),
        write(
            "mixed batch",
            (INSERT, aged(exact(b"\x01"), action=to_1)),
            (INSERT, aged(exact(b"\x04"), action=to_1)),
            (DELETE, aged(exact(b"D"))),
            code=("ALREADY_EXISTS", "OK", "NOT_FOUND"),
        ),
        write(
            "wide key",
            (INSERT, aged(exact(b"\x01\x01"), action=to_1)),
            code="OUT_OF_RANGE",
            bmv2="INVALID_ARGUMENT",
        ),
        write("padded key", (INSERT, aged(exact(b"\x00\x00\x05"), action=to_1)), code="OK"),
        write(
            "empty key value",
            (INSERT, aged(exact(b""), action=to_1)),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write(
            "take back the empty key", (DELETE, aged(exact(b"\x00"))), code="NOT_FOUND", bmv2="OK"
        ),
        write("no match", (INSERT, aged(action=to_1)), code="INVALID_ARGUMENT"),
        write(
            "wrong field id",
            (INSERT, aged(exact(b"\x06", 7), action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "field twice",
            (INSERT, aged(exact(b"\x06"), exact(b"\x06"), action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "ternary for exact",
            (INSERT, aged(ternary(b"\x06", b"\xff"), action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "empty field match",
            (INSERT, aged(p4r.FieldMatch(field_id=1), action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "priority on exact",
            (INSERT, aged(exact(b"\x06"), priority=3, action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write("no action", (INSERT, aged(exact(b"\x06"))), code="INVALID_ARGUMENT"),
        write(
            "empty action",
            (INSERT, aged(exact(b"\x06"), action=p4r.TableAction())),
            code="INVALID_ARGUMENT",
        ),
        write(
            "wide argument",
            (INSERT, aged(exact(b"\x06"), action=P.direct("to_port", b"\x02\x00"))),
            code="OUT_OF_RANGE",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "missing argument",
            (INSERT, aged(exact(b"\x06"), action=P.direct("to_port"))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "extra argument",
            (INSERT, aged(exact(b"\x06"), action=P.direct("to_port", b"\x01", b"\x01"))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "argument twice",
            (
                INSERT,
                aged(
                    exact(b"\x06"),
                    action=p4r.TableAction(
                        action=p4r.Action(
                            action_id=P.id("to_port"),
                            params=[p4r.Action.Param(param_id=1, value=b"\x01")] * 2,
                        )
                    ),
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "unknown action",
            (
                INSERT,
                aged(
                    exact(b"\x06"),
                    action=p4r.TableAction(action=p4r.Action(action_id=16777215 + 99)),
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "action of another table",
            (INSERT, aged(exact(b"\x06"), action=P.direct("learn_pair"))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "default-only action",
            (INSERT, aged(exact(b"\x06"), action=P.direct("refuse"))),
            code="PERMISSION_DENIED",
        ),
        write(
            "table-only as default",
            (MODIFY, aged(is_default_action=True, action=P.direct("learn_word"))),
            code="PERMISSION_DENIED",
        ),
        write(
            "member in direct table",
            (INSERT, aged(exact(b"\x06"), action=p4r.TableAction(action_profile_member_id=1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "set in direct table",
            (INSERT, aged(exact(b"\x06"), action=P.one_shot(("to_port", b"\x01", 1, b"")))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "is_const",
            (INSERT, aged(exact(b"\x06"), action=to_1, is_const=True)),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write("take back is_const", (DELETE, aged(exact(b"\x06"))), code="NOT_FOUND", bmv2="OK"),
        write(
            "modify without action",
            (MODIFY, aged(exact(b"\x01"))),
            code="OK",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "negative timeout",
            (INSERT, aged(exact(b"\x16"), action=to_1, idle_timeout_ns=-1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "timeout on table without",
            (INSERT, P.entry("initial", exact(b"\x06"), action=to_1, idle_timeout_ns=1000000000)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "time since hit in write",
            (
                INSERT,
                aged(exact(b"\x17"), action=to_1, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "meter config without meter",
            (INSERT, aged(exact(b"\x18"), action=to_1, meter_config=p4r.MeterConfig())),
            code="INVALID_ARGUMENT",
        ),
        write(
            "counter data (1)",
            (
                INSERT,
                aged(
                    exact(b"\x19"),
                    action=to_1,
                    counter_data=p4r.CounterData(byte_count=5, packet_count=6),
                ),
            ),
            code="OK",
        ),
        read(
            "counter data (2)",
            aged(exact(b"\x19"), counter_data=p4r.CounterData()),
            code="OK",
            count=1,
        ),
        write(
            "counter data on table without",
            (
                INSERT,
                P.entry(
                    "initial",
                    exact(b"\x19"),
                    action=to_1,
                    counter_data=p4r.CounterData(byte_count=5),
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "default insert",
            (INSERT, aged(is_default_action=True, action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write("default delete", (DELETE, aged(is_default_action=True)), code="INVALID_ARGUMENT"),
        write(
            "default with match",
            (MODIFY, aged(exact(b"\x01"), is_default_action=True, action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "default with priority",
            (MODIFY, aged(priority=1, is_default_action=True, action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "default with timeout",
            (MODIFY, aged(is_default_action=True, action=to_1, idle_timeout_ns=1000000000)),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write(
            "default modify and read (1)",
            (
                MODIFY,
                aged(is_default_action=True, action=to_1, metadata=b"x", controller_metadata=4),
            ),
            code="OK",
        ),
        read("default modify and read (2)", aged(is_default_action=True), code="OK", count=1),
        read(
            "default modify and read (3)",
            aged(is_default_action=True, counter_data=p4r.CounterData()),
            code="OK",
            count=1,
            alike=False,
        ),
        write("default reset (1)", (MODIFY, aged(is_default_action=True)), code="OK"),
        read("default reset (2)", aged(is_default_action=True), code="OK", count=1),
        write(
            "default of selector table (1)",
            (MODIFY, P.entry("routes", is_default_action=True, action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        read(
            "default of selector table (2)",
            P.entry("routes", is_default_action=True),
            code="OK",
            count=1,
        ),
        write(
            "keyless insert",
            (INSERT, P.entry("keyless", action=to_1)),
            code="INVALID_ARGUMENT",
            bmv2="UNKNOWN",
        ),
        write(
            "keyless default (1)",
            (MODIFY, P.entry("keyless", is_default_action=True, action=to_1)),
            code="OK",
        ),
        read("keyless default (2)", P.entry("keyless", is_default_action=True), code="OK", count=1),
        write(
            "keyless default (3)", (MODIFY, P.entry("keyless", is_default_action=True)), code="OK"
        ),
        read("initial read", P.entry("initial"), code="OK", count=1, bmv2="INTERNAL"),
        write(
            "initial modify (1)",
            (MODIFY, P.entry("initial", exact(b"p"), action=P.direct("to_port", b"\t"))),
            code="OK",
            bmv2="NOT_FOUND",
        ),
        read(
            "initial modify (2)",
            P.entry("initial"),
            code="OK",
            count=1,
            bmv2="INTERNAL",
            alike=False,
        ),
        write(
            "initial delete (1)",
            (DELETE, P.entry("initial", exact(b"p"))),
            code="OK",
            bmv2="NOT_FOUND",
        ),
        read(
            "initial delete (2)",
            P.entry("initial"),
            code="OK",
            count=0,
            bmv2="INTERNAL",
            alike=False,
        ),
        read("read one", aged(exact(b"\x01")), code="OK", count=1),
        read("read missing", aged(exact(b"f")), code="OK", count=0),
        read(
            "read bad key",
            aged(exact(b"\x01\x01")),
            code="OUT_OF_RANGE",
            count=0,
            bmv2="INVALID_ARGUMENT",
        ),
        read(
            "read unknown table",
            p4r.Entity(table_entry=p4r.TableEntry(table_id=99)),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        write(
            "read metadata filter (1)",
            (INSERT, aged(exact(b" "), action=to_1, metadata=b"m", controller_metadata=8)),
            code="OK",
        ),
        read("read metadata filter (2)", aged(metadata=b"m"), code="OK", count=1, alike=False),
        read(
            "read metadata filter (3)", aged(controller_metadata=8), code="OK", count=1, alike=False
        ),
        write("read metadata filter (4)", (DELETE, aged(exact(b" "))), code="OK"),
        read("read action filter", aged(action=P.direct("flood")), code="OK", count=0, alike=False),
        read("read empty entity", p4r.Entity(), code="INVALID_ARGUMENT", count=0, bmv2="UNKNOWN"),
        read(
            "read time since hit on table without",
            P.entry("initial", time_since_last_hit=p4r.TableEntry.IdleTimeout()),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        read(
            "read default time since hit",
            aged(is_default_action=True, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        read(
            "read register",
            p4r.Entity(register_entry=p4r.RegisterEntry()),
            code="UNIMPLEMENTED",
            count=0,
        ),
        read(
            "read extern",
            p4r.Entity(extern_entry=p4r.ExternEntry()),
            code="UNIMPLEMENTED",
            count=0,
            bmv2="UNKNOWN",
        ),
        read(
            "good then bad read",
            aged(exact(b"\x01")),
            p4r.Entity(register_entry=p4r.RegisterEntry()),
            aged(exact(b"\x04")),
            code="UNIMPLEMENTED",
            count=1,
        ),
        write(
            "full table",
            *[(INSERT, aged(exact(bytes([48 + i])), action=to_1)) for i in range(8)],
            code=(
                "OK",
                "OK",
                "OK",
                "OK",
                "RESOURCE_EXHAUSTED",
                "RESOURCE_EXHAUSTED",
                "RESOURCE_EXHAUSTED",
                "RESOURCE_EXHAUSTED",
            ),
            bmv2=("OK", "OK", "OK", "OK", "UNKNOWN", "UNKNOWN", "UNKNOWN", "UNKNOWN"),
        ),
        write(
            "empty it",
            *[(DELETE, aged(exact(bytes([48 + i])))) for i in range(8)],
            code=("OK", "OK", "OK", "OK", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"),
        ),
        write(
            "ternary no priority",
            (
                INSERT,
                P.entry("aged_ternary", ternary(b"\x01", b"\x01"), action=P.direct("learn_pair")),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "ternary negative priority",
            (
                INSERT,
                P.entry(
                    "aged_ternary",
                    ternary(b"\x01", b"\x01"),
                    priority=-4,
                    action=P.direct("learn_pair"),
                ),
            ),
            code="INVALID_ARGUMENT",
            bmv2="UNKNOWN",
        ),
        write(
            "ternary zero mask",
            (
                INSERT,
                P.entry(
                    "aged_ternary",
                    ternary(b"\x00", b"\x00"),
                    priority=1,
                    action=P.direct("learn_pair"),
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "ternary outside mask",
            (
                INSERT,
                P.entry(
                    "aged_ternary",
                    ternary(b"\x03", b"\x01"),
                    priority=1,
                    action=P.direct("learn_pair"),
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "ternary dont care (1)",
            (INSERT, P.entry("aged_ternary", priority=1, action=P.direct("learn_pair"))),
            code="OK",
        ),
        read("ternary dont care (2)", P.entry("aged_ternary", priority=1), code="OK", count=1),
        read(
            "ternary dont care (3)",
            P.entry("aged_ternary", priority=2),
            code="OK",
            count=0,
            alike=False,
        ),
        write("ternary dont care (4)", (DELETE, P.entry("aged_ternary", priority=1)), code="OK"),
        write(
            "same key two priorities (1)",
            (
                INSERT,
                P.entry(
                    "aged_ternary",
                    ternary(b"\x01", b"\x01"),
                    priority=1,
                    action=P.direct("learn_pair"),
                ),
            ),
            (
                INSERT,
                P.entry(
                    "aged_ternary",
                    ternary(b"\x01", b"\x01"),
                    priority=2,
                    action=P.direct("learn_pair"),
                ),
            ),
            code="OK",
        ),
        read(
            "same key two priorities (2)",
            P.entry("aged_ternary", priority=2),
            code="OK",
            count=1,
            alike=False,
        ),
        write(
            "same key two priorities (3)",
            (DELETE, P.entry("aged_ternary", ternary(b"\x01", b"\x01"), priority=1)),
            (DELETE, P.entry("aged_ternary", ternary(b"\x01", b"\x01"), priority=2)),
            code="OK",
        ),
        write(
            "lpm zero length",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x00", 0), action=p4r.TableAction(action_profile_member_id=1)
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
    ]


def profiles(P: Program) -> list[Case]:
    """Members, groups and one-shot sets."""
    to_1 = P.direct("to_port", b"\1")
    return [
        write(
            "member of unknown profile",
            (
                INSERT,
                p4r.Entity(
                    action_profile_member=p4r.ActionProfileMember(action_profile_id=5, member_id=1)
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write("member no action", (INSERT, P.member("spread", 1)), code="INVALID_ARGUMENT"),
        write(
            "member id 0 (1)",
            (INSERT, P.member("spread", 0, P.action("to_port", b"\x01"))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write(
            "member id 0 (2)", (DELETE, P.member("spread", 0)), code="INVALID_ARGUMENT", bmv2="OK"
        ),
        write(
            "member insert",
            (INSERT, P.member("spread", 1, P.action("to_port", b"\x01"))),
            (INSERT, P.member("spread", 2, P.action("to_port", b"\x02"))),
            code="OK",
        ),
        write(
            "member twice",
            (INSERT, P.member("spread", 1, P.action("to_port", b"\x01"))),
            code="ALREADY_EXISTS",
        ),
        write(
            "member wrong action",
            (INSERT, P.member("spread", 3, P.action("learn_pair"))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "member modify missing",
            (MODIFY, P.member("spread", 9, P.action("to_port", b"\x01"))),
            code="NOT_FOUND",
        ),
        write("member delete missing", (DELETE, P.member("spread", 9)), code="NOT_FOUND"),
        read("member read missing", P.member("spread", 9), code="OK", count=0),
        read(
            "members",
            p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
            code="OK",
            count=2,
        ),
        write("group unknown member (1)", (INSERT, P.group("spread", 1, (9, 1))), code="NOT_FOUND"),
        read("group unknown member (2)", P.group("spread", 1), code="OK", count=0, alike=False),
        write(
            "group unknown member (3)", (DELETE, P.group("spread", 1)), code="NOT_FOUND", bmv2="OK"
        ),
        write(
            "group duplicate member (1)",
            (INSERT, P.group("spread", 2, (1, 1), (1, 1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "group duplicate member (2)",
            (DELETE, P.group("spread", 2)),
            code="NOT_FOUND",
            bmv2="OK",
        ),
        write(
            "group weight 0 (1)", (INSERT, P.group("spread", 3, (1, 0))), code="INVALID_ARGUMENT"
        ),
        write("group weight 0 (2)", (DELETE, P.group("spread", 3)), code="NOT_FOUND", bmv2="OK"),
        write(
            "group too heavy (1)", (INSERT, P.group("spread", 4, (1, 5))), code="RESOURCE_EXHAUSTED"
        ),
        write("group too heavy (2)", (DELETE, P.group("spread", 4)), code="NOT_FOUND", bmv2="OK"),
        write(
            "group max_size above",
            (INSERT, P.group("spread", 5, (1, 1), max_size=9)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "group max_size negative",
            (INSERT, P.group("spread", 5, (1, 1), max_size=-1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "group own max_size",
            (INSERT, P.group("spread", 6, (1, 3), max_size=2)),
            code="RESOURCE_EXHAUSTED",
        ),
        write("group drop", (DELETE, P.group("spread", 6)), code="NOT_FOUND", bmv2="OK"),
        write("group (1)", (INSERT, P.group("spread", 7, (1, 1), (2, 3), max_size=4)), code="OK"),
        read("group (2)", P.group("spread", 7), code="OK", count=1),
        write("group twice", (INSERT, P.group("spread", 7, (1, 1))), code="ALREADY_EXISTS"),
        write(
            "group max_size changed",
            (MODIFY, P.group("spread", 7, (1, 1), max_size=3)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "group id 0 (1)",
            (INSERT, P.group("spread", 0, (1, 1))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write("group id 0 (2)", (DELETE, P.group("spread", 0)), code="INVALID_ARGUMENT", bmv2="OK"),
        write("empty group (1)", (INSERT, P.group("spread", 8)), code="OK"),
        read("empty group (2)", P.group("spread", 8), code="OK", count=1),
        write("empty group (3)", (DELETE, P.group("spread", 8)), code="OK"),
        write(
            "delete used member",
            (DELETE, P.member("spread", 1)),
            code="FAILED_PRECONDITION",
            bmv2="UNKNOWN",
        ),
        read(
            "groups", p4r.Entity(action_profile_group=p4r.ActionProfileGroup()), code="OK", count=1
        ),
        write("group delete missing", (DELETE, P.group("spread", 77)), code="NOT_FOUND"),
        write(
            "route unknown group",
            (
                INSERT,
                P.entry(
                    "routes",
                    lpm(b"\x80\x00", 8),
                    action=p4r.TableAction(action_profile_group_id=99),
                ),
            ),
            code="NOT_FOUND",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "route unknown member",
            (
                INSERT,
                P.entry(
                    "routes",
                    lpm(b"\x80\x00", 8),
                    action=p4r.TableAction(action_profile_member_id=99),
                ),
            ),
            code="NOT_FOUND",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "route action",
            (INSERT, P.entry("routes", lpm(b"\x80\x00", 8), action=to_1)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "route mixed one shot",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x80\x00", 8), action=P.one_shot(("to_port", b"\x01", 1, b""))
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "route (1)",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x80\x00", 8), action=p4r.TableAction(action_profile_group_id=7)
                ),
            ),
            code="OK",
        ),
        read("route (2)", P.entry("routes"), code="OK", count=1),
        write(
            "delete used group",
            (DELETE, P.group("spread", 7)),
            code="FAILED_PRECONDITION",
            bmv2="UNKNOWN",
        ),
        write("clear (1)", (DELETE, P.entry("routes", lpm(b"\x80\x00", 8))), code="OK"),
        write("clear (2)", (DELETE, P.group("spread", 7)), code="OK"),
        write(
            "clear (3)", (DELETE, P.member("spread", 1)), (DELETE, P.member("spread", 2)), code="OK"
        ),
        write(
            "one shot (1)",
            (
                INSERT,
                P.entry(
                    "routes",
                    lpm(b"\x80\x00", 8),
                    action=P.one_shot(
                        ("to_port", b"\x01", 1, b""), ("to_port", b"\x02", 3, b"\x05")
                    ),
                ),
            ),
            code="OK",
        ),
        read("one shot (2)", P.entry("routes"), code="OK", count=1),
        write(
            "member while one shot",
            (INSERT, P.member("spread", 1, P.action("to_port", b"\x01"))),
            code="INVALID_ARGUMENT",
        ),
        read(
            "read members while one shot (1)",
            P.member("spread", 0),
            code="OK",
            count=0,
            bmv2="INVALID_ARGUMENT",
        ),
        read(
            "read members while one shot (2)",
            P.group("spread", 0),
            code="OK",
            count=0,
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "group ref while one shot",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x90\x00", 8), action=p4r.TableAction(action_profile_group_id=7)
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "one shot too heavy",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x91\x00", 8), action=P.one_shot(("to_port", b"\x01", 5, b""))
                ),
            ),
            code="RESOURCE_EXHAUSTED",
        ),
        write(
            "one shot weight 0",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x91\x00", 8), action=P.one_shot(("to_port", b"\x01", 0, b""))
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "one shot empty",
            (INSERT, P.entry("routes", lpm(b"\x91\x00", 8), action=P.one_shot())),
            code="UNIMPLEMENTED",
        ),
        write(
            "one shot wrong action",
            (
                INSERT,
                P.entry(
                    "routes", lpm(b"\x91\x00", 8), action=P.one_shot(("flood", b"\x01", 1, b""))
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "one shot modify (1)",
            (
                MODIFY,
                P.entry(
                    "routes", lpm(b"\x80\x00", 8), action=P.one_shot(("to_port", b"\x06", 2, b""))
                ),
            ),
            code="OK",
        ),
        read("one shot modify (2)", P.entry("routes"), code="OK", count=1),
        write("one shot delete (1)", (DELETE, P.entry("routes", lpm(b"\x80\x00", 8))), code="OK"),
        write(
            "one shot delete (2)",
            (INSERT, P.member("spread", 1, P.action("to_port", b"\x01"))),
            (DELETE, P.member("spread", 1)),
            code="OK",
        ),
    ]
