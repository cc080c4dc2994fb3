# SPDX-License-Identifier: Apache-2.0
"""A file that cannot be read as a whole; single spans are refused in the report instead."""


class ImportRefusedError(ValueError):
    """Why nothing, or nothing more, is taken from a file."""
