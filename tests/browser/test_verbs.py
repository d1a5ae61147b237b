"""Verbs done by a person at a real browser: each counted at the world, and each with its audit row."""

from collections.abc import Callable

from playwright.sync_api import Page

from fencepost.console.versions import etag_of
from fencepost.core.states import RunState
from tests.browser.acting import form, send
from tests.browser.conftest import Come
from tests.browser.house import House
from tests.polling import until

PAID = {"tasks": 1, "messages": 1, "payments": 1, "entries": 1, "refunds": 0, "reversals": 0}
REASON = "she looked at the bank's statement"

Picture = Callable[[Page, str], None]


def test_an_unknown_payment_is_found_on_the_front_page_and_settled_and_not_sent_again(
    house: House, come: Come, picture: Picture, invoice: str
) -> None:
    run = house.unknown(invoice)
    payment = house.objects("payments", invoice)[0]
    requests = len(house.world.files.requests("payments"))
    ann = come("ann", "operator")
    picture(ann, "front")
    ann.locator("section.urgent").get_by_text(run).click()
    ann.wait_for_url("**/runs/**")
    picture(ann, "unknown")
    settle = form(ann, run, "settle", happened="true")
    settle.scroll_into_view_if_needed()
    picture(ann, "settle")
    send(settle, result=f'{{"id": "{payment["id"]}"}}', reason=REASON)
    house.until(run, RunState.SUCCEEDED)
    assert house.holds(invoice) == PAID
    assert len(house.world.files.requests("payments")) == requests
    assert [(row.actor, row.outcome, row.reason) for row in house.audit(run, "settle")] == [("ann", "done", REASON)]


def test_a_payment_that_never_arrived_is_sent_once_more_when_somebody_says_so(
    house: House, come: Come, invoice: str
) -> None:
    run = house.lost(invoice)
    assert house.holds(invoice)["payments"] == 0
    send(form(come("ann", "operator"), run, "settle", happened="false"), reason=REASON)
    house.until(run, RunState.SUCCEEDED)
    assert house.holds(invoice) == PAID
    assert [(row.actor, row.outcome) for row in house.audit(run, "settle")] == [("ann", "done")]


def test_a_click_on_what_has_changed_meanwhile_is_refused_although_the_verb_still_applies(
    house: House, come: Come, picture: Picture, invoice: str
) -> None:
    run = house.lost(invoice)
    seen = house.run(run)
    ann, ben = come("ann", "operator"), come("ben", "operator")
    late = form(ann, run, "settle", happened="false")
    send(form(ben, run, "resume"), reason="perhaps the bank can be asked now")
    until(lambda: house.run(run).state is RunState.HELD and house.run(run).version > seen.version, "the run to rest")
    house.wait_out(run)
    before, known = house.writes(), house.run(run)
    assert send(late, reason="an old page") == 412
    picture(ann, "stale")
    assert house.run(run) == known
    assert house.writes() == before
    assert house.holds(invoice)["payments"] == 0
    assert [(row.actor, row.outcome) for row in house.audit(run, "settle")] == [("ann", "refused")]


