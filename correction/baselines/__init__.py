# SPDX-License-Identifier: Apache-2.0
"""What others would have made of the same recording: for comparison, never for a correction."""
