# SPDX-License-Identifier: Apache-2.0
"""Stored requests as blocks of columns in ClickHouse's Native format, without Python objects."""

from tracing_core.store.blocks.batch import Batch, Blocks, Record, build_blocks

__all__ = ["Batch", "Blocks", "Record", "build_blocks"]
