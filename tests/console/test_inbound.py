"""What comes in from outside: keys that are sent again, reports on jobs, and providers' signed events."""

import base64
import hashlib
import hmac
import json
import time
import uuid

import httpx2
import pytest
from fastapi import APIRouter, Request

from fencepost import AesGcm, App, Run, workflow
from fencepost.console import idempotent
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.receiving import Receipts, WebhookEndpoint
from fencepost.receiving.webhooks import Event
from tests.console.conftest import Serve, Served
from tests.polling import until

SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
TOKENS: list[str] = []


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), compensate=Stands("it is only a film"))
async def hand_over(call: Call) -> None:
    TOKENS.append(await call.callback("film"))


@workflow()
async def render(run: Run) -> str:
    await run.do(hand_over())
    return await run.wait("film", str, callback=hand_over, heartbeat="5m", within="1d")


@workflow()
async def paid(run: Run, charge: str) -> str:
    return await run.wait(f"paid {charge}", str)


def state_of(served: Served, run: str) -> str:
    found = served.app.store.find("default", run)
    return "" if found is None else found.state.value


# -- keys -------------------------------------------------------------------------------------------------------------


def test_a_verb_that_is_sent_again_under_its_key_is_done_once_and_answered_alike(served: Served) -> None:
    ann = served.as_("ann")
    etag = ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}}).headers["etag"]
    given = {"If-Match": etag, "Idempotency-Key": "click-1"}
    first = ann.post("/runs/r/cancel", json={"reason": "no"}, headers=given)
    again = ann.post("/runs/r/cancel", json={"reason": "no"}, headers=given)
    assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["etag"] == first.headers["etag"] != etag
    assert served.rows() == [("ann", "cancel", "done")]
    other = ann.post("/runs/r/cancel", json={"reason": "another"}, headers=given)
    assert (other.status_code, other.headers["content-type"]) == (422, "application/problem+json")


def test_one_persons_key_says_nothing_of_anothers_and_strangers_leave_none(served: Served) -> None:
    ann, maxim, stranger = served.as_("ann"), served.as_("max"), served.client("fencepost_nobody")
    key = {"Idempotency-Key": "k"}
    for number, who in enumerate((ann, maxim)):
        started = who.post("/runs", json={"workflow": "ask", "id": f"r{number}", "input": {"name": "!"}}, headers=key)
        assert started.json()["run"]["id"] == f"r{number}"
    assert stranger.post("/runs", json={}, headers=key).status_code == 401
    with_token = stranger.post("/runs", json={}, headers=key | {"Authorization": ""})
    assert with_token.status_code == 401


def test_what_was_refused_with_nothing_done_may_be_sent_again_under_its_key(served: Served) -> None:
    ann = served.as_("ann")
    given = {"If-Match": "*", "Idempotency-Key": "k"}
    assert ann.post("/runs/r/cancel", json={"reason": "no"}, headers=given).status_code == 404
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    assert ann.post("/runs/r/cancel", json={"reason": "no"}, headers=given).status_code == 200


def test_beside_an_encrypted_ledger_no_answer_is_kept_and_the_verb_is_still_done_once(serve: Serve) -> None:
    served = serve(app={"codec": AesGcm({"k1": b"k" * 32})})
    ann, given = served.as_("ann"), {"If-Match": "*", "Idempotency-Key": "k"}
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    codes = [ann.post("/runs/r/cancel", json={"reason": "no"}, headers=given).status_code for _ in range(2)]
    assert codes == [200, 409]
    assert served.rows() == [("ann", "cancel", "done")]


def test_old_keys_are_forgotten_by_and_by(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[Receipts] = []

    def forget(receipts: Receipts) -> None:
        forgotten.append(receipts)

    monkeypatch.setattr(idempotent, "FORGETS_EVERY", 2)
    monkeypatch.setattr(Receipts, "forget", forget)
    ann = serve().as_("ann")
    for number in range(5):
        ann.post("/runs", json={}, headers={"Idempotency-Key": str(number)})
    assert len(forgotten) == 2


# -- reports ----------------------------------------------------------------------------------------------------------


def test_a_job_is_reported_by_its_token_alone_once_however_often_it_is_told(serve: Serve) -> None:
    TOKENS.clear()
    served = serve(worker=True, workflows=[render], app={"callback_secret": "s" * 32})
    served.as_("shop").post("/runs", json={"workflow": "render", "id": "r"})
    until(lambda: state_of(served, "r") == "waiting", "its wait")
    (token,) = TOKENS
    job = served.client(token)
    assert job.post("/jobs/heartbeat", json={"pages": 1}).json()["waiting"] is True
    for _ in range(2):
        assert job.post("/jobs/done", json="film-7").status_code == 202
    assert served.client(None).post(f"/jobs/{token}/done", json="film-7").status_code in (202, 410)
    shown = until(
        lambda: (said := served.as_("v", "viewer").get("/runs/r").json())["run"]["result"] and said, "its end"
    )
    assert shown["run"]["result"] == "film-7"
    assert served.client("nobody").post("/jobs/done", json="film-8").status_code == 404
    assert job.get("/runs").status_code == 401


# -- events -----------------------------------------------------------------------------------------------------------


def signed(body: bytes, *, secret: bytes = b"s" * 24) -> dict[str, str]:
    id, at = f"msg_{uuid.uuid4()}", str(int(time.time()))
    digest = hmac.new(secret, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": id, "webhook-timestamp": at, "webhook-signature": signature}


def test_a_signed_event_ends_the_wait_and_a_forged_one_changes_nothing(serve: Serve) -> None:
    def events(app: App) -> dict[str, WebhookEndpoint]:
        def route(told: dict[str, str]) -> Event:
            return Event(f"paid {told['charge']}", told["by"])

        return {"bank": WebhookEndpoint(app, secrets=SECRET, source="bank", route=route)}

    served = serve(worker=True, workflows=[paid], webhooks=events)
    served.as_("shop").post("/runs", json={"workflow": "paid", "id": "r", "input": {"charge": "c1"}})
    until(lambda: state_of(served, "r") == "waiting", "its wait")
    bank, body = served.client(None), json.dumps({"charge": "c1", "by": "ann"}).encode()
    forged = bank.post("/webhooks/bank", content=body, headers=signed(body, secret=b"x" * 24))
    assert (forged.status_code, state_of(served, "r")) == (401, "waiting")
    headers = signed(body)
    for _ in range(2):
        assert bank.post("/webhooks/bank", content=body, headers=headers).status_code == 202
    until(lambda: state_of(served, "r") == "succeeded", "its end")
    assert bank.post("/webhooks/nobody", content=body, headers=headers).status_code == 404


def test_more_addresses_are_served_beside_the_api(serve: Serve) -> None:
    more = APIRouter()

    @more.get("/healthz")
    async def healthz(request: Request) -> dict[str, str]:
        return {"ledger": request.app.state.fencepost.namespace}

    served = serve(routers=[more])
    assert httpx2.get(f"{served.url}/healthz").json() == {"ledger": "default"}
