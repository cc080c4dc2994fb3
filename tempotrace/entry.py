# SPDX-License-Identifier: Apache-2.0
"""The console script: loads the command line, and ends quietly when that is interrupted."""

import os
import resource
import sys

from tempotrace.interrupt import EXIT_INTERRUPTED

OPEN_FILES = 65_536
"""Asked for, where the machine allows it: the usual 1,024 are few for hundreds of switches or
senders, and the embedded store opens three for each of its threads."""


def main() -> None:
    """Run `tempotrace`; Ctrl-C while the parts are still being loaded is no traceback either."""
    # gRPC tells every broken connection on standard error; we do where it matters.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    _allow_open_files()
    try:
        from tempotrace.cli import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(EXIT_INTERRUPTED)


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
