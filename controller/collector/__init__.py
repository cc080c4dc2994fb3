# SPDX-License-Identifier: Apache-2.0
"""The running collector: batches of report datagrams in, packets with hops and link samples out."""
