"""One address that turns a request into one call of an app, as an ASGI and as a WSGI application.

    endpoint.asgi, endpoint.wsgi      the same endpoint, to be mounted in whatever serves it

The body is read whole, up to a limit. What a request asks for, and what is answered, says a subclass: `callbacks` and
`webhooks`. Requests that carry a key of their own are guarded elsewhere (`desk`).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.core.errors import FencepostError, StoreUnavailable
from fencepost.receiving import answer as answers
from fencepost.receiving import asgi, wsgi
from fencepost.receiving.answer import Answer
from fencepost.receiving.request import Request
from fencepost.receiving.terms import MEBIBYTE

LOG = logging.getLogger("fencepost.receiving")

METHOD = "POST"

RETRY_AFTER = 5
"""Seconds after which a sender is asked to come back, where it is not its own fault."""


class Taking(Protocol):
    """An app, as far as an endpoint calls it."""

    @property
    def sync(self) -> Any:
        """The same methods, blocking."""

    def callback(self, token: str, value: Any = None, *, failed: str | None = None) -> Awaitable[Any]:
        """Take in a report on a job."""

    def heartbeat(self, token: str, *, progress: Any = None) -> Awaitable[bool]:
        """Take in a sign of life of a job."""

    def signal(self, run_id: str, name: str, value: Any, *, id: str | None = None, sender: str = "") -> Awaitable[Any]:
        """Take in a signal to a run."""

    def event(self, name: str, value: Any, *, id: str, sender: str = "") -> Awaitable[Any]:
        """Take in a signal to whichever run waits under this name."""


@dataclass(frozen=True)
class Deed:
    """A call of the app: its method with arguments, and how what it returns is told."""

    method: str
    arguments: tuple[Any, ...]
    more: dict[str, Any]
    told: Callable[[Any], Answer]


class Endpoint(ABC):
    """An address of an app."""

    def __init__(self, app: Taking, *, body_max: int = MEBIBYTE) -> None:
        self._app = app
        self._body_max = body_max

    @abstractmethod
    def begin(self, request: Request) -> Deed | Answer:
        """What the request asks for, or why it is refused."""

    @abstractmethod
    def refusal(self, error: FencepostError) -> Answer | None:
        """What is answered where the app refused; None: it is a fault of this side."""

    async def asgi(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """The endpoint as an ASGI application."""
        if scope["type"] != "http":
            raise ValueError(f"this address takes HTTP requests, not {scope['type']}")
        body = await asgi.body_of(receive, self._body_max)
        if body is None:
            return
        found = body if isinstance(body, Answer) else await self.answered(asgi.request_of(scope, body))
        await asgi.send_answer(send, found)

    async def answered(self, request: Request) -> Answer:
        """What is answered to a whole request, for whatever has read it already."""
        found = self._begun(request)
        if isinstance(found, Deed):
            try:
                found = found.told(await getattr(self._app, found.method)(*found.arguments, **found.more))
            except Exception as error:  # noqa: BLE001 - whoever sent it gets an answer in any case
                found = self._failed(error)
        return found

    def wsgi(self, environ: wsgi.Environ, start_response: wsgi.StartResponse) -> Iterable[bytes]:
        """The endpoint as a WSGI application."""
        body = wsgi.body_of(environ, self._body_max)
        too_long = answers.too_long(self._body_max)
        found = too_long if body is None else self._begun(wsgi.request_of(environ, body))
        if isinstance(found, Deed):
            try:
                found = found.told(getattr(self._app.sync, found.method)(*found.arguments, **found.more))
            except Exception as error:  # noqa: BLE001 - as above
                found = self._failed(error)
        return wsgi.start_answer(start_response, found)

    def _begun(self, request: Request) -> Deed | Answer:
        if request.method != METHOD:
            refused = answers.problem(405, "Only POST", f"{request.method} is not for this address")
            return Answer(refused.status, (*refused.headers, ("allow", METHOD)), refused.body)
        try:
            return self.begin(request)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            return self._failed(error)

    def _failed(self, error: Exception) -> Answer:
        found = self.refusal(error) if isinstance(error, FencepostError) else None
        if found is not None:
            return found
        if isinstance(error, StoreUnavailable):
            return answers.unavailable()
        LOG.error("a request was not taken in", exc_info=error)
        return answers.problem(500, "Not taken in", "send it again later", retry_after=RETRY_AFTER)
