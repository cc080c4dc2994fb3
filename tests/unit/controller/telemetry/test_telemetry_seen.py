# SPDX-License-Identifier: Apache-2.0
"""What has arrived before is recognised by content, in bounded memory."""

from controller.telemetry.seen import SeenReports, Sight


def _content(k, number=b"\x20\0\0\1"):
    return number + bytes((k, k + 1))


def test_a_content_repeats_from_its_second_time_on():
    """Whatever came in between."""
    seen = SeenReports()
    contents = [_content(k) for k in range(100)]
    assert {seen.look(content) for content in contents} == {Sight.NEW}
    assert {seen.look(content) for content in contents * 2} == {Sight.REPEATED}


def test_what_differs_in_its_number_alone_is_a_replica():
    """And the first one's number stays the one that repeats."""
    seen = SeenReports()
    sights = [seen.look(_content(5, bytes((0x20, 0, 0, k)))) for k in (1, 2, 1, 2)]
    assert sights == [Sight.NEW, Sight.REPLICA, Sight.REPEATED, Sight.REPLICA]


def test_the_number_stands_elsewhere_in_older_reports():
    """Second word in v0.5, third in v1.0: a difference there alone is a replica."""
    for version, start in ((0, 4), (1, 8)):
        seen = SeenReports()
        first = bytes((version << 4,)) + bytes(range(1, 30))
        second = first[:start] + b"abcd" + first[start + 4 :]
        assert [seen.look(c) for c in (first, second)] == [Sight.NEW, Sight.REPLICA]


def test_at_least_the_declared_number_is_remembered_and_at_most_twice_that():
    """The oldest are forgotten, the newest never."""
    seen = SeenReports(remembered=10)
    for k in range(95):
        assert seen.look(_content(k)) is Sight.NEW
        assert len(seen) <= 20
    assert {seen.look(_content(k)) for k in range(85, 95)} == {Sight.REPEATED}
    assert seen.look(_content(0)) is Sight.NEW
