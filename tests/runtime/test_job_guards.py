"""What each guard around jobs and their tokens keeps out: every test here fails if its guard is taken away."""

import pytest

from fencepost import (
    Absent,
    CallbackRefused,
    Found,
    HeartbeatLost,
    Inconclusive,
    JobFailed,
    ValueRefused,
    VerbRefused,
)
from fencepost.core.callback import token_digest
from fencepost.core.contract import Retry
from fencepost.core.records import LOOK_UP, REPORTED
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, keyed, once, operation, played, reaches, target, until
from tests.runtime.test_jobs import MINUTE, farm, handed_over, rendering, submit, waits_for, with_secret


@pytest.fixture(autouse=True)
def forgetful():
    farm.tokens, farm.answers, farm.asked, farm.reporting = [], [], 0, None


# -- whose token it is ------------------------------------------------------------------------------------------------


@played
async def test_a_token_that_the_database_takes_for_another_is_nobodys(db, monkeypatch):
    async with with_secret(db, rendering) as app:
        await app.start(rendering, "video", id="r")
        found = app.store.handed_out(token_digest(await handed_over(app)))
        monkeypatch.setattr(app.store, "handed_out", lambda digest: found)  # it folds case, say
        with pytest.raises(CallbackRefused, match="nobody has given out"):
            await app.callback("fpc_" + "A" * 43, "a film")
        assert (await app.show("r")).signals == []


@played
async def test_what_has_not_a_tokens_form_is_not_even_looked_up(db, monkeypatch):
    async with with_secret(db, rendering) as app:
        await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        found = app.store.handed_out(token_digest(token))
        asked: list[str] = []
        monkeypatch.setattr(app.store, "handed_out", lambda digest: asked.append(digest) or found)
        with pytest.raises(CallbackRefused, match="nobody has given out"):
            await app.callback(f"{token}\n", "a film")
        assert asked == []


@pytest.mark.parametrize("progress", ["x" * 4_096, "a\0b"], ids=["too long", "a NUL"])
@played
async def test_progress_that_is_no_note_is_refused(db, progress):
    async with with_secret(db, rendering) as app:
        await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        with pytest.raises(ValueRefused, match="4096 bytes"):
            await app.heartbeat(token, progress=progress)
        assert await app.heartbeat(token, progress="x" * 4_000)


# -- handing a job over anew ------------------------------------------------------------------------------------------


@effect(send_key=KeyHeader("Idempotency-Key", window="1h"), retry=Retry(attempts=5, within="15m"), independent=True)
async def apart(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name, honours_keys=True)


@effect(repeatable=True, retry=Retry(attempts=5, within="15m"))
async def harmless(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name)


KINDS = {"apart": apart, "harmless": harmless, "submit": submit}


@workflow()
async def tries_anew(run: Run, kind: str, again: str) -> str:
    hand_over = KINDS[kind]
    await run.do(hand_over("video"), item="1")
    try:
        return await run.wait("rendered", str, callback=hand_over, heartbeat="5m")
    except HeartbeatLost:
        return await run.do(hand_over("video"), item=again)


@pytest.mark.parametrize(
    ("kind", "again", "requests"), [("apart", "2", 2), ("harmless", "2", 2), ("submit", "1", 1)],
    ids=["independent jobs", "a repeatable one", "what is recorded"],
)  # fmt: skip
def test_an_unknown_job_stands_in_the_way_of_nothing_that_does_not_replace_it(db, kind, again, requests):
    @played
    async def play() -> None:
        clock = Clock()
        async with with_secret(db, tries_anew, clock=clock) as app:
            handle = await app.start(tries_anew, kind, again, id="r")
            await handed_over(app)
            clock.offset += 6 * MINUTE
            app._wake()
            assert await handle.result(within="20s") == "made video"
        assert target.requests == ["video"] * requests

    play()


@workflow()
async def fails_late(run: Run, name: str) -> str:
    await run.do(submit(name), item="1")
    try:
        await run.wait("rendered", str, callback=submit, heartbeat="5m")
    except HeartbeatLost:
        await run.wait("slept", str)
    try:
        return await run.wait("rendered", str, callback=submit)
    except JobFailed:
        return await run.do(submit("again"), item="2")


@played
async def test_a_job_that_fails_after_its_silence_is_known_and_may_be_handed_over_anew(db):
    clock = Clock()
    async with with_secret(db, fails_late, clock=clock) as app:
        handle = await app.start(fails_late, "video", id="r")
        await handed_over(app)
        clock.offset += 6 * MINUTE
        app._wake()
        await until(lambda: waits_for(app, "slept"), "the silence to be noticed")
        await app.callback(farm.tokens[0], failed="no disk")
        await app.signal("r", "slept", "long enough")
        assert await handle.result(within="20s") == "made again"
    assert target.requests == ["video", "again"]


# -- silence ----------------------------------------------------------------------------------------------------------


@workflow()
async def busy_beside(run: Run, name: str) -> str:
    await run.do(submit(name))
    film, _ = await run.gather(run.wait("rendered", str, callback=submit, heartbeat="5m"), _two_steps(run))
    return film


async def _two_steps(run: Run) -> None:
    await run.do(once("slow"))
    await run.do(keyed("after"))


