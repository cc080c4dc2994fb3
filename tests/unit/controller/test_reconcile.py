# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: the updates reach the desired state, in a safe order, and then there are none."""

from hypothesis import given
from hypothesis import strategies as st

from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Group,
    GroupRef,
    Lpm,
    Member,
    MemberRef,
    MulticastGroup,
    TableEntry,
    Ternary,
    canonical_match,
)
from controller.reconcile import Operation, Update, batches, reconcile


def member(port: int, mac: int = 1) -> Member:
    """A member that forwards to the port."""
    return Member(
        profile="ecmp", member_id=port, action=ActionCall.of("forward", port=port, dst_mac=mac)
    )


def group(group_id: int, *ports: int) -> Group:
    """A group of members with weight 1."""
    return Group(
        profile="ecmp", group_id=group_id, max_size=8, members=tuple((p, 1) for p in ports)
    )


def route(value: int, action: MemberRef | GroupRef) -> TableEntry:
    """A /32 route."""
    return TableEntry.of("ipv4_lpm", {"dst": Lpm(value, 32)}, action)


def entry_sets() -> st.SearchStrategy[list[Entry]]:
    """Entries of every kind with few keys, so that two sets overlap."""
    entries: st.SearchStrategy[Entry] = st.one_of(
        st.builds(member, st.integers(1, 4), st.integers(1, 2)),
        st.builds(group, st.integers(1, 3), st.integers(1, 4)),
        st.builds(
            route,
            st.integers(1, 4),
            st.one_of(st.builds(MemberRef, st.integers(1, 4)), st.builds(GroupRef, st.just(1))),
        ),
        st.builds(
            lambda table, value: DefaultEntry(
                table=table, action=ActionCall.of("set", value=value)
            ),
            st.sampled_from(["a", "b"]),
            st.integers(0, 1),
        ),
        st.builds(
            lambda session, port: CloneSession(session_id=session, replicas=((port, 0),)),
            st.integers(1, 3),
            st.integers(1, 2),
        ),
        st.builds(
            lambda group_id, port: MulticastGroup(group_id=group_id, replicas=((port, 1),)),
            st.integers(1, 3),
            st.integers(1, 2),
        ),
    )
    return st.lists(entries, max_size=12, unique_by=lambda entry: entry.key)


def applied(actual: list[Entry], updates: list[Update]) -> list[Entry]:
    """What a switch holds after the updates; refuses what a switch would refuse."""
    state = {entry.key: entry for entry in actual}
    for update in updates:
        key = update.entry.key
        if update.operation is Operation.INSERT:
            assert key not in state
        elif not isinstance(update.entry, DefaultEntry):
            assert key in state
        if update.operation is Operation.DELETE:
            del state[key]
        else:
            state[key] = update.entry
    return list(state.values())


@given(desired=entry_sets(), actual=entry_sets())
def test_updates_reach_the_desired_state(desired: list[Entry], actual: list[Entry]) -> None:
    """After the updates nothing is left to do, and nothing but defaults is left over."""
    after = applied(actual, reconcile(desired, actual))
    assert reconcile(desired, after) == []
    assert {e for e in after if not isinstance(e, DefaultEntry)} == {
        e for e in desired if not isinstance(e, DefaultEntry)
    }


@given(entries=entry_sets())
def test_equal_states_need_nothing(entries: list[Entry]) -> None:
    """Applying twice changes nothing, whatever the order of the entries."""
    assert reconcile(entries, list(reversed(entries))) == []


@given(desired=entry_sets(), actual=entry_sets(), size_max=st.integers(1, 4))
def test_batches_keep_order_and_bounds(
    desired: list[Entry], actual: list[Entry], size_max: int
) -> None:
    """Batches are bounded, hold one phase each, and together are the updates in order."""
    updates = reconcile(desired, actual)
    parts = list(batches(updates, size_max=size_max))
    assert [update for part in parts for update in part] == updates
    for part in parts:
        assert 1 <= len(part) <= size_max
        assert len({update.phase for update in part}) == 1


def test_insertion_order_follows_references() -> None:
    """Members, then groups of both kinds, then tables, then clone sessions."""
    desired: list[Entry] = [
        MulticastGroup(group_id=1, replicas=((1, 1),)),
        CloneSession(session_id=1, replicas=((60, 0),)),
        route(1, GroupRef(1)),
        group(1, 1, 2),
        member(2),
        member(1),
    ]
    kinds = [type(update.entry).__name__ for update in reconcile(desired, [])]
    assert kinds == [
        "Member",
        "Member",
        "Group",
        "MulticastGroup",
        "TableEntry",
        "CloneSession",
    ]


