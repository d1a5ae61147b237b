"""What is kept fresh: a change comes by itself, an open page keeps nobody signed in, and ends with the session."""

import contextlib
from collections.abc import Iterator

import pytest

from fencepost.console import page_live
from fencepost.runtime import accounts
from tests.console.conftest import Served
from tests.console.visit import Browser, signed_in

START = {"workflow": "ask", "id": "r", "input": {"name": "!"}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_live, "LOOKS_EVERY", 0.02)


@contextlib.contextmanager
def following(browser: Browser, path: str) -> Iterator[Iterator[str]]:
    """The events of a stream, each one's data."""
    with browser.client.stream("GET", path) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.url
        yield _events(reply.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[str]:
    data: list[str] = []
    for line in lines:
        if line:
            assert line.startswith("data: ")
            data.append(line[6:])
        elif data:
            yield "\n".join(data)
            data = []


def test_a_change_of_a_run_comes_by_itself_and_says_that_the_buttons_are_old(served: Served) -> None:
    ann = served.as_("ann")
    etag = ann.post("/runs", json=START).headers["etag"]
    vic = signed_in(served, "vic", "viewer")
    (connect,) = [named["hx-sse:connect"] for _, named in vic.get("/runs/r").tags if "hx-sse:connect" in named]
    with following(vic, str(connect)) as events:
        assert "run-ready" in (first := next(events))
        assert "notice bad" not in first
        ann.post("/runs/r/cancel", json={"reason": "no"}, headers={"If-Match": etag})
        changed = next(one for one in events if "run-cancelling" in one)
        assert "notice bad" in changed
        assert "<form" not in changed


def test_what_is_new_on_the_front_page_comes_by_itself(served: Served) -> None:
    vic = signed_in(served, "vic", "viewer")
    with following(vic, "/live/front") as events:
        assert "<b>1</b>" not in next(events)
        served.as_("ann").post("/runs", json=START)
        assert next(one for one in events if "<b>1</b>" in one)


def test_an_open_page_keeps_nobody_signed_in_and_ends_with_the_session(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.core.accounts.SEEN_EVERY", 0)
    monkeypatch.setattr(page_live, "HEARD_EVERY", 0)
    vic = signed_in(served, "vic", "viewer")
    secret = vic.client.cookies["fencepost_session"]
    with following(vic, "/live/front") as events:
        next(events)
        session = accounts.visitor(served.app, secret, is_used=False)
        for _ in range(3):
            next(events)
        assert accounts.visitor(served.app, secret, is_used=False) == session
        assert accounts.visitor(served.app, secret) == session  # noted, for the next one to see
        assert accounts.visitor(served.app, secret, is_used=False).seen_at > session.seen_at
        accounts.sign_out(served.app, session)
        for _ in events:
            pass


def test_an_open_page_does_not_keep_the_server_from_ending(served: Served) -> None:
    vic = signed_in(served, "vic", "viewer")
    with following(vic, "/live/front") as events:
        next(events)
        served.server.should_exit = True
        for _ in events:
            pass


def test_strangers_follow_nothing_and_too_many_are_not_kept(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.as_("ann").post("/runs", json=START)
    for path in ("/live/front", "/live/runs/r"):
        assert Browser(served).get(path).reply.url.path == "/sign-in"
    monkeypatch.setattr(page_live, "STREAMS_MAX", 0)
    assert signed_in(served, "vic", "viewer").get("/live/front").status == 503
