"""Every verb over HTTP: done by the functions of every other door, as often as there, in the caller's name."""

import asyncio
import inspect
import json
from dataclasses import replace
from typing import Any, get_args

import httpx2
import pytest

from fencepost import App, Permissions
from fencepost.console import api_forms
from fencepost.console.server import create_app
from fencepost.console.versions import etag_of, version_meant
from fencepost.core.errors import ChangedSince
from fencepost.core.permissions import VERBS
from fencepost.core.records import Run
from fencepost.core.states import RunState
from fencepost.runtime.bulk import IN_BULK
from fencepost.runtime.repertoire import ON_RUNS
from tests.console.conftest import Serve, Served
from tests.runtime import test_every_verb as stages
from tests.runtime.stage import target
from tests.runtime.test_every_verb import STAGES

PATHS = {verb: verb.replace(" ", "-") for verb in ON_RUNS}


def arguments_of(verb: str) -> dict[str, Any]:
    told = dict(STAGES[verb].arguments)
    if "result" in told:
        told["result"] = json.loads(told["result"])
    return told


@pytest.mark.parametrize("verb", ON_RUNS)
def test_a_verb_is_done_once_to_what_was_seen_and_by_whoever_may(serve: Serve, url: str, verb: str) -> None:
    asyncio.run(stages.staged(url, verb))
    on_stage = serve(workflows=stages.CODE)
    ann, vic = on_stage.as_("ann", "admin"), on_stage.as_("vic", "viewer")
    seen = ann.get("/runs/r")
    form = arguments_of(verb) | {"reason": "because"}
    path, etag = f"/runs/r/{PATHS[verb]}", {"If-Match": seen.headers["etag"]}
    before = on_stage.app.store.find("default", "r")
    sent = len(target.requests)

    assert ann.post(path, json=form).status_code == 428
    assert ann.post(path, json=form, headers={"If-Match": '"0-99999"'}).status_code == 412
    assert vic.post(path, json=form, headers=etag).status_code == 403
    assert on_stage.app.store.find("default", "r") == before

    done = ann.post(path, json=form, headers=etag)
    assert done.status_code == 200, done.text
    told = done.json()
    assert (told["verb"], told["before"], told["run"]["id"]) == (verb, before.state, "r")
    assert told["run"]["generation"] - before.generation == (1 if VERBS[verb].takes else 0)
    assert ann.post(path, json=form, headers=etag).status_code == 412
    rows = [row for row in on_stage.rows() if row[:2] in (("ann", verb), ("vic", verb))]
    assert rows.count(("ann", verb, "done")) == 1
    assert rows.count(("vic", verb, "refused")) == 1
    assert len(target.requests) == sent


def test_each_verb_on_runs_has_an_address_and_each_form_names_the_verbs_arguments() -> None:
    paths = create_app(App("sqlite:///unused.db", workflows=[])).openapi()["paths"]
    verbs = {path.rpartition("/")[2] for path in paths if path.startswith("/api/v1/runs/{run}/")}
    assert verbs == set(PATHS.values()) | {"signal", "approve", "rehearse"}
    assert set(get_args(api_forms.BulkVerb)) == set(IN_BULK)
    for verb in ON_RUNS:
        schema = paths[f"/api/v1/runs/{{run}}/{PATHS[verb]}"]["post"]
        name = schema["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        taken = set(inspect.signature(ON_RUNS[verb]).parameters) - {"app", "run", "by", "version", "roles"}
        assert set(getattr(api_forms, name).model_fields) - {"turn"} == taken, verb


def test_the_version_of_an_earlier_turn_is_not_that_of_this_one() -> None:
    run = Run(7, "default", "r", "order", 1, "{}", "", RunState.READY, 3, 5, 0, 0, turn=2)
    assert version_meant(etag_of(run), run) == 5
    for seen in (replace(run, turn=1), replace(run, turn=3)):
        with pytest.raises(ChangedSince):
            version_meant(etag_of(seen), run)
    assert version_meant("*", run) is None


def test_many_runs_are_rehearsed_and_then_done_each_by_itself(served: Served) -> None:
    ann: httpx2.Client = served.as_("ann")
    for number in range(3):
        ann.post("/runs", json={"workflow": "ask", "id": f"r{number}", "input": {"name": "!"}})
    form = {"verb": "cancel", "state": "ready", "reason": "all of them"}
    would = ann.post("/bulk", json=form | {"dry_run": True}).json()
    assert [one["after"] for one in would["runs"]] == ["cancelling"] * 3
    assert {run["state"] for run in ann.get("/runs").json()["runs"]} == {"ready"}
    shown = {one["run"]: one["version"] for one in would["runs"]}
    ann.post("/runs/r1/cancel", json={"reason": "first"}, headers={"If-Match": "*"})
    done = ann.post("/bulk", json={"verb": "cancel", "shown": shown, "reason": "as shown"}).json()
    assert [one["run"] for one in done["runs"] if one["refused"] is None] == ["r2", "r0"]
    assert served.rows().count(("ann", "cancel", "done")) == 3
    assert ann.post("/bulk", json={"verb": "retry", "state": "held", "reason": "r"}).status_code == 422
    assert ann.post("/bulk", json={"verb": "cancel", "reason": "which?"}).status_code == 422


def test_many_runs_are_migrated_to_the_version_that_is_named_and_to_no_other(served: Served) -> None:
    ann: httpx2.Client = served.as_("ann", "admin")
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    form = {"verb": "migrate", "state": "ready", "reason": "moved"}
    assert ann.post("/bulk", json=form).status_code == 422
    assert ann.post("/bulk", json=form | {"verb": "cancel", "to": 2}).status_code == 422
    (one,) = ann.post("/bulk", json=form | {"to": 2}).json()["runs"]
    assert "no version 2" in one["refused"]
    (one,) = ann.post("/bulk", json=form | {"to": 1}).json()["runs"]
    assert "pinned to version 1 already" in one["refused"]


def test_a_second_person_confirms_over_http_what_the_first_has_proposed(serve: Serve) -> None:
    served = serve(worker=True, permissions=Permissions({"ann": "admin", "max": "operator"}, two_persons=["cancel"]))
    ann, maxim = served.as_("ann", "admin"), served.as_("max")
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    asked = maxim.post("/runs/r/terminate", json={"reason": "no"}, headers={"If-Match": '"0-77"'})
    assert asked.status_code == 412
    number = int(
        maxim.post("/runs/r/cancel", json={"reason": "no"}, headers={"If-Match": "*"}).json()["ids"]["proposal"]
    )
    (listed,) = ann.get("/proposals").json()["proposals"]
    assert (listed["proposal"], listed["proposed_by"], listed["run"]) == (number, "max", "r")
    assert maxim.post(f"/proposals/{number}/confirm", json={"reason": "me again"}).status_code == 409
    assert ann.post(f"/proposals/{number + 1}/confirm", json={"reason": "which"}).status_code == 404
    declined = ann.post(f"/proposals/{number}/decline", json={"reason": "not now"}).json()
    assert declined["state"] == "declined"
    assert ann.get("/proposals").json()["proposals"] == []
