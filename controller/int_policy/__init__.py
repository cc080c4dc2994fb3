# SPDX-License-Identifier: Apache-2.0
"""What is measured how often, while the fabric runs: sampling, link delays, probes.

Each part decides with a pure core and runs beside the switches that a keeper keeps.
"""
