# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab scale`: records of a fabric with up to 16,384 GPUs, without P4."""

import resource
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bmv2_lab.scale.recording import counts, write_run
from bmv2_lab.scale.run import start_run
from bmv2_lab.scale.settings import NS_PER_S, Collective, ScaleSettings, Shape
from tempotrace.commands.options import DEFAULT_SEED, Json, Seed
from tempotrace.errors import InputError, one_line_errors
from tempotrace.interrupt import Interrupts
from tempotrace.reporting import ProgressDisplay, checked
from tempotrace.strict_json import strict_text


@one_line_errors
def scale(
    gpus: Annotated[int, typer.Option("--gpus", help="GPUs, each with a NIC and its clock.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    seed: Seed = DEFAULT_SEED,
    shape: Annotated[
        Shape, typer.Option("--shape", help="How NICs are cabled to leaves.")
    ] = Shape.RAIL_OPTIMISED,
    collective: Annotated[
        Collective, typer.Option("--collective", help="Who sends to whom in a step.")
    ] = Collective.RING,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=600, help="Seconds of telemetry.")
    ] = 1,
    otlp_jobs: Annotated[
        int,
        typer.Option("--otlp-jobs", min=0, help="Also write spans.otlp.jsonl, of so many jobs."),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Simulate a large fabric without P4 and write hop records, exchanges, transfers and truth."""
    started_s = time.monotonic()
    settings = ScaleSettings(
        gpus=gpus,
        shape=shape,
        collective=collective,
        window_count=seconds,
        window_ns=NS_PER_S,
    )
    with Interrupts() as interrupts, ProgressDisplay(quiet=as_json) as display:
        progress = checked(display.update, interrupts)
        progress("draw", 0.0)
        try:
            run = start_run(settings, seed)
        except ValueError as error:
            raise InputError(f"lab scale: {error}") from None
        write_run(run, out, progress, otlp_jobs=otlp_jobs)
    result: dict[str, int | float | str] = {
        "shape": shape.value,
        "seed": seed,
        **counts(run),
        "wall_s": round(time.monotonic() - started_s, 3),
        "peak_mib": round(_peak_mib(), 1),
    }
    if as_json:
        typer.echo(strict_text(result))
        return
    for name, value in result.items():
        typer.echo(f"{name:12} {value}")


def _peak_mib() -> float:
    """Largest resident set of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / (1024 * 1024)
