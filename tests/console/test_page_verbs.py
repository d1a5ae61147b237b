"""Every verb by its form: once, in the name of whoever is signed in, on what was shown, and by nobody who may not."""

import asyncio
import json
from typing import Any

import pytest

from fencepost import Permissions, Run, workflow
from fencepost.console.page_offers import FORMS
from fencepost.core.permissions import VERBS
from fencepost.runtime import applicable
from fencepost.runtime.repertoire import ON_RUNS
from tests.console import shop
from tests.console.conftest import Serve, Served
from tests.console.visit import Browser, Form, Seen, signed_in
from tests.polling import until
from tests.runtime import test_compensating_a_step as several
from tests.runtime import test_every_verb as stages
from tests.runtime.stage import target
from tests.runtime.test_every_verb import STAGES

NOT_OFFERED = {"migrate", "compensate", "compensate step"}
"""Not on these stages: the code tells the same story as the history, and something is unknown that is settled first."""


def action(verb: str) -> str:
    return f"/runs/r/{verb.replace(' ', '-')}"


def filled(verb: str) -> dict[str, str]:
    """What a person fills in for a verb's stage; the rest stands in the form."""
    told = dict(STAGES[verb].arguments)
    return {name: str(told[name]) for name in ("result", "to") if name in told} | {"reason": "because"}


def form_for(page: Seen, browser: Browser, verb: str) -> Form:
    if verb not in NOT_OFFERED:
        happened = {"happened": "true"} if "happened" in STAGES[verb].arguments else {}
        return page.form(action(verb), **happened)
    made = Form(action(verb))
    made.fields = {name: page.forms[-1].fields[name] for name in ("form", "version")}
    made.fields |= {"step": STAGES[verb].arguments["step"]} if verb == "compensate step" else {}
    made.asked = ["reason", *(["to"] if verb == "migrate" else [])]
    return made


@pytest.mark.parametrize("verb", ON_RUNS)
def test_a_verb_is_done_once_by_its_form_on_what_was_shown_and_by_whoever_may(
    serve: Serve, url: str, verb: str
) -> None:
    asyncio.run(stages.staged(url, verb))
    served = serve(workflows=stages.CODE)
    ann, vic = signed_in(served, "ann", "admin"), signed_in(served, "vic", "viewer")
    before, sent = served.app.store.find("default", "r"), len(target.requests)
    form = form_for(ann.get("/runs/r"), ann, verb)

    theirs = vic.get("/runs/r")
    assert [one.action for one in theirs.forms] == ["/sign-out"]
    refused = vic.post(form.action, form.fields | filled(verb) | {"form": theirs.forms[0].fields["form"]})
    assert refused.status == 403
    stale = ann.post(form.action, form.fields | filled(verb) | {"version": '"0-99999"'})
    assert stale.status == 412
    unsaid = ann.post(form.action, form.fields | filled(verb) | {"reason": " "})
    assert unsaid.status == 422
    assert served.app.store.find("default", "r") == before

    done = ann.send(form, **filled(verb))
    assert done.status == 200, done.text
    after = served.app.store.find("default", "r")
    assert after.generation - before.generation == (1 if VERBS[verb].takes else 0)
    assert ann.send(form, **filled(verb)).status == 412
    assert served.app.store.find("default", "r") == after
    rows = [row for row in served.rows() if row[1] == verb]
    assert rows.count(("vic", verb, "refused")) == 1
    assert rows.count(("ann", verb, "done")) == 1
    assert len(target.requests) == sent


def test_one_effect_is_taken_back_by_its_button_and_nothing_else(serve: Serve) -> None:
    served = serve(worker=True, workflows=[several.three])
    served.call(served.app.start(several.three, id="r"))
    until(lambda: served.app.store.find("default", "r").state == "succeeded", "its end")
    target.reset()
    ann = signed_in(served, "ann", "admin")
    form = ann.get("/runs/r").form("/runs/r/compensate-step", item="b")
    assert ann.send(form, reason="that one was wrong").status == 200
    until(lambda: served.app.store.find("default", "r").state == "partly compensated", "it to be taken back")
    assert target.requests == ["undo b"]
    assert served.rows() == [("ann", "compensate step", "done")]


def test_every_verb_that_screens_offer_has_a_form() -> None:
    assert set(FORMS) == set(applicable.APPLIES) | {"deny"}
    assert set(FORMS) <= set(VERBS)


