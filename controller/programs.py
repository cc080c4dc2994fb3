# SPDX-License-Identifier: Apache-2.0
"""Which compiled program each switch of a fabric runs: names, ids, sizes and device config.

The program is one, compiled for several targets (`targets.py`). Names and ids of the contract are
the same on all of them (docs/p4.md), so entries are; table sizes, device config and with it the
pipeline's cookie are not.
"""

from collections.abc import Iterable, Mapping

import finsy as fy
from finsy import pbutil
from finsy.proto import p4i

from controller.fabric import DeviceModel, Fabric, Switch
from controller.p4info_codec import table_sizes
from controller.pipeline import Pipeline, load_pipeline
from controller.pipeline_tna import TNA_TARGETS, load_tna
from controller.targets import BMV2, DeviceConfigFormat
from controller.tofino_config import device_config

Sizes = Mapping[str, Mapping[str, int]]
"""Entries that each table has room for, by the name of a device model."""


def program_schema(pipeline: Pipeline) -> fy.P4Schema:
    """Names, ids and widths of the BMv2 pipeline; its cookie is a hash of all of it."""
    return _schema(pipeline.p4info, pipeline.bmv2_json.encode())


class Programs:
    """The program as compiled for each target; those of Tofinos are loaded where there are any."""

    def __init__(self, bmv2: fy.P4Schema) -> None:
        self._loaded: dict[tuple[str, DeviceConfigFormat | None], fy.P4Schema] = {
            (BMV2.name, None): bmv2
        }

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline | None) -> "Programs":
        """With this BMv2 pipeline; None: the one that comes with the product."""
        return cls(program_schema(pipeline or load_pipeline()))

    def of_model(self, model: DeviceModel) -> fy.P4Schema:
        """What switches of the model run. PipelineError where its artefacts cannot be used."""
        tna = TNA_TARGETS.get(model.target)
        key = (model.target, None if tna is None else model.device_config)
        if key not in self._loaded:
            assert tna is not None, f"no program for {model.target}"
            pipeline = load_tna(tna)
            self._loaded[key] = _schema(
                pipeline.p4info, device_config(pipeline, model.device_config)
            )
        return self._loaded[key]

    def of(self, fabric: Fabric, switch: Switch) -> fy.P4Schema:
        """What the switch runs."""
        return self.of_model(fabric.model(switch.model))

    def sizes(self, fabric: Fabric) -> Sizes:
        """Room of the tables of all device models that run the program."""
        return {model.name: table_sizes(self.of_model(model)) for model in _programmed(fabric)}


def _programmed(fabric: Fabric) -> Iterable[DeviceModel]:
    used = {switch.model for switch in fabric.switches}
    known = {BMV2.name, *TNA_TARGETS}
    return (model for model in fabric.models if model.name in used and model.target in known)


def _schema(p4info: str, config: bytes) -> fy.P4Schema:
    return fy.P4Schema(pbutil.from_text(p4info, p4i.P4Info), config)
