# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig of the embedded switch."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from finsy.proto import p4i, p4r, rpc_code

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from tests.support.grpc_loop import in_grpc_loop
from tests.support.p4runtime_peer import (
    INSERT,
    MODIFY,
    Peer,
    Program,
    canonical,
    clone_session,
    exact,
    lpm,
    multicast,
    replica,
    ternary,
)
from tests.unit.bmv2_lab.switch.bmv2_json import send

SET = p4r.SetForwardingPipelineConfigRequest
GET = p4r.GetForwardingPipelineConfigRequest
CONTROL = Program.load("control")
KINDS = Program.load("kinds")
TO_1 = CONTROL.direct("to_port", b"\1")

Test = Callable[[EmbeddedSwitch, Peer], Awaitable[None]]


def served(test: Test) -> Callable[[], None]:
    """Decorator: a test that gets a switch without a pipeline, and a primary."""

    async def run() -> None:
        switch = EmbeddedSwitch(SwitchProgram.from_json(CONTROL.json))
        server = await serve([switch])
        try:
            async with Peer(server.addresses[1]) as peer:
                await peer.become_primary()
                await test(switch, peer)
        finally:
            await server.stop()

    wrapped = in_grpc_loop(run)
    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


async def config_of(peer: Peer, part: int = GET.ALL) -> p4r.ForwardingPipelineConfig:
    """The pipeline that a server reports."""
    request = GET(device_id=1, response_type=part)  # type: ignore[arg-type] # any int
    return (await peer.stub.GetForwardingPipelineConfig(request)).config


async def everything(peer: Peer) -> list[bytes]:
    """All entities of a pipeline, with counters and meters."""
    entry = p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())
    default = p4r.TableEntry(is_default_action=True, counter_data=p4r.CounterData())
    answer = await peer.read(
        p4r.Entity(table_entry=entry),
        p4r.Entity(table_entry=default),
        p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
        p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
        p4r.Entity(counter_entry=p4r.CounterEntry()),
        p4r.Entity(meter_entry=p4r.MeterEntry()),
        p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
        p4r.Entity(digest_entry=p4r.DigestEntry()),
        clone_session(0),
        multicast(0),
    )
    assert answer.code == rpc_code.OK, answer
    return canonical(answer.entities)


async def fill(peer: Peer) -> None:
    """One or more of each kind of entity of control.p4."""
    answer = await peer.write(
        (INSERT, CONTROL.entry("aged", exact(b"\1"), action=TO_1, idle_timeout_ns=10**12)),
        (
            INSERT,
            CONTROL.entry(
                "aged", exact(b"\2"), action=TO_1, counter_data=p4r.CounterData(byte_count=7)
            ),
        ),
        (
            INSERT,
            CONTROL.entry(
                "aged_ternary",
                ternary(b"\1", b"\1"),
                priority=4,
                action=CONTROL.direct("NoAction"),
                metadata=b"m",
            ),
        ),
        (INSERT, CONTROL.member("spread", 1, CONTROL.action("to_port", b"\1"))),
        (INSERT, CONTROL.member("spread", 2, CONTROL.action("to_port", b"\2"))),
        (INSERT, CONTROL.group("spread", 9, (1, 1), (2, 3), max_size=4)),
        (
            INSERT,
            CONTROL.entry(
                "routes", lpm(b"\x80\0", 8), action=p4r.TableAction(action_profile_group_id=9)
            ),
        ),
        (MODIFY, CONTROL.entry("keyless", is_default_action=True, action=TO_1)),
        (MODIFY, CONTROL.entry("initial", exact(b"\x70"), action=TO_1)),
        (INSERT, clone_session(5, replica(1))),
        (INSERT, multicast(6, replica(1), replica(2))),
        (
            MODIFY,
            CONTROL.counter("octets", index=p4r.Index(index=1), data=p4r.CounterData(byte_count=8)),
        ),
        (
            MODIFY,
            CONTROL.meter(
                "rate",
                index=p4r.Index(index=1),
                config=p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4),
            ),
        ),
        (INSERT, CONTROL.digest("pair_t", max_list_size=3)),
    )
    assert answer.code == rpc_code.OK, answer


