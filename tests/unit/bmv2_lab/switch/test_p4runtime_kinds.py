# SPDX-License-Identifier: Apache-2.0
"""Every kind of entity over P4Runtime, each with its effect on packets (tests/data/switch)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import finsy as fy
import pytest
from finsy.proto import p4r

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.hashes import crc16
from bmv2_lab.switch.p4runtime import serve
from tests.unit.bmv2_lab.switch.bmv2_json import send

DATA = Path(__file__).parents[3] / "data" / "switch"
Scenario = Callable[[EmbeddedSwitch, fy.Switch], Awaitable[None]]


def run(scenario: Scenario) -> None:
    """A switch with the program of tests/data/switch, and a primary finsy client."""

    async def whole() -> None:
        program = SwitchProgram.from_json((DATA / "kinds.json").read_bytes())
        switch = EmbeddedSwitch(program, device_id=1)
        server = await serve([switch])
        options = fy.SwitchOptions(
            p4info=DATA / "kinds.p4info.txt", p4blob=DATA / "kinds.json", device_id=1
        )
        try:
            async with fy.Switch("s1", server.addresses[1], options) as client:
                await asyncio.wait_for(scenario(switch, client), 30)
        finally:
            await server.stop()

    asyncio.run(whole())


def acl(port: int, priority: int = 1, **match: object) -> fy.P4TableEntry:
    """An entry of the acl."""
    return fy.P4TableEntry(
        "acl",
        match=fy.P4TableMatch(**match) if match else None,
        action=fy.P4TableAction("metered", port=port),
        priority=priority,
    )


async def read_all(client: fy.Switch, wanted: object) -> list[object]:
    """All entities of a read."""
    return [entity async for entity in client.read([wanted])]


def ports(switch: EmbeddedSwitch, *frames: bytes, tstamp: int = 0) -> list[int]:
    """The port that each frame leaves by, -1 if it is dropped."""
    found = []
    for frame in frames:
        sent = send(switch, frame, port=5, tstamp=tstamp)
        found.append(sent[0][0] if sent else -1)
    return found


def test_optional_range_and_ternary_keys() -> None:
    """Left out fields match all; priorities decide; read back as written."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        entries = [
            acl(1, 1),
            acl(2, 2, a=7),
            acl(3, 3, b=(0x10, 0x1F)),
            acl(4, 4, a=7, c=(0x80, 0x80)),
        ]
        await client.insert(entries)
        frames = (b"\0\0\0\0", b"\7\0\0\0", b"\7\x1f\0\0", b"\7\x1f\x80\0", b"\0\x20\x80\0")
        assert ports(switch, *frames) == [1, 2, 3, 4, 1]
        back = await read_all(client, fy.P4TableEntry("acl"))
        schema = client.p4info
        assert sorted(e.encode(schema).SerializeToString() for e in back) == sorted(
            e.encode(schema).SerializeToString() for e in entries
        )

    run(scenario)


def test_action_profile_members_and_one_shot_sets() -> None:
    """A table with a profile follows its member; a one-shot set spreads by weight."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        to = fy.P4TableAction("to_port", port=9)
        await client.insert(
            [
                acl(1),
                fy.P4ActionProfileMember("next_hops", member_id=3, action=to),
                fy.P4TableEntry(
                    "profiled",
                    match=fy.P4TableMatch(d=1),
                    action=fy.P4IndirectAction(member_id=3),
                ),
                fy.P4TableEntry(
                    "selected",
                    match=fy.P4TableMatch(d=2),
                    action=fy.P4IndirectAction(
                        action_set=[
                            (1, fy.P4TableAction("to_port", port=30)),
                            (3, fy.P4TableAction("to_port", port=31)),
                        ]
                    ),
                ),
            ]
        )
        assert ports(switch, b"\0\0\0\1", b"\0\0\0\0") == [9, 1]
        spread = ports(switch, *(bytes([0, 0, flow, 2]) for flow in range(256)))
        cells = [30, 31, 31, 31]
        assert spread == [cells[crc16(bytes([flow])) % 4] for flow in range(256)]
        (entry,) = await read_all(client, fy.P4TableEntry("selected"))
        assert [weight for weight, _ in entry.action.action_set] == [1, 3]  # type: ignore[attr-defined]

    run(scenario)


def test_constant_table_is_read_but_not_written() -> None:
    """Entries of the program are marked constant; writes are PERMISSION_DENIED."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        await client.insert([acl(1)])
        assert ports(switch, b"\0\0\0\x77") == [77]
        (entry,) = await read_all(client, fy.P4TableEntry("fixed"))
        assert entry.is_const  # type: ignore[attr-defined]
        new = fy.P4TableEntry(
            "fixed", match=fy.P4TableMatch(d=1), action=fy.P4TableAction("to_port", port=1)
        )
        with pytest.raises(fy.P4ClientError) as caught:
            await client.insert([new])
        assert caught.value.details[0].canonical_code == fy.GRPCStatusCode.PERMISSION_DENIED

    run(scenario)


