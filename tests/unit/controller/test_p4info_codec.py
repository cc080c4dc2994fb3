# SPDX-License-Identifier: Apache-2.0
"""Entries to P4Runtime messages and back: names checked, one canonical form, odd refused."""

import finsy as fy
import pytest
from finsy.proto import p4r

from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Group,
    Member,
    MulticastGroup,
    TableEntry,
    Ternary,
)
from controller.p4info_codec import (
    CodecError,
    decode_entry,
    encode_entry,
    read_requests,
)
from controller.pipeline import load_pipeline
from controller.session import program_schema


@pytest.fixture(scope="module")
def schema() -> fy.P4Schema:
    """Of the committed p4info."""
    return program_schema(load_pipeline())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (TableEntry.of("nowhere", {}, ActionCall("x")), "nowhere"),
        (TableEntry.of("qos_class", {"tos": 1}, ActionCall("set_queue")), "tos"),
        (TableEntry.of("qos_class", {"dscp": 1}, ActionCall("paint")), "paint"),
        (TableEntry.of("qos_class", {"dscp": 64}, ActionCall.of("set_queue", queue_id=1)), "64"),
        (
            TableEntry.of("qos_class", {"dscp": 1}, ActionCall.of("set_queue", queue_id=256)),
            "256",
        ),
        (Member(profile="lag", member_id=1, action=ActionCall("drop")), "lag"),
        (
            Member(profile="ecmp_selector", member_id=1, action=ActionCall.of("forward", port=1)),
            "dst_mac",
        ),
        (DefaultEntry(table="nowhere", action=ActionCall("x")), "nowhere"),
    ],
    ids=["table", "field", "action", "wide match", "wide value", "profile", "short", "default"],
)
def test_what_the_program_lacks_is_refused_by_name(
    entry: Entry, message: str, schema: fy.P4Schema
) -> None:
    """Unknown names and values that do not fit name the entry and what is wrong with it."""
    with pytest.raises(CodecError, match=message) as raised:
        encode_entry(entry, schema)
    assert str(raised.value).startswith(entry.where)


def test_values_are_as_short_as_can_be(schema: fy.P4Schema) -> None:
    """Values have no leading zero bytes (P4Runtime 1.3 section 8.4)."""
    entry = TableEntry.of(
        "int_watchlist", {"dst_addr": Ternary(7, 0xFF)}, ActionCall("int_exempt"), priority=1
    )
    message = encode_entry(entry, schema)
    assert message.table_entry.match[0].ternary.value == b"\x07"
    assert message.table_entry.match[0].ternary.mask == b"\xff"


def test_order_of_members_does_not_matter(schema: fy.P4Schema) -> None:
    """Groups whose members come in another order are equal after decoding."""
    one = Group(profile="ecmp_selector", group_id=1, max_size=64, members=((1, 1), (2, 3)))
    message = encode_entry(one, schema)
    message.action_profile_group.members.reverse()
    assert decode_entry(message, schema) == one


@pytest.mark.parametrize("as_bytes", [False, True])
def test_replica_port_is_read_in_both_forms(as_bytes: bool, schema: fy.P4Schema) -> None:
    """The port of a replica is a number before P4Runtime 1.4 and bytes since."""
    replica = (
        p4r.Replica(port=b"\x3c", instance=1)
        if as_bytes
        else p4r.Replica(egress_port=60, instance=1)
    )
    message = p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            clone_session_entry=p4r.CloneSessionEntry(session_id=2, replicas=[replica])
        )
    )
    assert decode_entry(message, schema) == CloneSession(session_id=2, replicas=((60, 1),))


def test_multicast_group_survives_the_messages(schema: fy.P4Schema) -> None:
    """Replicas come back sorted, whatever the order in which a switch keeps them."""
    group = MulticastGroup(group_id=1, replicas=((1, 1), (2, 1), (11, 1)))
    message = encode_entry(group, schema)
    entry = message.packet_replication_engine_entry.multicast_group_entry
    assert entry.multicast_group_id == 1
    entry.replicas.reverse()
    assert decode_entry(message, schema) == group
    assert str(group) == (
        "multicast group 1: port 1 instance 1, port 2 instance 1, port 11 instance 1"
    )


def test_default_without_an_action_is_no_action(schema: fy.P4Schema) -> None:
    """A switch may answer an unset default without an action."""
    table_id = schema.tables["punt"].id
    message = p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id, is_default_action=True))
    assert decode_entry(message, schema) == DefaultEntry(
        table="punt", action=ActionCall("NoAction")
    )


def test_constant_entries_are_left_out(schema: fy.P4Schema) -> None:
    """Nobody can change them, so they are neither desired nor stray."""
    message = p4r.Entity(
        table_entry=p4r.TableEntry(table_id=schema.tables["punt"].id, is_const=True)
    )
    assert decode_entry(message, schema) is None


@pytest.mark.parametrize(
    "message",
    [
        p4r.Entity(),
        p4r.Entity(table_entry=p4r.TableEntry(table_id=0x02FFFFFF)),
        p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=1)),
        p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
    ],
    ids=["nothing", "unknown table", "counter", "no replication"],
)
def test_answers_that_make_no_sense_are_refused(message: p4r.Entity, schema: fy.P4Schema) -> None:
    """An answer that was not asked for is an error, not an entry."""
    with pytest.raises(CodecError):
        decode_entry(message, schema)


def test_everything_is_read_once(schema: fy.P4Schema) -> None:
    """The read requests cover every table, default, profile, group and session exactly once."""
    entities = [entity for request in read_requests(schema) for entity in request]
    tables = [
        e.table_entry.table_id
        for e in entities
        if e.HasField("table_entry") and not e.table_entry.is_default_action
    ]
    assert sorted(tables) == sorted(table.id for table in schema.tables)
    assert len({e.SerializeToString(deterministic=True) for e in entities}) == len(entities)
    assert sum(e.HasField("action_profile_group") for e in entities) == 1
    replication = [
        str(e.packet_replication_engine_entry.WhichOneof("type"))
        for e in entities
        if e.HasField("packet_replication_engine_entry")
    ]
    assert sorted(replication) == ["clone_session_entry", "multicast_group_entry"]
