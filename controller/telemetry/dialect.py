# SPDX-License-Identifier: Apache-2.0
"""How a sender's reports deviate from the standard.

Public emitters differ in layout, counting and units; a decoder that guesses is wrong silently.
So every device model names one profile of this table, and its stamp unit and width are declared
in fabric.yaml: there is no default unit (INT v2.1 leaves units to the device).
"""

from dataclasses import dataclass

SEQUENCE_BITS = 22
"""Width of the report sequence number (TR 3.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A named profile of report and stack encoding; the defaults are the standard's."""

    name: str
    doc: str
    report_version: int = 2
    """First nibble of the report."""
    hw_id_shift: int = 0
    """hw_id's true width is smaller by this; the sequence number's spare high bits are 0."""
    sequence_constant: bool = False
    """The sender never advances the sequence number: loss does not show."""
    shim_length_counts_shim: bool = False
    """The shim's length includes its own word, as in INT v1.x."""


_PROFILES = (
    Dialect(name="tempotrace-v2", doc="Telemetry Report v2.0 and INT-MD v2.1 as specified"),
    Dialect(
        name="intel-switch-p4-16",
        doc="hw_id of 4 bits, sequence of 24 bits that wraps at 2^22",
        hw_id_shift=2,
    ),
)
DIALECTS = {profile.name: profile for profile in _PROFILES}
"""All profiles by name; the first is the standard."""
STANDARD = _PROFILES[0]
