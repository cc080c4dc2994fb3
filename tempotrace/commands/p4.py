# SPDX-License-Identifier: Apache-2.0
"""`tempotrace p4`: check, build and describe the compiled pipeline."""

from dataclasses import asdict
from typing import Annotated

import typer

from controller.pipeline import build as build_pipeline
from controller.pipeline import check as check_pipeline
from controller.pipeline import find_compiler, load_pipeline
from tempotrace.errors import EXIT_CHECK_FAILED, InputError, one_line_errors
from tempotrace.strict_json import strict_text

app = typer.Typer(help="The P4 pipeline: check, build, info.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
P4c = Annotated[
    str | None, typer.Option("--p4c", help="p4c-bm2-ss; the one on the PATH by default.")
]


@app.command("check")
@one_line_errors
def check(p4c: P4c = None, as_json: Json = False) -> None:
    """Compare artefacts with the sources they were built from; exit 1 when they are stale."""
    result = check_pipeline(compiler=find_compiler(p4c))
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


@app.command("build")
@one_line_errors
def build(p4c: P4c = None) -> None:
    """Compile p4src and write the artefacts with their manifest."""
    compiler = find_compiler(p4c)
    if compiler is None:
        raise InputError("p4 build: p4c-bm2-ss is not on the PATH; pass --p4c FILE")
    manifest = build_pipeline(compiler)
    typer.echo(f"built version {manifest.program_version} with {manifest.compiler}")


@app.command("info")
@one_line_errors
def info(as_json: Json = False) -> None:
    """Show the version, the compiler and the source hashes of the artefacts."""
    pipeline = load_pipeline()
    manifest = asdict(pipeline.manifest)
    if as_json:
        typer.echo(strict_text(manifest))
        return
    typer.echo(f"program {manifest['program_version']}, compiled with {manifest['compiler']}")
    for name, digest in sorted(manifest["source_sha256"].items()):
        typer.echo(f"  {digest[:16]}  {name}")
