"""C08: the target says when to come back, in one of many forms; that is kept, and nothing absurd is believed."""

from email.utils import formatdate

import pytest
import requests

from fencepost.core.contract import Retry
from fencepost.core.duration import HOUR, MINUTE, SECOND
from fencepost.core.queue import Queue
from fencepost.core.states import RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.open import wall_clock
from tests.effects.scripted import scripted, status
from tests.runtime.stage import Clock, operation, played, reaches, working

PATIENT = Retry(attempts=4, within=3 * HOUR, first_delay=2 * SECOND, retry_after_max=2 * HOUR)
OWN = (SECOND, 2 * SECOND)
"""The pause where the target says nothing usable: half of the first delay, the other half drawn."""


@effect(on_unknown="hold", retry=PATIENT)
async def by_call_http(call: Call, url: str) -> None:
    await call.http.post(url, json={})


@effect(on_unknown="hold", retry=PATIENT)
def by_requests(call: SyncCall, url: str) -> None:
    with requests.Session() as session, call.sending(client=session):
        session.post(url, data=b"x", timeout=5).raise_for_status()


@effect(send_key=KeyHeader("Idempotency-Key", window="1d"), retry=PATIENT)
async def keyed(call: Call, url: str) -> None:
    await call.http.post(url, json={})


@effect(on_unknown="hold", retry=PATIENT, definite={503})
async def by_contract(call: Call, url: str) -> None:
    await call.http.post(url, json={})


@effect(on_unknown="hold")
async def by_default(call: Call, url: str) -> None:
    await call.http.post(url, json={})


@workflow()
async def sends(run: Run, step: str, url: str) -> None:
    steps = {one.name: one for one in (by_call_http, by_requests, by_contract, keyed, by_default)}
    await run.do(steps[step](url))


def dated(seconds: float) -> tuple[str, str, str]:
    """The three forms of an HTTP date so many seconds from now."""
    moment = formatdate(wall_clock() / SECOND + seconds, usegmt=True)
    day, number, month, year, clock, _ = moment.replace(",", "").split()
    days = {name[:3]: name for name in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")}
    return (
        moment,
        f"{days[day]}, {number}-{month}-{year[2:]} {clock} GMT",
        f"{day} {month} {int(number):2d} {clock} {year}",
    )


FORMS = {
    "seconds": lambda: ("30", (30 * SECOND, 32 * SECOND)),
    "a date": lambda: (dated(30)[0], (28 * SECOND, 32 * SECOND)),
    "a date of RFC 850": lambda: (dated(30)[1], (28 * SECOND, 32 * SECOND)),
    "a date of asctime": lambda: (dated(30)[2], (28 * SECOND, 32 * SECOND)),
    "a date in the past": lambda: (dated(-30)[0], (0, 5 * SECOND)),  # on a busy machine
    "half a second": lambda: ("0.5", (SECOND // 2, SECOND // 2 + 2 * SECOND)),
    "a negative number": lambda: ("-1", OWN),
    "garbage": lambda: ("soon", OWN),
    "ten years": lambda: (str(10 * 365 * 86400), (2 * HOUR, 2 * HOUR + 2 * SECOND)),
}


async def waited(db, step: str, target, clock: Clock, ends: RunState = RunState.SUCCEEDED) -> int:
    """How long the run waited after the first answer, in microseconds; then its time comes, and it ends."""
    async with working(db, sends, clock=clock) as app:
        await app.start(sends, step, target.url, id="r")
        await reaches(app, "r", RunState.WAITING, ends)
        found = await operation(app, "r", step)
        if len(found.attempts) > 1:  # the pause was so short that it is over
            return found.attempts[1].dispatched_at - found.attempts[0].settled_at
        asked = found.not_before - found.changed_at
        assert len(target.requests) == 1
    clock.offset += asked
    async with working(db, sends, clock=clock) as app:
        await reaches(app, "r", ends)
    return asked


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", ["by_call_http", "by_requests"])
@played
async def test_a_target_that_says_when_to_come_back_is_not_asked_before(db, step, form):
    header, (least, most) = FORMS[form]()
    with scripted() as target:
        target.answers = [status("429 Slow", f"Retry-After: {header}"), status("201 Created")]
        assert least <= await waited(db, step, target, Clock()) <= most
        assert len(target.requests) == 2


@pytest.mark.parametrize("header", [30 * MINUTE // SECOND, 10 * 365 * 86400])
@played
async def test_a_pause_that_is_longer_than_the_budget_ends_in_the_attempt_that_it_was_for(db, header):
    with scripted() as target:
        target.answers = [status("429 Slow", f"Retry-After: {header}"), status("201 Created")]
        assert await waited(db, "by_default", target, Clock()) >= 30 * MINUTE
        assert len(target.requests) == 2


@played
async def test_a_date_is_read_against_the_targets_own_clock(db):
    clock = Clock()
    clock.offset = 5 * SECOND  # this machine is ahead of the target
    with scripted() as target:
        target.answers = [
            status("429 Slow", f"Date: {dated(0)[0]}", f"Retry-After: {dated(30)[0]}"),
            status("201 Created"),
        ]
        assert 29 * SECOND <= await waited(db, "by_requests", target, clock) <= 33 * SECOND


@pytest.mark.parametrize("line", ["425 Early", "503 Later"])
@played
async def test_what_proves_nothing_waits_too_and_goes_out_again_under_its_key(db, line):
    with scripted() as target:
        target.answers = [status(line, "Retry-After: 60"), status("201 Created")]
        assert MINUTE <= await waited(db, "keyed", target, Clock()) <= MINUTE + 2 * SECOND
        assert (len(target.requests), len(target.keys())) == (2, 1)


@pytest.mark.parametrize("line", ["425 Early", "503 Later"])
@played
async def test_what_proves_nothing_is_not_sent_again_without_a_key(db, line):
    with scripted() as target:
        target.answers = [status(line, "Retry-After: 1")]
        async with working(db, sends) as app:
            await app.start(sends, "by_requests", target.url, id="r")
            await reaches(app, "r", RunState.HELD)
        assert len(target.requests) == 1


@played
async def test_a_503_that_the_contract_calls_definite_waits_like_a_429_and_goes_out_again_without_a_key(db):
    with scripted() as target:
        target.answers = [status("503 Later", "Retry-After: 60"), status("201 Created")]
        assert MINUTE <= await waited(db, "by_contract", target, Clock()) <= MINUTE + 2 * SECOND
        assert len(target.requests) == 2


@played
async def test_a_run_that_was_told_to_come_back_later_leaves_its_slot_to_others(db):
    with scripted() as target, scripted() as other:
        target.answers = [status("429 Slow", "Retry-After: 3600")]
        other.answers = [status("201 Created")]
        async with working(db, sends, queues=[Queue("mail", concurrency=1)]) as app:
            await app.start(sends, "by_call_http", target.url, id="told", queue="mail")
            await reaches(app, "told", RunState.WAITING)
            (standing,) = await app.queues.list()
            assert standing.owned == 0
            after = await app.start(sends, "by_call_http", other.url, id="after", queue="mail")
            await after.result(within="20s")
            assert (await app.show("told")).run.state is RunState.WAITING
        assert (len(target.requests), len(other.requests)) == (1, 1)
