"""Reads each request's body whole, up to a limit, before anything looks at it: what is larger is refused unread.

What a body means is the addresses' matter.
"""

from __future__ import annotations

from fencepost.console.problems import answer
from fencepost.receiving.answer import Answer
from fencepost.receiving.asgi import Application, Message, Receive, Scope, Send, body_of
from fencepost.receiving.terms import MEBIBYTE

BODY_MAX = MEBIBYTE


class Bounded:
    """An ASGI application whose requests have no larger bodies than it wants to hold."""

    def __init__(self, app: Application, *, body_max: int = BODY_MAX) -> None:
        self._app = app
        self._body_max = body_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await body_of(receive, self._body_max)
        if isinstance(body, Answer):
            refused = answer(413, "body-too-large", f"at most {self._body_max} bytes; nothing was done")
            await refused(scope, receive, send)
        elif body is not None:
            await self._app(scope, _handed_on(body, receive), send)


def _handed_on(body: bytes, receive: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def handed_on() -> Message:
        return waiting.pop() if waiting else await receive()

    return handed_on
