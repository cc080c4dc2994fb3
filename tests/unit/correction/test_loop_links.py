# SPDX-License-Identifier: Apache-2.0
"""Which links lie in loops."""

import numpy as np

from correction.identifiability import loop_links


def test_access_links_lie_in_no_loop() -> None:
    """Stripping dead ends leaves exactly the links between leaves and spines."""
    fabric = [(4 + leaf, 8 + spine) for leaf in range(4) for spine in range(2)]
    access = [(host, 4 + host) for host in range(4)]
    ends = np.array(fabric + access)
    found = loop_links(ends, np.ones(len(ends), np.bool_), 10)
    assert found.tolist() == [True] * 8 + [False] * 4
