# SPDX-License-Identifier: Apache-2.0
"""Commands are loaded when they run, and only then."""

import subprocess
import sys

import pytest

from tempotrace.command_table import TABLE, Late


@pytest.mark.parametrize("late", TABLE, ids=lambda late: late.name)
def test_a_line_of_help_is_how_the_commands_own_begins(late: Late) -> None:
    """What `tempotrace --help` says of a command stands first in its own help."""
    assert " ".join((late.load().help or "").split("\n\n")[0].split()) == late.help


def test_help_loads_no_command() -> None:
    """Neither numpy nor a command's module is imported to list the commands."""
    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from tempotrace.cli import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert 'attribute' in result.output\n"
        "print([m for m in sys.modules if m == 'numpy' or m.startswith('tempotrace.commands.')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"[]\n"
