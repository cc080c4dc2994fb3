# SPDX-License-Identifier: Apache-2.0
"""How many samples traffic gave of each link, published with every window of a follower."""

from pathlib import Path

from controller.int_policy.delay_plan_file import replace_file
from controller.int_policy.link_samples_file import LinkSamples, link_samples_text
from correction.stream.follow import FollowedWindow


class LinkSamplesOutput:
    """A `CorrectionOutput` that replaces link_samples.json."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """The counts of this window; empty where packets were sampled elsewhere."""
        if window.own_pairs is None:
            return b""
        return link_samples_text(
            LinkSamples(
                window_end_collector_ns=window.end_collector_ns,
                pairs={
                    link.name: count
                    for link, count in zip(
                        window.model.links, window.own_pairs.tolist(), strict=False
                    )
                    if not link.access and link.cable
                },
            )
        )

    def write(self, encoded: bytes) -> None:
        """Replace the file."""
        if encoded:
            replace_file(self._path, encoded)

    def close(self) -> None:
        """The counts end by themselves."""