def test_a_compensation_is_shown_before_it_is_done_and_undoes_what_was_shown_once(
    house: House, come: Come, picture: Picture, invoice: str
) -> None:
    run = house.failed(invoice)
    before = house.writes()
    compensate = form(come("ann", "admin"), run, "compensate")
    assert compensate.locator("ol.plan li").count() == 3
    compensate.scroll_into_view_if_needed()
    picture(compensate.page, "compensation")
    assert house.writes() == before
    assert house.audit(run, "compensate") == []
    send(compensate, reason="it was never ordered")
    house.until(run, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
    assert house.holds(invoice) == PAID | {"entries": 0, "refunds": 1}
    assert [one["state"] for one in house.objects("tasks", invoice)] == ["cancelled"]
    assert [(row.actor, row.outcome) for row in house.audit(run, "compensate")] == [("ann", "done")]
    compensate.page.goto(f"/runs/{run}")
    picture(compensate.page, "compensated")
    compensate.page.locator("#steps").evaluate("one => one.scrollIntoView()")
    picture(compensate.page, "timeline")


def test_an_approval_pays_once_and_a_denial_nothing(house: House, come: Come, picture: Picture, invoice: str) -> None:
    run = house.asks(invoice)
    app = come("app", "approver")
    approve = form(app, run, "approve", approved="true")
    approve.scroll_into_view_if_needed()
    picture(app, "approval")
    send(approve, comment="as ordered")
    house.until(run, RunState.SUCCEEDED)
    assert house.holds(invoice) == PAID
    assert [(row.actor, row.outcome) for row in house.audit(run, "approve")] == [("app", "done")]

    other = house.asks(f"{invoice}-b")
    send(form(app, other, "deny", approved="false"), comment="nobody ordered it")
    house.until(other, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
    assert house.holds(f"{invoice}-b")["payments"] == 0
    assert [one["state"] for one in house.objects("tasks", f"{invoice}-b")] == ["cancelled"]


def test_a_verb_is_done_without_javascript(house: House, come: Come, invoice: str) -> None:
    run = house.lost(invoice)
    ann = come("ann", "operator", java_script_enabled=False)
    send(form(ann, run, "settle", happened="false"), reason=REASON)
    house.until(run, RunState.SUCCEEDED)
    assert house.holds(invoice) == PAID
    assert [(row.actor, row.outcome) for row in house.audit(run, "settle")] == [("ann", "done")]


def test_a_page_in_japanese_does_the_same_verb(house: House, come: Come, picture: Picture, invoice: str) -> None:
    run = house.lost(invoice)
    hana = come("花", "operator", locale="ja-JP")
    assert hana.locator("html").get_attribute("lang") == "ja"
    picture(hana, "front-ja")
    reason = "銀行の明細を確認した"
    settle = form(hana, run, "settle", happened="false")
    picture(hana, "run-ja")
    send(settle, reason=reason)
    house.until(run, RunState.SUCCEEDED)
    assert house.holds(invoice) == PAID
    assert [(row.actor, row.outcome, row.reason) for row in house.audit(run, "settle")] == [("花", "done", reason)]


def test_a_viewer_sees_no_button_and_a_form_of_their_own_making_does_nothing(
    house: House, come: Come, invoice: str
) -> None:
    run = house.unknown(invoice)
    vic = come("vic", "viewer")
    vic.goto(f"/runs/{run}")
    assert vic.locator("details.verb").count() == 0
    assert vic.locator("form").evaluate_all("forms => forms.map(one => one.getAttribute('action'))") == ["/sign-out"]
    before, known = house.writes(), house.run(run)
    fields = {
        "form": vic.locator('input[name="form"]').first.get_attribute("value"), "happened": "false", "step": "pay",
        "reason": "I may not", "version": etag_of(known),
    }  # fmt: skip
    reply = vic.request.post(f"/runs/{run}/settle", form=fields, headers={"Origin": house.url})
    assert reply.status == 403
    assert house.run(run) == known
    assert house.writes() == before
    assert [(row.actor, row.outcome) for row in house.audit(run, "settle")] == [("vic", "refused")]


def test_an_open_page_shows_what_has_become_unknown_without_being_asked_again(
    house: House, come: Come, invoice: str
) -> None:
    ann = come("ann", "viewer")
    run = house.unknown(invoice)
    ann.locator("section.urgent").get_by_text(run).wait_for()
    ann.goto(f"/runs/{run}")
    shown = ann.locator(".state.run-held").first
    shown.wait_for()
    happened = house.objects("payments", invoice)[0]
    ben = come("ben", "operator")
    send(form(ben, run, "settle", happened="true"), result=f'{{"id": "{happened["id"]}"}}', reason=REASON)
    ann.locator(".state.run-succeeded").first.wait_for()
    until(lambda: house.run(run).state is RunState.SUCCEEDED, "what the page has shown already")
    assert house.holds(invoice) == PAID
