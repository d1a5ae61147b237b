"""Who calls, and what stands in for the app while they do: it speaks for one person, with what that person may do.

Over HTTP nobody is asked for a name: it is that of the token. Whether they may do what they ask for is decided where it
is for every other door, in `runtime.permits`, by the namespace's permissions narrowed to the token's scopes. Making
tokens is `runtime.api_tokens`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from fencepost.core.api_tokens import narrowed
from fencepost.core.errors import Misuse, NotPermitted
from fencepost.core.permissions import Permissions, Role
from fencepost.core.records import Signal
from fencepost.runtime import signalling
from fencepost.runtime.api_tokens import holder
from fencepost.runtime.operators import Operators
from fencepost.runtime.permits import refuse, require

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.store.api import Store

BEARER = HTTPBearer(
    auto_error=False,
    scheme_name="token",
    description="A token from `fencepost token make`. Its scopes are roles, and narrow what its holder may do.",
)


class Unnamed(Misuse):
    """The request carries no token, or one that is not taken: unknown, expired, revoked, or of another namespace."""


class Caller(Operators):
    """Stands in for an app while somebody calls: every verb of it is done in their name, with their roles.

    Args:
        app: whose ledger and code it is.
        person: who calls.
        scopes: the roles beyond which they may do nothing here, whatever they may elsewhere.
    """

    def __init__(self, app: App, person: str, scopes: Iterable[str]) -> None:
        self.app = app
        self.person = person
        self.namespace = app.namespace
        self.workflows = app.workflows
        self.permissions = app.permissions
        self.login = person
        self._scopes = tuple(scopes)

    @property
    def store(self) -> Store:
        """The opened ledger's store."""
        return self.app.store

    def policy(self) -> Permissions:
        """Who may do what: as the namespace has it, and of the caller only what the scopes have too."""
        return narrowed(self.app.policy(), self.person, self._scopes)

    def reads_payloads(self) -> bool:
        """Whether what the ledger keeps encrypted is decoded for them; not for whoever may only look. Blocking."""
        return self.app.codec is None or bool(self.policy().of(self.person) - {Role.VIEWER})

    def wake(self) -> None:
        """Let the workers of this process look what is due."""
        self._wake()

    def _wake(self) -> None:
        self.app._wake()  # noqa: SLF001 - whoever stands in for an app tells its workers too

    async def signal(self, run_id: str, name: str, value: Any, *, id: str | None = None, reason: str = "") -> Signal:
        """Send a run what it waits for, in the caller's name; see `App.signal`."""
        kept = await asyncio.to_thread(
            signalling.send, self, run_id, name, value, id=id, sender="", by=self.person, reason=reason
        )
        self._wake()
        return kept

    async def approve(
        self, run_id: str, name: str, *, approved: bool, comment: str, digest: str | None, id: str | None
    ) -> Signal:
        """Answer a run that waits for an approval, in the caller's name; see `App.approve`."""
        kept = await asyncio.to_thread(
            signalling.approve, self, run_id, name, by=self.person, approved=approved, comment=comment, digest=digest,
            id=id,
        )  # fmt: skip
        self._wake()
        return kept

    async def may(self, verb: str, about: str | None = None) -> None:
        """Ask for the role of a verb that has no function of its own; a refusal leaves a row under what it is about.

        Raises:
            NotPermitted: the caller lacks it.
        """
        try:
            await asyncio.to_thread(require, self, verb, self.person)
        except NotPermitted as refused:
            if about is not None:
                told = {"by": self.person, "reason": "over HTTP", "why": refused.message}
                await asyncio.to_thread(refuse, self, verb, about, **told)
            raise


async def who_calls(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
) -> Caller:
    """The caller of a request, by its token. Raises `Unnamed`."""
    app: App = request.app.state.fencepost
    token = None if given is None else await asyncio.to_thread(holder, app, given.credentials)
    if token is None:
        raise Unnamed("who calls is not known", hint="send a token that is taken here: Authorization: Bearer TOKEN")
    return Caller(app, token.person, token.scopes)


async def who_looks(caller: Annotated[Caller, Depends(who_calls)]) -> Caller:
    """The caller of a request that only reads. Raises `Unnamed`, and `NotPermitted`."""
    await caller.may("look")
    return caller


Called = Annotated[Caller, Depends(who_calls)]
Looking = Annotated[Caller, Depends(who_looks)]
