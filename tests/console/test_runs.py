"""Runs over HTTP: listed, shown, started, signalled and cancelled, by a real server on both databases."""

import re

import pytest

from fencepost import Permissions
from tests.console.conftest import Serve, Served
from tests.polling import until
from tests.runtime.stage import target

ORDER = {"workflow": "order", "id": "order:a/1", "input": {"order": {"id": "7"}}}


def test_a_run_is_started_once_however_often_it_is_asked_for(serve: Serve) -> None:
    served = serve(worker=True)
    shop = served.as_("shop")
    for _ in range(3):
        reply = shop.post("/runs", json=ORDER)
        assert reply.status_code == 201, reply.text
    until(lambda: shop.get("/runs/order:a%2F1").json()["run"]["state"] == "succeeded", "its end")
    assert (target.requests, target.objects) == (["7"], ["7"])
    assert [run["id"] for run in shop.get("/runs").json()["runs"]] == ["order:a/1"]


def test_the_same_id_with_another_input_is_refused_with_the_ids(served: Served) -> None:
    shop = served.as_("shop")
    shop.post("/runs", json=ORDER)
    refused = shop.post("/runs", json=ORDER | {"input": {"order": {"id": "8"}}})
    assert (refused.status_code, refused.headers["content-type"]) == (409, "application/problem+json")
    told = refused.json()
    assert (told["type"], told["ids"]["run"]) == ("urn:fencepost:run-input-mismatch", "order:a/1")
    assert told["hint"]


def test_a_signal_is_accepted_once_and_ends_the_wait(serve: Serve) -> None:
    served = serve(worker=True)
    shop = served.as_("max")
    shop.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    until(lambda: shop.get("/runs/r").json()["run"]["state"] == "waiting", "its wait")
    for _ in range(2):
        sent = shop.post(
            "/runs/r/signal", json={"name": "word", "value": "yes", "id": "evt-1", "reason": "it got lost"}
        )
        assert sent.status_code == 200, sent.text
    shown = until(lambda: (said := shop.get("/runs/r").json())["run"]["state"] == "succeeded" and said, "its end")
    assert shown["run"]["result"] == "yes!"
    assert served.rows() == [("max", "signal", "done")]


def test_a_verb_is_done_in_the_name_of_the_token_and_to_the_version_that_was_seen(served: Served) -> None:
    ann = served.as_("ann")
    began = ann.post("/runs", json=ORDER).headers["etag"]
    path = "/runs/order:a%2F1/cancel"
    assert ann.post(path, json={"reason": "no stock"}).status_code == 428
    stale = ann.post(path, json={"reason": "no stock"}, headers={"If-Match": '"0-9"'})
    assert (stale.status_code, stale.json()["type"]) == (412, "urn:fencepost:changed-since")
    assert ann.get("/runs/order:a%2F1").json()["run"]["state"] == "ready"
    done = ann.post(path, json={"reason": "no stock"}, headers={"If-Match": began})
    assert done.status_code == 200, done.text
    assert served.rows() == [("ann", "cancel", "refused"), ("ann", "cancel", "done")]
    again = ann.post(path, json={"reason": "no stock"}, headers={"If-Match": began})
    assert again.status_code == 412
    assert done.headers["etag"] != began


@pytest.mark.parametrize("given", [None, "fencepost_", "Bearer", "fencepost_" + "x" * 43])
def test_whoever_has_no_token_is_told_nothing(served: Served, given: str | None) -> None:
    served.as_("ann").post("/runs", json=ORDER)
    stranger = served.client(given)
    for reply in (stranger.get("/runs"), stranger.get("/runs/order:a%2F1"), stranger.post("/runs", json=ORDER)):
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert reply.json()["type"] == "urn:fencepost:unnamed"


def test_the_scopes_of_a_token_are_roles_and_asked_for_by_the_same_permits(served: Served) -> None:
    ann, vic = served.as_("ann", "admin"), served.as_("vic", "viewer")
    ann.post("/runs", json=ORDER)
    assert vic.get("/runs").status_code == 200
    denied = vic.post("/runs/order:a%2F1/cancel", json={"reason": "no"}, headers={"If-Match": "*"})
    assert (denied.status_code, denied.json()["detail"]) == (403, "'vic' lacks the role operator for cancel")
    assert vic.post("/runs", json=ORDER | {"id": "other"}).status_code == 403
    assert served.rows() == [("vic", "cancel", "refused"), ("vic", "start", "refused")]


def test_scopes_never_give_what_the_permissions_do_not(serve: Serve) -> None:
    served = serve(worker=True, permissions=Permissions({"vic": "viewer", "ann": "admin"}))
    vic, ann = served.as_("vic", "admin"), served.as_("ann", "viewer")
    nobody = served.as_("nobody", "admin")
    assert vic.post("/runs", json=ORDER).status_code == 403
    assert ann.post("/runs", json=ORDER).status_code == 403
    assert nobody.get("/runs").status_code == 403
    assert served.app.store.find("default", "order:a/1") is None


def test_a_run_that_is_not_there_is_a_404_and_leaves_no_page(served: Served) -> None:
    missing = served.as_("ann").get("/runs/nobody")
    assert (missing.status_code, missing.json()["ids"]) == (404, {"run": "nobody"})
    assert re.search("fencepost runs", missing.json()["hint"])


def test_pages_follow_each_other_by_key(served: Served) -> None:
    shop = served.as_("shop")
    for number in range(5):
        shop.post("/runs", json=ORDER | {"id": f"r{number}"})
    first = shop.get("/runs", params={"limit": 2}).json()
    second = shop.get("/runs", params={"limit": 2, "after": first["next"]}).json()
    last = shop.get("/runs", params={"limit": 2, "after": second["next"]}).json()
    assert [[run["id"] for run in page["runs"]] for page in (first, second, last)] == [
        ["r4", "r3"],
        ["r2", "r1"],
        ["r0"],
    ]
    assert last["next"] is None
    assert shop.get("/runs", params={"state": "held"}).json()["runs"] == []
