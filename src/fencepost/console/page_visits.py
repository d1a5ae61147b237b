"""Who is looking at a page: by the session's cookie; and whether a form comes from the console's own page.

Over TLS the cookie is `__Host-`. On plain loopback browsers disagree about that prefix, and some would not keep it, so
there it has another name and no `Secure`; nothing leaves the machine. A form needs the session's token, and an Origin
that is this console's. Letting people in is `page_sign_in`; what a session is, `core.accounts`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request
from fastapi.responses import Response

from fencepost.console.callers import Caller
from fencepost.console.page_frame import SignedOut
from fencepost.console.problems import LOG
from fencepost.core.accounts import SESSION_LASTS, Session, form_token, is_form_token
from fencepost.core.duration import SECOND
from fencepost.core.errors import Misuse, NotPermitted
from fencepost.runtime import accounts

if TYPE_CHECKING:
    from fencepost.runtime.app import App

COOKIE = "fencepost_session"
COOKIE_OVER_TLS = f"__Host-{COOKIE}"
TOKEN = "form"  # noqa: S105 - the field's name
FIELDS_MAX = 100


class NotOurForm(NotPermitted):
    """A form that no page of this console has sent, in the name of whoever is signed in."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who is looking: their session, and the caller in whose name everything is done."""

    caller: Caller
    session: Session
    secret: str

    @property
    def person(self) -> str:
        """Their name."""
        return self.session.person

    @property
    def token(self) -> str:
        """What each of their forms carries."""
        return form_token(self.secret)

    def may(self, verb: str) -> bool:
        """Whether they have the role of a verb; asked once more when it is done."""
        return self.caller.policy().lacks(self.person, verb) is None


async def who_visits(request: Request) -> Visitor:
    """Who is looking. Raises `SignedOut`, and `NotPermitted` where they may not even look."""
    app: App = request.app.state.fencepost
    secret = request.cookies.get(_cookie_of(request), "")
    session = await asyncio.to_thread(accounts.visitor, app, secret) if secret else None
    if session is None:
        raise SignedOut("nobody is signed in", hint="sign in")
    visitor = Visitor(Caller(app, session.person, session.scopes), session, secret)
    request.state.visitor = visitor
    await visitor.caller.may("look")
    return visitor


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that came from a page of this console, and who sent it."""

    visitor: Visitor
    fields: dict[str, str]


async def what_was_sent(request: Request, visitor: Annotated[Visitor, Depends(who_visits)]) -> Sent:
    """The form of a request. Raises `NotOurForm`, and `Misuse` where it is none."""
    require_own_origin(request)
    fields = await fields_of(request)
    if not is_form_token(fields.pop(TOKEN, ""), visitor.secret):
        LOG.warning(
            "a form without the session's token was refused, at %s",
            request.url.path[:200].encode("ascii", "backslashreplace"),
        )
        raise NotOurForm("the form is not from this session", hint="open the page again, then decide")
    return Sent(visitor, fields)


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a form, each once. Raises `Misuse`."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Misuse("this is no form", hint="send it as a browser does")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict",
            max_num_fields=FIELDS_MAX,
        )  # fmt: skip
    except ValueError as error:
        raise Misuse("the form cannot be read", hint="send it as a browser does") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Misuse("the form has a field twice", hint="send it as a browser does")
    return fields


def require_own_origin(request: Request) -> None:
    """Refuse what another site's page sends. Raises `NotOurForm`.

    Browsers name the origin with every form, and no script of another site can make them name ours.
    """
    own = (request.url.scheme, request.headers.get("host", "").lower())
    named = urlsplit(request.headers.get("origin", ""))
    if (named.scheme, named.netloc.lower()) != own or not own[1]:
        LOG.warning("a form of another origin was refused")
        raise NotOurForm("the form is not from this console's own page", hint="open the console's page, then decide")


def remember(request: Request, reply: Response, secret: str) -> Response:
    """Have the browser keep a session."""
    reply.set_cookie(
        _cookie_of(request), secret, max_age=SESSION_LASTS // SECOND, path="/", httponly=True, samesite="strict",
        secure=is_over_tls(request),
    )  # fmt: skip
    return reply


def forget(request: Request, reply: Response) -> Response:
    """Have the browser keep it no more."""
    reply.delete_cookie(_cookie_of(request), path="/", httponly=True, samesite="strict", secure=is_over_tls(request))
    return reply


def is_over_tls(request: Request) -> bool:
    """Whether what the browser keeps for us may say that it is for TLS alone."""
    return request.url.scheme == "https"


def _cookie_of(request: Request) -> str:
    return COOKIE_OVER_TLS if is_over_tls(request) else COOKIE


Visiting = Annotated[Visitor, Depends(who_visits)]
Posted = Annotated[Sent, Depends(what_was_sent)]
