# SPDX-License-Identifier: Apache-2.0
"""Say in one line what is missing before an environment is made, and which package brings it."""

import sys


def main() -> int:
    """Return 0 when this Python can make the environment, else 2 with one line on stderr."""
    if sys.version_info < (3, 11):  # noqa: UP036 - runs before pip could refuse
        sys.stderr.write(
            f"make: Python 3.11 or newer is needed, {sys.executable} is "
            f"{sys.version.split()[0]}; install it (Debian 12: apt-get install python3 "
            "python3-venv) or pass PYTHON=/path/to/python3.11\n"
        )
        return 2
    try:
        import ensurepip
        import venv
    except ImportError as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        sys.stderr.write(
            f"make: the Python module {error.name!r} is missing; "
            f"install it: apt-get install python{version}-venv\n"
        )
        return 2
    assert ensurepip
    assert venv
    return 0


if __name__ == "__main__":
    sys.exit(main())
