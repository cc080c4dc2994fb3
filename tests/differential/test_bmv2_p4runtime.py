# SPDX-License-Identifier: Apache-2.0
"""BMv2's P4Runtime server and the embedded switch's answer the same requests."""

from collections.abc import Callable, Iterator

import pytest

from bmv2_lab.switch import EmbeddedSwitch, SwitchProgram
from bmv2_lab.switch.p4runtime import serve
from tests.integration.test_p4runtime_answers import GROUPS
from tests.support.bmv2_switch import Bmv2Switch
from tests.support.grpc_loop import in_grpc_loop
from tests.support.p4runtime_peer import Case, Peer, Program, canonical, outcome


@pytest.fixture(scope="module")
def bmv2(bmv2_mirror: object) -> Iterator[Bmv2Switch]:
    """One BMv2 for all tests of the module; each pushes its own pipeline."""
    del bmv2_mirror  # skips where there is no BMv2
    switch = Bmv2Switch(1, primary=False)
    yield switch
    switch.close()


@pytest.mark.parametrize(("program", "cases"), GROUPS)
@in_grpc_loop
async def test_answers_differ_only_where_the_cases_say_so(
    bmv2: Bmv2Switch, program: str, cases: Callable[[Program], list[Case]]
) -> None:
    """Codes per update and entities read are BMv2's, apart from listed exceptions."""
    pushed = Program.load(program)
    server = await serve([EmbeddedSwitch(SwitchProgram.from_json(pushed.json))])
    wrong = []
    async with Peer(server.addresses[1]) as ours, Peer(bmv2.address) as theirs:
        for peer in (ours, theirs):
            await peer.become_primary()
            assert (await peer.push(pushed.config())).code == 0
        for case in cases(pushed):
            _, mine = await outcome(ours, case)
            codes, entities = await outcome(theirs, case)
            if codes != case.bmv2_codes:
                wrong.append(f"{case.name}: BMv2 answers {codes}")
            if (canonical(mine) == canonical(entities)) != case.alike:
                wrong.append(f"{case.name}: {mine} where BMv2 has {entities}")
    await server.stop()
    assert wrong == []
