# SPDX-License-Identifier: Apache-2.0
"""Numbers of limited width are counted on where they wrap; profiles are named."""

import json
from importlib.resources import files

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.profiles import DEVIATION_DOCS, DIALECTS, STANDARD
from controller.telemetry.unwrap import unwrap

_WIDTHS = st.sampled_from([8, 18, 22, 32, 48, 62])


@given(_WIDTHS, st.integers(-(2**61), 2**61), st.data())
def test_unwrap_recovers_any_number_within_half_a_period(width_bits, near, data):
    """From its low bits and a guess that is off by less than half a period."""
    half = 2 ** (width_bits - 1)
    true = near + data.draw(st.integers(-half, half - 1))
    assert unwrap(true % 2**width_bits, width_bits, near) == true


@given(_WIDTHS, st.lists(st.tuples(st.integers(0, 2**62 - 1), st.integers(-(2**61), 2**61))))
def test_unwrap_of_arrays_is_unwrap_of_each_element(width_bits, pairs):
    """The vectorised form is the same function."""
    values = np.array([value % 2**width_bits for value, _near in pairs], dtype=np.int64)
    near = np.array([near for _value, near in pairs], dtype=np.int64)
    expected = [unwrap(int(v), width_bits, int(n)) for v, n in zip(values, near, strict=True)]
    assert unwrap(values, width_bits, near).tolist() == expected


def test_profiles_are_found_by_their_names():
    """fabric.yaml names them; the standard is among them."""
    assert DIALECTS["tempotrace-v2"] is STANDARD
    assert all(name == dialect.name for name, dialect in DIALECTS.items())


def test_the_schema_of_fabric_yaml_knows_every_dialect():
    """An editor that checks the file offers what the decoder has."""
    schema = json.loads(files("controller.schemas").joinpath("fabric.schema.json").read_text())
    (enum,) = (found["enum"] for found in _values_of(schema, "dialect") if isinstance(found, dict))
    assert enum == list(DIALECTS)


def _values_of(node, key):
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from _values_of(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _values_of(value, key)


def test_a_profile_is_told_by_what_it_changes():
    """Every deviation has a meaning; the standard has none."""
    assert STANDARD.deviations() == {}
    for dialect in DIALECTS.values():
        deviations = dialect.deviations()
        assert deviations.keys() <= DEVIATION_DOCS.keys()
        assert dialect is STANDARD or deviations
    assert all(DEVIATION_DOCS.values())
