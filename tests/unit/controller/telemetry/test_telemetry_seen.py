# SPDX-License-Identifier: Apache-2.0
"""What has arrived before is recognised by content, in bounded memory."""

from controller.telemetry.seen import SeenReports


def test_a_content_repeats_from_its_second_time_on():
    """Whatever came in between."""
    seen = SeenReports()
    contents = [bytes((k, k + 1)) for k in range(100)]
    assert not any(seen.repeats(content) for content in contents)
    assert all(seen.repeats(content) for content in contents * 2)


def test_at_least_the_declared_number_is_remembered_and_at_most_twice_that():
    """The oldest are forgotten, the newest never."""
    seen = SeenReports(remembered=10)
    for k in range(95):
        assert not seen.repeats(bytes((k,)))
        assert len(seen) <= 20
    assert all(seen.repeats(bytes((k,))) for k in range(85, 95))
    assert not seen.repeats(bytes((0,)))
