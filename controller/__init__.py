# SPDX-License-Identifier: Apache-2.0
"""Fabric description, P4Runtime deployment, telemetry report decoding and collection."""
