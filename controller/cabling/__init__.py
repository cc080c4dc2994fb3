# SPDX-License-Identifier: Apache-2.0
"""What is cabled to what: LLDP over packet-out and packet-in, compared with the fabric file."""
