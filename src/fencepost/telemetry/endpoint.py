"""Health and metrics over HTTP: an ASGI callable to mount, and a small server on a thread of its own for a worker.

The server answers also while the working loop is stuck, which is when it matters. `/health` gives 200 or 503 with what
is wrong as JSON, `/metrics` OpenMetrics text. Neither asks who wants to know, so both belong on loopback or a network
of one's own: which address it is, is the caller's matter. What is said is `health` and `metrics`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.core.errors import FencepostError, Misuse
from fencepost.telemetry.exposition import CONTENT_TYPE
from fencepost.telemetry.health import health
from fencepost.telemetry.metrics import metrics

if TYPE_CHECKING:
    from fencepost.runtime.app import App

LOOPBACK = "127.0.0.1"

_TEXT = "text/plain; charset=utf-8"
_OK, _NOT_FOUND, _NOT_ALLOWED, _UNWELL = 200, 404, 405, 503

Message = dict[str, Any]
ASGI = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


class Said(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


def answer(app: App, method: str, path: str) -> Said:
    """The answer to a request; by the path's last part, so that it may be mounted anywhere. Blocks for the ledger."""
    asked = path.rstrip("/").rpartition("/")[2]
    if asked not in _ANSWERS:
        return Said(_NOT_FOUND, _TEXT, b"there are /health and /metrics\n")
    if method not in {"GET", "HEAD"}:
        return Said(_NOT_ALLOWED, _TEXT, b"GET\n")
    try:
        return _ANSWERS[asked](app)
    except FencepostError as error:
        return Said(_UNWELL, _TEXT, f"{error.message}\n".encode("utf-8", "replace"))


def _health(app: App) -> Said:
    found = health(app)
    said = {"well": found.is_well, "works": found.does_work, "troubles": list(found.troubles)}
    return Said(_OK if found.is_well else _UNWELL, "application/json", json.dumps(said).encode())


def _metrics(app: App) -> Said:
    return Said(_OK, CONTENT_TYPE, metrics(app).encode())


_ANSWERS: dict[str, Callable[[App], Said]] = {"health": _health, "metrics": _metrics}


def endpoint(app: App) -> ASGI:
    """An ASGI application that answers `…/health` and `…/metrics` for this app; mount it in your own.

    The ledger is asked on a thread. It runs on your server's loop: where that is the worker's loop too and is stuck,
    there is no answer at all, which a probe takes for what it is.
    """

    async def asked(scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise Misuse(f"this endpoint speaks HTTP, not {scope['type']}", hint="mount it for HTTP requests")
        said = await asyncio.to_thread(answer, app, scope["method"], scope["path"])
        headers = [(b"content-type", said.content_type.encode()), (b"content-length", b"%d" % len(said.body))]
        await send({"type": "http.response.start", "status": said.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else said.body})

    return asked


async def _live(receive: Callable[[], Awaitable[Message]], send: Any) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


@contextmanager
def serving(app: App, port: int, host: str = LOOPBACK) -> Iterator[int]:
    """Answer on this port, 0 for a free one, while inside; yields the port.

    Raises:
        Misuse: the address is in use, or not this machine's.
    """
    try:
        server = _Server((host, port), app)
    except OSError as error:
        raise Misuse(f"nothing can be served on {host}:{port}: {error.strerror}", hint="choose another port") from error
    thread = threading.Thread(target=server.serve_forever, name="fencepost-telemetry", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """One app's answers."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], app: App) -> None:
        self.app = app
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: _Server
    timeout = 10  # seconds: somebody who connects and says nothing keeps a thread no longer
    server_version = "fencepost"

    def do_GET(self) -> None:
        """Answer."""
        said = answer(self.server.app, self.command, self.path.partition("?")[0])
        self.send_response(said.status)
        self.send_header("Content-Type", said.content_type)
        self.send_header("Content-Length", str(len(said.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said.body)

    do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: Any) -> None:
        """A probe every few seconds is no news."""