@served
async def test_each_part_of_the_pipeline_comes_with_the_cookie(
    switch: EmbeddedSwitch, peer: Peer
) -> None:
    """Response types; a config without cookie has none; unknown types are refused."""
    assert (await peer.push(CONTROL.config(cookie=77))).code == rpc_code.OK
    whole = CONTROL.config(cookie=77)
    assert await config_of(peer) == whole
    assert await config_of(peer, GET.COOKIE_ONLY) == p4r.ForwardingPipelineConfig(
        cookie=whole.cookie
    )
    assert await config_of(peer, GET.P4INFO_AND_COOKIE) == p4r.ForwardingPipelineConfig(
        p4info=whole.p4info, cookie=whole.cookie
    )
    assert await config_of(peer, GET.DEVICE_CONFIG_AND_COOKIE) == p4r.ForwardingPipelineConfig(
        p4_device_config=whole.p4_device_config, cookie=whole.cookie
    )
    assert (await peer.push(CONTROL.config())).code == rpc_code.OK
    assert not (await config_of(peer)).HasField("cookie")


@served
async def test_actions_that_lack_something_are_refused(switch: EmbeddedSwitch, peer: Peer) -> None:
    """Codes of section 14; nothing runs afterwards."""
    wrong = [
        (None, SET.VERIFY, rpc_code.INVALID_ARGUMENT),
        (None, SET.VERIFY_AND_COMMIT, rpc_code.INVALID_ARGUMENT),
        (None, SET.RECONCILE_AND_COMMIT, rpc_code.INVALID_ARGUMENT),
        (None, SET.COMMIT, rpc_code.NOT_FOUND),
        (CONTROL.config(), SET.COMMIT, rpc_code.INVALID_ARGUMENT),
        (CONTROL.config(), SET.UNSPECIFIED, rpc_code.INVALID_ARGUMENT),
        (CONTROL.config(), 44, rpc_code.INVALID_ARGUMENT),
        (
            p4r.ForwardingPipelineConfig(p4info=KINDS.p4info, p4_device_config=CONTROL.json),
            SET.VERIFY_AND_COMMIT,
            rpc_code.INVALID_ARGUMENT,
        ),
    ]
    for config, action, code in wrong:
        assert (await peer.push(config, action)).code == code
    assert (await peer.read(CONTROL.entry("aged"))).code == rpc_code.FAILED_PRECONDITION
    assert (await peer.push(CONTROL.config(), SET.VERIFY)).code == rpc_code.OK
    assert (await peer.read(CONTROL.entry("aged"))).code == rpc_code.FAILED_PRECONDITION


@served
async def test_saved_pipeline_takes_writes_and_packets_follow_at_the_commit(
    switch: EmbeddedSwitch, peer: Peer
) -> None:
    """Reads and writes mean the saved pipeline; the running one forwards until COMMIT."""
    assert (await peer.push(CONTROL.config(1))).code == rpc_code.OK
    await peer.write((INSERT, CONTROL.entry("aged", exact(b"\1"), action=TO_1)))
    frame = bytes(5)
    assert (await peer.push(KINDS.config(2), SET.VERIFY_AND_SAVE)).code == rpc_code.OK
    assert (await config_of(peer, GET.COOKIE_ONLY)).cookie.cookie == 2
    assert send(switch, b"\1" + frame[1:])[0][0] == 1
    acl = KINDS.entry("acl", priority=1, action=KINDS.direct("metered", b"\5"))
    assert (await peer.write((INSERT, acl))).code == rpc_code.OK
    assert (await peer.write((INSERT, acl))).details == [rpc_code.ALREADY_EXISTS]
    gone = await peer.write((INSERT, CONTROL.entry("aged", exact(b"\2"), action=TO_1)))
    assert gone.details == [rpc_code.INVALID_ARGUMENT]
    assert send(switch, b"\1" + frame[1:])[0][0] == 1
    assert (await peer.push(None, SET.COMMIT)).code == rpc_code.OK
    assert (await peer.read(KINDS.entry("acl"))).entities == [acl]
    assert send(switch, frame)[0][0] == 5
    assert (await peer.push(None, SET.COMMIT)).code == rpc_code.NOT_FOUND


@served
async def test_commit_replays_every_kind_of_entity(switch: EmbeddedSwitch, peer: Peer) -> None:
    """What was written before COMMIT is there after it, a digest and an ageing entry included."""
    assert (await peer.push(CONTROL.config(), SET.VERIFY_AND_SAVE)).code == rpc_code.OK
    await fill(peer)
    before = await everything(peer)
    assert (await peer.push(None, SET.COMMIT)).code == rpc_code.OK
    assert await everything(peer) == before
    assert switch.state.tables["ControlIngress.keyless"].default[5:] == [1]


