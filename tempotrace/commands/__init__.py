# SPDX-License-Identifier: Apache-2.0
"""One module per command; each parses its options and calls the parts."""
