"""Makes a WSGI application answer a request that is sent again as it answered the first time.

Put around the application. The body is read whole, up to the endpoint's limit, and handed on; a response is held back
until its result is kept. What is decided is `desk`'s matter.
"""

from __future__ import annotations

import inspect
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fencepost.core.errors import Misuse
from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.desk import Ask, Desk, Run
from fencepost.receiving.receipt import HANDLED
from fencepost.receiving.receipts import Receipts
from fencepost.receiving.request import Request
from fencepost.receiving.terms import Terms

LOG = logging.getLogger("fencepost.receiving")

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Write = Callable[[bytes], None]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class IdempotentWSGI:
    """A WSGI application whose guarded requests are done once for each key; see `Terms`."""

    def __init__(self, app: Application, receipts: Receipts, terms: Terms) -> None:
        self._app = app
        self._desk = Desk(receipts, terms)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        desk = self._desk
        if not desk.is_guarded(environ["REQUEST_METHOD"]):
            return self._app(environ, start_response)
        given = environ.get(f"HTTP_{desk.terms.header.upper().replace('-', '_')}")
        key = desk.key_of([] if given is None else [given])
        if key is None:
            return self._app(environ, start_response)
        if isinstance(key, Answer):
            return start_answer(start_response, key)
        body = body_of(environ, desk.terms.body_max)
        if body is None:
            return start_answer(start_response, answers.too_long(desk.terms.body_max))
        return self._guard(request_of(environ, body), key, environ, start_response)

    def _guard(self, request: Request, key: str, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        found = self._desk.admit(request, key)
        if isinstance(found, Ask):
            found = self._desk.learn(found, self._looked_up(request))
        if isinstance(found, Answer):
            return start_answer(start_response, found)
        return self._handle(found, {**environ, "wsgi.input": io.BytesIO(request.body)}, start_response)

    def _handle(self, handled: Run, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        held = _Held()
        was = HANDLED.set((self._desk, handled))
        try:
            rest = held.collect(self._app(environ, held.start_response), self._desk.terms.answer_max)
        except BaseException:
            told = self._desk.conclude(handled, None)
            if told is None:
                raise
            LOG.exception("the handler of key %s broke off; its sender is answered", handled.key.key)
            return start_answer(start_response, told)
        finally:
            HANDLED.reset(was)
        answer = held.answer(is_whole=rest is None)
        told = self._desk.conclude(handled, answer)
        assert told is not None, "an answer leads to an answer"
        if rest is None or told is not answer:
            if rest is not None:
                rest.close()
            return start_answer(start_response, told)
        start_response(held.status, held.headers)
        return rest

    def _looked_up(self, request: Request) -> Any:
        look_up = self._desk.terms.look_up
        assert look_up is not None, "there is something to ask"
        if inspect.iscoroutinefunction(look_up):
            raise Misuse("an async look-up behind WSGI", hint="write it as a plain function")
        try:
            return look_up(request)
        except Exception:
            LOG.exception("the look-up of %s %s", request.method, request.path)
            return None


class _Rest:
    """A response that is too large to be kept: what was read of it, and then the application's own."""

    def __init__(self, read: list[bytes], parts: Iterator[bytes], source: Iterable[bytes]) -> None:
        self._read = read
        self._parts = parts
        self._source = source

    def __iter__(self) -> Iterator[bytes]:
        yield from self._read
        yield from self._parts

    def close(self) -> None:
        """As WSGI has it: the server calls it in any case."""
        _close(self._source)


class _Held:
    """A response that is held back until it is whole, or too large to be kept."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Write:
        """Take the application's status; nothing was sent yet, so that an error may replace it."""
        del exc_info
        self.status, self.headers = status, headers
        return self._parts.append

    def collect(self, parts: Iterable[bytes], limit: int) -> _Rest | None:
        """Read a response to its end; what is left of one that is larger than the limit."""
        iterator, size = iter(parts), 0
        is_left = False
        try:
            for part in iterator:
                self._parts.append(part)
                size += len(part)
                if size > limit:
                    is_left = True
                    return _Rest(self._parts, iterator, parts)
            return None
        finally:
            if not is_left:
                _close(parts)

    def answer(self, *, is_whole: bool) -> Answer:
        """What was read."""
        assert self.status, "a response begins with its status"
        headers = tuple((name.lower(), value) for name, value in self.headers)
        return Answer(int(self.status[:3]), headers, b"".join(self._parts) if is_whole else None)


def _close(parts: Iterable[bytes]) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        close()


def body_of(environ: Environ, limit: int) -> bytes | None:
    """The whole body; None if it is larger than the limit."""
    stream, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH")
    if length:
        if int(length) > limit:
            return None
        body: bytes = stream.read(int(length))
        return body
    if not environ.get("wsgi.input_terminated"):
        return b""
    body = stream.read(limit + 1)
    return body if len(body) <= limit else None


def request_of(environ: Environ, body: bytes) -> Request:
    """The request as it is compared."""
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(name):
            headers[name.replace("_", "-").lower()] = environ[name]
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return Request(environ["REQUEST_METHOD"].upper(), path, environ.get("QUERY_STRING", ""), headers, body)


def start_answer(start_response: StartResponse, answer: Answer) -> Iterable[bytes]:
    """Begin a response with a whole answer; returns its body."""
    start_response(answer.reason, answer.sent_headers)
    return [answer.body or b""]
