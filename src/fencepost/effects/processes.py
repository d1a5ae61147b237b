"""The child processes that a body has begun: told when its run is cancelled, and killed when its time is over.

A body hands them over with `with call.child(process)`. What such a process does to the outside is not seen from here:
no lease, deadline or counter guards it. Who tells the body itself is `runtime.cancelling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol


class ChildProcess(Protocol):
    """A `subprocess.Popen`, or the process of `asyncio.create_subprocess_exec`."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def returncode(self) -> int | None:
        """How it has ended, as far as its owner has looked."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class ChildProcesses:
    """The child processes of one body, in the order in which they were handed over."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[ChildProcess] = []

    @contextmanager
    def holding(self, process: ChildProcess) -> Iterator[None]:
        """Hold a process for the block; one that still runs at its end is killed."""
        self._held.append(process)
        try:
            yield
        finally:
            self._held.remove(process)
            _send(process, process.kill)

    def terminate(self) -> str:
        """Ask them to end; what was done, for people, or "" where there is none."""
        return self._signal("SIGTERM", lambda process: process.terminate)

    def kill(self) -> str:
        """End them; as `terminate`."""
        return self._signal("SIGKILL", lambda process: process.kill)

    def _signal(self, name: str, how: Callable[[ChildProcess], Callable[[], None]]) -> str:
        reached = [str(process.pid) for process in list(self._held) if _send(process, how(process))]
        return f"child process {', '.join(reached)}: {name}" if reached else ""


def _send(process: ChildProcess, signal: Callable[[], None]) -> bool:
    """Send one signal; False if the process has ended already, which both kinds look at first."""
    with suppress(ProcessLookupError):
        signal()
        return process.returncode is None
    return False
