"""A process that forks children on request, so that a hundred of them do not each import the package anew.

A `Nursery` is held by the test process; the process behind it imports a module once, `child` unless another is named,
and forks for each order; the fork calls the module's `live`. What is
forked is a process like any other: with its own pid, its own pipes, and killed by SIGKILL alone. It is forked before
any thread, loop or ledger exists in the nursery. What a child does is in `child`.
"""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
MESSAGE_BYTES_MAX = 65_536


class Nursery:
    """The nursery as the test process sees it; safe for threads. Its children are the `live` of the module `of`."""

    def __init__(self, of: str = "tests.processes.child") -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.processes.nursery", str(theirs.fileno()), of],
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
            )

    def fork(self, told: dict, environment: dict[str, str], complaints: Path) -> "Forked":
        """Start a child with what it is told; its standard error is appended to `complaints`."""
        their_stdin, stdin = os.pipe()
        stdout, their_stdout = os.pipe()
        stderr = os.open(complaints, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        order = json.dumps({"told": told, "environment": environment}).encode()
        pid = int(self._ask(order, [their_stdin, their_stdout, stderr]))
        for one in (their_stdin, their_stdout, stderr):
            os.close(one)
        return Forked(self, pid, stdin, stdout)

    def status(self, pid: int) -> int | None:
        """The exit code of a child, negative for a signal; None while it runs. Asked once after its end."""
        answer = self._ask(json.dumps({"reap": pid}).encode(), [])
        return None if answer == "running" else int(answer)

    def _ask(self, order: bytes, descriptors: list[int]) -> str:
        with self._lock:
            socket.send_fds(self._socket, [order], descriptors)
            return self._socket.recv(MESSAGE_BYTES_MAX).decode()

    def close(self) -> None:
        """End the nursery."""
        self._socket.close()
        self._process.wait()


class Forked:
    """One child: what `subprocess.Popen` would be, as far as it is needed."""

    def __init__(self, nursery: Nursery, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb")
        self.stdout = os.fdopen(stdout, "rb")
        self._nursery = nursery
        self._ended = os.pidfd_open(pid)
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self._code is None:
            self._code = self._nursery.status(self.pid)
        return self._code

    def wait(self, seconds: float = 30.0) -> int:
        """Its exit code once it has ended; raises `TimeoutError`."""
        give_up_at = time.monotonic() + seconds
        while (code := self.poll()) is None:
            left = give_up_at - time.monotonic()
            if left <= 0 or not select.select([self._ended], [], [], left)[0]:
                raise TimeoutError(f"process {self.pid} has not ended after {seconds} s")
        return code

    def close(self) -> None:
        """Close what leads to it."""
        for one in (self.stdin, self.stdout):
            one.close()
        if self._ended >= 0:
            os.close(self._ended)
            self._ended = -1


def serve(asked: socket.socket, live: Callable[[dict], None]) -> None:
    """Fork and reap as long as the test process asks."""
    while True:
        order, descriptors, _, _ = socket.recv_fds(asked, MESSAGE_BYTES_MAX, 3)
        if not order:
            return
        wanted = json.loads(order)
        if "reap" in wanted:
            pid, status = os.waitpid(wanted["reap"], os.WNOHANG)
            asked.send(str(os.waitstatus_to_exitcode(status)).encode() if pid else b"running")
            continue
        pid = os.fork()
        if pid == 0:
            asked.close()
            _become(wanted, descriptors, live)
        for one in descriptors:
            os.close(one)
        asked.send(str(pid).encode())


def _become(wanted: dict, descriptors: list[int], live: Callable[[dict], None]) -> None:
    """Turn into the child that was asked for, and end with it."""
    code = 1
    try:
        for number, one in enumerate(descriptors):
            os.dup2(one, number)
            os.close(one)
        os.environ.update(wanted["environment"])
        live(wanted["told"])
        code = 0
    except BaseException:  # noqa: BLE001 - it is told, and the fork ends here whatever it was
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    module = import_module(sys.argv[2])  # once, here, for all children
    with socket.socket(fileno=int(sys.argv[1])) as end:
        serve(end, module.live)
