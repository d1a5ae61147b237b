"""A verb on many runs by the pages: shown before it is done, done to what was shown, and by nobody who may not."""

import json

from tests.console.conftest import Serve, Served
from tests.console.visit import Browser, Seen, signed_in


def started(served: Served, number: int = 4) -> None:
    ann = served.as_("ann")
    for one in range(number):
        ann.post("/runs", json={"workflow": "ask", "id": f"r{one}", "input": {"name": "!"}})


def states(served: Served) -> list[str]:
    return [served.app.store.find("default", f"r{one}").state.value for one in range(4)]


def ticked(page: Seen, *runs: str) -> dict[str, str]:
    """The boxes of these runs."""
    boxes = {str(one["name"]): str(one["value"]) for tag, one in page.tags if one.get("type") == "checkbox"}
    return {name: value for name, value in boxes.items() if name != "retrying" and json.loads(value)[0] in runs}


def previewed(browser: Browser, *runs: str) -> Seen:
    page = browser.get("/runs")
    form = page.form("/many/preview")
    return browser.post(form.action, form.fields | ticked(page, *runs) | {"verb": "cancel", "reason": "no stock"})


def test_what_it_would_do_is_shown_and_then_done_to_those_as_they_were_shown(serve: Serve) -> None:
    served = serve()
    started(served)
    max_ = signed_in(served, "max", "operator")
    would = previewed(max_, "r0", "r1", "r2")
    assert would.status == 200
    assert states(served) == ["ready"] * 4
    assert served.rows() == []
    served.call(served.app.cancel("r1", by="zoe", reason="first"))
    done = max_.send(would.form("/many/do"))
    assert done.status == 200
    assert states(served) == ["cancelling"] * 3 + ["ready"]
    rows = [row for row in served.rows() if row[0] == "max"]
    assert sorted(rows) == [("max", "cancel", "done"), ("max", "cancel", "done"), ("max", "cancel", "refused")]
    assert "has changed since" in done.text
    before = states(served)
    max_.send(would.form("/many/do"))
    assert states(served) == before


def test_whoever_only_looks_ticks_nothing_and_is_refused(serve: Serve) -> None:
    served = serve()
    started(served)
    vic, max_ = signed_in(served, "vic", "viewer"), signed_in(served, "max", "operator")
    theirs = vic.get("/runs")
    assert ticked(theirs, "r0") == {}
    fields = {"form": theirs.form("/sign-out").fields["form"], "verb": "cancel", "reason": "r", "run.1": '["r0", 0]'}
    would = vic.post("/many/preview", fields)
    assert [one.action for one in would.forms] == ["/sign-out"]
    assert "lacks the role operator" in would.text
    assert vic.post("/many/do", fields).status == 403
    assert states(served) == ["ready"] * 4
    token = max_.get("/many").form("/sign-out").fields["form"]
    for wrong in (
        {"verb": "migrate"}, {"verb": "settle"}, {"run.1": ""}, {"run.1": "[]"}, {"run.1": '["r0"]'},
        {"run.1": '{"r0": 0}'}, {"reason": " "}, {"run.1": "["*9_000}, {"and": "1"},
    ):  # fmt: skip
        assert max_.post("/many/do", fields | {"form": token} | wrong).status in (404, 422), wrong
    assert states(served) == ["ready"] * 4
