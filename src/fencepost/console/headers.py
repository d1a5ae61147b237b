"""The security headers of every answer, whoever gives it: a page, an address of the API, or a refusal before either.

A browser that shows an answer loads nothing from elsewhere, runs no script that stands in it, puts it into no frame,
and keeps no copy. An answer may say something else of its own, as files without anybody's data do of copies.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders

from fencepost.receiving.asgi import Application, Message, Receive, Scope, Send

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "object-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # A form of ours says where it comes from, and nobody else is told.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What each answer is sent with."""

STRICT_TRANSPORT = "max-age=31536000"
"""For a year no browser speaks to it in the clear, once it has been spoken to over TLS."""


class Headed:
    """An ASGI application whose answers have these headers."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope.get("scheme") == "https":
                    headers["Strict-Transport-Security"] = STRICT_TRANSPORT
            await send(message)

        await self._app(scope, receive, headed)
