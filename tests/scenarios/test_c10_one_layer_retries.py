"""C10: a framework and an SDK that both retry send twelve times where four were configured, most of it unseen."""

import logging

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from fencepost.core.contract import Retry
from fencepost.core.duration import MILLISECOND, SECOND
from fencepost.core.errors import DeclarationError
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import effect
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.effects.scripted import scripted, status
from tests.runtime.stage import hold, operation, played, reaches, working

FOUR = Retry(attempts=4, within="30s", first_delay=2 * MILLISECOND, longest_delay=10 * MILLISECOND)


def session(again: int) -> requests.Session:
    made = requests.Session()
    retry = urllib3.Retry(again, status_forcelist=[429], allowed_methods=None, raise_on_status=False)
    made.mount("http://", HTTPAdapter(max_retries=retry))
    return made


LEFT_AT_ITS_DEFAULTS, SWITCHED_OFF = session(2), session(0)


@effect(on_unknown="hold", retry=FOUR)
def send_amplified(call: SyncCall, url: str) -> None:
    with call.sending(client=LEFT_AT_ITS_DEFAULTS):
        LEFT_AT_ITS_DEFAULTS.post(url, data=b"x", timeout=5).raise_for_status()


@effect(on_unknown="hold", retry=FOUR)
def send_once(call: SyncCall, url: str) -> None:
    with call.sending(client=SWITCHED_OFF):
        SWITCHED_OFF.post(url, data=b"x", timeout=5).raise_for_status()


@workflow()
async def amplified(run: Run, url: str) -> None:
    await run.do(send_amplified(url))


@workflow()
async def once(run: Run, url: str) -> None:
    await run.do(send_once(url))


@pytest.fixture
def target():
    with scripted() as it:
        it.answers = [status("429 Slow")] * 12
        yield it


@played
async def test_with_one_layer_there_are_as_many_requests_as_logged_attempts(db, target):
    async with working(db, once) as app:
        await app.start(once, target.url, id="r")
        await reaches(app, "r", RunState.HELD)
        spent = await operation(app, "r", "send_once")
        assert [attempt.sends for attempt in spent.attempts] == [1, 1, 1, 1]
        assert spent.state is OperationState.FAILED
        assert spent.changed_at - spent.attempts[0].dispatched_at <= 30 * SECOND
        assert (await hold(app, "r"))["reason"] == "budget spent"
    assert len(target.requests) == 4


def test_the_second_layer_is_named_and_multiplied_out_at_the_start(db, target, caplog):
    @played
    async def play() -> None:
        async with working(db, amplified) as app:
            await app.start(amplified, target.url, id="r")
            await reaches(app, "r", RunState.HELD)
            (attempt,) = (await operation(app, "r", "send_amplified")).attempts  # refused at last; the first, who knows
            assert attempt.outcome == "unresolved"

    with caplog.at_level(logging.WARNING):
        play()
    assert "send_amplified: 4 attempts × 3 (requests.Session on http://) = 12 sends" in caplog.text
    assert len(target.requests) == 3


def test_a_strict_app_does_not_even_open_its_ledger(db):
    with pytest.raises(DeclarationError, match="= 12 sends per operation at most"):
        App(db, workflows=[amplified], strict=True).sync.start(amplified, "http://nowhere", id="r")
