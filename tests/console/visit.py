"""A browser as far as the console's pages need one: a cookie jar, links, and forms sent as they stand in the page."""

from html.parser import HTMLParser
from typing import Any

import httpx2

from fencepost.runtime import accounts
from tests.console.conftest import Served


class Form:
    """A form of a page: where it goes, and what it sends if nothing is filled in."""

    def __init__(self, action: str) -> None:
        self.action = action
        self.fields: dict[str, str] = {}
        self.asked: list[str] = []


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append((tag, named))
        if tag == "form":
            self._open = Form(named["action"] or "")
            self.forms.append(self._open)
        elif self._open is not None and tag in ("input", "textarea", "select") and named.get("name"):
            if named.get("type") == "hidden":
                self._open.fields[str(named["name"])] = named.get("value") or ""
            else:
                self._open.asked.append(str(named["name"]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None

    def handle_data(self, data: str) -> None:
        self.text.append(data)


class Seen:
    """A page that was answered."""

    def __init__(self, reply: httpx2.Response) -> None:
        self.reply = reply
        self.status = reply.status_code
        self.html = reply.text
        read = _Reader()
        read.feed(self.html)
        self.tags = read.tags
        self.text = " ".join(" ".join(read.text).split())
        self.forms = read.forms

    def form(self, action: str, **given: str) -> Form:
        """The only form that goes there and sends this along."""
        found = [
            one
            for one in self.forms
            if one.action == action and all(one.fields.get(name) == value for name, value in given.items())
        ]
        assert len(found) == 1, [one.action for one in self.forms]
        return found[0]


class Browser:
    """Somebody at a browser. Redirects are followed; `language` is what it asks for."""

    def __init__(self, served: Served, *, language: str = "en") -> None:
        self.served = served
        self.origin = served.url
        options: dict[str, Any] = {"verify": False} if served.url.startswith("https") else {}
        self.client = httpx2.Client(
            base_url=served.url, follow_redirects=True, timeout=20, headers={"Accept-Language": language}, **options
        )
        served._clients.append(self.client)

    def get(self, path: str, **query: str) -> Seen:
        return Seen(self.client.get(path, params=query or None))

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Seen:
        """Send a form from the console's own page, unless a header says otherwise."""
        return Seen(self.client.post(path, data=fields, headers={"Origin": self.origin} | headers))

    def send(self, form: Form, **filled: str) -> Seen:
        """Fill a form in and send it."""
        assert filled.keys() <= set(form.asked), (form.action, form.asked)
        return self.post(form.action, form.fields | filled)


def signed_in(served: Served, person: str, *roles: str, language: str = "en", may: bool = True) -> Browser:
    """Somebody who has come in by a link; `may` says whether they may look."""
    link, _ = accounts.invite(served.app, person, roles or ("operator",), by="ann", reason="for a test")
    browser = Browser(served, language=language)
    page = browser.send(browser.get("/sign-in", link=link).form("/sign-in"))
    assert page.status == (200 if may else 403), page.text
    return browser
