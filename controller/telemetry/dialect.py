# SPDX-License-Identifier: Apache-2.0
"""The profile that a device model names; what it can say: `profiles`."""

from controller.telemetry.profiles import DIALECTS, SEQUENCE_BITS, STANDARD, Dialect

__all__ = ["DIALECTS", "SEQUENCE_BITS", "STANDARD", "Dialect"]
