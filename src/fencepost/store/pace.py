"""How a journal commits: how many groups share a commit, and how long one takes. Counted in this process.

Committing is `journal`; who wants to read the numbers is `telemetry`.
"""

from __future__ import annotations

from fencepost.core.histogram import Histogram

GROUPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000)
SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Pace:
    """What a journal's commits were like; whoever has the journal's turn counts."""

    __slots__ = ("groups", "seconds")

    def __init__(self) -> None:
        self.groups = Histogram(GROUPS)
        self.seconds = Histogram(SECONDS)

    def committed(self, groups: int, seconds: float) -> None:
        """Count one commit."""
        self.groups.take(groups)
        self.seconds.take(seconds)