@played
async def test_a_job_that_was_heard_of_is_not_called_silent_by_a_run_that_has_not_read_it(db):
    clock, gate = Clock(), Gate()
    target.plan("slow", gate)
    async with with_secret(db, busy_beside, clock=clock) as app:
        handle = await app.start(busy_beside, "video", id="r")
        await gate.reached.wait()
        await until(lambda: waits_for(app, "rendered"), "the wait")
        clock.offset += 4 * MINUTE
        assert await app.heartbeat(farm.tokens[0])
        clock.offset += 2 * MINUTE
        gate.opened.set()
        await until(lambda: "after" in target.objects, "the step after the slow one")
        await reaches(app, "r", RunState.WAITING, RunState.FAILED)
        await app.callback(farm.tokens[0], "a film")
        assert await handle.result(within="20s") == "a film"


# -- a report on what is unknown --------------------------------------------------------------------------------------


async def find_slowly(call: Call, name: str) -> Found[str] | Absent | Inconclusive:
    return target.look(name)


HOURLY = Retry(attempts=3, within="5h", first_delay="1h", longest_delay="1h")


@effect(reconcile=find_slowly, attempt_timeout="40ms", settle="10ms", retry=HOURLY)
async def begin_slowly(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name)


@workflow()
async def begun_slowly(run: Run, name: str) -> str:
    await run.do(begin_slowly(name))
    return await run.wait("rendered", str, callback=begin_slowly)


async def reported(app) -> int:
    return sum(seen.kind == REPORTED for seen in (await operation(app, "r", "begin_slowly")).observations)


@played
async def test_a_report_has_the_target_asked_at_once_and_is_evidence_once_against_its_absence(db):
    target.plan("video", "lose")
    target.answers += [Inconclusive("come back"), *[Absent()] * 9]
    async with with_secret(db, begun_slowly) as app:
        await app.start(begun_slowly, "video", id="r")
        await reaches(app, "r", RunState.WAITING)
        assert target.looked == 1
        await app.callback(farm.tokens[0], "a film")
        await until(lambda: target.looked == 2, "the target to be asked, an hour before its time")
        await reaches(app, "r", RunState.WAITING)
        for _ in range(3):
            await app.callback(farm.tokens[0], "a film")
        assert await reported(app) == 1
        with pytest.raises(VerbRefused, match="reports on the job under its token"):
            await app.settle("r", "begin_slowly", happened=False, by="ann", reason="I looked")
        assert (await operation(app, "r", "begin_slowly")).state is OperationState.UNKNOWN
    assert (target.requests, target.looked) == (["video"], 2)


@effect(reconcile=find_slowly, attempt_timeout="50ms", settle="0s", retry=HOURLY)
async def hangs(call: Call, name: str) -> str:
    await farm.reporting(await call.callback("rendered"))
    return await target.take(call, name)


@workflow()
async def hanging(run: Run, name: str) -> str:
    await run.do(hangs(name))
    return await run.wait("rendered", str, callback=hangs)


@played
async def test_a_report_that_came_while_the_request_was_on_its_way_is_read_before_an_absence_is_believed(db):
    """It raised no generation: its owner may believe what it sees, and has not heard of the report."""
    target.plan("video", Gate())  # until its time is over, and with it the span
    target.answers += [Absent()] * 9
    async with with_secret(db, hanging) as app:
        farm.reporting = lambda token: app.callback(token, "a film")
        await app.start(hanging, "video", id="r")
        await until(lambda: target.looked, "the question")
        await reaches(app, "r", RunState.WAITING)
        seen = (await operation(app, "r", "hangs")).observations
        assert {one.says for one in seen if one.kind == LOOK_UP} == {"inconclusive"}
        assert (await operation(app, "r", "hangs")).state is OperationState.UNKNOWN
    assert target.requests == ["video"]


@played
async def test_a_report_on_what_is_unknown_takes_the_run_from_whoever_asks_about_it_now(db):
    """What they were told before they had heard of the report can change nothing any more."""
    asking = Gate()
    target.plan("video", "lose")
    async with with_secret(db, begun_asked) as app:
        farm.answers += [None, asking]
        await app.start(begun_asked, "video", id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.reconcile("r", by="ann", reason="sooner")
        await asking.reached.wait()
        before = (await app.show("r")).run
        await app.callback(farm.tokens[0], "a film")
        after = (await app.show("r")).run
        assert (before.state, after.generation > before.generation) == (RunState.RUNNING, True)
        asking.opened.set()
        await reaches(app, "r", RunState.WAITING, RunState.HELD)
        assert (await operation(app, "r", "begin_asked")).state is OperationState.UNKNOWN
    assert target.requests == ["video"]


async def find_when_told(call: Call, name: str) -> Found[str] | Absent | Inconclusive:
    asking = farm.answers.pop(0) if farm.answers else None
    if asking is None:
        return Inconclusive("come back")
    await asking.wait()
    return Absent()


@effect(reconcile=find_when_told, attempt_timeout="5s", settle="0s", retry=HOURLY)
async def begin_asked(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name)


@workflow()
async def begun_asked(run: Run, name: str) -> str:
    await run.do(begin_asked(name))
    return await run.wait("rendered", str, callback=begin_asked)


@played
async def test_a_report_on_a_run_that_a_person_ended_is_kept_as_evidence_and_moves_nothing(db):
    target.plan("video", "lose")
    target.answers += [Inconclusive("come back")]
    async with with_secret(db, begun_slowly) as app:
        await app.start(begun_slowly, "video", id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.terminate("r", by="ann", reason="enough")
        with pytest.raises(CallbackRefused) as refused:
            await app.callback(farm.tokens[0], "a film")
        assert refused.value.refusal == "over"
        assert await reported(app) == 1
        assert (await app.show("r")).run.state is RunState.TERMINATED
