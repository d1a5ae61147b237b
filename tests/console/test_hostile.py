"""Hostile input over HTTP: a refusal that the schema tells of, nothing started, and nothing of it in the ledger."""

import json
import re
from typing import Any

import pytest

from fencepost.console import problems
from fencepost.console.bodies import BODY_MAX
from tests.console.conftest import Served
from tests.console.test_schema import OPERATIONS

START: dict[str, Any] = {"workflow": "ask", "id": "r", "input": {"name": "!"}}
BODIES: dict[str, Any] = {
    "no JSON": b"{",
    "nothing": b"",
    "not an object": b"[]",
    "no UTF-8": b'{"workflow": "\xff\xfe"}',
    "too deep": b'{"workflow": "ask", "id": "r", "input": {"name": ' + b"[" * 9_000 + b"]" * 9_000 + b"}}",
    "quite deep": b'{"workflow": "ask", "id": "r", "input": {"name": ' + b"[" * 900 + b"]" * 900 + b"}}",
    "not a number": json.dumps(START | {"input": {"name": float("nan")}}).encode(),
    "an unknown field": START | {"and": 1},
    "an unknown argument": START | {"input": {"name": "!", "and": 1}},
    "a missing argument": START | {"input": {}},
    "another type": START | {"input": {"name": {"a": 1}}},
    "a number for a name": START | {"id": 7},
    "a word for a number": START | {"version": "1"},
    "a version beyond every number": START | {"version": 2**70},
    "a priority beyond every number": START | {"priority": 2**63},
    "NUL in an id": START | {"id": "r\0"},
    "half a character": START | {"input": {"name": "\ud800"}},
    "half a character in an id": START | {"id": "\ud800"},
    "an id that reads backwards": START | {"id": "r\u202etxt"},
    "an id that hides": START | {"id": "r\u200b"},
    "an id of blanks": START | {"id": "   "},
    "an id that clears the screen": START | {"id": "\x1b[2J"},
    "a very long id": START | {"id": "x" * 100_000},
    "a duration for ever": START | {"delay": "9" * 30 + "d"},
    "no duration": START | {"delay": "soon"},
    "a workflow that is not there": START | {"workflow": "'; DROP TABLE run; --"},
    "too large": START | {"input": {"name": "x" * BODY_MAX}},
}


@pytest.mark.parametrize("what", BODIES)
def test_a_body_that_is_none_starts_nothing_and_is_told_so(served: Served, what: str) -> None:
    given = BODIES[what]
    body = given if isinstance(given, bytes) else json.dumps(given).encode()
    client = served.as_("shop")
    for content in (body, iter([body])):  # with its length said, and without
        refused = client.post("/runs", content=content, headers={"Content-Type": "application/json"})
        assert refused.headers["content-type"] == problems.MEDIA_TYPE, refused.text
        assert str(refused.status_code) in OPERATIONS["POST /api/v1/runs"]["responses"]
        assert 400 <= refused.status_code < 500, refused.text
        assert (refused.status_code == 413) is (len(body) > BODY_MAX)
        assert len(refused.content) < 20_000
    assert client.get("/runs").json()["runs"] == []


PLACES = {
    "/runs/%00": "GET",
    "/runs/%E2%80%AEr": "GET",
    "/runs/%ff": "GET",
    "/runs/" + "x" * 5_000: "GET",
    "/runs?after=99999999999999999999": "GET",
    "/runs?limit=0": "GET",
    "/runs?limit=1e3": "GET",
    "/runs?state=dead": "GET",
    "/runs?and=1": "GET",
    "/runs?prefix=%00": "GET",
    "/runs/r?turn=-1": "GET",
    "/audit?before=x": "GET",
    "/audit/verify?no=9999999999999999999999": "GET",
    "/outcomes/r?within=31": "GET",
    "/outcomes/r?within=nan": "GET",
    "/nothing": "GET",
    "/runs/r": "DELETE",
    "/runs/r/cancel": "PUT",
    "/proposals/0/confirm": "POST",
    "/queues/%00/pause": "POST",
    "/schedules/%E2%80%AE/pause": "POST",
    "/runs/%00/cancel": "POST",
}


@pytest.mark.parametrize("place", PLACES)
def test_an_address_that_is_none_is_refused_with_a_problem(served: Served, place: str) -> None:
    reply = served.as_("ann", "admin").request(PLACES[place], place, json={"reason": "r"})
    assert reply.headers["content-type"] == problems.MEDIA_TYPE, reply.text
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.json()["status"] == reply.status_code


@pytest.mark.parametrize("tag", ['""', '"7"', "7", '"0-7', '"0-99999999999999999999"', 'W/"0-0"', "x" * 2_000, '"٣-٣"'])
def test_a_version_that_no_run_has_is_refused_and_nothing_is_done(served: Served, tag: str) -> None:
    ann = served.as_("ann")
    ann.post("/runs", json=START)
    refused = ann.post("/runs/r/cancel", json={"reason": "r"}, headers={"If-Match": tag.encode()})
    assert refused.status_code in (412, 422), refused.text
    assert ann.get("/runs/r").json()["run"]["state"] == "ready"


@pytest.mark.parametrize("reason", ["", " ", "a\0b", "\u202eno", "\x1b[31m", "\ud800", "x" * 5_000, 7, None, ["r"]])
def test_a_reason_that_is_none_is_refused_and_nothing_is_done(served: Served, reason: Any) -> None:
    ann = served.as_("ann")
    ann.post("/runs", json=START)
    refused = ann.post(
        "/runs/r/cancel",
        content=json.dumps({"reason": reason}),
        headers={"If-Match": "*", "Content-Type": "application/json"},
    )
    assert refused.status_code == 422, refused.text
    assert ann.get("/runs/r").json()["run"]["state"] == "ready"
    assert served.rows() == []


def test_another_content_type_is_no_body(served: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        refused = served.as_("shop").post("/runs", content=json.dumps(START), headers={"Content-Type": kind})
        assert 400 <= refused.status_code < 500
    assert served.as_("shop").get("/runs").json()["runs"] == []


def test_markup_and_other_peoples_words_come_back_as_json_only(served: Served) -> None:
    ann = served.as_("ann")
    ann.post("/runs", json=START | {"id": "<script>alert(1)</script>"})
    shown = ann.get("/runs")
    assert shown.headers["content-type"] == "application/json"
    assert re.search("<script>", shown.json()["runs"][0]["id"])


def test_a_value_may_hold_whatever_json_holds_and_comes_back_as_it_was(served: Served) -> None:
    ann, strange = served.as_("ann"), "NUL \0, \u202eback, \x1b[2J, \u2028 and 🪧"
    assert ann.post("/runs", json=START | {"input": {"name": strange}}).status_code == 201
    assert ann.get("/runs/r").json()["run"]["input"]["name"] == strange
