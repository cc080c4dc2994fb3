# SPDX-License-Identifier: Apache-2.0
"""Compares the compiled collector with the reference on generated reports, by hand.

    .venv/bin/python tools/compare_collectors.py [--reports 1000000] [--first-seed 0]

Every kind of report, with losses, repetitions, late ones, cuts and flipped bits. Ends with an
assertion where the two differ.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.compare_collectors import compare_random

_REPORTS_PER_SEED = 20_000
_DAMAGES = (0.1, 0.0, 0.5)


def main() -> None:
    """Seed after seed, until so many reports are compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    seed = options.first_seed
    while totals["received"] < options.reports:
        counters = compare_random(seed, _REPORTS_PER_SEED, damage=_DAMAGES[seed % len(_DAMAGES)])
        for name in ("received", "decoded", "duplicates", "replicas", "complete", "incomplete"):
            totals[name] += getattr(counters, name)
        totals["rejected"] += counters.rejected_total
        totals["resent"] += counters.resent
        totals["restarts"] += counters.restarts
        totals["clock epochs"] += sum(counters.clock_epochs.values())
        seed += 1
        print(f"\r{totals['received']:,} reports, the same", end="", flush=True)
    print()
    for name, count in totals.items():
        print(f"{name:14}{count:12,}")


if __name__ == "__main__":
    main()
