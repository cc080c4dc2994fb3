# SPDX-License-Identifier: Apache-2.0
"""The lab without P4: the same records for 512 to 16,384 GPUs, computed a whole array at a time."""
