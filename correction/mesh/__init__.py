# SPDX-License-Identifier: Apache-2.0
"""One instant of a fabric of any size: edges in, clocks with two bounds and verdicts out.

`edges` says what is measured, `core` strips the trees, `normal` is the linear algebra of what
remains, `selection` finds the bad edges, `intervals` the hard bounds, `certificates` proves which
clocks the data determine, and `solve` puts them together.
"""
