# SPDX-License-Identifier: Apache-2.0
"""Which member of a group BMv2 takes: weights, order of creation, changes while running."""

import pytest

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.state import lpm_match
from bmv2_lab.switch.tables import Entry
from tests.p4.frames import roce
from tests.p4.harness import Node
from tests.p4.wire import ip
from tests.support.bmv2_mirror import Mirror

FLOWS = 40
GROUP = 900


def profile_of(switch: EmbeddedSwitch) -> Profile:
    """The only action profile."""
    (profile,) = switch.state.profiles.values()
    return profile


def node_with_members(*ports: int) -> Node:
    """Members 101, 102, ... in the order of the ports, not yet in a group."""
    node = Node(1)
    for number, port in enumerate(ports, start=101):
        node._add_member(number, "forward", port, 0x020000000000 | port)
    return node


def add_group(node: Node, rows: list[tuple[int, int]]) -> None:
    """A group of (member, weight) rows, and a route to it."""
    profile = profile_of(node.switch)
    profile.add_group(GROUP, 64, [(member, weight, 0) for member, weight in rows])
    profile.use(member_id=None, group_id=GROUP, change=1)
    cells = profile.groups[GROUP].cells
    match = (lpm_match(ip("10.0.9.0"), 24, 32),)
    entry = Entry(match=match, priority=0, cell=node.state.indirect_cell(cells))
    node.state.table(node.names["ipv4_lpm"]).insert(entry)


def compare_flows(mirror: Mirror, node: Node) -> None:
    """Each flow takes the same port on both."""
    for number in range(FLOWS):
        mirror.compare(node.switch, roce(dst="10.0.9.1", sport=0xC000 + number), 2)


@pytest.mark.parametrize(
    "rows",
    [
        [(101, 1), (102, 1), (103, 1)],
        [(103, 1), (101, 1), (102, 1)],
        [(101, 2), (102, 1)],
        [(101, 1), (102, 3), (103, 2)],
        [(103, 5), (102, 1)],
    ],
    ids=str,
)
def test_group_is_walked_alike(bmv2_mirror: Mirror, rows: list[tuple[int, int]]) -> None:
    """Hash modulo total weight picks the same member, whatever the order of the rows."""
    node = node_with_members(1, 2, 3)
    add_group(node, rows)
    compare_flows(bmv2_mirror, node)


def test_changes_of_members_and_groups_move_the_same_flows(bmv2_mirror: Mirror) -> None:
    """A member rewritten in place, weights changed, a member taken out and another one made."""
    node = node_with_members(1, 2, 3)
    add_group(node, [(101, 1), (102, 1), (103, 1)])
    compare_flows(bmv2_mirror, node)
    profile = profile_of(node.switch)
    cell = node.state.cell(node._member_action("forward"), [4, 0x020000000004])
    profile.modify_member(102, cell)
    compare_flows(bmv2_mirror, node)
    profile.modify_group(GROUP, [(101, 1, 0), (103, 1, 0)])
    compare_flows(bmv2_mirror, node)
    profile.delete_member(102)
    compare_flows(bmv2_mirror, node)
    node._add_member(104, "forward", 7, 0x020000000007)
    profile.modify_group(GROUP, [(101, 1, 0), (103, 1, 0), (104, 1, 0)])
    compare_flows(bmv2_mirror, node)
    profile.modify_group(GROUP, [(101, 2, 0), (103, 1, 0), (104, 3, 0)])
    compare_flows(bmv2_mirror, node)
    profile.modify_group(GROUP, [(101, 1, 0), (104, 2, 0)])
    compare_flows(bmv2_mirror, node)
