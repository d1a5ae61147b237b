"""Serves a console over loopback in this process, with real uvicorn, and calls it as services and people do."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self

import httpx2
import pytest

from fencepost import App, Permissions
from fencepost.console.server import API, Place, create_app, server
from fencepost.runtime import api_tokens
from tests.console import shop
from tests.polling import until
from tests.runtime.stage import target
from tests.services import wanted

collect_ignore = [] if wanted.are_wanted() else ["test_fuzz.py"]


class Served:
    """A console with its app; `worker` says whether runs are lived beside it."""

    def __init__(self, app: App, *, worker: bool, **options: Any) -> None:
        self.app = app
        self.loop = asyncio.new_event_loop()
        self._listening = socket.create_server(("127.0.0.1", 0))
        place = options.pop("place", Place(port=0))
        host = "127.0.0.1" if place.certificate is None else "localhost"
        self.url = f"{place.scheme}://{host}:{self._listening.getsockname()[1]}"
        webhooks = options.pop("webhooks", lambda _: {})(app)
        provider = options.pop("provider", lambda _: None)(self.url)
        self.server = server(create_app(app, webhooks=webhooks, provider=provider, **options), place)
        self._thread = threading.Thread(target=self._run, args=(worker,), daemon=True)
        self._clients: list[httpx2.Client] = []

    def _run(self, worker: bool) -> None:
        async def serve() -> None:
            async with self.app, contextlib.AsyncExitStack() as stack:
                if worker:
                    await stack.enter_async_context(self.app.worker())
                await self.server.serve(sockets=[self._listening])

        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(serve())

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self.server.started or not self._thread.is_alive(), "the server")
        assert self.server.started
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self.server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something with the app, on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def token(self, person: str, *roles: str, **more: Any) -> str:
        """A new token."""
        by = more.pop("by", "ann")
        return api_tokens.make(self.app, person, roles or ("operator",), by=by, reason="for a test", **more)[0]

    def client(self, token: str | None) -> httpx2.Client:
        """Somebody who calls with this token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._clients.append(httpx2.Client(base_url=f"{self.url}{API}", headers=headers, timeout=20))
        return self._clients[-1]

    def as_(self, person: str, *roles: str) -> httpx2.Client:
        """Somebody with a token of their own."""
        return self.client(self.token(person, *roles))

    def rows(self) -> list[tuple[str, str, str]]:
        """Who did what to which run, in the audit."""
        return [
            (row.actor, row.verb, row.outcome)
            for row in self.app.store.audits("default", None)
            if not row.run_id.startswith(("token:", "account:"))
        ]


Serve = Callable[..., Served]


@pytest.fixture
def serve(url: str) -> Iterator[Serve]:
    """Serve the shop on a new ledger."""
    target.reset()
    with contextlib.ExitStack() as stack:

        def begin(
            *, worker: bool = False, permissions: Permissions | None = None, workflows: list[Any] | None = None,
            app: dict[str, Any] | None = None, **options: Any,
        ) -> Served:  # fmt: skip
            code = shop.WORKFLOWS if workflows is None else workflows
            made = App(url, workflows=code, permissions=permissions, **(app or {}))
            return stack.enter_context(Served(made, worker=worker, **options))

        yield begin


@pytest.fixture
def served(serve: Serve) -> Served:
    """The shop without a worker: nothing moves by itself."""
    return serve()
