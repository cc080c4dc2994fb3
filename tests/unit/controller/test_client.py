# SPDX-License-Identifier: Apache-2.0
"""Deployment against a server that misbehaves: clear errors, no half-applied state unnoticed."""

import asyncio
import json
import re
from dataclasses import replace

import pytest
from finsy.proto import p4r

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from controller import deployment, held_switch, session
from controller.client import Findings, compare, deploy, write_link_delays, write_routes
from controller.deploy_report import (
    difference_json,
    format_result,
    format_status,
    result_json,
)
from controller.desired import desired_entries
from controller.entries import (
    CloneSession,
    DefaultEntry,
    MulticastGroup,
)
from controller.fabric import Fabric, PtpRole
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import EthernetPtp
from controller.p4info_codec import decode_entry, encode_entry
from controller.pipeline import Pipeline, load_pipeline
from controller.plan_report import format_plan
from controller.rollout import PipelineChange
from controller.route_entries import held_ports
from controller.session import program_schema
from tests.support.fake_p4runtime import FakeSwitch, entity_key, serve_fake
from tests.support.grpc_loop import in_grpc_loop

SCHEMA = program_schema(load_pipeline())


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """The committed artefacts."""
    return load_pipeline()


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """One leaf with one host, and one spine: leaf1 alone is what most tests serve."""
    return leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])


def only(fabric: Fabric, name: str) -> Fabric:
    """The fabric with one switch; not a sound file, but enough to serve one switch."""
    return replace(
        fabric,
        switches=(fabric.switch(name),),
        links=tuple(link for link in fabric.links if link.b.node.startswith("h")),
    )


@in_grpc_loop
async def test_first_deployment_pushes_writes_and_reads_back(
    fabric: Fabric, pipeline: Pipeline
) -> None:
    """An empty switch gets pipeline and entries, and holds them afterwards."""
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    assert result.ok
    assert result.errors == ()
    (leaf,) = result.switches
    assert leaf.pipeline_pushed
    assert leaf.entries_read_back == leaf.entries_desired == len(switch.entities)
    assert leaf.entries_written == leaf.inserted + leaf.modified
    defaults = sum(isinstance(entry, DefaultEntry) for entry in desired_entries(fabric, "leaf1"))
    assert leaf.modified == defaults  # they exist from the start
    assert format_result(result).startswith("leaf1: pipeline pushed, ")
    assert result_json(result)["ok"] is True


@in_grpc_loop
async def test_second_deployment_changes_nothing(fabric: Fabric, pipeline: Pipeline) -> None:
    """Applying twice writes nothing and pushes nothing, as often as it is repeated."""
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
        before = dict(switch.entities)
        log_size = len(switch.log)
        for _ in range(3):
            result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
            assert result.ok
            assert result.entries_written == 0
    assert switch.entities == before
    assert switch.push_count == 1
    assert len(switch.log) == log_size


@in_grpc_loop
async def test_clone_sessions_go_before_a_push(fabric: Fabric, pipeline: Pipeline) -> None:
    """A pipeline of another cookie is replaced with leave only, its clone sessions before it."""
    config = program_schema(replace(pipeline, bmv2_json="{}")).get_pipeline_config()
    switch = FakeSwitch(config=config)
    old = encode_entry(CloneSession(session_id=7, replicas=((9, 0),)), SCHEMA)
    switch.entities[entity_key(old)] = old
    async with serve_fake(switch) as address:
        refused = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
        assert switch.log == []
        result = await deploy(
            only(fabric, "leaf1"),
            {"leaf1": address},
            pipeline,
            pipeline_change=PipelineChange(settle_s=0),
        )
    assert [str(error) for error in refused.errors] == [
        "leaf1: it runs another pipeline; --allow-pipeline-change replaces it"
    ]
    assert result.ok
    assert switch.log[:2] == ["delete packet_replication_engine_entry", "push"]


@in_grpc_loop
async def test_entries_are_inserted_before_what_refers_to_them(
    fabric: Fabric, pipeline: Pipeline
) -> None:
    """Members come first, then groups, tables and clone sessions, never two kinds in a request."""
    two_spines = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        await deploy(two_spines, {"leaf1": address}, pipeline)
    kinds = [line.split()[1] for line in switch.log if line.startswith("insert")]
    assert list(dict.fromkeys(kinds)) == [
        "action_profile_member",
        "action_profile_group",
        "table_entry",
        "packet_replication_engine_entry",
    ]
    assert kinds == sorted(kinds, key=list(dict.fromkeys(kinds)).index)


