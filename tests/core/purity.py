"""Notices when code of ours opens a file, a socket or a process, or reads a clock, while a test of core runs.

What pytest, hypothesis and the import system do for themselves is not ours. Dates from `datetime.now` cannot be seen
here; the house rule in tests/tidy/code.py finds them in the source.
"""

import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = (f"{ROOT}/src/", f"{ROOT}/tests/")
SITE_PACKAGES = sysconfig.get_path("purelib")
OUTSIDE = ("open", "os.", "socket.", "subprocess.", "sqlite3.", "shutil.", "tempfile.", "_thread.start_new_thread")
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "clock_gettime", "sleep")

_watchers: list[list[str]] = []
_hooked: list[bool] = []


def culprit() -> str | None:
    """The nearest caller that is not the standard library, if it is code of ours."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(("<frozen importlib", SITE_PACKAGES)):
            return None
        if name.startswith(OURS) and name != __file__:
            return f"{Path(name).relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _blame(what: str) -> None:
    if _watchers and (who := culprit()) is not None:
        _watchers[-1].append(f"{who} touches {what}")


def _hook(event: str, _: tuple[Any, ...]) -> None:
    if _watchers and event.startswith(OUTSIDE):
        _blame(event)


def _watched(clock: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def read(*args: Any) -> Any:
        _blame(f"time.{clock}")
        return original(*args)

    return read


@contextmanager
def watching() -> Iterator[list[str]]:
    """Give the list of what our code touches inside the block."""
    if not _hooked:
        sys.addaudithook(_hook)  # cannot be taken away again, so it is added once and idle outside such a block
        _hooked.append(True)
    originals = {clock: getattr(time, clock) for clock in CLOCKS}
    touched: list[str] = []
    _watchers.append(touched)
    for clock, original in originals.items():
        setattr(time, clock, _watched(clock, original))
    try:
        yield touched
    finally:
        for clock, original in originals.items():
            setattr(time, clock, original)
        _watchers.pop()
