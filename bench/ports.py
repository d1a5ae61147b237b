"""Finds ports for the servers that peers bring, and waits until they take connections.

The kernel chooses; between its choice and the server's use somebody else could take the port, and the measurement
would then fail and say so.
"""

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_PATIENCE_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 0.05


def free() -> int:
    """A port on loopback that nobody uses at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def serving(command: Sequence[str], port: int, log: Path, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """A server that has begun to listen on this port; ended afterwards. `more` is its environment.

    Raises `RuntimeError` with the end of its log when it does not start.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, env=more)
    try:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not _listens(port):
            if child.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{Path(command[0]).name} did not start: {log.read_text('utf-8')[-500:]}")
            time.sleep(_ASK_AGAIN_SECONDS)
        yield
    finally:
        child.terminate()
        try:
            child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
