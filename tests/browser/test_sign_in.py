"""Coming in, and what other sites can and cannot do in somebody's name, by what a real browser really sends."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fencepost import App
from fencepost.console.providers import Provider as Declared
from fencepost.console.providers import read_provider
from fencepost.console.versions import etag_of
from tests.browser.acting import form
from tests.browser.conftest import Come
from tests.browser.house import House
from tests.console.conftest import Served
from tests.console.provider import SECRET, VARIABLE, Provider


class Elsewhere:
    """A site of somebody else's: each of its pages sends a form to an address of the console as soon as it is open."""

    def __init__(self) -> None:
        self.page = b""
        here = self

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(here.page)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def address(self, host: str) -> str:
        return f"http://{host}:{self.server.server_port}/"

    def sends(self, to: str, fields: dict[str, str]) -> None:
        hidden = "".join(f"<input type=hidden name={name} value='{value}'>" for name, value in fields.items())
        script = "addEventListener('load', () => document.forms[0].submit())"
        self.page = f"<form method=post action='{to}'>{hidden}</form><script>{script}</script>".encode()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    made = Elsewhere()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_link_lets_one_person_in_once(house: House, chromium: Browser) -> None:
    link = house.link("ann", "viewer")
    first, second = chromium.new_context(), chromium.new_context()
    with first, second:
        for context in (first, second):  # looking uses nothing up
            context.new_page().goto(link)
        first.pages[0].locator("form.stack button").click()
        first.pages[0].wait_for_url("**/")
        with second.pages[0].expect_response(lambda reply: reply.request.method == "POST") as answered:
            second.pages[0].locator("form.stack button").click()
        assert answered.value.status == 403
        assert second.cookies() == []
        (cookie,) = first.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert first.pages[0].evaluate("document.cookie") == ""
    assert [row.actor for row in house.audit("account:ann", "sign in")][-1] == "ann"


def test_strangers_see_nothing_and_a_session_that_was_ended_is_over_in_every_window(house: House, come: Come) -> None:
    ann = come("ann", "viewer")
    other = ann.context.new_page()
    other.goto("/runs")
    assert other.locator("form[role=search]").count() == 1
    ann.locator("form.who button").click()
    ann.wait_for_url("**/sign-in")
    other.goto("/runs")
    assert other.url.endswith("/sign-in")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"], ids=["same site, other port", "other site"])
def test_a_page_of_another_origin_does_nothing_in_the_name_of_whoever_opens_it(
    house: House, come: Come, invoice: str, elsewhere: Elsewhere, host: str
) -> None:
    run = house.asks(invoice)
    ann = come("ann", "admin")
    approve = form(ann, run, "approve", approved="true")
    fields = {
        str(one.get_attribute("name")): str(one.get_attribute("value"))
        for one in approve.locator("input[type=hidden]").all()
    }
    assert fields["version"].replace('\\"', '"') == etag_of(house.run(run))
    before, known = house.writes(), house.run(run)
    # It has guessed all of it, the session's token too: what is left is where the form comes from.
    elsewhere.sends(f"{house.url}/runs/{run}/approve", fields)
    with ann.expect_response(lambda reply: reply.request.method == "POST") as answered:
        ann.goto(elsewhere.address(host))
    assert answered.value.status == (403 if host == "127.0.0.1" else 303)  # to signing in: its cookie stayed here
    ann.wait_for_url("**/approve" if host == "127.0.0.1" else "**/sign-in")
    assert house.run(run) == known
    assert house.writes() == before
    assert [row for row in house.audit(run, "approve") if row.outcome == "done"] == []
    ann.goto("/runs")
    assert ann.locator("form[role=search]").count() == 1  # and she is still signed in


def test_a_form_without_the_sessions_token_is_refused(house: House, come: Come, invoice: str) -> None:
    run = house.asks(invoice)
    ann = come("ann", "admin")
    approve = form(ann, run, "approve", approved="true")
    approve.locator('input[name="form"]').evaluate("one => one.value = 'f'.repeat(64)")
    before = house.run(run)
    with ann.expect_response(lambda reply: reply.request.method == "POST") as answered:
        approve.locator("button").click()
    assert answered.value.status == 403
    assert house.run(run) == before
    assert house.holds(invoice)["payments"] == 0
    assert [row for row in house.audit(run, "approve") if row.outcome == "done"] == []


def test_the_way_through_a_provider_ends_on_the_front_page_with_the_strict_cookie(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a client of ours cannot show: browsers send no Strict cookie where the way began at another site."""
    monkeypatch.setenv(VARIABLE, SECRET)
    with Provider() as provider:

        def declared(console: str) -> Declared:
            file = tmp_path / "provider.toml"
            file.write_text(provider.declared(console), "utf-8")
            return read_provider(file)

        app = App(f"sqlite:///{tmp_path / 'ledger.db'}", workflows=[])
        provider.issuer = provider.issuer.replace("127.0.0.1", "localhost")  # a site of its own
        provider.has_a_page = True
        with Served(app, worker=False, provider=declared) as served, chromium.new_context(base_url=served.url) as ann:
            page = ann.new_page()
            page.goto("/sign-in")
            page.locator('a[href="/sign-in/provider"]').click()
            page.get_by_text("go back").click()
            page.wait_for_url(f"{served.url}/")
            assert page.locator("form.who").count() == 1
            (cookie,) = ann.cookies()
            assert (cookie["name"], cookie["sameSite"]) == ("fencepost_session", "Strict")
            rows = [(row.actor, row.verb) for row in app.store.audits("default", None)]
            assert rows == [("ann@example.com", "sign in")]
