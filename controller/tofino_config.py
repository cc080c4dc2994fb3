# SPDX-License-Identifier: Apache-2.0
"""What a Tofino's P4Runtime server takes as device config, made of the compiled TNA program.

Pure. P4Runtime leaves the bytes of `p4_device_config` to the target. Two servers, two packings:

- Stratum takes its protobuf message `BfPipelineConfig` (stratum/hal/lib/barefoot/bf.proto), which
  `bf_pipeline_builder` makes of the compiler's output: p4_name = 1, bfruntime_info = 2 (bfrt.json),
  profiles = 3 {profile_name = 1, context = 2 (context.json), binary = 3 (tofino.bin),
  pipe_scope = 4}.
- Servers built on p4lang/PI, the vendor's among them, take three blocks one after the other, each
  with its length in 4 bytes, least significant first: program name, tofino.bin, context.json.
"""

from collections.abc import Iterable

from controller.pipeline_tna import TnaPipeline
from controller.targets import DeviceConfigFormat

PROGRAM_NAME = "tempotrace"
"""Name of the program in context.json."""
PROFILE_NAME = "pipe"
"""The compiler's name of the only pipeline: entities of bfrt.json begin with it."""
PIPE_SCOPE = (0, 1, 2, 3)
"""All pipes of the chip, as the compiler's own .conf says; a driver leaves out those it has not."""


def device_config(pipeline: TnaPipeline, packing: DeviceConfigFormat) -> bytes:
    """The bytes of `p4_device_config`."""
    match packing:
        case DeviceConfigFormat.STRATUM:
            return _stratum(pipeline)
        case DeviceConfigFormat.PI:
            blocks = (PROGRAM_NAME.encode(), pipeline.binary, pipeline.context)
            return b"".join(len(block).to_bytes(4, "little") + block for block in blocks)


def _stratum(pipeline: TnaPipeline) -> bytes:
    profile = _message(
        (1, PROFILE_NAME.encode()),
        (2, pipeline.context),
        (3, pipeline.binary),
        (4, bytes(PIPE_SCOPE)),  # packed; each fits one byte
    )
    return _message((1, PROGRAM_NAME.encode()), (2, pipeline.schema), (3, profile))


def _message(*fields: tuple[int, bytes]) -> bytes:
    """A protobuf message of length-delimited fields (wire type 2), in the order given."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: bytes) -> bytes:
    return bytes(_varint(number << 3 | 2)) + bytes(_varint(len(value))) + value


def _varint(value: int) -> Iterable[int]:
    while value >= 0x80:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
