"""A process that serves the shop behind an idempotent endpoint, over HTTP on loopback.

Forked by a nursery with what it is told. It says its port in a line and serves until its standard input closes. WSGI is
served by the standard library's server, a thread for each request; ASGI by a small server on h11 that does what the
specification says of HTTP and nothing else. What the tests ask of it is in `conftest`.
"""

import asyncio
import socketserver
import sys
import threading
from http import HTTPStatus
from pathlib import Path
from wsgiref import simple_server

import h11

from fencepost.receiving import IdempotentASGI, IdempotentWSGI, Receipts, Terms
from tests.receiving.shop import Shop, as_asgi, as_wsgi


def endpoint(kind: str, url: str, folder: Path, told: dict):
    """The shop behind the endpoint."""
    looks = told.pop("looks", False)
    shop = Shop(url, folder, atomic=told.get("atomic", False))
    terms = Terms(
        caller=lambda request: request.headers.get("x-account", "ann"),
        look_up=shop.look_up if looks else None,
        answer_max=2_000,
        body_max=1_000,
        **told,
    )
    # Beside the work in a file of their own: while a handler writes to its file, nobody else can.
    is_apart = url.startswith("sqlite") and not terms.atomic
    receipts = Receipts(f"{url}.receipts" if is_apart else url, clock=shop.clock)
    if kind == "wsgi":
        return IdempotentWSGI(as_wsgi(shop), receipts, terms)
    return IdempotentASGI(as_asgi(shop), receipts, terms)


def say(port: int) -> None:
    """Tell where it listens, and wait until nobody needs it any more."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()


# -- WSGI -------------------------------------------------------------------------------------------------------------


class Threads(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


def serve_wsgi(application) -> None:
    server = simple_server.make_server("127.0.0.1", 0, application, Threads, Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say(server.server_port)


# -- ASGI -------------------------------------------------------------------------------------------------------------


async def serve_asgi(application) -> None:
    async def serve(reader, writer):
        try:
            await OneRequest(reader, writer).serve(application)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=128)
    await asyncio.to_thread(say, server.sockets[0].getsockname()[1])


class OneRequest:
    """One connection, with one request on it."""

    def __init__(self, reader, writer) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self, application) -> None:
        try:
            await application(scope_of(await self._event()), self.receive, self.send)
        except Exception:  # noqa: BLE001 - as servers do
            if self._http.our_state is h11.SEND_RESPONSE:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                await self.send({"type": "http.response.start", "status": status, "headers": []})
                await self.send({"type": "http.response.body", "body": b""})

    async def _event(self):
        while (found := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(65_536))
        return found

    async def receive(self):
        found = await self._event()
        if isinstance(found, h11.Data):
            return {"type": "http.request", "body": bytes(found.data), "more_body": True}
        if isinstance(found, h11.EndOfMessage):
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send(self, message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message["headers"], (b"connection", b"close")]
            said = self._http.send(h11.Response(status_code=message["status"], headers=headers))
        else:
            said = self._http.send(h11.Data(data=message["body"]))
            if not message.get("more_body", False):
                said += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(said)
        await self._writer.drain()


def scope_of(request) -> dict:
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method.decode(),
        "scheme": "http", "path": path.decode(), "raw_path": path, "query_string": query, "root_path": "",
        "headers": list(request.headers), "client": None, "server": None, "extensions": {},
    }  # fmt: skip


def live(told: dict) -> None:
    """Be a server."""
    application = endpoint(told["kind"], told["url"], Path(told["folder"]), told["terms"])
    if told["kind"] == "wsgi":
        serve_wsgi(application)
    else:
        asyncio.run(serve_asgi(application))
