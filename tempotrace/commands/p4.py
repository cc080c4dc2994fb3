# SPDX-License-Identifier: Apache-2.0
"""`tempotrace p4`: check, build and describe the compiled pipeline of a target."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from controller.pipeline import PipelineCheck, find_compiler, load_pipeline
from controller.pipeline import build as build_pipeline
from controller.pipeline import check as check_pipeline
from controller.pipeline_manifest import Manifest
from controller.pipeline_tna import (
    TNA_TARGETS,
    build_tna,
    check_tna,
    find_tna_compiler,
    load_tna,
)
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

app = typer.Typer(help="The P4 pipeline: check, build, info.", no_args_is_help=True)


class Target(StrEnum):
    """What the program is compiled for."""

    V1MODEL = "v1model"
    TOFINO = "tofino"
    TOFINO2 = "tofino2"


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
P4c = Annotated[
    str | None,
    typer.Option(
        "--p4c", help="The compiler: p4c-bm2-ss, or p4c-barefoot; the one on the PATH by default."
    ),
]
TargetOption = Annotated[
    Target, typer.Option("--target", help="v1model: the embedded switch and BMv2.")
]


@app.command("check")
@one_line_errors
def check(target: TargetOption = Target.V1MODEL, p4c: P4c = None, as_json: Json = False) -> None:
    """Compare artefacts with the sources they were built from; exit 1 when they are stale."""
    result = _check(target, p4c)
    if as_json:
        typer.echo(strict_text({"good": result.is_good, **asdict(result)}))
    else:
        for problem in result.problems:
            typer.echo(problem)
        if result.is_good:
            rebuilt = "and recompiled" if result.rebuilt else f"({result.not_rebuilt_reason})"
            typer.echo(f"artefacts match the sources {rebuilt}")
    if not result.is_good:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _check(target: Target, p4c: str | None) -> PipelineCheck:
    if target is Target.V1MODEL:
        return check_pipeline(compiler=find_compiler(p4c))
    return check_tna(TNA_TARGETS[target.value], compiler=find_tna_compiler(p4c))


@app.command("build")
@one_line_errors
def build(target: TargetOption = Target.V1MODEL, p4c: P4c = None) -> None:
    """Compile p4src and write the artefacts with their manifest."""
    manifest = _build(target, p4c)
    typer.echo(f"built version {manifest.program_version} with {manifest.compiler}")


def _build(target: Target, p4c: str | None) -> Manifest:
    if target is Target.V1MODEL:
        compiler = find_compiler(p4c)
        if compiler is None:
            raise InputError("p4 build: p4c-bm2-ss is not on the PATH; pass --p4c FILE")
        return build_pipeline(compiler)
    tna_compiler = find_tna_compiler(p4c)
    if tna_compiler is None:
        raise InputError("p4 build: p4c-barefoot is not on the PATH; pass --p4c FILE")
    return build_tna(TNA_TARGETS[target.value], tna_compiler)


@app.command("info")
@one_line_errors
def info(target: TargetOption = Target.V1MODEL, as_json: Json = False) -> None:
    """Show the version, the compiler and the source hashes of the artefacts."""
    pipeline = load_pipeline() if target is Target.V1MODEL else load_tna(TNA_TARGETS[target.value])
    manifest = asdict(pipeline.manifest)
    if as_json:
        typer.echo(strict_text(manifest))
        return
    typer.echo(f"program {manifest['program_version']}, compiled with {manifest['compiler']}")
    if manifest["options"]:
        typer.echo(f"options {' '.join(manifest['options'])}")
    for name, digest in sorted(manifest["source_sha256"].items()):
        typer.echo(f"  {digest[:16]}  {name}")
