"""What every page of the console has: its layout, its language, and what is shown for an error.

Templates escape markup by themselves, and each text that they show passes `printable`, so that none of unknown origin
can reorder or hide what stands beside it. Nothing is loaded from elsewhere, and no script or style stands in a page
(`headers`). Who is looking is `page_visits`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fencepost.console.page_texts import Texts, language_for
from fencepost.console.page_times import age, clock
from fencepost.console.printable import compact, printable, short_key
from fencepost.console.problems import LOG, status_of
from fencepost.core.errors import FencepostError, Misuse
from fencepost.core.position import effect_position

VARIES_BY = "Accept-Language, Cookie"
"""On what it depends how a page is shown."""

CHARACTERS_MAX = 4_000
"""How much of one text a page shows."""


class SignedOut(Misuse):
    """Nobody is signed in, or not any more."""


def _safe(value: Any) -> Any:
    """What a template shows of a value; what is markup already is ours."""
    return value if hasattr(value, "__html__") else printable(value, limit=CHARACTERS_MAX)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fencepost.console"), autoescape=True, undefined=StrictUndefined, finalize=_safe,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"json": compact, "short": short_key, "clock": clock, "exactly": exactly}
    made.globals |= {"address": address, "effect_position": effect_position}
    return made


def exactly(text: str) -> Markup:
    """A text as it is, for what a form sends back and nobody reads."""
    return Markup.escape(text)


def address(*parts: str, **query: Any) -> Markup:
    """An address within the console; what is in it is quoted, a query's None left out."""
    path = "/" + "/".join(quote(one, safe="") for one in parts)
    asked = urlencode({name: value for name, value in query.items() if value is not None})
    return Markup.escape(f"{path}?{asked}" if asked else path)


def texts_of(request: Request) -> Texts:
    """The texts in the browser's language."""
    return Texts(language_for(request.headers.get("accept-language")))


def shown(request: Request, template: str, *, status: int = 200, now: int, **context: Any) -> HTMLResponse:
    """A page. `now` is the ledger's clock, as of which it is."""
    return HTMLResponse(filled(request, template, now=now, **context), status)


def filled(request: Request, template: str, *, now: int, **context: Any) -> str:
    """A template, or a part of a page, with what every one of them is given."""
    texts = texts_of(request)
    visitor = getattr(request.state, "visitor", None)
    said = {
        "t": texts,
        "now": now,
        "visitor": visitor,
        "age": lambda at: age(at, now, texts),
        "here": request.url.path,
        **context,
    }
    return _environment().get_template(template).render(said)


def moved(path: str) -> Response:
    """Go and look there: after a form was taken, so that reloading sends it no second time."""
    return RedirectResponse(path, 303)


class Page(APIRoute):
    """An address whose answers are pages, also where it refuses."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with what every page has."""
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                reply = await handle(request)
            except SignedOut:
                reply = moved(address("sign-in"))
            except FencepostError as error:
                reply = refused(request, error)
            except RequestValidationError:
                reply = refused(request, Misuse("the address is not of its form"))
            reply.headers["Vary"] = VARIES_BY
            return reply

        return answered


def refused(request: Request, error: FencepostError) -> Response:
    """The page of an error that has no page of its own."""
    status = status_of(error)
    if status == 500:  # noqa: PLR2004 - as `problems` has it
        LOG.error("a page was not shown", exc_info=error)
    return shown(request, "error.html", status=status, now=0, error=problem_of(error))


def problem_of(error: FencepostError) -> dict[str, Any]:
    """What a page says of an error: its class by name, and its own sentence with the hint and the ids."""
    return {"name": type(error).__name__, "message": error.message, "hint": error.hint, "ids": dict(error.ids)}


def asset(name: str) -> bytes | None:
    """One of the files that pages load; None where it is none of them."""
    return _assets().get(name)


@cache
def _assets() -> Mapping[str, bytes]:
    folder = files("fencepost.console").joinpath("static")
    return {one.name: one.read_bytes() for one in folder.iterdir()}
