# SPDX-License-Identifier: Apache-2.0
"""The lab: embedded P4 switch, virtual-time fabric, scenarios with known ground truth."""
