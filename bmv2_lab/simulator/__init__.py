# SPDX-License-Identifier: Apache-2.0
"""The virtual fabric: a seeded discrete-event simulation in integer nanoseconds of true time."""
