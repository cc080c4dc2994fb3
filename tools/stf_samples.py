# SPDX-License-Identifier: Apache-2.0
"""Run the switch tests of a folder of P4 programs on the embedded switch.

    python tools/stf_samples.py FOLDER --p4c p4c-bm2-ss --work /tmp/stf

FOLDER holds pairs NAME.p4 and NAME.stf, as p4c's own samples do (testdata/p4_16_samples; with
`--std p4-14` testdata/p4_14_samples). Each program for v1model is compiled and its test is run.
What the compiler writes stays in --work: NAME.json and NAME.p4info.txt, which the comparison with
BMv2 takes as well (`--bmv2-programs`). Ends with 1 if less than 90 % of what compiles passes.
"""

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.stf import StfError, run_stf_text

PASSED_SHARE_MIN = 0.9
COMPILE_LIMIT_S = 120.0
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)

PASSED, FAILED, NOT_COMPILED = "passed", "failed", "not compiled"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one sample."""

    name: str
    status: str
    reason: str = ""


def is_v1model(program: Path, *, p4_14: bool) -> bool:
    """Whether a program is written for v1model, as all of P4_14 are; it may say so in a header
    of its own folder."""
    if p4_14:
        return True
    seen: set[Path] = set()
    waiting = [program]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8", errors="replace")
        for included in INCLUDE.findall(text):
            if included == "v1model.p4":
                return True
            waiting.append(path.parent / included)
    return False


class Compiler:
    """p4c's BMv2 back end, and where its output goes."""

    def __init__(self, program: str, options: list[str], work: Path) -> None:
        self._command = [program, *options]
        self._work = work

    def compile(self, source: Path) -> tuple[str | None, str]:
        """The JSON of a program, or None and what the compiler said."""
        made = self._work / f"{source.stem}.json"
        p4info = self._work / f"{source.stem}.p4info.txt"
        said = ""
        for extra in (["--p4runtime-files", str(p4info)], []):
            made.unlink(missing_ok=True)
            p4info.unlink(missing_ok=True)
            try:
                run = subprocess.run(
                    [*self._command, *extra, "-o", str(made), str(source)],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=COMPILE_LIMIT_S,
                )
            except subprocess.TimeoutExpired:
                return None, f"takes longer than {COMPILE_LIMIT_S:.0f} s"
            if run.returncode == 0 and made.is_file():
                return made.read_text(encoding="utf-8"), ""
            errors = [line for line in run.stderr.splitlines() if "error" in line.lower()]
            said = said or (errors or run.stderr.splitlines() or ["no output"])[0]
        return None, said


def run_sample(source: Path, compiler: Compiler) -> Outcome:
    """Compile one program and run its test."""
    text, said = compiler.compile(source)
    if text is None:
        return Outcome(source.stem, NOT_COMPILED, said)
    test = source.with_suffix(".stf").read_text(encoding="utf-8", errors="replace")
    try:
        difference = run_stf_text(text, test).difference
    except (StfError, ProgramError) as error:
        difference = str(error)
    return Outcome(source.stem, FAILED if difference else PASSED, difference)


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    """Counts, shares, and the reason of all that did not pass."""
    count = {
        status: sum(one.status == status for one in outcomes)
        for status in (PASSED, FAILED, NOT_COMPILED)
    }
    compiled = count[PASSED] + count[FAILED]
    return {
        "samples": len(outcomes),
        **{status.replace(" ", "_"): number for status, number in count.items()},
        "passed_share_of_compiled": count[PASSED] / compiled if compiled else 0.0,
        "passed_share_of_all": count[PASSED] / len(outcomes) if outcomes else 0.0,
        "rest": {
            one.name: f"{one.status}: {one.reason}" for one in outcomes if one.status != PASSED
        },
    }


def main() -> int:
    """Run all samples and print what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--p4c", default="p4c-bm2-ss", help="the compiler")
    parser.add_argument("--work", type=Path, required=True, help="where compiled programs go")
    parser.add_argument("--std", default="p4-16", choices=("p4-16", "p4-14"))
    parser.add_argument("-I", dest="includes", action="append", default=[], help="for the compiler")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    flags = ["--std", options.std, *(f"-I{path}" for path in options.includes)]
    compiler = Compiler(options.p4c, flags, options.work)
    sources = [
        test.with_suffix(".p4")
        for test in sorted(options.folder.glob("*.stf"))
        if options.only in test.stem
    ]
    outcomes = []
    for source in sources:
        if source.is_file() and is_v1model(source, p4_14=options.std == "p4-14"):
            outcomes.append(run_sample(source, compiler))
            if not options.json and outcomes[-1].status != PASSED:
                print(f"{source.stem}: {outcomes[-1].status}: {outcomes[-1].reason}", flush=True)
    found = summary(outcomes)
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print(
            f"{found['samples']} samples: {found['passed']} passed, {found['failed']} failed, "
            f"{found['not_compiled']} not compiled"
        )
    share = found["passed_share_of_compiled"]
    assert isinstance(share, float)
    return 0 if share >= PASSED_SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
