"""Two small servers that compare as real ones do: an HTTP one with ETags, and Consul's key-value store.

Each can be told to be careless in one way, so that a test sees a fence notice it. They run in threads of the test; what
Consul answers is taken from its API's pages "Transaction" and "KV store". Real services are in `tests/services`.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class State(Protocol):
    def answer(self, request: Request) -> Response: ...


@contextmanager
def served(state: State) -> Iterator[str]:
    """Answer requests one after the other, and give the server's address."""
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            with lock:
                reply = state.answer(Request(self.command, unquote(parts.path), parts.query, headers, body))
            self.send_response(reply.status)
            for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_PUT = _answer  # noqa: N815 - the base class looks them up by these names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Resources:
    """JSON resources with an ETag over their bytes, and over the header that it keeps with them.

    `carelessness`: "" or one of "ignores If-Match", "weak ETags", "no ETags", "ETag without header", "drops the
    field", "repeats a PUT" (as a proxy that got no answer to the first copy), "answers 202".
    """

    header: str = "x-fence-token"
    carelessness: str = ""
    stored: dict[str, tuple[bytes, str]] = field(default_factory=dict)

    def answer(self, request: Request) -> Response:
        if request.method == "PUT":
            if self.carelessness == "repeats a PUT":
                self._put(request)
            return self._put(request)
        if request.path not in self.stored:
            return Response(404)
        body, kept = self.stored[request.path]
        tag = {} if self.carelessness == "no ETags" else {"etag": self._etag(request.path)}
        return Response(200, {self.header: kept, **tag} if kept else tag, body)

    def _put(self, request: Request) -> Response:
        if not self._matches(request):
            return Response(412)
        body = request.body
        if self.carelessness == "drops the field":
            body = json.dumps({name: value for name, value in json.loads(body).items() if "token" not in name}).encode()
        self.stored[request.path] = body, request.headers.get(self.header, "")
        return Response(202 if self.carelessness == "answers 202" else 204)

    def _matches(self, request: Request) -> bool:
        if self.carelessness == "ignores If-Match":
            return True
        if request.headers.get("if-none-match") == "*":
            return request.path not in self.stored
        return request.path in self.stored and request.headers.get("if-match") == self._etag(request.path)

    def _etag(self, path: str) -> str:
        body, kept = self.stored[path]
        covered = body if self.carelessness == "ETag without header" else body + kept.encode()
        return f'{"W/" if self.carelessness == "weak ETags" else ""}"{hashlib.sha256(covered).hexdigest()[:16]}"'


@dataclass
class Consul:
    """Consul's key-value store: `GET /v1/kv/KEY` and `PUT /v1/txn` with the verbs that a fence and its writers use."""

    kept: dict[str, tuple[str, int]] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    raft_index: int = 10

    def answer(self, request: Request) -> Response:
        if request.method == "GET":
            return self._get(request.path.removeprefix("/v1/kv/"))
        assert request.path == "/v1/txn", request.path
        before, self.raft_index = dict(self.kept), self.raft_index + 1
        errors = [
            {"OpIndex": number, "What": what}
            for number, operation in enumerate(json.loads(request.body))
            if (what := self._refusal(**operation["KV"]))
        ]
        if errors:
            self.kept = before
        return _json(409 if errors else 200, {"Results": None if errors else [], "Errors": errors or None})

    def _get(self, key: str) -> Response:
        if key not in self.kept:
            return Response(404)
        value, index = self.kept[key]
        return _json(200, [{"Key": key, "Value": value, "ModifyIndex": index, "LockIndex": 0, "Flags": 0}])

    def _refusal(self, Verb: str, Key: str, Value: str = "", Index: int = 0, Session: str = "") -> str:  # noqa: N803 - Consul's names
        if Verb == "check-session":
            return "" if self.locks.get(Key) == Session else f"failed session check for key {Key!r}"
        if Verb == "delete":
            self.kept.pop(Key, None)
            return ""
        assert Verb in {"set", "cas"}, f"this double does not know {Verb}"
        if Verb == "cas" and self.kept.get(Key, ("", 0))[1] != Index:
            return f"failed to set key {Key!r}, index is stale"
        self.kept[Key] = b64encode(b64decode(Value)).decode(), self.raft_index
        return ""


def _json(status: int, value: object) -> Response:
    return Response(status, {"content-type": "application/json"}, json.dumps(value).encode())
