"""The worker processes of one side: started, killed, stopped and started again, each by its own pid.

A worker that is killed is replaced at once, as a supervisor would; one that ends by itself with an error is a bug and
raises, with what it said last. When the crew is closed no process of it is left. Who strikes whom, and when, is not
decided here but in `plan` and `drive`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.core.errors import Misuse
from fencepost.demo.plan import WORKERS

_DRAIN_SECONDS_MAX = 5.0
_SAID_CHARACTERS_MAX = 2_000


class Crew:
    """So many numbered places, each held by one process; a context manager that leaves none behind."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, workers: int = WORKERS
    ) -> None:
        """`command` follows `python -m`; the pid of this process is put behind its first word."""
        module, *arguments = command
        self._command = [sys.executable, "-m", module, str(os.getpid()), *arguments]
        self._environment = dict(environment)
        self._log = log
        self._stopped: dict[int, threading.Timer] = {}
        self._places = [self._start() for _ in range(workers)]

    def pid(self, place: int) -> int:
        """The pid of the process in that place."""
        return self._places[place].pid

    def is_alive(self, place: int) -> bool:
        """Whether the process in that place lives, be it paused."""
        return self._places[place].poll() is None

    def is_stopped(self, place: int) -> bool:
        """Whether the process in that place is paused."""
        return self.pid(place) in self._stopped

    def kill(self, place: int) -> None:
        """End a process with SIGKILL and return when it is gone; `replace_dead` starts another."""
        self._places[place].kill()
        self._places[place].wait()

    def stop(self, place: int, seconds_max: float) -> None:
        """Pause a process with SIGSTOP; return when it stands still. It goes on by itself after so many seconds.

        That is done by a thread: a process that is stopped in the middle of a transaction keeps SQLite's write lock,
        and whoever would end the pause may be waiting for it.
        """
        process = self._places[place]
        process.send_signal(signal.SIGSTOP)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        timer = threading.Timer(seconds_max, process.send_signal, (signal.SIGCONT,))
        timer.daemon = True
        timer.start()
        self._stopped[process.pid] = timer

    def go_on(self, place: int, pid: int) -> bool:
        """Let a paused process go on; False if the deadline of a send has ended it, and another has its place."""
        self._forget(pid)
        process = self._places[place]
        if process.pid != pid or process.poll() is not None:
            return False
        process.send_signal(signal.SIGCONT)
        return True

    def replace_dead(self) -> None:
        """Start a process in each place whose process was killed.

        Raises `Misuse` if one ended otherwise.
        """
        for place, process in enumerate(self._places):
            if process.poll() is None:
                continue
            if process.returncode != -signal.SIGKILL:
                said = self._log.read_text(encoding="utf-8", errors="replace").strip()
                raise Misuse(
                    f"worker {place + 1} ended by itself with code {process.returncode}",
                    hint=f"it said last: {said[-_SAID_CHARACTERS_MAX:]}",
                    ids={"pid": str(process.pid), "log": str(self._log)},
                )
            self._forget(process.pid)
            self._places[place] = self._start()

    def _forget(self, pid: int) -> None:
        timer = self._stopped.pop(pid, None)
        if timer is not None:
            timer.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for the demo, which ends its workers itself
            )

    def close(self) -> None:
        """End every process: those that run may drain for a moment; stopped ones are killed."""
        for place, process in enumerate(self._places):
            if self.is_stopped(place):
                process.kill()
            self._forget(process.pid)
            process.terminate()
        for process in self._places:
            try:
                process.wait(_DRAIN_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
