# SPDX-License-Identifier: Apache-2.0
"""One file per numbered scenario: its parameters and the limits of its telemetry and truth."""
