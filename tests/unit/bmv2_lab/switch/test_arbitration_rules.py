# SPDX-License-Identifier: Apache-2.0
"""Primary and backup controllers (P4Runtime 1.3 section 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch import errors
from bmv2_lab.switch.arbitration import STREAM_LIMIT, Arbitration
from bmv2_lab.switch.errors import StateError


def codes(arbitration: Arbitration, stream: int, election_id: int | None) -> dict[int, int]:
    """Stream -> status code of what an announcement causes."""
    return {u.stream: u.code for u in arbitration.request(stream, "", election_id)}


def test_first_controller_is_primary_and_a_lower_id_is_backup() -> None:
    """A backup hears ALREADY_EXISTS, the primary nothing."""
    arbitration = Arbitration()
    assert codes(arbitration, 1, 10) == {1: errors.OK}
    assert codes(arbitration, 2, 5) == {2: errors.ALREADY_EXISTS}
    arbitration.check_write("", 10)
    with pytest.raises(StateError) as caught:
        arbitration.check_write("", 5)
    assert caught.value.code == errors.PERMISSION_DENIED


def test_higher_id_takes_over_and_everybody_hears_it() -> None:
    """The old primary becomes backup."""
    arbitration = Arbitration()
    codes(arbitration, 1, 10)
    assert codes(arbitration, 2, 11) == {1: errors.ALREADY_EXISTS, 2: errors.OK}


def test_backup_hears_that_the_primary_left_and_may_take_over() -> None:
    """NOT_FOUND with the highest id; only an id at least as high becomes primary."""
    arbitration = Arbitration()
    codes(arbitration, 1, 10)
    codes(arbitration, 2, 5)
    (update,) = arbitration.close(1)
    assert (update.stream, update.code, update.election_id) == (2, errors.NOT_FOUND, 10)
    assert codes(arbitration, 2, 9) == {2: errors.NOT_FOUND}
    assert codes(arbitration, 2, 10) == {2: errors.OK}


def test_used_id_and_too_many_streams_end_the_stream() -> None:
    """INVALID_ARGUMENT and RESOURCE_EXHAUSTED."""
    arbitration = Arbitration()
    codes(arbitration, 1, 10)
    with pytest.raises(StateError) as caught:
        codes(arbitration, 2, 10)
    assert caught.value.code == errors.INVALID_ARGUMENT
    for stream in range(2, STREAM_LIMIT + 1):
        codes(arbitration, stream, None)
    with pytest.raises(StateError) as caught:
        codes(arbitration, 99, None)
    assert caught.value.code == errors.RESOURCE_EXHAUSTED


def test_roles_are_independent() -> None:
    """Each role has its own primary."""
    arbitration = Arbitration()
    arbitration.request(1, "", 10)
    arbitration.request(2, "ptp", 3)
    arbitration.check_write("ptp", 3)
    arbitration.check_write("", 10)
    with pytest.raises(StateError):
        arbitration.check_write("ptp", 10)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=30))
def test_at_most_one_primary_and_it_has_the_highest_id(steps: list[tuple[int, int]]) -> None:
    """Whatever streams come (id > 0), change id or leave (0): a primary holds the top id."""
    arbitration = Arbitration()
    open_streams: dict[int, int] = {}
    highest = 0
    for stream, election_id in steps:
        if election_id == 0:
            arbitration.close(stream)
            open_streams.pop(stream, None)
            continue
        try:
            arbitration.request(stream, "", election_id)
        except StateError:
            arbitration.close(stream)
            open_streams.pop(stream, None)
            continue
        open_streams[stream] = election_id
        highest = max(highest, election_id)
        primaries = arbitration.primaries()
        assert len(primaries) <= 1
        for primary, _ in primaries:
            assert open_streams[primary] == highest
