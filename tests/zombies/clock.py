"""A wall clock of one process that can be made to jump, by libfaketime; the clocks that only go on are left alone.

libfaketime is preloaded and told by a file how far to be off. Where it is not installed, `library` says None.
"""

import ctypes
import os
import threading
import time
from pathlib import Path

from fencepost.effects import kernel

PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
HOW_TO_GET_IT = "libfaketime is not installed; `apt-get install -y libfaketime` brings it on Debian"
_OFFSET_IN = "FAKETIME_TIMESTAMP_FILE"


def library() -> Path | None:
    """Where libfaketime is, or None."""
    found = (path for place in PLACES for path in Path("/").glob(place.lstrip("/")))
    return next(found, None)


class JumpingClock:
    """The clock of a process that is still to be started with `environment`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump(0)

    def environment(self) -> dict[str, str]:
        """What to add to the process's environment."""
        found = library()
        assert found is not None, HOW_TO_GET_IT
        return {
            "LD_PRELOAD": str(found), _OFFSET_IN: str(self._file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip

    def jump(self, seconds: int) -> None:
        """Put the clock so many seconds ahead of the real one, or behind it; in one step for whoever reads."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n", "ascii")
        fresh.replace(self._file)


def mend() -> None:
    """In a process with such a clock: take from libfaketime what it gets wrong once the wall clock has jumped.

    It moves absolute timers of the clocks that do not jump, which would end a send's guard at once, and refuses to
    sleep on them.
    """
    if _OFFSET_IN not in os.environ:
        return
    libc = ctypes.PyDLL("libc.so.6", use_errno=True)
    kernel._libc = lambda: libc
    time.sleep = lambda seconds: threading.Event().wait(seconds) and None
