"""The pages by a real server on both databases: signing in, the front, a run, and a verb by its form."""

import asyncio

from tests.console.conftest import Serve
from tests.console.visit import signed_in
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
    before = served.app.store.find("default", "r")
    after = ann.send(page.form("/runs/r/resume"), reason="she looked")
    assert after.status == 200, after.text
    found = served.app.store.find("default", "r")
    assert found.generation == before.generation + 1
    assert ("ann", "resume", "done") in served.rows()
    assert len(target.requests) == sent
