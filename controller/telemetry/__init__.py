# SPDX-License-Identifier: Apache-2.0
"""INT telemetry: wire formats, report decoding, postcard assembly, collection."""
