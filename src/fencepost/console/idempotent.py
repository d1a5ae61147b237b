"""Makes a POST that carries an Idempotency-Key be done once for each key of each person, and answered alike each time.

The receipts stand in the ledger's own database, beside the ledger. A key is looked at only once it is known who calls:
strangers write nothing. What becomes of a key is decided in `receiving.desk`; starts need none, since a run's id is
theirs, and verbs compare a version in any case.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING

from fencepost.core.errors import StoreUnavailable
from fencepost.receiving import IdempotentASGI, Receipts, Terms
from fencepost.receiving.asgi import Application, Receive, Scope, Send
from fencepost.receiving.terms import MEBIBYTE
from fencepost.runtime.api_tokens import holder

if TYPE_CHECKING:
    from fencepost.core.api_tokens import ApiToken
    from fencepost.runtime.app import App

HEADER = "Idempotency-Key"
WINDOW = "24h"

NOTHING_DONE = (400, 401, 403, 404, 405, 412, 413, 415, 422, 428)
"""Statuses with which nothing was done: the same request under the same key may go otherwise the next time."""

FORGETS_EVERY = 100
"""After so many requests with a key, old keys are removed."""

_BEARER = b"bearer "
_CALLS: ContextVar[str] = ContextVar("fencepost_console_caller")


class Once:
    """An ASGI application whose POSTs with a key are done once.

    Args:
        app: what answers.
        ledger: whose tokens are taken; in its namespace a person's keys are their own.
        receipts: where keys are kept.
    """

    def __init__(self, app: Application, *, ledger: App, receipts: Receipts) -> None:
        self._app = app
        self._ledger = ledger
        self._receipts = receipts
        self._keys = count(1)
        # What a ledger keeps encrypted must not stand beside it in the clear: there an answer is told once.
        kept = MEBIBYTE if ledger.codec is None else 0
        terms = Terms(
            caller=lambda _: _CALLS.get(), window=WINDOW, required=False, releases=NOTHING_DONE, answer_max=kept
        )
        self._guarded = IdempotentASGI(app, receipts, terms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        caller = await self._caller_with_key(scope) if scope["type"] == "http" else None
        if caller is None:
            await self._app(scope, receive, send)
            return
        was = _CALLS.set(f"{caller.namespace}:{caller.person}")
        try:
            await self._guarded(scope, receive, send)
        finally:
            _CALLS.reset(was)
        if next(self._keys) % FORGETS_EVERY == 0:
            await asyncio.to_thread(self._forget)

    def _forget(self) -> None:
        """Remove keys that nobody relies on any more; where that fails, the next time does it."""
        with suppress(StoreUnavailable):
            self._receipts.forget()

    async def _caller_with_key(self, scope: Scope) -> ApiToken | None:
        """Who calls, where the request carries a key and its token is taken."""
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"")
        if HEADER.lower().encode() not in headers or given[: len(_BEARER)].lower() != _BEARER:
            return None
        text = given[len(_BEARER) :].strip().decode("latin-1")
        return await asyncio.to_thread(holder, self._ledger, text)
