# SPDX-License-Identifier: Apache-2.0
"""Following a fabric while it runs: inputs that grow, a state file, and corrections to outputs.

The estimation is `correction.stream.follow`. `tails` reads what hosts append, `parts_input` and
`nats_input` what a collector elsewhere hands on, `documents` and `correction_outputs` write what is
said of each window, `state_file` keeps it all over a kill, `following` is the loop's step.
"""
