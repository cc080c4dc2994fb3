# SPDX-License-Identifier: Apache-2.0
"""What the embedded switch's P4Runtime server answers to several hundred requests."""

import asyncio
from collections.abc import Callable

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from tests.support import p4runtime_other_cases as other
from tests.support import p4runtime_table_cases as table
from tests.support.p4runtime_peer import Case, Peer, Program, outcome

GROUPS = [
    ("control", table.entries),
    ("control", table.profiles),
    ("control", other.replication),
    ("control", other.arrays),
    ("control", other.digests),
    ("kinds", other.kinds),
]


@pytest.mark.parametrize(("program", "cases"), GROUPS)
def test_each_request_gets_its_canonical_codes(
    program: str, cases: Callable[[Program], list[Case]]
) -> None:
    """Batches: a code per update; reads: a code, behind the entities that were found."""

    async def whole() -> list[str]:
        pushed = Program.load(program)
        switch = EmbeddedSwitch(SwitchProgram.from_json(pushed.json))
        server = await serve([switch])
        wrong = []
        async with Peer(server.addresses[1]) as peer:
            await peer.become_primary()
            assert (await peer.push(pushed.config())).code == 0
            for case in cases(pushed):
                codes, entities = await outcome(peer, case)
                if codes != case.codes or len(entities) != case.count:
                    wrong.append(f"{case.name}: {codes}, {len(entities)} entities")
        await server.stop()
        return wrong

    assert asyncio.run(whole()) == []
