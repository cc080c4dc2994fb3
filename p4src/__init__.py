# SPDX-License-Identifier: Apache-2.0
"""P4_16 sources and compiled artefacts, as package data (read with importlib.resources)."""
