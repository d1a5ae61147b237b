"""Signing in and out: by a link that is good once, or by name and password; nothing else answers strangers.

A link only shows a form; coming in is its button, so that whoever looks at an address ahead of its reader uses nothing
up. How often a password may be tried is bounded in `passwords`; sessions are `runtime.accounts`'.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.page_frame import Page, address, moved, problem_of, shown
from fencepost.console.page_visits import Posted, fields_of, forget, remember, require_own_origin
from fencepost.console.passwords import PasswordTooShort, Tries, hashed, is_theirs
from fencepost.console.printable import printable
from fencepost.console.problems import LOG
from fencepost.runtime import accounts

if TYPE_CHECKING:
    from fencepost.runtime.app import App

router = APIRouter(route_class=Page, include_in_schema=False)


@router.get("/sign-in")
async def show_sign_in(request: Request, link: str = "") -> Response:
    """The form: for a name and a password, or for somebody who has a link."""
    app: App = request.app.state.fencepost
    invitation = await asyncio.to_thread(accounts.invited, app, link) if link else None
    if link and invitation is None:
        return sign_in_form(request, refused="sign-in.link-over")
    return sign_in_form(request, link=link, person="" if invitation is None else invitation.person)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Let somebody in, or say that it was not right; of what was wrong nothing is said."""
    require_own_origin(request)
    fields = await fields_of(request)
    if "link" in fields:
        return await _by_link(request, fields)
    app: App = request.app.state.fencepost
    person, tries = fields.get("person", ""), _tries_of(request)
    if not tries.take(person, await asyncio.to_thread(app.store.now)):
        LOG.warning("signing in as %s was tried too often", printable(person, limit=80))
        return sign_in_form(request, status=429, refused="sign-in.too-often", person=person)
    account = await asyncio.to_thread(app.store.account, app.namespace, person)
    if not await asyncio.to_thread(is_theirs, account, fields.get("password", "")):
        LOG.warning("signing in as %s was refused", printable(person, limit=80))
        return sign_in_form(request, status=403, refused="sign-in.wrong", person=person)
    assert account is not None, "nobody has nobody's password"
    tries.forgive(person)
    return remember(request, moved("/"), await asyncio.to_thread(accounts.sign_in, app, account))


async def _by_link(request: Request, fields: dict[str, str]) -> Response:
    app: App = request.app.state.fencepost
    link, password = fields["link"], fields.get("new_password") or None
    try:
        kept = None if password is None else await asyncio.to_thread(_hashed_for, app, link, password)
    except PasswordTooShort as error:
        invitation = await asyncio.to_thread(accounts.invited, app, link)
        return sign_in_form(
            request, status=422, link=link, person=getattr(invitation, "person", ""), error=problem_of(error)
        )
    secret = await asyncio.to_thread(accounts.come_in, app, link, password=kept)
    if secret is None:
        LOG.warning("a sign-in link that is good no more was tried")
        return sign_in_form(request, status=403, refused="sign-in.link-over")
    return remember(request, moved("/"), secret)


def _hashed_for(app: App, link: str, password: str) -> str | None:
    """The hash of a password that somebody with a good link has chosen; strangers have nothing hashed."""
    return None if accounts.invited(app, link) is None else hashed(password)


@router.post("/sign-out")
async def sign_out(request: Request, sent: Posted) -> Response:
    """End the session."""
    app: App = request.app.state.fencepost
    await asyncio.to_thread(accounts.sign_out, app, sent.visitor.session)
    return forget(request, moved(address("sign-in")))


def sign_in_form(
    request: Request, *, status: int = 200, link: str = "", person: str = "", refused: str = "", error: Any = None
) -> Response:
    """The page on which somebody signs in, with what was wrong."""
    return shown(
        request, "sign_in.html", status=status, now=0, link=link, person=person, refused=refused, error=error,
        provider=request.app.state.provider,
    )  # fmt: skip


def _tries_of(request: Request) -> Tries:
    tries: Tries = request.app.state.tries
    return tries
