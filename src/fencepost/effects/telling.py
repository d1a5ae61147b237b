"""What a body is told when its run is to stop, and what is written down of that: flagged, signalled, cancelled, left.

`Tellable` is the part of an attempt, `Told` the part of a `call` that a body sees. A body that was told sends nothing
more. When bodies are told is decided in `runtime.cancelling`, and how long each then has in `overdue`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.core.errors import CancelAccepted
from fencepost.core.records import WAITED_NO_LONGER
from fencepost.effects.processes import ChildProcess, ChildProcesses

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting
    from fencepost.effects.site import Site


CANCELLED = "the run is cancelled"
ENDED = "the run was ended by a person"


class Witness(Protocol):
    """Writes down what becomes of a body whose run is cancelled."""

    def told(self, attempting: Any, how: str) -> None:
        """The body was told, once more."""

    def ended(self, attempting: Any, how: str) -> None:
        """A body that was told runs no more. From any thread."""


class Tellable:
    """The part of an attempt that can be told of a cancel."""

    __slots__ = ("processes", "thread", "told")

    site: Site
    position: str

    told: str
    """Why the body was told to stop: from then on it sends nothing. "" while it was not told."""
    processes: ChildProcesses | None
    """The processes that the body has begun and handed to us."""
    thread: Future[Any] | None
    """The work of the thread in which a plain body runs."""

    @property
    def why_over(self) -> str:
        """Why nobody waits for the body any more."""
        return self.told or "its time is over"

    def cancel_accepted(self) -> CancelAccepted:
        """Why nothing is sent any more."""
        return CancelAccepted(
            f"{self.told or CANCELLED}: nothing more is sent",
            hint="let this error through; what was sent before is settled",
            ids={"step": self.position},
        )

    def tell(self, why: str) -> str:
        """Tell the body that its run is to stop, and why; how it was told."""
        self.told = why
        signalled = self.processes.terminate() if self.processes is not None else ""
        return signalled or "flagged"

    def time_is_over(self) -> None:
        """The body is about to be cancelled, whether its run is or its time is over; its child processes are killed."""
        signalled = self.processes.kill() if self.processes is not None else ""
        if signalled or self.thread is None:
            self._tell_witness(signalled or "task cancelled")

    def is_left(self) -> None:
        """Its run goes on without the body, which no cancel has ended."""
        self._tell_witness(WAITED_NO_LONGER)
        if self.thread is not None:
            self.thread.add_done_callback(self.has_ended)

    def has_ended(self, work: Future[Any]) -> None:
        """The thread of a body that nobody waits for has ended; from that thread."""
        error = work.exception()
        self.ended("returned" if error is None else f"raised {type(error).__name__}")

    def ended(self, how: str) -> None:
        """The body runs no more; a witness hears of it if it was told of a cancel."""
        if self.told and self.site.witness is not None:
            self.site.witness.ended(self, how)

    def _tell_witness(self, how: str) -> None:
        if self.told and self.site.witness is not None:
            self.site.witness.told(self, how)

    @contextmanager
    def child(self, process: ChildProcess) -> Iterator[None]:
        """Have a child process told and killed with the body; see `Call.child`."""
        processes = self.processes = self.processes or ChildProcesses()
        with processes.holding(process):
            if self.told:
                raise self.cancel_accepted()
            yield


class Told:
    """The part of a `call` by which a body learns that its run is cancelled."""

    __slots__ = ("_attempting",)

    _attempting: Attempting

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled, or ended, while this body runs: nothing more is sent, so clean up and end.

        An async body is cancelled some seconds later (`asyncio.CancelledError`); a plain one has to look for itself.
        """
        return bool(self._attempting.told)

    @contextmanager
    def child(self, process: ChildProcess) -> Iterator[None]:
        """Let a child process end with the body: `with call.child(process):` around whatever waits for it.

        Args:
            process: a `subprocess.Popen`, or what `asyncio.create_subprocess_exec` returns. If the run is cancelled
                inside the block it gets SIGTERM, and SIGKILL when the body's time is over or at the end of the block.
                Only itself: no process that it has begun. What it sends is not guarded.

        Raises:
            CancelAccepted: the run is cancelled already; the process was killed.
        """
        with self._attempting.child(process):
            yield
