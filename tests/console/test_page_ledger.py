"""Queues, schedules, containment, second persons and the audit by their pages: done once, by whoever may, as seen."""

from fencepost import Permissions, Queue, Schedule
from fencepost.store.api import RunFilter
from tests.console import shop
from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.polling import until
from tests.runtime.stage import target

START = {"workflow": "ask", "id": "r", "input": {"name": "!"}}


def test_a_queue_is_paused_and_let_go_on_by_its_buttons(serve: Serve) -> None:
    served = serve(app={"queues": [Queue("mail/out", concurrency=1)]}, worker=True)
    until(lambda: served.app.store.queues("default"), "the queue")
    max_, vic = signed_in(served, "max", "operator"), signed_in(served, "vic", "viewer")
    form = max_.get("/flow").form("/queues/mail%2Fout/pause")
    theirs = vic.get("/flow")
    assert [one.action for one in theirs.forms] == ["/sign-out"]
    refused = vic.post(form.action, form.fields | {"form": theirs.forms[0].fields["form"], "reason": "r"})
    assert refused.status == 403
    assert max_.send(form, reason=" ").status == 422
    assert served.app.store.queues("default")[0].paused_at is None
    assert max_.send(form, reason="the mail server is down").status == 200
    (paused,) = served.app.store.queues("default")
    assert (paused.paused_by, paused.paused_because) == ("max", "the mail server is down")
    max_.send(max_.get("/flow").form("/queues/mail%2Fout/resume"), reason="it is up")
    assert served.app.store.queues("default")[0].paused_at is None
    assert served.rows() == [
        ("vic", "pause queue", "refused"),
        ("max", "pause queue", "done"),
        ("max", "resume queue", "done"),
    ]


def test_what_is_contained_is_sent_nothing_until_it_is_released_by_its_button(serve: Serve) -> None:
    served = serve(worker=True)
    ann, max_ = served.as_("ann"), signed_in(served, "max", "operator")
    form = max_.get("/flow").form("/contain")
    assert max_.send(form, kind="planet", name="x", reason="r").status == 422
    max_.send(form, kind="workflow", name="order", reason="wrong prices")
    ann.post("/runs", json={"workflow": "order", "id": "o", "input": {"order": {"id": "7"}}})
    until(lambda: served.app.store.find("default", "o").behind, "it to wait")
    assert target.requests == []
    max_.send(max_.get("/flow").form("/release", name="order"), reason="prices are right")
    until(lambda: served.app.store.find("default", "o").state == "succeeded", "its end")
    assert target.requests == ["7"]
    assert [row for row in served.rows() if row[0] == "max"] == [("max", "contain", "done"), ("max", "release", "done")]


def test_a_schedule_is_fired_once_on_what_was_shown(serve: Serve) -> None:
    yearly = Schedule("yearly", shop.ask, "!", cron="0 0 1 1 *")
    served = serve(app={"schedules": [yearly]}, worker=True)
    until(lambda: served.app.store.schedules("default"), "the schedule")
    max_ = signed_in(served, "max", "operator")
    form = max_.get("/flow").form("/schedules/yearly/fire")
    without = {name: value for name, value in form.fields.items() if name != "version"}
    assert max_.post(form.action, without | {"reason": "r"}).status == 428
    assert max_.send(form, reason="the auditor asks").status == 200
    assert max_.send(form, reason="the auditor asks").status == 412
    until(lambda: served.app.store.runs(RunFilter("default")), "its run")
    assert len(served.app.store.runs(RunFilter("default"))) == 1
    assert served.rows().count(("max", "fire schedule", "done")) == 1


def test_a_second_person_confirms_by_a_form_what_the_first_has_proposed(serve: Serve) -> None:
    who = Permissions({"ann": "admin", "max": "operator", "vic": "viewer"}, two_persons=["cancel"])
    served = serve(permissions=who)
    served.as_("ann", "admin").post("/runs", json=START)
    max_, ann, vic = (signed_in(served, name, "admin") for name in ("max", "ann", "vic"))
    asked = max_.send(max_.get("/runs/r").form("/runs/r/cancel"), reason="nobody wants it")
    assert asked.status == 409
    assert served.app.store.find("default", "r").state == "ready"
    own, theirs = max_.get("/proposals"), ann.get("/proposals")
    assert [one.action for one in own.forms if "confirm" in one.action] == []
    assert [one.action for one in vic.get("/proposals").forms] == ["/sign-out"]
    form = theirs.form("/proposals/1/confirm")
    mine = form.fields | {"reason": "me again", "form": own.forms[0].fields["form"]}
    assert max_.post(form.action, mine).status == 409
    assert served.app.store.find("default", "r").state == "ready"
    assert ann.send(form, reason="I have looked").status == 200
    assert served.app.store.find("default", "r").state == "cancelling"
    assert ann.send(form, reason="once more").status == 409
    rows = served.rows()
    assert rows.count(("max", "propose", "done")) == 1
    assert rows.count(("ann", "cancel", "done")) == 1
    assert rows.count(("max", "confirm", "refused")) == 1


def test_the_audit_is_shown_page_by_page_and_by_what_is_asked_for(serve: Serve) -> None:
    served = serve()
    ann = served.as_("ann")
    for number in range(60):
        ann.post("/runs", json=START | {"id": f"r{number}"})
        ann.post(f"/runs/r{number}/cancel", json={"reason": "no"}, headers={"If-Match": "*"})
    vic = signed_in(served, "vic", "viewer")
    page = vic.get("/audit", verb="cancel", outcome="")
    assert page.html.count("<tr>") == 51
    (older,) = [str(named["href"]) for tag, named in page.tags if tag == "a" and named.get("rel") == "next"]
    assert vic.get(older).html.count("<tr>") == 11
    assert vic.get("/audit", actor="nobody", before="").html.count("<tr>") == 0
    assert vic.get("/audit", before="x").status == 422


def test_the_contracts_show_each_step_and_its_blanks(serve: Serve) -> None:
    served = serve()
    page = signed_in(served, "vic", "viewer").get("/contracts")
    assert page.status == 200
    assert page.html.count("<summary>") == len({effect.name for effect in served.app.effects()})
