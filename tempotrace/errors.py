# SPDX-License-Identifier: Apache-2.0
"""Exit codes of the command line, and the errors that mean wrong input."""

import errno
import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import typer

from controller.clock_pairs import ClockPairsError
from controller.fabric import FabricError
from controller.pipeline import PipelineError
from controller.ptp_log import PtpLogError
from controller.telemetry.pcap import PcapError

EXIT_CHECK_FAILED = 1
EXIT_WRONG_INPUT = 2

P = ParamSpec("P")
T = TypeVar("T")


class InputError(Exception):
    """Wrong usage or input, in one line."""


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_WRONG_INPUT = (
    InputError,
    FabricError,
    PtpLogError,
    ClockPairsError,
    PcapError,
    PipelineError,
)


def one_line_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn wrong input into one line on stderr and exit code 2; bugs keep their traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except _WRONG_INPUT as error:
            sys.stderr.write(f"{error}\n")
        except FileNotFoundError as error:
            sys.stderr.write(f"{error.filename}: no such file\n")
        except (PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError) as error:
            sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            sys.stderr.write(f"{error.filename or 'writing'}: {error.strerror}\n")
        raise typer.Exit(EXIT_WRONG_INPUT)

    return run
