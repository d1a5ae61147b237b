"""A model endpoint in the test's own hands: it gives the answers that it was given, one per request, and counts."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost.effects.endpoint import Endpoint
from tests.effects.peer import Peer, peer, read_request, reply


@dataclass
class ModelServer:
    """Loopback only. The last of `replies` is given for ever; `requests` holds what was asked, parsed."""

    peer: Peer
    replies: list[bytes] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.peer.url.removesuffix("/things") + "/v1"

    def endpoint(self, **options: Any) -> Endpoint:
        return Endpoint(self.url, "small-1", **options)

    def answers(self, *replies: bytes | str) -> None:
        """What to reply from now on: raw replies, or the text of a completion."""
        self.replies[:] = [one if isinstance(one, bytes) else completion(one) for one in replies]

    def answer(self, connection: socket.socket) -> None:
        while request := read_request(connection):
            head, _, body = request.partition(b"\r\n\r\n")
            self.heads.append(head.decode())
            self.requests.append(json.loads(body))
            connection.sendall(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])


def completion(text: str | None, **message: Any) -> bytes:
    """A whole reply with that text as its only choice."""
    said = {"role": "assistant", "content": text, **message}
    body = {"id": "c-1", "object": "chat.completion", "choices": [{"index": 0, "message": said}]}
    return reply(json.dumps(body).encode(), "200 OK")


def refusal(status: str, *headers: str) -> bytes:
    """A whole reply without a completion."""
    head = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 {status}\r\n{head}content-length: 6\r\n\r\nsorry!".encode()


@contextlib.contextmanager
def model_server(*replies: bytes | str) -> Iterator[ModelServer]:
    """A `ModelServer` for one test."""
    with peer(holds=65536) as it:
        server = ModelServer(it)
        server.answers(*replies or ["{}"])
        it.serve(server.answer)
        yield server
