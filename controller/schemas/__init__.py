# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the files that the controller reads, as package data."""
