# SPDX-License-Identifier: Apache-2.0
"""A page in Debian's chromium, after its scripts have run."""

import subprocess
from pathlib import Path


def rendered(url: str, profile: Path) -> str:
    """The document."""
    result = subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            "--virtual-time-budget=8000",
            "--dump-dom",
            url,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return result.stdout
