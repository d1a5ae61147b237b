"""The server's clock, read without asking the server: an offset to this machine's boot-time clock, kept right by use.

The store's clock is the database's, and it is asked several times a step. So each transaction brings the server's time
along in a round trip that is made anyway. A reading that was taken between two readings of the boot-time clock puts the
offset between two bounds: an offset within them is left as it is, one outside is moved to the nearer bound. This
machine's wall clock has no part in it, and the error is at most half of the fastest round trip plus what the two clocks
drift apart between two readings, which a worker takes every few seconds. A server whose clock was set, or whose place
another took, is followed at the next reading; the highest stored time is `Store.latest`'s matter.

What the boot-time clock cannot see is a virtual machine that was paused as a whole: until the next reading the time is
then too early. No lease outlives that, and the limits page says it.
"""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_time() -> int:
    """Microseconds since this machine was started, suspended time included."""
    return time.clock_gettime_ns(_BOOT) // 1000


class ServerClock:
    """Microseconds since the Unix epoch by the server's clock. Safe to use from any thread."""

    def __init__(self) -> None:
        self._offset: int | None = None

    def __call__(self) -> int:
        """The server's time now. Only after a first `learn`."""
        assert self._offset is not None, "the server has been asked once"
        return boot_time() + self._offset

    def learn(self, server: int, *, before: int, after: int) -> None:
        """Take in a reading of the server's clock that lies between two readings of `boot_time`."""
        earliest, latest = server - after, server - before
        if self._offset is None:
            self._offset = (earliest + latest) // 2
        else:
            self._offset = min(max(self._offset, earliest), latest)
