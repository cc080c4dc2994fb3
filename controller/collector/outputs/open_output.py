# SPDX-License-Identifier: Apache-2.0
"""Outputs opened by the names that the command line gives them."""

from controller.collector.outputs.file_output import FileOutput
from controller.collector.outputs.output import Output, parse_output


def open_output(text: str) -> Output:
    """The output, ready to write; `OutputError` when it cannot be."""
    spec = parse_output(text)
    if spec.kind == "file":
        return FileOutput.from_spec(spec)
    # its client takes a quarter of a second to import: only for those who use it
    from controller.collector.outputs.nats_jetstream import JetStreamOutput

    return JetStreamOutput.from_spec(spec)


def check_output(text: str) -> None:
    """Whether the output can be opened, without keeping it; `OutputError` when it cannot be."""
    spec = parse_output(text)
    if spec.kind == "file":
        FileOutput.check(spec)
    else:
        open_output(text).close()
