# SPDX-License-Identifier: Apache-2.0
"""Corrections from windows that arrive one after the other, for fabrics of any size.

`window_edges` turns a window's link statistics into one equation per link at a common instant,
`motion` follows how the clocks moved since earlier windows, in which asymmetries cancel,
`tracker` averages what stays and solves it (`correction.mesh`), `clock_filter` predicts each clock
between and beyond windows, `saved` keeps all of it over a restart.
"""
