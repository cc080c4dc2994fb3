# SPDX-License-Identifier: Apache-2.0
"""The console script: loads the command line, and ends quietly when that is interrupted."""

import os
import sys

from tempotrace.interrupt import EXIT_INTERRUPTED


def main() -> None:
    """Run `tempotrace`; Ctrl-C while the parts are still being loaded is no traceback either."""
    # gRPC tells every broken connection on standard error; we do where it matters.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from tempotrace.cli import run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
