# SPDX-License-Identifier: Apache-2.0
"""Real-time backends of the lab: real packets through switches on veth ports, real ptp4l."""
