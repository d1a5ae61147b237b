"""Both doors show the same: what the API answers is what the command line writes with `--json`."""

import json
from typing import Any

import pytest

from fencepost import Queue, Schedule
from tests.cli import family
from tests.cli.conftest import Command, fencepost
from tests.cli.test_families import FAMILY
from tests.console import shop
from tests.console.conftest import Serve, Served
from tests.polling import until
from tests.runtime.stage import target

__all__ = ["fencepost"]

MOMENTARY = {"value", "says", "shown", "expires_at", "renewed_at", "lease_expires_at"}
"""What is another thing a moment later."""


def steady(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: steady(value) for name, value in document.items() if name not in MOMENTARY}
    return [steady(one) for one in document] if isinstance(document, list) else document


@pytest.fixture
def busy(serve: Serve) -> Served:
    """A ledger with something of everything."""
    nightly = Schedule("nightly", shop.ask, "you", cron="0 3 * * *")
    served = serve(worker=True, app={"schedules": [nightly], "queues": [Queue("mail", concurrency=1)]})
    target.plan("7", "lose")
    ann = served.as_("ann", "admin")
    ann.post("/runs", json={"workflow": "order", "id": "held", "input": {"order": {"id": "7"}}})
    ann.post("/runs", json={"workflow": "ask", "id": "waits", "input": {"name": "!"}})
    ann.post("/contain", json={"kind": "target", "name": "bank", "reason": "it is on fire"})
    served.call(served.app.start(shop.ask, "later", id="queued", queue="mail", delay="1h"))
    until(lambda: served.app.store.find("default", "held").state == "held", "the hold")
    until(lambda: served.app.store.find("default", "waits").state == "waiting", "the wait")
    ann.post("/bulk", json={"verb": "cancel", "shown": {"waits": 0}, "reason": "too late: it is not as it was shown"})
    return served


SAME = {
    "/runs": ("runs",),
    "/runs/held": ("show", "held"),
    "/runs/waits": ("show", "waits"),
    "/runs/held?redact=true": ("show", "held", "--redact"),
    "/schedules": ("schedule",),
    "/queues": ("queue",),
    "/contained": ("contained",),
    "/alerts": ("alerts",),
    "/audit": ("audit",),
    "/audit/verify": ("audit", "verify"),
    "/check": ("check",),
    "/traces/held": ("trace", "held"),
    "/traces/waits": ("trace", "waits"),
    "/health": ("health",),
    "/bulk/jobs?all=true": ("bulks", "--all"),
    "/bulk/jobs/1": ("bulks", "show", "1"),
}


def test_every_query_of_the_api_is_that_of_the_command_line(busy: Served, url: str, fencepost: Command) -> None:
    ann = busy.as_("ann", "admin")
    for path, command in SAME.items():
        over_http = ann.get(path)
        assert over_http.status_code == 200, (path, over_http.text)
        written = fencepost(*command, "--db", url, "--json").out
        assert steady(over_http.json()) == steady(json.loads(written)), path
    assert [run["id"] for run in ann.get("/runs").json()["runs"]] == ["queued", "waits", "held"]


def test_families_turns_and_what_was_taken_back_are_shown_alike(serve: Serve, url: str, fencepost: Command) -> None:
    served = serve(worker=True, workflows=[*family.app.workflows.values(), shop.give_back])
    ann, store = served.as_("ann"), served.app.store
    for workflow, given in (("parent", {"name": "p"}), ("turning", {"number": 0}), ("give_back", {"name": "g"})):
        ann.post("/runs", json={"workflow": workflow, "id": workflow, "input": given})
    until(lambda: store.find("default", "p child") is not None, "the children")
    until(lambda: store.find("default", "turning").turn == 2, "the turns")
    until(lambda: store.find("default", "give_back").ended_at, "the end")
    cancelled = ann.post("/runs/parent/cancel", json={"reason": "not now"}, headers={"If-Match": "*"}).json()
    assert cancelled["detached"] == ["p aside"]
    until(lambda: store.find("default", "parent").state == "cancelled", "the cancel")
    for path, command in {
        "/runs/parent": ("show", "parent"), "/runs/p%20child": ("show", "p child"),
        "/runs/turning?turn=0": ("show", "turning", "--turn", "0"), "/runs/give_back": ("show", "give_back"),
    }.items():  # fmt: skip
        assert steady(ann.get(path).json()) == steady(fencepost(*command, "--db", url, "--json").json), path
    assert ann.get("/runs/turning?turn=9").status_code == 404
    assert ann.get("/outcomes/parent").json()["cancelled"] is True
    assert target.requests == ["g", "undo g"]


def test_another_version_is_rehearsed_alike_and_what_would_be_refused_all_the_same_is_told(
    serve: Serve, url: str, fencepost: Command
) -> None:
    ann = serve(workflows=[*family.app.workflows.values()]).as_("ann", "admin")
    ann.post("/runs", json={"workflow": "changing", "version": 1, "id": "r", "input": {"name": "x"}})
    for to in (1, 2, 3):
        told = ann.post("/runs/r/rehearse", json={"to": to}).json()
        dry = fencepost("migrate", "r", "--to", str(to), "--dry-run", "--json", "--app", FAMILY, "--db", url)
        assert told == dry.json, to
        assert (told["refused"] is None) is (to != 1)


def test_the_contract_is_that_of_the_consoles_app(busy: Served) -> None:
    told = busy.as_("vic", "viewer").get("/contract").json()
    assert (told["blanks"], {row["step"] for row in told["steps"]} >= {"once", "undo"}) == (0, True)


def test_check_looks_beyond_the_namespace_and_needs_an_admin(busy: Served) -> None:
    assert busy.as_("max", "operator").get("/check").status_code == 403


def test_what_is_contained_is_not_sent_toward_until_it_is_released(serve: Serve) -> None:
    served = serve(worker=True)
    ann, form = served.as_("ann"), {"kind": "workflow", "name": "order", "reason": "its prices are wrong"}
    ann.post("/contain", json=form)
    ann.post("/runs", json={"workflow": "order", "id": "r", "input": {"order": {"id": "9"}}})
    until(lambda: "contained" in str(ann.get("/runs/r").json()["waits_for"]), "it to wait")
    assert target.requests == []
    assert ann.post("/release", json=form).json()["released"]["by"] == "ann"
    until(lambda: ann.get("/runs/r").json()["run"]["state"] == "succeeded", "its end")
    assert target.requests == ["9"]


def test_queues_and_schedules_are_paused_by_name_and_version(busy: Served) -> None:
    ann, why = busy.as_("ann", "admin"), {"reason": "the bank is closed"}
    assert ann.post("/queues/mail/pause", json=why).json()["queue"]["paused_by"] == "ann"
    assert ann.post("/queues/nothing/pause", json=why).status_code == 404
    (seen,) = ann.get("/schedules").json()["schedules"]
    path, etag = "/schedules/nightly/pause", {"If-Match": f'"{seen["version"]}"'}
    assert ann.post(path, json=why).status_code == 428
    assert ann.post(path, json=why, headers={"If-Match": '"999"'}).status_code == 412
    assert ann.post(path, json=why, headers=etag).json()["schedule"]["state"] == "paused"
    assert ann.post(path, json=why, headers=etag).status_code == 412
    assert ann.post("/schedules/yearly/pause", json=why, headers=etag).status_code == 404
    fired = ann.post("/schedules/nightly/fire", json=why, headers={"If-Match": "*"}).json()
    assert fired["schedule"]["last_run"].startswith("schedule:nightly:")