def test_a_wait_is_answered_once_by_its_form(serve: Serve) -> None:
    served = serve(worker=True)
    ann = served.as_("ann")
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    until(lambda: _waits(served, "r"), "its wait")
    browser = signed_in(served, "max", "operator")
    form = browser.get("/runs/r").form("/runs/r/signal", name="word")
    assert browser.send(form, value="yes").status == 422
    browser.send(form, value='"yes"', reason="it got lost")
    until(lambda: served.app.store.find("default", "r").state == "succeeded", "its end")
    assert served.rows() == [("max", "signal", "done")]
    assert browser.send(form, value='"no"', reason="once more").status in (409, 412)
    assert served.app.store.find("default", "r").result == '"yes!"'


def test_what_the_permissions_do_not_give_no_invitation_gives(serve: Serve) -> None:
    served = serve(permissions=Permissions({"ann": "admin", "vic": "viewer"}))
    served.as_("ann", "admin").post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    vic, nobody = signed_in(served, "vic", "admin"), signed_in(served, "ann", "viewer")
    for browser in (vic, nobody):
        page = browser.get("/runs/r")
        assert [one.action for one in page.forms] == ["/sign-out"]
        fields = {"form": page.forms[0].fields["form"], "version": "*", "reason": "r"}
        assert browser.post("/runs/r/cancel", fields).status == 403
    assert served.app.store.find("default", "r").state == "ready"
    refused = [row for row in served.rows() if row[1] == "cancel"]
    assert refused == [("vic", "cancel", "refused"), ("ann", "cancel", "refused")]


HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "\x1b[2Jcleared",
    "{{ 7*7 }}{% raw %}",
    "x" * 20_000,
    "\u2028\u200b\ufeff",
)


@workflow(name="breaks")
async def breaks(run: Run, text: str) -> None:
    raise LookupError(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_field_is_shown_and_does_nothing(serve: Serve, text: str) -> None:
    served = serve(worker=True, workflows=[*shop.WORKFLOWS, breaks])
    ann = served.as_("ann")
    short = text[:200] if len(text) > 512 else text
    name = short if short.isprintable() else "plain"
    body: dict[str, Any] = {"workflow": "ask", "id": f"r/{name}", "input": {"name": text}}
    assert ann.post("/runs", json=body).status_code == 201
    found = until(lambda: _waits(served, f"r/{name}"), "its wait")
    served.call(served.app.signal(found.id, "word", text, sender=name, id="event"))
    until(lambda: served.app.store.find("default", found.id).state == "succeeded", "its end")
    vic = signed_in(served, "vic", "viewer")
    listed = vic.get("/runs")
    places = {str(one.get("href")).partition("#")[0] for tag, one in listed.tags if tag == "a"}
    (place,) = (one for one in places if one.startswith("/runs/"))
    page = vic.get(place)
    assert page.status == 200
    served.call(served.app.start(breaks, text, id="broken"))
    until(lambda: served.app.store.find("default", "broken").state == "failed", "its error")
    broken = vic.get("/runs/broken")
    assert "LookupError" in broken.text
    searched = vic.get("/runs", error=text[:100]) if text.isprintable() else vic.get("/audit")
    for seen in (listed, page, broken, searched, vic.get("/")):
        assert {tag for tag, _ in seen.tags} <= KNOWN_TAGS
        assert not [attribute for _, named in seen.tags for attribute in named if attribute.startswith("on")]
        assert not set(seen.html) & set("\u202e\x1b\u2028\u200b\ufeff")
        assert "49{%" not in seen.html
        assert len(seen.html) < 100_000


KNOWN_TAGS = {
    *("html", "head", "meta", "title", "link", "script", "body", "a", "header", "strong", "nav", "form", "input"),
    *("button", "main", "h1", "h2", "section", "p", "small", "dl", "dt", "dd", "ul", "ol", "li", "b", "code", "div"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "time", "details", "summary", "label", "textarea"),
    *("select", "option", "footer", "br", "span", "svg", "g", "rect", "line", "circle", "path", "text", "desc"),
}  # fmt: skip


def _waits(served: Served, run: str) -> Any:
    found = served.app.store.find("default", run)
    return found if found.state == "waiting" else None


def test_a_result_that_json_cannot_be_is_refused_and_settles_nothing(serve: Serve, url: str) -> None:
    asyncio.run(stages.staged(url, "settle"))
    served = serve(workflows=stages.CODE)
    ann = signed_in(served, "ann", "operator")
    form = ann.get("/runs/r").form("/runs/r/settle", happened="true")
    before = served.app.store.find("default", "r")
    for wrong in ("seen", "{", "[" * 50_000, '{"a": 1,}'):
        refused = ann.send(form, result=wrong, reason="<b>she saw it</b>", override="true")
        assert refused.status == 422
        assert refused.html.count("&lt;b&gt;she saw it&lt;/b&gt;</textarea>") == 1
        assert refused.html.count(" checked") == 1
    assert served.app.store.find("default", "r") == before
    assert json.loads(before.hold)["reason"]
