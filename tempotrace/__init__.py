# SPDX-License-Identifier: Apache-2.0
"""The `tempotrace` command and the wiring of the parts; no logic of its own."""

import os

# Read when numpy and gRPC are first imported, so they are set before anything else is. The solves
# are small: BLAS threads cost more than they bring, and their number would change the last bits
# of sums. gRPC's own error lines would double ours.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