def test_counters_are_read_and_set() -> None:
    """Indirect and direct counters follow packets, and MODIFY sets them."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        await client.insert([acl(1)])
        ports(switch, b"\3\0\0\0", b"\3\0\0\0more", b"\4\0\0\0")
        found = await read_all(client, fy.P4CounterEntry("packets_seen"))
        counts = [(e.index, e.packet_count, e.byte_count) for e in found]  # type: ignore[attr-defined]
        assert counts[3:5] == [(3, 2, 12), (4, 1, 4)]
        (direct,) = await read_all(client, fy.P4DirectCounterEntry("acl_counter"))
        assert direct.packet_count == 3  # type: ignore[attr-defined]
        await client.modify(
            [fy.P4CounterEntry("packets_seen", index=3, data=fy.P4CounterData(packet_count=100))]
        )
        (one,) = await read_all(client, fy.P4CounterEntry("packets_seen", index=3))
        assert (one.packet_count, one.byte_count) == (100, 0)  # type: ignore[attr-defined]

    run(scenario)


def test_meters_colour_packets_in_the_time_of_their_stamps() -> None:
    """1 packet/s committed with a burst of 1, 2 packets/s peak with a burst of 2."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        config = fy.P4MeterConfig(cir=1, cburst=1, pir=2, pburst=2)
        await client.insert([acl(1)])
        await client.modify([fy.P4MeterEntry("rate", index=1, config=config)])

        def colour(tstamp: int) -> int:
            return send(switch, bytes([1, 0, 0, 0]), port=5, tstamp=tstamp)[0][1][2]

        assert [colour(10**9) for _ in range(3)] == [0, 1, 2]
        assert [colour(2 * 10**9) for _ in range(3)] == [0, 1, 2]
        (entry,) = await read_all(client, fy.P4MeterEntry("rate", index=1))
        assert entry.config == config  # type: ignore[attr-defined]

    run(scenario)


def test_direct_meter_belongs_to_its_entry() -> None:
    """The colour comes from the meter of the entry that was hit; other entries stay green."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        config = fy.P4MeterConfig(cir=1, cburst=4, pir=1, pburst=4)
        first, second = acl(1, 1), acl(1, 2, a=7)
        await client.insert([first, second])
        await client.modify([fy.P4DirectMeterEntry(table_entry=first, config=config)])
        frames = [send(switch, bytes([a, 0, 0, 0]), port=5)[0][1] for a in (0, 0, 7, 7)]
        assert [frame[3] for frame in frames] == [0, 2, 0, 0]

    run(scenario)


def test_value_set_changes_what_the_parser_takes() -> None:
    """The second header is parsed only for values in the set."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        number = client.p4info.value_sets["extended"].id
        update = p4r.Update(type=p4r.Update.MODIFY)
        update.entity.value_set_entry.value_set_id = number
        member = update.entity.value_set_entry.members.add()
        member.match.add(field_id=1).exact.value = b"\x09"
        await client.write([update])
        base = switch.program.layout.headers["i"].base
        await client.insert([acl(1)])
        for a, valid in ((9, 1), (8, 0)):
            (copy,) = switch.ingress(bytes([a, 0, 0, 0, 1]), 5, 0)
            assert copy.state[base] == valid

    run(scenario)


def test_digest_reaches_the_primary_controller() -> None:
    """The values of the list arrive with their names."""

    async def scenario(switch: EmbeddedSwitch, client: fy.Switch) -> None:
        await client.insert([fy.P4DigestEntry("seen_t")])
        digests = client.read_digests("seen_t")
        waiting = asyncio.ensure_future(anext(digests))
        await asyncio.sleep(0)
        ports(switch, b"\x42\xff\0\0")
        digest = await waiting
        assert list(digest.data) == [{"a": 0x42, "port": 5}]
        await digests.aclose()

    run(scenario)