def test_deletion_order_is_the_reverse() -> None:
    """What refers to others goes before them."""
    actual: list[Entry] = [member(1), group(1, 1), route(1, GroupRef(1))]
    kinds = [type(update.entry).__name__ for update in reconcile([], actual)]
    assert kinds == ["TableEntry", "Group", "Member"]


def test_make_before_break() -> None:
    """A route moves to a new group after that is there and before the old one goes."""
    before: list[Entry] = [member(1), group(1, 1), route(1, GroupRef(1))]
    after: list[Entry] = [member(2), group(2, 2), route(1, GroupRef(2))]
    steps = [(u.operation, type(u.entry).__name__) for u in reconcile(after, before)]
    assert steps == [
        (Operation.INSERT, "Member"),
        (Operation.INSERT, "Group"),
        (Operation.MODIFY, "TableEntry"),
        (Operation.DELETE, "Group"),
        (Operation.DELETE, "Member"),
    ]


def test_priority_is_part_of_the_key() -> None:
    """The same match at another priority is another entry."""
    match = {"dst": Ternary(5, 0xFF)}
    low = TableEntry.of("watch", match, ActionCall("trace"), priority=1)
    high = TableEntry.of("watch", match, ActionCall("trace"), priority=2)
    assert [u.operation for u in reconcile([high], [low])] == [Operation.INSERT, Operation.DELETE]


def test_default_is_only_ever_modified() -> None:
    """A default that the switch does not show is written; one that nobody wants stays."""
    entry = DefaultEntry(table="qos", action=ActionCall.of("set_queue", queue_id=1))
    assert [u.operation for u in reconcile([entry], [])] == [Operation.MODIFY]
    assert reconcile([], [entry]) == []


def test_match_has_one_form() -> None:
    """Fields in order, bits outside the mask cleared, what matches everything left out."""
    assert canonical_match({"b": Ternary(0x1FF, 0xFF), "a": 3, "c": Lpm(0, 0)}) == canonical_match(
        {"a": 3, "b": Ternary(0xFF, 0xFF), "d": Ternary(1, 0)}
    )


def test_update_reads_well() -> None:
    """A plan line shows place, new action and old one."""
    before = TableEntry.of(
        "ipv4_lpm", {"dst_addr": Lpm(0x0A000000, 8)}, ActionCall.of("forward", dst_mac=1)
    )
    after = TableEntry.of("ipv4_lpm", {"dst_addr": Lpm(0x0A000000, 8)}, MemberRef(3))
    (update,) = reconcile([after], [before])
    assert str(update) == (
        "~ ipv4_lpm [dst_addr=10.0.0.0/8]: member 3  (was forward(dst_mac=00:00:00:00:00:01))"
    )


def test_strays_make_room_where_both_would_not_fit() -> None:
    """One entry too many for the table: one stray leaves before the new ones, the other after."""
    keep = [route(1, MemberRef(1)), member(1)]
    old = [route(n, MemberRef(1)) for n in (2, 3)]
    new = [route(n, MemberRef(1)) for n in (4, 5)]
    updates = reconcile([*keep, *new], [*keep, *old], {"ipv4_lpm": 4})
    assert [str(update)[0] for update in updates] == ["-", "+", "+", "-"]
    assert [len(batch) for batch in batches(updates, size_max=10)] == [1, 2, 1]
    roomy = reconcile([*keep, *new], [*keep, *old], {"ipv4_lpm": 5})
    assert [str(update)[0] for update in roomy] == ["+", "+", "-", "-"]


@given(
    st.sets(st.integers(1, 12), max_size=8),
    st.sets(st.integers(1, 12), max_size=8),
    st.integers(0, 4),
)
def test_no_table_ever_holds_more_than_it_has_room_for(
    desired: set[int], actual: set[int], spare: int
) -> None:
    """Whatever old and new entries are, every step fits, and no entry goes early without need."""
    size = max(len(desired), len(actual)) + spare
    old = [member(1), *(route(n, MemberRef(1)) for n in actual)]
    new = [member(1), *(route(n, MemberRef(1)) for n in desired)]
    updates = reconcile(new, old, {"ipv4_lpm": size})
    held = len(actual)
    for update in updates:
        held += {Operation.INSERT: 1, Operation.DELETE: -1, Operation.MODIFY: 0}[update.operation]
        assert held <= size
    assert held == len(desired)
    early = sum(update.early for update in updates)
    assert early == max(0, len(actual | desired) - size)
