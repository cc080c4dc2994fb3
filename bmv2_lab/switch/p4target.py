# SPDX-License-Identifier: Apache-2.0
"""A pipeline with everything that controllers wrote into it: what reads and writes work on."""

from dataclasses import dataclass

from finsy.proto import p4r

from bmv2_lab.switch.digests import DigestLists
from bmv2_lab.switch.idle_timeouts import IdleTimeouts
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.switch import EmbeddedSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The running pipeline, or one that was saved to be committed later.

    A saved one has a switch of its own, through which no packet goes.
    """

    config: p4r.ForwardingPipelineConfig
    info: PipelineInfo
    switch: EmbeddedSwitch
    digests: DigestLists
    ages: IdleTimeouts

    @property
    def state(self) -> SwitchState:
        return self.switch.state

    def close(self) -> None:
        """Stop what waits for time to pass."""
        self.digests.close()
        self.ages.close()
