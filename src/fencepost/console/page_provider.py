"""Signing in by a provider: the button's address, and the one to which the provider sends a browser back.

The cookie between the two is `Lax`, since the way back begins at the provider's site; the session's own is `Strict`,
and so a page of ours stands between, from which the browser goes on by itself. What is checked is `oidc`; sessions are
`runtime.accounts`'.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console import oidc
from fencepost.console.page_frame import Page, moved, shown
from fencepost.console.page_sign_in import sign_in_form
from fencepost.console.page_visits import is_over_tls, remember
from fencepost.console.printable import printable
from fencepost.console.problems import LOG
from fencepost.console.providers import BACK, Provider
from fencepost.core.duration import SECOND
from fencepost.core.errors import NotThere
from fencepost.runtime import accounts

if TYPE_CHECKING:
    from fencepost.runtime.app import App

router = APIRouter(route_class=Page, include_in_schema=False)

COOKIE = "fencepost_sign_in"


@router.get("/sign-in/provider")
async def begin(request: Request) -> Response:
    """Send somebody to the provider."""
    provider = _provider_of(request)
    try:
        begun = await oidc.begin(provider)
    except oidc.ProviderAway as error:
        LOG.warning("nobody can sign in by %s: %s", provider.issuer, printable(error.message, limit=200))
        return sign_in_form(request, status=503, refused="sign-in.provider-away")
    reply = moved(begun.address)
    reply.set_cookie(
        _cookie_of(request), begun.kept, max_age=oidc.LASTS_SECONDS, path="/", httponly=True, samesite="lax",
        secure=is_over_tls(request),
    )  # fmt: skip
    return reply


@router.get(BACK)
async def come_back(request: Request) -> Response:
    """Let in whoever the provider has proved to be somebody with a role here; their cookie is used up either way."""
    provider, app = _provider_of(request), _app_of(request)
    now = await asyncio.to_thread(app.store.now)
    kept, asked = request.cookies.get(_cookie_of(request), ""), dict(request.query_params)
    try:
        known = await oidc.finish(provider, kept=kept, asked=asked, now=now // SECOND)
    except (oidc.NotProved, oidc.ProviderAway) as error:
        LOG.warning("signing in by %s was refused: %s", provider.issuer, printable(error.message, limit=200))
        is_away = isinstance(error, oidc.ProviderAway)
        reply: Response = sign_in_form(
            request,
            status=503 if is_away else 403,
            refused="sign-in.provider-away" if is_away else "sign-in.provider-refused",
        )
    else:
        how = f"by {provider.issuer}, as {known.subject}"
        secret = await asyncio.to_thread(accounts.enter, app, known.person, known.roles, how=how)
        reply = remember(request, shown(request, "come_in.html", now=0), secret)
    reply.delete_cookie(_cookie_of(request), path="/", httponly=True, samesite="lax", secure=is_over_tls(request))
    return reply


def _provider_of(request: Request) -> Provider:
    provider: Provider | None = request.app.state.provider
    if provider is None:
        raise NotThere("nobody signs in by a provider here", hint="come in by a link or with a password")
    return provider


def _app_of(request: Request) -> App:
    app: App = request.app.state.fencepost
    return app


def _cookie_of(request: Request) -> str:
    return f"__Host-{COOKIE}" if is_over_tls(request) else COOKIE
