"""The application behind the endpoint: it counts what it did in a table of its own, and goes wrong when it is told to.

    POST /orders {"name": "a"}

What goes wrong is in the file `trouble`, and happens once: "wait" (until the file `go` is there), "kill early" and
"kill late" (before and after its own commit), "raise early", "raise late", "fail" (500 after its work), "refuse" (403,
nothing done), "large" (an answer that is not kept), and "forget" (ends without a commit). Behind which endpoint it
stands says `server`.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencepost.receiving import Answer, NotDone, Request, receipt
from tests.polling import until
from tests.runtime.callers import MADE, driver, names

LARGE = 3_000
"""Bytes of an answer that is larger than the tests' endpoints keep."""


class Shop:
    """Takes orders; `atomic` ones write their receipt in the transaction of the work."""

    def __init__(self, url: str, folder: Path, *, atomic: bool) -> None:
        self.url = url
        self.folder = folder
        self.atomic = atomic

    def order(self, request: dict[str, Any]) -> tuple[int, dict[str, str], Iterator[bytes]]:
        """One order: status, headers and the parts of the body."""
        name = request["name"]
        if self._is("refuse"):
            return 403, {}, iter([b"not you"])
        with driver(self.url) as connection:
            if self.atomic:
                with receipt(connection) as taken:
                    self._work(connection, name)
                    taken.answer(201, {"made": name}, {"X-Kept": "no", "Location": f"/orders/{name}"}.items())
            else:
                self._work(connection, name)
            if not self._is("forget"):
                connection.commit()
        self._break_off("late")
        body = [b"x" * (LARGE // 3)] * 3 if self._is("large") else [json.dumps({"made": name}).encode()]
        headers = {"Content-Type": "application/json", "Location": f"/orders/{name}", "X-Kept": "no"}
        return 500 if self._is("fail") else 201, headers, iter(body)

    def _work(self, connection: Any, name: str) -> None:
        connection.execute(MADE.format(name))
        if self._is("wait"):
            (self.folder / "waiting").touch()
            until((self.folder / "go").exists, "the test to let the handler go on")
        self._break_off("early")

    def _break_off(self, when: str) -> None:
        if self._is(f"kill {when}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._is(f"raise {when}"):
            raise RuntimeError("a fault in the handler")

    def _is(self, trouble: str) -> bool:
        """Whether this goes wrong now; what did goes right the next time."""
        file = self.folder / "trouble"
        if not file.exists() or file.read_text() != trouble:
            return False
        file.unlink()
        return True

    def look_up(self, request: Request) -> Answer | NotDone | None:
        """What became of an order, by what the table holds."""
        name = json.loads(request.body)["name"]
        (self.folder / "asked").open("a").write("asked\n")
        if (self.folder / "cannot tell").exists():
            return None
        return Answer.json(201, {"found": name}) if name in names(self.url) else NotDone()

    def clock(self) -> int:
        """Microseconds, moved forward by as many seconds as the file `later` says."""
        later = self.folder / "later"
        return time.time_ns() // 1000 + (int(later.read_text()) * 1_000_000 if later.exists() else 0)


def as_wsgi(shop: Shop):
    """The shop behind WSGI."""

    def application(environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        status, headers, parts = shop.order(json.loads(body))
        start_response(f"{status} Said", list(headers.items()))
        return parts

    return application


def as_asgi(shop: Shop):
    """The shop behind ASGI."""
    import asyncio

    async def application(scope, receive, send):
        assert scope["type"] == "http"
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, headers, parts = await asyncio.to_thread(shop.order, json.loads(body))
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return application
