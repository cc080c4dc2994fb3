# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

FabricFile = Annotated[
    Path, typer.Option("-f", "--fabric", help="The fabric's description, fabric.yaml.")
]
LinkDelays = Annotated[
    Path | None,
    typer.Option(
        "--link-delays", help="link_delays.jsonl: what was written to transparent clocks."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Url = Annotated[str, typer.Option("--url", help="Base URL of a running service.")]
TokenText = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="TEMPOTRACE_TOKEN",
        help="Token for the service. Others on this machine may see a command's options, but not "
        "its environment.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Everything random follows from it.")]

DAY_S = 86_400
"""No interval or wait is meant to be longer, and none can be infinite."""
DEFAULT_PORT = 8080
DEFAULT_SEED = 7
DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