@served
async def test_saved_pipeline_is_replaced_by_the_next(switch: EmbeddedSwitch, peer: Peer) -> None:
    """Another VERIFY_AND_SAVE, or a push, forgets the one before."""
    assert (await peer.push(KINDS.config(), SET.VERIFY_AND_SAVE)).code == rpc_code.OK
    assert (await peer.push(CONTROL.config(), SET.VERIFY_AND_SAVE)).code == rpc_code.OK
    assert (await peer.read(CONTROL.entry("aged"))).code == rpc_code.OK
    assert (await peer.push(KINDS.config())).code == rpc_code.OK
    assert (await peer.push(None, SET.COMMIT)).code == rpc_code.NOT_FOUND


# Reconcile


def changed(
    change: Callable[[dict[str, Any], p4i.P4Info], None], cookie: int = 2
) -> p4r.ForwardingPipelineConfig:
    """control.p4 after some change to its JSON and P4Info."""
    document = json.loads(CONTROL.json)
    config = CONTROL.config(cookie)
    change(document, config.p4info)
    config.p4_device_config = json.dumps(document).encode()
    return config


def tables(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of a JSON by short name."""
    return {
        table["name"].rsplit(".")[-1]: table
        for pipeline in document["pipelines"]
        for table in pipeline["tables"]
    }


def table_info(info: p4i.P4Info, alias: str) -> p4i.Table:
    """A table of the P4Info."""
    return next(table for table in info.tables if table.preamble.alias == alias)


def larger(document: dict[str, Any], info: p4i.P4Info) -> None:
    """Another program with room for more entries."""
    tables(document)["aged"]["max_size"] = 500
    table_info(info, "aged").size = 500


@served
async def test_reconcile_keeps_every_entity(switch: EmbeddedSwitch, peer: Peer) -> None:
    """The new program runs with all entries, counters and registers of the old one."""
    assert (await peer.push(CONTROL.config(1))).code == rpc_code.OK
    await fill(peer)
    send(switch, b"\1\0\7\0\0")
    before = await everything(peer)
    registers = {name: list(values) for name, values in switch.state.registers.items()}
    assert registers["ControlIngress.kept"] == [0, 7, 0, 0]
    old = switch.program
    config = changed(larger)
    assert (await peer.push(config, SET.RECONCILE_AND_COMMIT)).code == rpc_code.OK
    assert switch.program is not old
    assert await everything(peer) == before
    assert switch.state.registers == registers
    assert await config_of(peer) == config
    assert switch.state.tables["ControlIngress.aged"].spec.max_size == 500


@served
async def test_reconcile_with_the_same_pipeline_changes_the_cookie_only(
    switch: EmbeddedSwitch, peer: Peer
) -> None:
    """Nothing is loaded anew; without a pipeline it is a push."""
    assert (await peer.push(CONTROL.config(1), SET.RECONCILE_AND_COMMIT)).code == rpc_code.OK
    await fill(peer)
    state = switch.state
    assert (await peer.push(CONTROL.config(9), SET.RECONCILE_AND_COMMIT)).code == rpc_code.OK
    assert switch.state is state
    assert (await config_of(peer, GET.COOKIE_ONLY)).cookie.cookie == 9


def smaller(document: dict[str, Any], info: p4i.P4Info) -> None:
    """A table that is too small for its entries."""
    tables(document)["aged"]["max_size"] = table_info(info, "aged").size = 1


def renamed(document: dict[str, Any], info: p4i.P4Info) -> None:
    """A table's id means another table."""
    first, second = table_info(info, "aged"), table_info(info, "initial")
    first.preamble.id, second.preamble.id = second.preamble.id, first.preamble.id


def without(document: dict[str, Any], info: p4i.P4Info) -> None:
    """P4Info without the table of an entry."""
    info.tables.remove(table_info(info, "aged_ternary"))


@pytest.mark.parametrize("change", [smaller, renamed, without])
def test_reconcile_that_would_lose_an_entry_changes_nothing(
    change: Callable[[dict[str, Any], p4i.P4Info], None],
) -> None:
    """INVALID_ARGUMENT; the old pipeline, its cookie and its entries stay."""

    @served
    async def test(switch: EmbeddedSwitch, peer: Peer) -> None:
        assert (await peer.push(CONTROL.config(1))).code == rpc_code.OK
        await fill(peer)
        before, program = await everything(peer), switch.program
        answer = await peer.push(changed(change), SET.RECONCILE_AND_COMMIT)
        assert answer.code == rpc_code.INVALID_ARGUMENT
        assert answer.text.startswith("an entry cannot be kept: ")
        assert switch.program is program
        assert await everything(peer) == before
        assert await config_of(peer) == CONTROL.config(1)

    test()


# P4Info that cannot be


def _negative_width(info: p4i.P4Info) -> None:
    info.tables[0].match_fields[0].bitwidth = -1


def _same_id(info: p4i.P4Info) -> None:
    info.tables[0].preamble.id = info.tables[1].preamble.id


def _zero_id(info: p4i.P4Info) -> None:
    info.counters[0].preamble.id = 0


def _counter_size(info: p4i.P4Info) -> None:
    info.counters[0].size = 1 << 60


def _meter_name(info: p4i.P4Info) -> None:
    info.meters[0].preamble.name = "nobody"


def _other_match(info: p4i.P4Info) -> None:
    info.tables[0].match_fields[0].match_type = p4i.MatchField.RANGE


def _profile(info: p4i.P4Info) -> None:
    table_info(info, "aged").implementation_id = CONTROL.id("spread")


def _unknown_profile(info: p4i.P4Info) -> None:
    table_info(info, "routes").implementation_id = 77


def _parameters(info: p4i.P4Info) -> None:
    next(a for a in info.actions if a.preamble.alias == "to_port").params.add(id=2, bitwidth=3)


def _half_a_byte(info: p4i.P4Info) -> None:
    info.controller_packet_metadata[0].metadata[0].bitwidth = 5


def _action_ref(info: p4i.P4Info) -> None:
    info.tables[0].action_refs[0].id = 12


def _idle_timeout(info: p4i.P4Info) -> None:
    table_info(info, "initial").idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL


@pytest.mark.parametrize(
    "damage",
    [
        _negative_width,
        _same_id,
        _zero_id,
        _counter_size,
        _meter_name,
        _other_match,
        _profile,
        _unknown_profile,
        _parameters,
        _half_a_byte,
        _action_ref,
        _idle_timeout,
    ],
)
def test_p4info_that_does_not_fit_the_program_is_refused(
    damage: Callable[[p4i.P4Info], None],
) -> None:
    """INVALID_ARGUMENT at the push, not an error at a later write."""

    @served
    async def test(_switch: EmbeddedSwitch, peer: Peer) -> None:
        config = CONTROL.config()
        damage(config.p4info)
        answer = await peer.push(config, SET.VERIFY)
        assert answer.code == rpc_code.INVALID_ARGUMENT
        assert answer.text

    test()


def test_table_that_is_never_applied_may_stand_in_p4info_only() -> None:
    """p4c drops a table behind a condition that never holds from the JSON only; nobody can write
    to it."""

    @served
    async def test(_switch: EmbeddedSwitch, peer: Peer) -> None:
        config = CONTROL.config()
        ghost = config.p4info.tables.add()
        ghost.CopyFrom(table_info(config.p4info, "aged"))
        ghost.preamble.id, ghost.preamble.name = 0x02ABCDEF, "C.ghost"
        assert (await peer.push(config)).code == rpc_code.OK
        entry = CONTROL.entry("aged", exact(b"\1"), action=TO_1)
        assert (await peer.write((INSERT, entry))).code == rpc_code.OK
        entry.table_entry.table_id = ghost.preamble.id
        assert (await peer.write((INSERT, entry))).details == [rpc_code.INVALID_ARGUMENT]

    test()


def test_p4info_of_another_program_is_refused() -> None:
    """Not one of its tables is in the JSON, and not one table of the JSON is in it."""

    @served
    async def test(_switch: EmbeddedSwitch, peer: Peer) -> None:
        config = CONTROL.config()
        for table in config.p4info.tables:
            table.preamble.name += "_of_another"
        answer = await peer.push(config)
        assert answer.code == rpc_code.INVALID_ARGUMENT
        assert "is not in the JSON" in answer.text

    test()


def test_key_without_a_width_has_the_width_of_the_json() -> None:
    """p4c gives a key of the type `error` no width; entries may be written all the same."""

    @served
    async def test(switch: EmbeddedSwitch, peer: Peer) -> None:
        config = CONTROL.config()
        table_info(config.p4info, "aged").match_fields[0].bitwidth = 0
        assert (await peer.push(config)).code == rpc_code.OK
        entry = CONTROL.entry("aged", exact(b"\1"), action=TO_1)
        assert (await peer.write((INSERT, entry))).code == rpc_code.OK
        assert send(switch, b"\1" + bytes(4)) == [(1, b"\1" + bytes(4))]
        wide = CONTROL.entry("aged", exact(b"\1\0\0\0\0"), action=TO_1)
        assert (await peer.write((INSERT, wide))).details == [rpc_code.OUT_OF_RANGE]

    test()
