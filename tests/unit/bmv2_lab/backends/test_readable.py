# SPDX-License-Identifier: Apache-2.0
"""Waiting for descriptors, of small and of large number."""

import fcntl
import os
import resource

import pytest

from bmv2_lab.backends.readable import SELECT_FD_MAX, readable


@pytest.mark.parametrize("is_large", [False, True])
def test_what_can_be_read_is_told_in_the_order_asked(is_large: bool) -> None:
    """Of two pipes the one that was written to, whatever their numbers; none at a timeout."""
    if is_large and resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= SELECT_FD_MAX + 10:
        pytest.skip("this machine allows no descriptors that select does not take")
    opened: list[int] = []
    try:
        ends = []
        for _ in range(2):
            pair = list(os.pipe())
            opened += pair
            if is_large:
                pair = [fcntl.fcntl(fd, fcntl.F_DUPFD, SELECT_FD_MAX + 1) for fd in pair]
                opened += pair
            ends.append(pair)
        (quiet, _), (told, writes) = ends
        assert not is_large or told > SELECT_FD_MAX
        assert readable([quiet, told], 0.0) == []
        os.write(writes, b"x")
        assert readable([quiet, told], None) == [told]
        assert readable([told], 0.0) == [told]
    finally:
        for fd in opened:
            os.close(fd)
