# SPDX-License-Identifier: Apache-2.0
"""The packages import, and the record types have the layout that the stages agree on."""

import importlib

import pytest

from correction.records import EXCHANGE_DTYPE, HOP_DTYPE, NO_TSTAMP_NS, PACKET_DTYPE


@pytest.mark.parametrize(
    "name", ["tempotrace", "bmv2_lab", "controller", "tracing_core", "correction", "p4src"]
)
def test_package_imports(name: str) -> None:
    """Each flat package is importable and says in its docstring what it holds."""
    assert importlib.import_module(name).__doc__


def test_every_tstamp_field_is_int64_and_names_its_clock() -> None:
    """Stamps are int64 nanoseconds, and the field says on which clock they were read."""
    for dtype in (PACKET_DTYPE, HOP_DTYPE, EXCHANGE_DTYPE):
        for name in dtype.names or ():
            if name.endswith("_ns"):
                assert dtype[name].kind == "i"
                assert dtype[name].itemsize == 8
    assert NO_TSTAMP_NS < 0
