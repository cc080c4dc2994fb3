# SPDX-License-Identifier: Apache-2.0
"""The `tempotrace` command and the wiring of the parts; no logic of its own."""
