"""The console as a web application, and as a server of its own.

    create_app(app)       for whatever serves ASGI; the ledger is opened and closed by whoever has the app
    serve(app, place)     on loopback, or elsewhere behind TLS or a proxy

It adds addresses to each other and decides nothing: what they do is in the `api_` modules, who may in `callers`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware

from fencepost.console import (
    api_bulk,
    api_flow,
    api_inbound,
    api_ledger,
    api_runs,
    api_verbs,
    api_watching,
    pages,
    problems,
)
from fencepost.console.bodies import BODY_MAX, Bounded
from fencepost.console.headers import Headed
from fencepost.console.idempotent import Once
from fencepost.console.loopback import is_loopback
from fencepost.console.passwords import Tries
from fencepost.console.providers import Provider
from fencepost.console.schema import Described
from fencepost.core.errors import Misuse
from fencepost.receiving import Receipts, WebhookEndpoint

if TYPE_CHECKING:
    from fencepost.runtime.app import App

API = "/api/v1"
"""Where the addresses of this version of the API begin."""

SCHEMA = f"{API}/openapi.json"

LOOPBACK = "127.0.0.1"
PORT = 8420

# An id may hold slashes: of an address with a verb the last part is the verb, and everything before it the id.
_ROUTERS = (
    api_runs.router, api_verbs.router, api_bulk.router, api_flow.router, api_ledger.router, api_watching.router,
    api_inbound.router,
)  # fmt: skip


def create_app(
    app: App,
    *,
    webhooks: Mapping[str, WebhookEndpoint] | None = None,
    routers: Iterable[APIRouter] = (),
    body_max: int = BODY_MAX,
    with_pages: bool = True,
    provider: Provider | None = None,
) -> FastAPI:
    """The console of an app, as an ASGI application.

    Args:
        app: whose ledger is shown, and whose code verbs and starts use. It is neither opened nor closed here.
        webhooks: whose events are taken, each under its name: `/api/v1/webhooks/NAME`.
        routers: more addresses; they find the app at `request.app.state.fencepost`, and ask for no token unless they
            do it themselves.
        body_max: bytes of a request's body; more is refused.
        with_pages: whether people are shown pages too, at `/`; if not, only programs are answered.
        provider: who else proves who people are; links and passwords are taken too.
    """
    from fencepost import __version__

    receipts = Receipts(app.url)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        receipts.close()

    made = Described(
        title="Fencepost",
        version=__version__,
        summary="What is known, what is not, and what may be done about it.",
        openapi_url=SCHEMA,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        middleware=[
            Middleware(Headed),
            Middleware(Bounded, body_max=body_max),
            Middleware(Once, ledger=app, receipts=receipts),
        ],
        separate_input_output_schemas=False,
        generate_unique_id_function=lambda route: route.name,
    )
    made.state.fencepost = app
    made.state.webhooks = dict(webhooks or {})
    made.state.tries = Tries()
    made.state.provider = provider
    made.state.streams = 0
    made.state.is_ending = lambda: False
    problems.install(made)
    for router in _ROUTERS:
        made.include_router(router, prefix=API)
    for router in (api_watching.probe, *routers, *(pages.ROUTERS if with_pages else ())):
        made.include_router(router)
    return made


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and what stands before it.

    `certificate` and `key` are files for TLS; `proxies` the addresses of proxies that end TLS, and are believed when
    they say whose request it is.
    """

    host: str = LOOPBACK
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """How it is spoken to."""
        return "http" if self.certificate is None else "https"

    def check(self) -> None:
        """Refuse to hand tokens over a network in the clear.

        Raises:
            Misuse: it is no loopback address, and neither TLS nor a proxy is named; or half of a key pair is missing.
        """
        if (self.certificate is None) != (self.key is None):
            raise Misuse("TLS needs a certificate and its key", hint="give both, or neither")
        if not is_loopback(self.host) and self.certificate is None and not self.proxies:
            raise Misuse(
                f"{self.host} can be reached from other machines, and tokens would pass in the clear",
                hint="give a certificate and key, or the address of the proxy that ends TLS, or stay on 127.0.0.1",
            )


class _Ending(uvicorn.Server):
    """A server that ends in order at a signal, and leaves it at that: its own raises the signal once more."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that ask for an end, where signals can be taken; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def server(console: FastAPI, place: Place) -> uvicorn.Server:
    """A server for it, to be run. Its log has no request lines: they hold what is in addresses, tokens of jobs too.

    Raises:
        Misuse: the place is none for tokens.
    """
    place.check()
    config = uvicorn.Config(
        console,
        host=place.host,
        port=place.port,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
        proxy_headers=bool(place.proxies),
        forwarded_allow_ips=list(place.proxies),
        access_log=False,
        server_header=False,
        log_level="warning",
        http="h11",
        ws="none",
        lifespan="on",
    )
    serving = _Ending(config)
    # A page that is kept fresh would keep the server from ending.
    console.state.is_ending = lambda: serving.should_exit
    return serving
