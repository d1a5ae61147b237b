"""Makes an ASGI application answer a request that is sent again as it answered the first time.

Put around the application, or around one of its routes. The body is read whole, up to the endpoint's limit, and handed
on; a response is held back until its result is kept. Work that the application does after its response is not waited
for. The database is asked on a thread. What is decided is `desk`'s matter.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.desk import Ask, Desk, Run
from fencepost.receiving.receipt import HANDLED
from fencepost.receiving.receipts import Receipts
from fencepost.receiving.request import Request
from fencepost.receiving.terms import Terms

LOG = logging.getLogger("fencepost.receiving")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class IdempotentASGI:
    """An ASGI application whose guarded requests are done once for each key; see `Terms`."""

    def __init__(self, app: Application, receipts: Receipts, terms: Terms) -> None:
        self._app = app
        self._desk = Desk(receipts, terms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        desk = self._desk
        if scope["type"] != "http" or not desk.is_guarded(scope["method"]):
            await self._app(scope, receive, send)
            return
        header = desk.terms.header.lower().encode()
        key = desk.key_of([value.decode("latin-1") for name, value in scope["headers"] if name.lower() == header])
        if key is None:
            await self._app(scope, receive, send)
            return
        if isinstance(key, Answer):
            await send_answer(send, key)
            return
        body = await body_of(receive, desk.terms.body_max)
        if not isinstance(body, bytes):
            if body is not None:
                await send_answer(send, body)
            return
        await self._guard(request_of(scope, body), key, scope, receive, send)

    async def _guard(self, request: Request, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        found = await asyncio.to_thread(self._desk.admit, request, key)
        if isinstance(found, Ask):
            found = await asyncio.to_thread(self._desk.learn, found, await self._looked_up(request))
        if isinstance(found, Answer):
            await send_answer(send, found)
            return
        held = _Held(self._desk, found, send)
        was = HANDLED.set((self._desk, found))
        try:
            await self._app(_plain(scope), _handed_on(request.body, receive), held.send)
        except BaseException:
            # Not on a thread: a cancelled task may await nothing more.
            told = None if held.is_concluded else self._desk.conclude(found, None)
            if told is None:
                raise
            LOG.exception("the handler of key %s broke off; its sender is answered", found.key.key)
            await send_answer(send, told)
        else:
            await held.end()
        finally:
            HANDLED.reset(was)

    async def _looked_up(self, request: Request) -> Any:
        look_up = self._desk.terms.look_up
        assert look_up is not None, "there is something to ask"
        try:
            if inspect.iscoroutinefunction(look_up):
                return await look_up(request)
            said = await asyncio.to_thread(look_up, request)
            return await said if inspect.isawaitable(said) else said
        except Exception:
            LOG.exception("the look-up of %s %s", request.method, request.path)
            return None


class _Held:
    """A response that is held back until it is whole and kept, or too large to be."""

    def __init__(self, desk: Desk, handled: Run, send: Send) -> None:
        self._desk = desk
        self._run = handled
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._passes = False
        self.is_concluded = False

    async def send(self, message: Message) -> None:
        """Take a message of the application."""
        if self._passes:
            await self._send(message)
        elif message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and not self.is_concluded:
            await self._take(message)

    async def _take(self, message: Message) -> None:
        part = bytes(message.get("body", b""))
        self._parts.append(part)
        self._size += len(part)
        if not message.get("more_body", False):
            await self._conclude(b"".join(self._parts))
        elif self._size > self._desk.terms.answer_max:
            await self._conclude(None)
            if self._passes:
                await self._send({"type": "http.response.body", "body": b"".join(self._parts), "more_body": True})

    async def _conclude(self, body: bytes | None) -> None:
        """Keep the answer and send what is to be told; with `body` None the application's own goes on in a stream."""
        assert self._start is not None, "a response begins with its status"
        self.is_concluded = True
        headers = tuple(
            (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
            for name, value in self._start.get("headers", ())
        )
        answer = Answer(self._start["status"], headers, body)
        told = await asyncio.to_thread(self._desk.conclude, self._run, answer)
        assert told is not None, "an answer leads to an answer"
        if body is None and told is answer:
            self._passes = True
            await self._send(self._start)
            return
        await send_answer(self._send, told)

    async def end(self) -> None:
        """The application has returned: if it did not answer, it has broken off."""
        if self.is_concluded:
            return
        told = await asyncio.to_thread(self._desk.conclude, self._run, None)
        await send_answer(self._send, told or answers.problem(500, "No answer", "the application ended without one"))


async def body_of(receive: Receive, limit: int) -> bytes | Answer | None:
    """The whole body; what to answer if it is too large; None if the sender is gone."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(bytes(message.get("body", b"")))
        size += len(parts[-1])
        if size > limit:
            return answers.too_long(limit)
        if not message.get("more_body", False):
            return b"".join(parts)


def request_of(scope: Scope, body: bytes) -> Request:
    """The request as it is compared."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(scope["method"].upper(), scope["path"], scope["query_string"].decode("latin-1"), headers, body)


def _plain(scope: Scope) -> Scope:
    """The scope without extensions that would send a response past us."""
    return {**scope, "extensions": {}}


def _handed_on(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body that was read, then what the server says."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def handed_on() -> Message:
        return waiting.pop() if waiting else await receive()

    return handed_on


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.sent_headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body or b""})
