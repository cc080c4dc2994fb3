# SPDX-License-Identifier: Apache-2.0
"""Kills the tracing service again and again under load and rewrites the figures in docs
(`make claims`)."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.kill_ingest import Outcome, kill_repeatedly

PAGE = Path(__file__).resolve().parent.parent / "docs" / "claims.md"
BEGIN, END = "<!-- kills: begin -->", "<!-- kills: end -->"


def table_of(outcome: Outcome, seed: int) -> str:
    """Where it was killed, and what became of the spans."""
    rows = [
        ("kills, by SIGKILL", outcome.kill_count),
        ("of them followed by a power failure of the log's disk", outcome.power_failures),
        ("requests acknowledged", len(outcome.acknowledged)),
        ("spans stored", outcome.spans),
        ("acknowledged spans lost", outcome.lost),
        ("spans doubled", outcome.doubled),
        ("acknowledged spans that the receiver of `--forward` never got", outcome.not_forwarded),
        ("requests that it got again", outcome.forwarded_again),
    ]
    places = ", ".join(f"{where} {count}" for where, count in sorted(outcome.kills.items()))
    lines = [f"| seed {seed} | |", "|---|---:|", *(f"| {name} | {count} |" for name, count in rows)]
    return "\n".join([*lines, "", f"Killed: {places}."])


def main() -> int:
    """Run; exit 1 when a span was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true", help="print the table only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tempotrace-kills-") as folder:
        outcome = kill_repeatedly(
            Path(folder) / "service",
            options.kills,
            seed=options.seed,
            report=lambda text: print(text, flush=True),
        )
    table = table_of(outcome, options.seed)
    print(table)
    if not options.dry_run:
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return 1 if outcome.lost or outcome.doubled or outcome.not_forwarded else 0


if __name__ == "__main__":
    sys.exit(main())
