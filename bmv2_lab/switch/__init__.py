# SPDX-License-Identifier: Apache-2.0
"""The embedded P4 switch: runs compiled BMv2 JSON, translated once into Python.

program = SwitchProgram.from_json(text)
switch = EmbeddedSwitch(program, device_id=1)
for copy in switch.ingress(frame, port=1, ingress_tstamp=stamp):
    ...  # the caller queues the copy, then:
    outputs = switch.egress(copy, enq_timestamp=..., egress_tstamp=..., ...)
"""

from bmv2_lab.switch.errors import ProgramError, StateError
from bmv2_lab.switch.packets import EgressCopy, Emitted, Output
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.translate import SwitchProgram

__all__ = [
    "EgressCopy",
    "EmbeddedSwitch",
    "Emitted",
    "Output",
    "ProgramError",
    "StateError",
    "SwitchProgram",
    "SwitchState",
]
