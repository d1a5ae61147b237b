"""A verb on many runs at a real browser: shown, begun, paused by somebody else at another console, and gone on with."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from fencepost.core.bulk import Bulk, BulkState
from tests.browser.acting import send
from tests.browser.conftest import Come
from tests.browser.house import House
from tests.polling import until

RUNS = 40
BOX = 'input[name^="run."]'

Picture = Callable[[Page, str], None]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[House]:
    """A house of this test's own: so many unknown payments would fill the front page of the others."""
    with House.built(tmp_path) as built:
        yield built


def job_of(house: House) -> Bulk | None:
    found = house.app.store.bulks(house.app.namespace, every=True, limit=1)
    return found[0] if found else None


def resumed(house: House, runs: list[str]) -> Counter[tuple[str, str]]:
    """How often each run was resumed, by whom."""
    rows = house.app.store.audits(house.app.namespace, None)
    done = [row for row in rows if (row.verb, row.outcome) == ("resume", "done") and row.run_id in runs]
    return Counter((row.actor, row.run_id) for row in done)


def test_many_are_resumed_as_shown_and_a_pause_by_another_person_holds_until_somebody_goes_on(
    own: House, come: Come, picture: Picture, invoice: str
) -> None:
    runs = own.many_unknown(invoice, RUNS)
    paid = len(own.world.files.requests("payments"))
    ann, ben = come("ann", "operator", of=own), come("ben", "operator", of=own, at=own.consoles.another())
    ann.goto(f"/runs?prefix={runs[0].removesuffix('-00')}")
    for box in ann.locator(BOX).all():
        box.check()
    ann.locator('select[name="verb"]').select_option("resume")
    ann.locator('input[name="reason"]').fill("the bank answers again")
    ann.locator('[action="/many/preview"] button, button[formaction="/many/preview"]').last.click()
    ann.wait_for_url("**/many/preview")
    picture(ann, "many")
    assert resumed(own, runs) == {}
    assert job_of(own) is None
    assert ann.locator(f'form[action="/many/do"] {BOX}').count() == RUNS

    ann.evaluate("document.querySelector('form[action=\"/many/do\"]').requestSubmit()")
    until(lambda: (job := job_of(own)) and job.done, "the first to be done", seconds_between=0.001)
    with own.consoles.stopped(0):
        begun = job_of(own)
        assert begun.left > 0, begun
        ben.goto("/many")
        pause = ben.locator(f'form[action="/many/{begun.no}/pause"]')
        pause.locator("xpath=..").locator("summary").click()
        send(pause, reason="not before lunch")
        picture(ben, "many-paused")
        assert job_of(own).state is BulkState.PAUSED
    ann.wait_for_url("**/many/do")  # hers has ended after the run that was being done
    paused = job_of(own)
    assert paused.state is BulkState.PAUSED
    assert begun.left - 1 <= paused.left <= begun.left
    assert resumed(own, runs).total() == RUNS - paused.left

    ben.goto("/many")
    resume = ben.locator(f'form[action="/many/{begun.no}/resume"]')
    resume.locator("xpath=..").locator("summary").click()
    send(resume, reason="after lunch")
    until(lambda: job_of(own).left == 0, "the rest")
    each = resumed(own, runs)
    assert {run for _, run in each} == set(runs)
    assert set(each.values()) == {1}
    assert Counter(who for who, _ in each) == {"ann": RUNS - paused.left, "ben": paused.left}
    own.rest(runs)
    assert len(own.world.files.requests("payments")) == paid
    assert {own.holds(f"{invoice}-{one:02}")["payments"] for one in range(RUNS)} == {1}
