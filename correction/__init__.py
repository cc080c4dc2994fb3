# SPDX-License-Identifier: Apache-2.0
"""Pure estimation: clocks, exchanges, link samples, the fabric solve, bounds. No clock, no I/O."""
