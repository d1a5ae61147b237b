"""A target that answers one request after the other from a list, and counts what reaches it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket

from tests.effects.peer import Peer, peer, read_request

LOST = b""
"""The answer of a target that takes the request and hangs up."""


class Scripted:
    """`answers`: what is still to be said; an empty one hangs up. `requests`: whole requests, in their order."""

    def __init__(self, it: Peer) -> None:
        self.url = it.url
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self._lock = threading.Lock()
        it.serve(self._answer)

    def _answer(self, connection: socket) -> None:
        while request := read_request(connection):
            with self._lock:
                self.requests.append(request)
                text = self.answers.pop(0)
            if text == LOST:
                connection.close()
                return
            connection.sendall(text)

    def keys(self) -> set[str]:
        """The distinct operation keys that the requests carried."""
        lines = (line for request in self.requests for line in request.decode().split("\r\n"))
        return {line.partition(": ")[2] for line in lines if line.lower().startswith("idempotency-key: ")}


def status(line: str, *headers: str, body: str = "{}") -> bytes:
    """A whole reply: `status("429 Slow", "Retry-After: 30")`."""
    head = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {line}\r\n{head}content-length: {len(body)}\r\n\r\n{body}".encode()


@contextmanager
def scripted() -> Iterator[Scripted]:
    """One for one test."""
    with peer(holds=65536) as it:
        yield Scripted(it)
