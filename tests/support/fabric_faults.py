# SPDX-License-Identifier: Apache-2.0
"""What tests ask of the errors of a fabric file."""

import re
from pathlib import Path

from controller.fabric import FabricError, FabricFault
from controller.fabric_file import load_fabric, parse_fabric

LINE = re.compile(r"\A[^\n]+:[0-9]+: [^\n]+: [^\n]+; expected [^\n]+\Z")
"""PATH:LINE: KEY: what is wrong; expected what."""


def faults_of(text: str) -> tuple[FabricFault, ...]:
    """The faults of a description, each of which is one line of the documented form; or none."""
    try:
        parse_fabric(text)
    except FabricError as error:
        return checked(error)
    return ()


def file_faults(path: Path) -> tuple[FabricFault, ...]:
    """The same for a file."""
    try:
        load_fabric(path)
    except FabricError as error:
        return checked(error)
    return ()


def checked(error: FabricError) -> tuple[FabricFault, ...]:
    """The faults of an error; AssertionError where one is not one line of the documented form."""
    assert error.faults
    assert str(error).split("\n") == [str(fault) for fault in error.faults]
    for fault in error.faults:
        assert LINE.match(str(fault)), str(fault)
    return error.faults


def fault_at(faults: tuple[FabricFault, ...], key: str) -> FabricFault:
    """The only fault of this key."""
    found = [fault for fault in faults if fault.key == key]
    assert len(found) == 1, "\n".join(map(str, faults))
    return found[0]
