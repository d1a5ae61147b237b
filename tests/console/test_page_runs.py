"""The runs' page: each way of searching finds the run that it is about and no other, page by page."""

import asyncio
from typing import Any

import pytest

from fencepost import App, Run, workflow
from fencepost.core.contract import Retry
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from tests.console.conftest import Serve, Served
from tests.console.visit import Browser, Seen, signed_in
from tests.runtime import stage
from tests.runtime.stage import reaches, target, working


@effect(on_unknown="hold", retry=Retry(attempts=3, within="1h", first_delay="10m"))
async def numbered(call: Call, name: str) -> str:
    await call.remember(f"ref-{name}")
    return await target.take(call, name)


@workflow(name="numbers")
async def numbers(run: Run, name: str) -> str:
    return await run.do(numbered(name))


@workflow(name="breaks")
async def breaks(run: Run) -> str:
    raise LookupError("nothing is there")


@workflow(name="waits")
async def waits(run: Run) -> str:
    return await run.wait("word", str)


CODE = [numbers, breaks, waits]


async def lived(url: str) -> None:
    target.plan("lost", "lose")
    target.plan("again", "busy")
    async with working(url, *CODE) as app:
        await app.start(numbers, "well", id="a-well")
        await app.start(numbers, "lost", id="b-lost")
        await app.start(breaks, id="c-broken")
        await app.start(waits, id="d-waits")
        await app.start(numbers, "again", id="e-again")
        await reaches(app, "a-well", RunState.SUCCEEDED)
        await reaches(app, "b-lost", RunState.HELD)
        await reaches(app, "c-broken", RunState.FAILED)
        await reaches(app, "d-waits", RunState.WAITING)
        await stage.until(lambda: _is_put_off(app), "the retry to be put off")


async def _is_put_off(app: App) -> bool:
    found = (await app.show("e-again")).operations
    return bool(found) and found[0].not_before is not None


@pytest.fixture
def browsing(serve: Serve, url: str) -> tuple[Served, Browser]:
    asyncio.run(lived(url))
    served = serve(workflows=CODE)
    return served, signed_in(served, "vic", "viewer")


def listed(page: Seen) -> list[str]:
    assert page.status == 200, page.text
    places = [str(named.get("href", "")) for tag, named in page.tags if tag == "a" and "#" not in str(named)]
    return [place.removeprefix("/runs/") for place in places if place.startswith("/runs/")]


def test_each_way_of_searching_finds_what_it_is_about_and_nothing_else(browsing: tuple[Served, Browser]) -> None:
    served, vic = browsing
    lost = served.app.store.load(served.app.store.find("default", "b-lost").no).operations[0]
    ways: dict[str, Any] = {
        "a-well": [{"reference": "ref-well"}, {"state": "succeeded"}, {"prefix": "a-"}],
        "b-lost": [
            {"state": "held"}, {"key": lost.key}, {"key": lost.key[:12]}, {"reference": "ref-lost"},
            {"state": "held", "step": "numbered"},
        ],
        "c-broken": [{"error": "LookupError"}, {"error": "nothing is there"}, {"workflow": "breaks"}],
        "d-waits": [{"step": "word"}],
        "e-again": [{"retrying": "true"}],
    }  # fmt: skip
    for run, some in ways.items():
        for one in some:
            assert listed(vic.get("/runs", **one)) == [run], one
    assert listed(vic.get("/runs", reference="ref-")) == []
    assert listed(vic.get("/runs", until="2001-01-01T00:00")) == []
    assert len(listed(vic.get("/runs", since="2001-01-01T00:00"))) == 5


def test_what_was_not_filled_in_is_not_asked_for_and_what_is_no_filter_is_refused(
    browsing: tuple[Served, Browser],
) -> None:
    _, vic = browsing
    empty = dict.fromkeys(("prefix", "workflow", "state", "step", "key", "since"), "")
    assert len(listed(vic.get("/runs", **empty))) == 5
    for wrong in ({"state": "dead"}, {"since": "soon"}, {"prefix": "a\0"}, {"and": "1"}, {"after": "x"}):
        assert vic.get("/runs", **wrong).status == 422, wrong


def test_a_search_looks_at_so_many_runs_and_goes_on_from_there(
    browsing: tuple[Served, Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, vic = browsing
    monkeypatch.setattr("fencepost.console.page_runs.LOOKED_AT_MAX", 2)
    found, page, pages = [], vic.get("/runs", workflow="numbers"), 1
    while following := [named["href"] for tag, named in page.tags if tag == "a" and named.get("rel") == "next"]:
        found += listed(page)
        page, pages = vic.get(str(following[0])), pages + 1
    assert found + listed(page) == ["e-again", "b-lost", "a-well"]
    assert pages == 3


def test_the_front_page_says_what_is_unknown_held_and_failed_and_leads_there(browsing: tuple[Served, Browser]) -> None:
    served, vic = browsing
    store = served.app.store
    looked = store.first_look("default", [RunState.FAILED, RunState.READY], limit=10, most=10)
    (unknown,), (held,), (failed,) = looked.unknown, looked.held, looked.failed
    assert (unknown.run_id, unknown.step, unknown.reference) == ("b-lost", "numbered", "ref-lost")
    assert (held.runs, held.example) == (1, "b-lost")
    assert (failed.error, failed.runs, failed.example) == ("LookupError", 1, "c-broken")
    assert looked.counts == {RunState.FAILED: 1, RunState.READY: 0}
    assert store.first_look("default", [RunState.FAILED], limit=0, most=0) == ([], [], [], {RunState.FAILED: 0})
    front = vic.get("/")
    places = [str(named.get("href")) for tag, named in front.tags if tag == "a"]
    assert "/runs/b-lost" in places
    (way,) = [place for place in places if "error=LookupError" in place]
    assert listed(vic.get(way)) == ["c-broken"]
