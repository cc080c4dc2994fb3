# SPDX-License-Identifier: Apache-2.0
"""Whatever writes to switches refuses a fabric that treats marked packets otherwise."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from controller.client import deploy, write_link_delays, write_routes
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_qos import QosMaps
from controller.fabric_treatment import UnequalTreatmentError
from controller.keeper.events import Event
from controller.keeper.keeper import Keeper, KeeperOptions
from tests.support.fake_p4runtime import FakeSwitch, serve_fake
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import SCHEMA

ALIKE = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
UNEQUAL = replace(
    ALIKE,
    models=(replace(ALIKE.models[0], qos_maps=QosMaps(queues=(((26,), 3),))), ALIKE.models[1]),
)
SAYS = r"models\[0\]\.qos_maps\.queues: leaf1, spine1 would give marked packets another queue"


@pytest.mark.parametrize(
    "write",
    [
        deploy,
        lambda fabric, addresses: write_routes(fabric, [], addresses),
        lambda fabric, addresses: write_link_delays(fabric, {}, addresses),
    ],
    ids=["deploy", "routes", "link delays"],
)
def test_no_function_writes_it(
    write: Callable[[Fabric, dict[str, str]], Awaitable[Any]],
) -> None:
    """The error names key, switches and class, and no switch was asked for anything."""

    @in_grpc_loop
    async def whole() -> None:
        switch = FakeSwitch()
        async with serve_fake(switch) as address:
            addresses = dict.fromkeys(("leaf1", "spine1"), address)
            with pytest.raises(UnequalTreatmentError, match=SAYS):
                await write(UNEQUAL, addresses)
        assert switch.log == []
        assert switch.primary_election_id == 0

    whole()


def test_keeper_neither_begins_nor_goes_on_with_it() -> None:
    """A keeper cannot be made for such a fabric, and one at work keeps the description it has."""
    events: list[Event] = []
    with pytest.raises(UnequalTreatmentError, match=SAYS):
        Keeper(UNEQUAL, SCHEMA, KeeperOptions(), on_event=events.append)
    keeper = Keeper(ALIKE, SCHEMA, KeeperOptions(), on_event=events.append)
    with pytest.raises(UnequalTreatmentError, match=SAYS):
        keeper.replace_fabric(UNEQUAL)
    assert keeper.fabric is ALIKE
    assert events == []
