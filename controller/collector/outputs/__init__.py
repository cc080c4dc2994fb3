# SPDX-License-Identifier: Apache-2.0
"""Where collected packets go: a queue in the process, files, or a NATS JetStream subject."""
