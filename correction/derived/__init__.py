# SPDX-License-Identifier: Apache-2.0
"""Clocks of a host that no packet carries: system clock, GPU timers, monotonic clocks.

Each is read together with another clock again and again (`readings`). From the readings follows how
the clock stands to that *parent* at every instant between them (`stretches`, `feasible`,
`relation`); with the parent's own correction rows that is its correction (`compose`, `chain`).
"""
