# SPDX-License-Identifier: Apache-2.0
"""The controller that stays: it keeps the switches of a fabric in their desired state."""
