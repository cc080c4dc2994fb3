# SPDX-License-Identifier: Apache-2.0
"""Requests to everything beside tables and profiles, and what they are answered.

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
    RATES,
    Case,
    Program,
    between,
    clone_session,
    exact,
    multicast,
    optional,
    read,
    replica,
    ternary,
    write,
)


def replication(P: Program) -> list[Case]:
    """Clone sessions and multicast groups."""
    return [
        write("clone 0", (INSERT, clone_session(0, replica(1))), code="INVALID_ARGUMENT"),
        write("clone 32767 (1)", (INSERT, clone_session(32767, replica(1))), code="OK"),
        write("clone 32767 (2)", (DELETE, clone_session(32767)), code="OK"),
        write("clone 32768", (INSERT, clone_session(32768, replica(1))), code="INVALID_ARGUMENT"),
        write(
            "clone (1)",
            (INSERT, clone_session(5, replica(1, 1), replica(2, 1), replica(1, 0))),
            code="OK",
        ),
        read("clone (2)", clone_session(5), code="OK", count=1, alike=False),
        read("clone (3)", clone_session(0), code="OK", count=1, alike=False),
        write("clone twice", (INSERT, clone_session(5, replica(1))), code="ALREADY_EXISTS"),
        write(
            "clone cos (1)",
            (INSERT, clone_session(6, replica(1), class_of_service=1)),
            code="UNIMPLEMENTED",
        ),
        read("clone cos (2)", clone_session(6), code="NOT_FOUND", count=0),
        write(
            "clone truncate (1)",
            (INSERT, clone_session(7, replica(1), packet_length_bytes=64)),
            code="UNIMPLEMENTED",
            bmv2="UNKNOWN",
        ),
        read("clone truncate (2)", clone_session(7), code="NOT_FOUND", count=0),
        write("clone no replicas (1)", (INSERT, clone_session(8)), code="OK"),
        read("clone no replicas (2)", clone_session(8), code="OK", count=1),
        write("clone no replicas (3)", (DELETE, clone_session(8)), code="OK"),
        write("clone modify missing", (MODIFY, clone_session(9, replica(1))), code="NOT_FOUND"),
        write("clone delete missing", (DELETE, clone_session(9)), code="NOT_FOUND"),
        read("clone read missing", clone_session(9), code="NOT_FOUND", count=0),
        write(
            "clone no port",
            (INSERT, clone_session(10, p4r.Replica(instance=1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "clone empty port",
            (INSERT, clone_session(10, p4r.Replica(port=b"", instance=1))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "clone port bytes (1)",
            (INSERT, clone_session(10, p4r.Replica(port=b"\x00\x05", instance=1))),
            code="OK",
        ),
        read("clone port bytes (2)", clone_session(10), code="OK", count=1, alike=False),
        write("clone port bytes (3)", (DELETE, clone_session(10)), code="OK"),
        write(
            "clone port 0 bytes (1)",
            (INSERT, clone_session(10, p4r.Replica(port=b"\x00", instance=1))),
            code="INVALID_ARGUMENT",
        ),
        write("clone port 0 bytes (2)", (DELETE, clone_session(10)), code="NOT_FOUND"),
        write(
            "clone port 512 (1)",
            (INSERT, clone_session(11, replica(512))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write("clone port 512 (2)", (DELETE, clone_session(11)), code="NOT_FOUND", bmv2="OK"),
        write(
            "clone port huge (1)",
            (INSERT, clone_session(11, replica(1 << 30))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write("clone port huge (2)", (DELETE, clone_session(11)), code="NOT_FOUND", bmv2="OK"),
        write(
            "clone port 5 bytes (1)",
            (INSERT, clone_session(12, p4r.Replica(port=b"\x00\x00\x00\x00\x01", instance=1))),
            code="OK",
            bmv2="UNIMPLEMENTED",
        ),
        write("clone port 5 bytes (2)", (DELETE, clone_session(12)), code="OK", bmv2="NOT_FOUND"),
        write(
            "clone instance wide (1)",
            (INSERT, clone_session(13, replica(1, 70000))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        read(
            "clone instance wide (2)",
            clone_session(13),
            code="NOT_FOUND",
            count=0,
            bmv2="OK",
            alike=False,
        ),
        write("clone instance wide (3)", (DELETE, clone_session(13)), code="NOT_FOUND", bmv2="OK"),
        write(
            "clone dup replica",
            (INSERT, clone_session(14, replica(1), replica(1))),
            code="INVALID_ARGUMENT",
        ),
        write("clone drop", (DELETE, clone_session(5)), code="OK"),
        write("mc 0", (INSERT, multicast(0, replica(1))), code="INVALID_ARGUMENT"),
        write("mc 32768 (1)", (INSERT, multicast(32768, replica(1))), code="OUT_OF_RANGE"),
        read("mc 32768 (2)", multicast(32768), code="OUT_OF_RANGE", count=0),
        write("mc (1)", (INSERT, multicast(5, replica(2, 1), replica(1, 1))), code="OK"),
        read("mc (2)", multicast(5), code="OK", count=1, alike=False),
        read("mc (3)", multicast(0), code="OK", count=1, alike=False),
        write("mc (4)", (MODIFY, multicast(5, replica(3, 2))), code="OK"),
        read("mc (5)", multicast(5), code="OK", count=1),
        write("mc (6)", (DELETE, multicast(5)), code="OK"),
        read("mc read missing", multicast(9), code="NOT_FOUND", count=0),
        write("mc delete missing", (DELETE, multicast(9)), code="NOT_FOUND"),
        write(
            "pre empty (1)",
            (
                INSERT,
                p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
            ),
            code="INVALID_ARGUMENT",
        ),
        read(
            "pre empty (2)",
            p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
            code="INVALID_ARGUMENT",
            count=0,
        ),
    ]


def arrays(P: Program) -> list[Case]:
    """Counters and meters, indirect and direct."""
    to_1 = P.direct("to_port", b"\1")
    aged = partial(P.entry, "aged")
    return [
        write("an entry", (INSERT, aged(exact(b"\1"), action=to_1)), code="OK"),
        write(
            "counter write (1)",
            (
                MODIFY,
                P.counter(
                    "octets",
                    index=p4r.Index(index=1),
                    data=p4r.CounterData(byte_count=5, packet_count=7),
                ),
            ),
            code="OK",
        ),
        read(
            "counter write (2)", P.counter("octets", index=p4r.Index(index=1)), code="OK", count=1
        ),
        write(
            "counter write packets (1)",
            (
                MODIFY,
                P.counter(
                    "packets",
                    index=p4r.Index(index=1),
                    data=p4r.CounterData(byte_count=5, packet_count=7),
                ),
            ),
            code="OK",
        ),
        read(
            "counter write packets (2)",
            P.counter("packets", index=p4r.Index(index=1)),
            code="OK",
            count=1,
        ),
        write(
            "counter no data (1)",
            (MODIFY, P.counter("packets", index=p4r.Index(index=1))),
            code="OK",
        ),
        read(
            "counter no data (2)",
            P.counter("packets", index=p4r.Index(index=1)),
            code="OK",
            count=1,
            alike=False,
        ),
        write(
            "set it again (1)",
            (
                MODIFY,
                P.counter(
                    "packets", index=p4r.Index(index=1), data=p4r.CounterData(packet_count=7)
                ),
            ),
            code="OK",
        ),
        read(
            "set it again (2)", P.counter("packets", index=p4r.Index(index=1)), code="OK", count=1
        ),
        write(
            "counter insert",
            (
                INSERT,
                P.counter("packets", index=p4r.Index(index=1), data=p4r.CounterData(byte_count=5)),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "counter delete",
            (DELETE, P.counter("packets", index=p4r.Index(index=1))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write(
            "counter wildcard (1)",
            (MODIFY, P.counter("packets", data=p4r.CounterData(packet_count=9))),
            code="OK",
            bmv2="UNIMPLEMENTED",
        ),
        read("counter wildcard (2)", P.counter("packets"), code="OK", count=4, alike=False),
        write(
            "counter negative index (1)",
            (
                MODIFY,
                P.counter(
                    "packets", index=p4r.Index(index=-1), data=p4r.CounterData(packet_count=9)
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        read(
            "counter negative index (2)",
            P.counter("packets", index=p4r.Index(index=-1)),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        write(
            "counter far index (1)",
            (
                MODIFY,
                P.counter(
                    "packets", index=p4r.Index(index=4), data=p4r.CounterData(packet_count=9)
                ),
            ),
            code="OUT_OF_RANGE",
            bmv2="UNKNOWN",
        ),
        read(
            "counter far index (2)",
            P.counter("packets", index=p4r.Index(index=4)),
            code="OUT_OF_RANGE",
            count=0,
            bmv2="UNKNOWN",
            alike=False,
        ),
        write(
            "counter unknown (1)",
            (MODIFY, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=7))),
            code="INVALID_ARGUMENT",
        ),
        read(
            "counter unknown (2)",
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=7)),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        write(
            "counter negative (1)",
            (
                MODIFY,
                P.counter(
                    "packets", index=p4r.Index(index=1), data=p4r.CounterData(packet_count=-9)
                ),
            ),
            code="OK",
        ),
        read(
            "counter negative (2)",
            P.counter("packets", index=p4r.Index(index=1)),
            code="OK",
            count=1,
        ),
        read(
            "all counters",
            p4r.Entity(counter_entry=p4r.CounterEntry()),
            code="OK",
            count=8,
            alike=False,
        ),
        read(
            "direct counter as counter",
            p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=P.id("aged_counter"))),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        write(
            "meter (1)",
            (
                MODIFY,
                P.meter(
                    "rate",
                    index=p4r.Index(index=1),
                    config=p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4),
                ),
            ),
            code="OK",
        ),
        read("meter (2)", P.meter("rate", index=p4r.Index(index=1)), code="OK", count=1),
        read("meter (3)", P.meter("rate"), code="OK", count=2),
        read("meter (4)", p4r.Entity(meter_entry=p4r.MeterEntry()), code="OK", count=2),
        write(
            "meter -1 (1)",
            (
                MODIFY,
                P.meter(
                    "rate",
                    index=p4r.Index(index=1),
                    config=p4r.MeterConfig(cir=-1, cburst=-1, pir=-1, pburst=-1),
                ),
            ),
            code="OK",
        ),
        read("meter -1 (2)", P.meter("rate", index=p4r.Index(index=1)), code="OK", count=1),
        write(
            "meter negative",
            (MODIFY, P.meter("rate", index=p4r.Index(index=1), config=p4r.MeterConfig(cir=-2))),
            code="INVALID_ARGUMENT",
        ),
        write(
            "meter zero (1)",
            (MODIFY, P.meter("rate", index=p4r.Index(index=1), config=p4r.MeterConfig())),
            code="OK",
        ),
        read("meter zero (2)", P.meter("rate", index=p4r.Index(index=1)), code="OK", count=1),
        write(
            "meter cir above pir (1)",
            (
                MODIFY,
                P.meter(
                    "rate",
                    index=p4r.Index(index=1),
                    config=p4r.MeterConfig(cir=5, cburst=2, pir=3, pburst=4),
                ),
            ),
            code="INVALID_ARGUMENT",
            bmv2="UNKNOWN",
        ),
        read(
            "meter cir above pir (2)",
            P.meter("rate", index=p4r.Index(index=1)),
            code="OK",
            count=1,
            alike=False,
        ),
        write(
            "meter burst big",
            (
                MODIFY,
                P.meter(
                    "rate",
                    index=p4r.Index(index=1),
                    config=p4r.MeterConfig(cir=5, cburst=1 << 33, pir=6, pburst=4),
                ),
            ),
            code="UNIMPLEMENTED",
        ),
        write("meter unset (1)", (MODIFY, P.meter("rate", index=p4r.Index(index=1))), code="OK"),
        read("meter unset (2)", P.meter("rate", index=p4r.Index(index=1)), code="OK", count=1),
        write(
            "meter wildcard",
            (MODIFY, P.meter("rate", config=p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))),
            code="OK",
            bmv2="UNIMPLEMENTED",
        ),
        write(
            "meter insert",
            (INSERT, P.meter("rate", index=p4r.Index(index=1), config=p4r.MeterConfig())),
            code="INVALID_ARGUMENT",
        ),
        write(
            "meter far (1)",
            (MODIFY, P.meter("rate", index=p4r.Index(index=2))),
            code="OUT_OF_RANGE",
            bmv2="UNKNOWN",
        ),
        read(
            "meter far (2)",
            P.meter("rate", index=p4r.Index(index=2)),
            code="OUT_OF_RANGE",
            count=0,
            bmv2="UNKNOWN",
            alike=False,
        ),
        read("direct counters", P.direct_counter(aged()), code="OK", count=1),
        read(
            "direct counters all",
            P.direct_counter(p4r.Entity(table_entry=p4r.TableEntry())),
            code="OK",
            count=1,
            bmv2="UNIMPLEMENTED",
            alike=False,
        ),
        write(
            "direct counter one (1)",
            (
                MODIFY,
                P.direct_counter(
                    aged(exact(b"\x01")), data=p4r.CounterData(byte_count=4, packet_count=5)
                ),
            ),
            code="OK",
        ),
        read("direct counter one (2)", P.direct_counter(aged(exact(b"\x01"))), code="OK", count=1),
        read(
            "direct counter default",
            P.direct_counter(aged(is_default_action=True)),
            code="OK",
            count=1,
            bmv2="UNKNOWN",
            alike=False,
        ),
        write(
            "direct counter missing (1)",
            (MODIFY, P.direct_counter(aged(exact(b"w")))),
            code="NOT_FOUND",
            bmv2="INVALID_ARGUMENT",
        ),
        read(
            "direct counter missing (2)",
            P.direct_counter(aged(exact(b"w"))),
            code="NOT_FOUND",
            count=0,
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "direct counter no entry (1)",
            (MODIFY, p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())),
            code="INVALID_ARGUMENT",
        ),
        read(
            "direct counter no entry (2)",
            p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry()),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        write(
            "direct counter table without (1)",
            (MODIFY, P.direct_counter(P.entry("initial", exact(b"\x06")))),
            code="INVALID_ARGUMENT",
        ),
        read(
            "direct counter table without (2)",
            P.direct_counter(P.entry("initial")),
            code="INVALID_ARGUMENT",
            count=0,
        ),
        read(
            "direct meter table without", P.direct_meter(aged()), code="INVALID_ARGUMENT", count=0
        ),
        write(
            "modify keeps counter (1)",
            (MODIFY, aged(exact(b"\x01"), action=P.direct("to_port", b"\x03"))),
            code="OK",
        ),
        read(
            "modify keeps counter (2)",
            aged(exact(b"\x01"), counter_data=p4r.CounterData()),
            code="OK",
            count=1,
        ),
    ]


def digests(P: Program) -> list[Case]:
    """Digests."""
    return [
        read("digest read unset", P.digest("pair_t"), code="NOT_FOUND", count=0),
        write("digest modify unset", (MODIFY, P.digest("pair_t")), code="NOT_FOUND"),
        write("digest delete unset", (DELETE, P.digest("pair_t")), code="NOT_FOUND"),
        write(
            "digest insert (1)",
            (INSERT, P.digest("pair_t", **dict(max_list_size=4, max_timeout_ns=10**9))),
            code="OK",
        ),
        read("digest insert (2)", P.digest("pair_t"), code="OK", count=1),
        read(
            "digest insert (3)", P.digest(""), code="OK", count=1, bmv2="UNIMPLEMENTED", alike=False
        ),
        write("digest twice", (INSERT, P.digest("pair_t")), code="ALREADY_EXISTS"),
        write(
            "digest negative",
            (MODIFY, P.digest("pair_t", **dict(max_list_size=-4))),
            code="INVALID_ARGUMENT",
            bmv2="OK",
        ),
        write(
            "digest unknown (1)",
            (INSERT, p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=9))),
            code="NOT_FOUND",
        ),
        read(
            "digest unknown (2)",
            p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=9)),
            code="NOT_FOUND",
            count=0,
        ),
        write("digest delete", (DELETE, P.digest("pair_t")), code="OK"),
    ]


def kinds(P: Program) -> list[Case]:
    """What kinds.p4 has: optional and range keys, direct meters, constant tables, value sets."""
    metered = P.direct("metered", b"\1")
    narrow = P.entry(
        "acl",
        optional(b"\7"),
        between(b"\x10", b"\x1f", 2),
        ternary(b"\x80", b"\x80", 3),
        priority=3,
    )
    return [
        write(
            "acl (1)",
            (
                INSERT,
                P.entry(
                    "acl",
                    optional(b"\x07"),
                    between(b"\x10", b"\x1f", 2),
                    ternary(b"\x80", b"\x80", 3),
                    priority=3,
                    action=metered,
                ),
            ),
            code="OK",
        ),
        read("acl (2)", P.entry("acl"), code="OK", count=1),
        write(
            "range reversed",
            (INSERT, P.entry("acl", between(b" ", b"\x1f", 2), priority=3, action=metered)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "range whole",
            (INSERT, P.entry("acl", between(b"\x00", b"\xff", 2), priority=3, action=metered)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "meter in entry (1)",
            (INSERT, P.entry("acl", priority=1, action=metered, meter_config=RATES)),
            code="OK",
        ),
        read(
            "meter in entry (2)",
            P.entry("acl", priority=1, meter_config=p4r.MeterConfig()),
            code="OK",
            count=1,
            alike=False,
        ),
        read(
            "meter in entry (3)",
            P.entry(
                "acl", priority=1, meter_config=p4r.MeterConfig(), counter_data=p4r.CounterData()
            ),
            code="OK",
            count=1,
            alike=False,
        ),
        write(
            "modify resets meter (1)",
            (MODIFY, P.entry("acl", priority=1, action=metered)),
            code="OK",
        ),
        read(
            "modify resets meter (2)",
            P.entry("acl", priority=1, meter_config=p4r.MeterConfig()),
            code="OK",
            count=1,
            alike=False,
        ),
        write("direct meter (1)", (MODIFY, P.direct_meter(narrow, config=RATES)), code="OK"),
        read("direct meter (2)", P.direct_meter(narrow), code="OK", count=1),
        read("direct meters", P.direct_meter(P.entry("acl")), code="OK", count=2, alike=False),
        read(
            "direct meters all",
            P.direct_meter(p4r.Entity(table_entry=p4r.TableEntry())),
            code="OK",
            count=2,
            bmv2="UNIMPLEMENTED",
            alike=False,
        ),
        write(
            "direct meter missing",
            (MODIFY, P.direct_meter(P.entry("acl", optional(b"\1"), priority=9), config=RATES)),
            code="NOT_FOUND",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "direct meter insert",
            (INSERT, P.direct_meter(narrow, config=RATES)),
            code="INVALID_ARGUMENT",
        ),
        write(
            "default meter (1)",
            (
                MODIFY,
                P.entry(
                    "acl", is_default_action=True, action=P.direct("refuse"), meter_config=RATES
                ),
            ),
            code="OK",
        ),
        read(
            "default meter (2)",
            P.entry("acl", is_default_action=True, meter_config=p4r.MeterConfig()),
            code="OK",
            count=1,
            alike=False,
        ),
        write(
            "const insert",
            (INSERT, P.entry("fixed", exact(b"\x01"), action=P.direct("to_port", b"\x01"))),
            code="PERMISSION_DENIED",
            bmv2="UNKNOWN",
        ),
        write(
            "const modify",
            (MODIFY, P.entry("fixed", exact(b"w"), action=P.direct("to_port", b"\x01"))),
            code="PERMISSION_DENIED",
            bmv2="NOT_FOUND",
        ),
        write(
            "const modify no action",
            (MODIFY, P.entry("fixed", exact(b"w"))),
            code="OK",
            bmv2="INVALID_ARGUMENT",
        ),
        write(
            "const delete",
            (DELETE, P.entry("fixed", exact(b"w"))),
            code="PERMISSION_DENIED",
            bmv2="NOT_FOUND",
        ),
        write(
            "const default",
            (MODIFY, P.entry("fixed", is_default_action=True, action=P.direct("NoAction"))),
            code="PERMISSION_DENIED",
        ),
        read("const read", P.entry("fixed"), code="OK", count=1, alike=False),
        write(
            "profile group", (INSERT, P.group("next_hops", 1)), code="INVALID_ARGUMENT", bmv2="OK"
        ),
        write(
            "profile full (1)",
            *[
                (INSERT, P.member("next_hops", i, P.action("to_port", b"\x01")))
                for i in range(1, 10)
            ],
            code=("OK", "OK", "OK", "OK", "OK", "OK", "OK", "OK", "RESOURCE_EXHAUSTED"),
            bmv2="OK",
        ),
        write(
            "profile full (2)",
            *[(DELETE, P.member("next_hops", i)) for i in range(1, 10)],
            code=("OK", "OK", "OK", "OK", "OK", "OK", "OK", "OK", "NOT_FOUND"),
            bmv2="OK",
        ),
        write(
            "profile one shot",
            (
                INSERT,
                P.entry(
                    "profiled", exact(b"\x01"), action=P.one_shot(("to_port", b"\x01", 1, b""))
                ),
            ),
            code="INVALID_ARGUMENT",
        ),
        write(
            "profile group ref",
            (
                INSERT,
                P.entry(
                    "profiled", exact(b"\x01"), action=p4r.TableAction(action_profile_group_id=1)
                ),
            ),
            code="INVALID_ARGUMENT",
            bmv2="UNKNOWN",
        ),
        write("value set (1)", (MODIFY, P.value_set(b"\x07")), code="OK", bmv2="UNIMPLEMENTED"),
        read("value set (2)", P.value_set(), code="OK", count=1, bmv2="UNIMPLEMENTED", alike=False),
        write(
            "value set insert",
            (INSERT, P.value_set(b"\x07")),
            code="INVALID_ARGUMENT",
            bmv2="UNIMPLEMENTED",
        ),
        read(
            "value set all",
            P.value_set(vid=""),
            code="OK",
            count=1,
            bmv2="UNIMPLEMENTED",
            alike=False,
        ),
        write(
            "value set dup",
            (MODIFY, P.value_set(b"\x07", b"\x07")),
            code="ALREADY_EXISTS",
            bmv2="UNIMPLEMENTED",
        ),
        write(
            "value set full",
            (MODIFY, P.value_set(b"\x01", b"\x02", b"\x03", b"\x04", b"\x05")),
            code="RESOURCE_EXHAUSTED",
            bmv2="UNIMPLEMENTED",
        ),
        read(
            "read all tables",
            p4r.Entity(table_entry=p4r.TableEntry()),
            code="OK",
            count=3,
            alike=False,
        ),
        read(
            "read all defaults",
            p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
            code="OK",
            count=4,
            alike=False,
        ),
    ]
