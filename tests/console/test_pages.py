"""The pages by a real server on both databases: signing in, the front, a run, and a verb by its form."""

import asyncio

from fencepost import Run, SyncCall, compute, workflow
from fencepost.console.page_run import STEPS_MAX, steps_shown
from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.polling import until
from tests.runtime import test_every_verb as stages
from tests.runtime.stage import target


def test_somebody_comes_in_by_a_link_sees_what_is_held_and_resumes_it_by_a_form(serve: Serve, url: str) -> None:
    asyncio.run(stages.staged(url, "resume"))
    served = serve(workflows=stages.CODE)
    sent = len(target.requests)
    ann = signed_in(served, "ann", "admin")
    front = ann.get("/")
    assert front.status == 200
    assert "/runs/r" in front.html
    page = ann.get("/runs/r")
    assert "Guarantee held" in page.text
    before = served.app.store.find("default", "r")
    after = ann.send(page.form("/runs/r/resume"), reason="she looked")
    assert after.status == 200, after.text
    found = served.app.store.find("default", "r")
    assert found.generation == before.generation + 1
    assert ("ann", "resume", "done") in served.rows()
    assert len(target.requests) == sent


@compute()
def counted(call: SyncCall) -> int:
    return 1


@workflow(name="long")
async def long(run: Run, number: int) -> int:
    for _ in range(number):
        await run.do(counted())
    return number


def test_a_run_of_many_steps_is_shown_a_part_at_a_time_and_its_page_stays_small(serve: Serve) -> None:
    served = serve(worker=True, workflows=[long])
    served.call(served.app.start(long, 500, id="r"))
    until(lambda: served.app.store.find("default", "r").state == "succeeded", "its end")
    vic = signed_in(served, "vic", "viewer")
    newest = vic.get("/runs/r")
    assert newest.html.count('<details class="step') == STEPS_MAX
    (earlier,) = [str(named["href"]) for tag, named in newest.tags if named.get("rel") == "prev"]
    assert earlier == "/runs/r?steps=100#steps"
    first = vic.get("/runs/r", steps="0")
    assert first.html.count('<details class="step') == STEPS_MAX
    assert "counted#500" not in first.text
    assert vic.get("/runs/r", steps="999999").status == 200
    assert vic.get("/runs/r", steps="-1").status == 422
    assert len(newest.html) < 400_000


def test_of_a_long_run_what_wants_a_look_comes_first_wherever_it_stands() -> None:
    steps = [{"state": "succeeded", "conflict": False, "position": number} for number in range(1_000)]
    steps[3]["state"], steps[5]["conflict"], steps[7]["state"] = "unknown", True, "failed"
    shown = steps_shown(steps, None)
    assert [one["position"] for one in shown.wanting] == [3, 5, 7]
    assert (shown.first, shown.before, shown.after) == (800, 600, None)
    assert steps_shown(steps[:STEPS_MAX], None) == ([], steps[:STEPS_MAX], STEPS_MAX, 0, None, None)
