# SPDX-License-Identifier: Apache-2.0
"""Which links are down: what sources say of them, judged, and told to the keeper of a fabric."""
