"""C09: 409 says that the request is being worked on, or that something else is in the way; only one is waited for."""

import pytest
import requests

from fencepost.core.contract import Retry
from fencepost.core.duration import MILLISECOND
from fencepost.core.states import RunState
from fencepost.effects.answers import Absent, Found
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.effects.scripted import LOST, scripted, status
from tests.runtime.stage import operation, played, reaches, working

TWICE = Retry(attempts=2, within="1m", first_delay=2 * MILLISECOND, longest_delay=10 * MILLISECOND)
IN_USE = status("409 Conflict", body='{"error": {"code": "idempotency_key_in_use"}}')
OTHER = status("409 Conflict", body='{"error": "version conflict"}')
REPLAYED = status("500 Oops", "Idempotent-Replayed: true")


def post(call: SyncCall, url: str) -> None:
    with requests.Session() as session, call.sending(client=session):
        session.post(url, data=b"x", headers={"Idempotency-Key": call.key}, timeout=5).raise_for_status()


@effect(send_key=KeyHeader("Idempotency-Key", window="1d"), retry=TWICE)
def charge(call: SyncCall, url: str) -> None:
    post(call, url)


@effect(send_key=KeyHeader("Idempotency-Key", window="1d", replays_failures=True), retry=TWICE)
def charge_at_one_that_replays(call: SyncCall, url: str) -> None:
    post(call, url)


def find(call: SyncCall, url: str) -> Found[None] | Absent:
    return Found(None, reference="charge-1")


@effect(reconcile=find, settle="1h", retry=TWICE)
def create(call: SyncCall, url: str) -> None:
    post(call, url)


@workflow()
async def charges(run: Run, url: str) -> None:
    await run.do(charge(url))


@workflow()
async def charges_at_one_that_replays(run: Run, url: str) -> None:
    await run.do(charge_at_one_that_replays(url))


@workflow()
async def creates(run: Run, url: str) -> None:
    await run.do(create(url))


@pytest.fixture
def target():
    with scripted() as it:
        yield it


@played
async def test_a_key_in_use_is_waited_for_and_costs_no_attempt(db, target):
    target.answers = [LOST, IN_USE, IN_USE, IN_USE, status("200 Ok")]
    async with working(db, charges) as app:
        await (await app.start(charges, target.url, id="r")).result(within="20s")
        assert len((await operation(app, "r", "charge")).attempts) == 5  # of which two are of the budget
    assert (len(target.requests), len(target.keys())) == (5, 1)


@played
async def test_any_other_conflict_is_looked_up_and_not_sent_again(db, target):
    target.answers = [OTHER]
    async with working(db, creates) as app:
        await (await app.start(creates, target.url, id="r")).result(within="20s")
        assert (await operation(app, "r", "create")).reference == "charge-1"
    assert len(target.requests) == 1


@played
async def test_a_stored_failure_that_is_replayed_is_not_asked_for_again(db, target):
    target.answers = [LOST, REPLAYED]
    async with working(db, charges_at_one_that_replays) as app:
        await app.start(charges_at_one_that_replays, target.url, id="r")
        await reaches(app, "r", RunState.HELD)
        seen = (await operation(app, "r", "charge_at_one_that_replays")).observations
        assert "replayed failure" in {one.kind for one in seen}
    assert len(target.requests) == 2
