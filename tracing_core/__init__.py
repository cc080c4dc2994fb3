# SPDX-License-Identifier: Apache-2.0
"""Spans, ordering, attribution, the store and the HTTP service."""