@in_grpc_loop
async def test_writes_are_chunked(
    fabric: Fabric, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request carries more updates than the limit."""
    monkeypatch.setattr(held_switch, "WRITE_SIZE_MAX", 3)
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    assert result.ok
    assert max(switch.write_sizes) == 3
    assert sum(switch.write_sizes) == result.entries_written


@in_grpc_loop
async def test_rejected_entry_is_named(fabric: Fabric, pipeline: Pipeline) -> None:
    """The error names switch, table and entry, the switch's reason and how many failed."""
    table_id = SCHEMA.tables["qos_class"].id

    def reject(update: p4r.Update) -> str | None:
        entry = update.entity.table_entry
        is_46 = entry.table_id == table_id and any(m.exact.value == b"\x2e" for m in entry.match)
        return "table full" if is_46 else None

    switch = FakeSwitch(reject=reject)
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    assert not result.ok
    assert result.switches == ()
    (error,) = result.errors
    assert str(error).startswith("leaf1: qos_class [dscp=46]: insert failed: RESOURCE_EXHAUSTED")
    assert "table full" in str(error)
    assert "(1 of " in str(error)
    assert format_result(result).splitlines()[0] == f"error: {error}"
    assert result_json(result)["errors"] == [str(error)]


@in_grpc_loop
async def test_error_without_details_names_the_request(fabric: Fabric, pipeline: Pipeline) -> None:
    """A server that does not say which update failed still gives switch and place."""
    switch = FakeSwitch(reject=lambda update: "no", plain_errors=True)
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    (error,) = result.errors
    assert str(error) == (
        "leaf1: ecmp_selector member 11: UNKNOWN: some updates failed "
        "(in a request of 2 updates that starts there); 0 of 51 updates were written before that "
        "request, apply writes what is missing"
    )


@in_grpc_loop
async def test_entry_that_does_not_stick_is_drift(fabric: Fabric, pipeline: Pipeline) -> None:
    """A switch that accepts an entry and does not hold it is found by reading back."""
    table_id = SCHEMA.tables["int_edge_ports"].id
    switch = FakeSwitch(
        forget=lambda update: (
            update.entity.table_entry.table_id == table_id
            and not update.entity.table_entry.is_default_action
        )
    )
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    assert not result.ok
    assert result.errors == ()
    assert [str(update) for update in result.switches[0].drift] == [
        "+ int_edge_ports [ingress_port=11]: set_int_source_edge()",
        "+ int_edge_ports [ingress_port=60]: set_int_source_edge()",
    ]
    assert "leaf1: still missing after the write: + int_edge_ports" in format_result(result)


@in_grpc_loop
async def test_another_primary_is_respected(fabric: Fabric, pipeline: Pipeline) -> None:
    """With another controller in charge nothing is written, and the error says so."""
    switch = FakeSwitch(primary_election_id=5_000)
    async with serve_fake(switch) as address:
        result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    (error,) = result.errors
    assert "another controller is primary (election id 5000, ours 1000)" in str(error)
    assert switch.log == []


@in_grpc_loop
async def test_unreachable_switch_does_not_stop_the_others(
    fabric: Fabric, pipeline: Pipeline
) -> None:
    """One switch that refuses the connection is an error; the other one is served."""
    switch = FakeSwitch()
    async with serve_fake(FakeSwitch()) as gone:
        pass
    async with serve_fake(switch) as address:
        result = await deploy(fabric, {"leaf1": address, "spine1": gone}, pipeline)
    assert [done.name for done in result.switches] == ["leaf1"]
    (error,) = result.errors
    assert str(error).startswith("spine1: UNAVAILABLE")
    assert "\n" not in str(error)


@in_grpc_loop
async def test_missing_address_is_an_error(fabric: Fabric, pipeline: Pipeline) -> None:
    """Neither file nor caller give an address: the error says what to set."""
    result = await deploy(only(fabric, "leaf1"), None, pipeline)
    (error,) = result.errors
    assert str(error) == "leaf1: no P4Runtime address; set p4runtime in the file"


@in_grpc_loop
async def test_silent_switch_is_given_up(
    fabric: Fabric, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A switch that accepts the connection and never answers ends in an error."""
    monkeypatch.setattr(deployment, "CONNECT_DEADLINE_S", 0.2)
    async with serve_fake(FakeSwitch(silent=True)) as address:
        async with asyncio.timeout(5):
            result = await deploy(only(fabric, "leaf1"), {"leaf1": address}, pipeline)
    (error,) = result.errors
    assert "did not answer within 0.2 s" in str(error)


@in_grpc_loop
async def test_plan_and_status_show_the_difference(fabric: Fabric, pipeline: Pipeline) -> None:
    """Both only look: before, after, and after somebody else changed an entry."""
    leaf = only(fabric, "leaf1")
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        before = await compare(leaf, {"leaf1": address}, pipeline)
        assert not before.in_sync
        assert "! push the pipeline" in format_plan(before, leaf)
        assert format_status(before) == "leaf1: no pipeline\n0 of 1 in sync"
        assert switch.log == []

        await deploy(leaf, {"leaf1": address}, pipeline)
        after = await compare(leaf, {"leaf1": address}, pipeline)
        assert after.in_sync
        assert format_plan(after, leaf) == (
            "0 to insert, 0 to modify, 0 to delete on 0 of 1 switches"
        )
        assert format_status(after).startswith("leaf1: in sync, ")

        stray = encode_entry(CloneSession(session_id=9, replicas=((1, 0),)), SCHEMA)
        switch.entities[entity_key(stray)] = stray
        moved = encode_entry(CloneSession(session_id=1, replicas=((2, 0),)), SCHEMA)
        switch.entities[entity_key(moved)] = moved
        drifted = await compare(leaf, {"leaf1": address}, pipeline)
    assert format_status(drifted).splitlines()[0] == ("leaf1: drift: 0 missing, 1 changed, 1 stray")
    plan = format_plan(drifted, fabric)
    assert "~ clone session 1: port 509 (recirculation port) instance 1, was port 2" in plan
    assert "- clone session 9: port 1 (spine1:1) instance 0" in plan
    (state,) = json.loads(json.dumps(difference_json(drifted)))["switches"]
    assert state["name"] == "leaf1"
    assert len(state["updates"]) == 2


@in_grpc_loop
async def test_strays_are_removed(fabric: Fabric, pipeline: Pipeline) -> None:
    """Entries that the fabric does not ask for go, and changed ones come back."""
    leaf = only(fabric, "leaf1")
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        await deploy(leaf, {"leaf1": address}, pipeline)
        wanted = dict(switch.entities)
        stray = encode_entry(CloneSession(session_id=9, replicas=((1, 0),)), SCHEMA)
        switch.entities[entity_key(stray)] = stray
        result = await deploy(leaf, {"leaf1": address}, pipeline)
    assert result.ok
    assert result.switches[0].deleted == 1
    assert switch.entities == wanted


@in_grpc_loop
async def test_link_delays_stay_unless_they_are_given(fabric: Fabric, pipeline: Pipeline) -> None:
    """A plain deployment leaves a correction's delays alone; one that has delays replaces them."""
    clock = replace(fabric.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK)
    leaf = only(replace(fabric, models=(clock, fabric.models[1])), "leaf1")
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        found = Findings(link_delays={"leaf1": {1: -7, 11: 65536}})
        first = await deploy(leaf, {"leaf1": address}, pipeline, findings=found)
        assert first.ok
        plain = await deploy(leaf, {"leaf1": address}, pipeline)
        assert (plain.ok, plain.entries_written) == (True, 0)
        assert (await compare(leaf, {"leaf1": address}, pipeline)).in_sync
        none = Findings(link_delays={})
        gone = await compare(leaf, {"leaf1": address}, pipeline, findings=none)
    assert format_plan(gone, fabric).splitlines()[1:4] == [
        "  ptp_link_delay: 2 to delete",
        "    - port 1 (spine1:1): set_link_delay(delay -0.000106812 ns)",
        "    - port 11 (h1:1): set_link_delay(delay 1 ns)",
    ]


@in_grpc_loop
async def test_link_delays_alone_are_written_quickly(fabric: Fabric, pipeline: Pipeline) -> None:
    """One table is read and written; whatever else the switch holds is not looked at."""
    clock = replace(fabric.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK)
    leaf = only(replace(fabric, models=(clock, fabric.models[1])), "leaf1")
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        addresses = {"leaf1": address}
        early = await write_link_delays(leaf, {}, addresses, pipeline)
        assert [str(error) for error in early.errors] == [
            "leaf1: it runs another pipeline; deploy first"
        ]
        await deploy(leaf, addresses, pipeline)
        stray = encode_entry(CloneSession(session_id=9, replicas=((1, 0),)), SCHEMA)
        switch.entities[entity_key(stray)] = stray
        for delays, count in [({1: 5, 11: -6}, 2), ({1: 5, 11: -6}, 0), ({11: 7}, 2), ({}, 1)]:
            written = await write_link_delays(leaf, {"leaf1": delays}, addresses, pipeline)
            assert (written.ok, written.written) == (True, {"leaf1": count})
        assert entity_key(stray) in switch.entities


@in_grpc_loop
async def test_second_failure_leaves_moved_flows_alone(pipeline: Pipeline) -> None:
    """Buckets that the first failure moved stay while their new port works; all come home."""
    fabric = leaf_spine(leaves=2, spines=4, hosts_per_leaf=1, tenants=["t"])
    first, second = "leaf1:1-spine1:1", "leaf1:2-spine2:1"
    switch = FakeSwitch()

    def ports() -> dict[int, int]:
        entries = [decode_entry(message, SCHEMA) for message in switch.entities.values()]
        return held_ports(entry for entry in entries if entry is not None)

    async with serve_fake(switch) as address:
        addresses = {"leaf1": address}
        await deploy(fabric, addresses, pipeline)
        home = ports()
        await write_routes(fabric, [first], addresses, pipeline)
        once = ports()
        await write_routes(fabric, [first, second], addresses, pipeline)
        twice = ports()
        findings = Findings(failed_links=[first, second])
        same = await deploy(fabric, addresses, pipeline, findings=findings)
        seen = await compare(fabric, addresses, pipeline, findings=findings)
        await write_routes(fabric, [], addresses, pipeline)
        assert ports() == home
    assert {m for m in home if once[m] != home[m]} == {m for m in home if home[m] == 1}
    assert {m for m in home if twice[m] != once[m]} == {m for m in home if once[m] == 2}
    assert {twice[m] for m in home if home[m] <= 4} == {3, 4}
    assert same.entries_written == 0
    assert seen.switches[0].in_sync


@in_grpc_loop
async def test_fabric_that_is_too_large_for_a_table_is_refused_whole(pipeline: Pipeline) -> None:
    """Nothing is written to a switch that could not hold all of it; plan says so too."""
    fabric = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
    opcodes = tuple(range(200))
    lists = tuple(
        replace(fabric.watchlists[0], name=f"w{n}", opcodes=opcodes, dest_qps=(1, 2, 3, 4, 5))
        for n in range(5)
    )
    large = replace(fabric, watchlists=lists)
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        result = await deploy(only(large, "leaf1"), {"leaf1": address}, pipeline)
        plan = await compare(only(large, "leaf1"), {"leaf1": address}, pipeline)
    expected = "leaf1: int_watchlist would need 5001 entries and has room for 4096"
    assert [str(error) for error in result.errors] == [expected]
    assert [str(error) for error in plan.errors] == [expected]
    assert switch.log == []


@in_grpc_loop
async def test_multicast_groups_are_written_read_back_and_removed(
    fabric: Fabric, pipeline: Pipeline
) -> None:
    """The group comes before the entry that names it, and strays of the kind are drift."""
    tree = replace(fabric, ptp=replace(fabric.ptp, ethernet=EthernetPtp.TREE))
    leaf = replace(only(fabric, "leaf1"), ptp=tree.ptp, links=tree.links)
    leaf = replace(leaf, switches=tree.switches)
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        result = await deploy(leaf, {"leaf1": address}, pipeline)
        (leaf1,) = result.switches
        assert leaf1.drift == ()
        stray = encode_entry(MulticastGroup(group_id=9, replicas=((1, 1), (2, 1))), SCHEMA)
        switch.entities[entity_key(stray)] = stray
        drifted = await compare(leaf, {"leaf1": address}, pipeline)
    plan = format_plan(drifted, fabric)
    assert "- multicast group 9: port 1 (spine1:1) instance 1, port 2" in plan
    kinds = [line for line in switch.log if line.startswith("insert")]
    assert kinds.index("insert packet_replication_engine_entry") < kinds.index("insert table_entry")


@pytest.mark.parametrize("dies_after", [0, 1, 4, 9])
@in_grpc_loop
async def test_interrupted_deployment_is_finished_by_the_next(
    dies_after: int, fabric: Fabric, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off after any number of writes it is an error, and applying again completes it."""
    monkeypatch.setattr(held_switch, "WRITE_SIZE_MAX", 3)
    leaf = only(fabric, "leaf1")
    switch = FakeSwitch(dies_after=dies_after)
    async with serve_fake(switch) as address:
        cut_off = await deploy(leaf, {"leaf1": address}, pipeline)
        (error,) = cut_off.errors
        assert str(error).startswith("leaf1: ")
        assert "UNAVAILABLE: Socket closed" in str(error)
        assert f"; {sum(switch.write_sizes)} of " in str(error)
        switch.dies_after = None
        finished = await deploy(leaf, {"leaf1": address}, pipeline)
    assert finished.ok
    assert finished.pipelines_pushed == 0
    untouched = FakeSwitch()
    async with serve_fake(untouched) as address:
        await deploy(leaf, {"leaf1": address}, pipeline)
    assert switch.entities == untouched.entities


@in_grpc_loop
async def test_one_bad_entry_in_a_thousand_is_found(pipeline: Pipeline) -> None:
    """A switch that rejects one route of 1,000 is an error that names this route."""
    hosts = leaf_spine(leaves=5, spines=1, hosts_per_leaf=200, tenants=["t"])
    bare = replace(hosts, switches=tuple(replace(s, prefixes=()) for s in hosts.switches))
    table_id = SCHEMA.tables["ipv4_lpm"].id

    def reject(update: p4r.Update) -> str | None:
        entry = update.entity.table_entry
        bad = entry.table_id == table_id and entry.match[0].lpm.value == bytes([10, 0, 4, 77])
        return "no room" if bad else None

    async with serve_fake(FakeSwitch(reject=reject)) as address:
        result = await deploy(bare, {"spine1": address}, pipeline)
    error = next(error for error in result.errors if error.switch == "spine1")
    assert error.where == "ipv4_lpm [dst_addr=10.0.4.77/32]"
    assert "(1 of 500 updates of this request failed)" in error.message


def test_session_error_is_one_line() -> None:
    """A message of several lines is joined."""
    error = session.SwitchError(switch="leaf1", message="a\n  b", where="punt [any]")
    assert str(error) == "leaf1: punt [any]: a b"


@in_grpc_loop
async def test_routes_are_read_back(pipeline: Pipeline) -> None:
    """A switch that accepts routes and drops them is an error, not a success."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
    switch = FakeSwitch()
    async with serve_fake(switch) as address:
        addresses = {"leaf1": address}
        await deploy(fabric, addresses, pipeline)
        uplink = next(link for link in fabric.links if link.a.node == "leaf1")
        switch.forget = lambda update: update.type == p4r.Update.MODIFY
        dropped = await write_routes(fabric, [uplink.name], addresses, pipeline)
        switch.forget = lambda update: False
        taken = await write_routes(fabric, [uplink.name], addresses, pipeline)
    said = [str(error) for error in dropped.errors if error.switch == "leaf1"]
    assert len(said) == 1
    assert re.match(r"leaf1: ecmp_selector .*: the switch does not hold what it took", said[0])
    assert [error for error in taken.errors if error.switch == "leaf1"] == []


@in_grpc_loop
async def test_unknown_device_id_says_which_keys(fabric: Fabric, pipeline: Pipeline) -> None:
    """A server that does not know the device: the error names the keys of the file to look at."""
    program = SwitchProgram.from_json(pipeline.bmv2_json)
    server = await serve([EmbeddedSwitch(program, device_id=77)])
    try:
        result = await deploy(fabric, {"leaf1": server.addresses[77]}, pipeline)
    finally:
        await server.stop()
    (error,) = [one for one in result.errors if one.switch == "leaf1"]
    assert "p4runtime and device_id must be those of this switch" in error.message
