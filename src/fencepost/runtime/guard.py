"""Keeps a workflow's body from reading and writing by itself: only steps may, since only they are recorded.

One audit hook per process, installed by the first worker, looks at a thread-local flag that is set while workflow code
is driven; imports and the reading of source lines for tracebacks are exempt. Clocks and random sources raise no audit
event: they are found by lint and by a replay that asks for something else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import FencepostError, InputOutputInWorkflow
from fencepost.effects.declare import WATCH

if TYPE_CHECKING:
    from fencepost.core.driver import Driver

# Events of the audit table in Python's library reference that touch the world.
FORBIDDEN = frozenset(
    {
        "open",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.kill",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "shutil.copyfile",
        "shutil.rmtree",
        "smtplib.connect",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "socket.sendmsg",
        "socket.sendto",
        "sqlite3.connect",
        "subprocess.Popen",
        "time.sleep",
        "urllib.Request",
    }
)

_EXEMPT_FILES = ("importlib", "linecache.py", "tokenize.py", "traceback.py")


class _Driving(threading.local):
    report: Callable[[FencepostError], None] | None = None


_driving = _Driving()
_installed = threading.Lock()


def install() -> None:
    """Install the hook once per process; it cannot be taken out again, and does nothing outside workflow code."""
    if _installed.acquire(blocking=False):
        sys.addaudithook(_hook)


class Driving:
    """While inside, this thread runs the workflow code of `driver`; what it must not do is reported as its fault.

    Made once for a driver and entered for each advance: bound steps keep what they report to, so it is no new object.
    """

    __slots__ = ("_dropped", "_fault")

    def __init__(self, driver: Driver) -> None:
        def dropped(error: FencepostError) -> None:
            # What is dropped while a branch cleans up after a cancel was given up on purpose.
            if not driver.unwinding:
                driver.fault(error)

        self._fault = driver.fault
        self._dropped = dropped

    def __enter__(self) -> None:
        """Watch this thread."""
        _driving.report = self._fault
        WATCH.report = self._dropped

    def __exit__(self, *exc: object) -> None:
        """Watch it no longer."""
        _driving.report = None
        WATCH.report = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    report = _driving.report
    if report is None or event not in FORBIDDEN or _is_exempt():
        return
    what = ", ".join(repr(arg)[:80] for arg in args[:1])
    error = InputOutputInWorkflow(
        f"the workflow's body did {event}({what})",
        hint="move it into a step: only what a step returns is recorded and replayed",
    )
    report(error)
    raise error


def _is_exempt() -> bool:
    """Whether an import or a traceback reads a file on the workflow's behalf."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only way to ask who is asking
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in _EXEMPT_FILES):
            return True
        frame = frame.f_back
    return False
