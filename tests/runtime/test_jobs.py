"""Jobs of outside systems: a token that only they hold, reports around the wait, a silence that is asked about."""

import asyncio
import json
from typing import Any

import pytest

from fencepost import (
    Absent,
    App,
    CallbackRefused,
    DeclarationError,
    Found,
    HeartbeatLost,
    Inconclusive,
    JobFailed,
    RunFailed,
    RunHeld,
    VerbRefused,
)
from fencepost.core.contract import Retry
from fencepost.core.records import CALLBACK
from fencepost.core.recovery import HoldReason
from fencepost.core.states import OperationState, Outcome, RunState, SignalState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect, read
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.late import Report, take_in
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Clock, Gate, hold, once, operation, played, reaches, target, until, working

SECRET = "a secret of at least thirty-two bytes, for tests"
MINUTE = 60_000_000


class Farm:
    """An outside system that takes jobs over: the tokens that reached it, and what it says of a job."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.answers: list[Any] = []
        self.asked = 0
        self.gate: Gate | None = None
        self.reporting: Any = None
        """What an attempt does with its token before its request leaves."""


farm = Farm()


@pytest.fixture(autouse=True)
def forgetful():
    farm.tokens, farm.answers, farm.asked, farm.reporting, farm.gate = [], [], 0, None, None


@effect(send_key=KeyHeader("Idempotency-Key", window="1h"), retry=Retry(attempts=5, within="15m", first_delay="1ms"))
async def submit(call: Call, name: str) -> str:
    token = await call.callback("rendered")
    farm.tokens.append(token)
    return await target.take(call, name, honours_keys=True)


@read()
async def status(call: Call, name: str) -> Found[str] | Absent | Inconclusive:
    farm.asked += 1
    return farm.answers.pop(0)


@workflow()
async def rendering(run: Run, name: str) -> str:
    await run.do(submit(name))
    result = await run.wait("rendered", str, callback=submit, heartbeat="5m", within="2h")
    return f"{result}, {await run.do(once('after'))}"


@workflow()
async def asking(run: Run, name: str) -> str:
    job = await run.do(submit(name))
    return await run.wait("rendered", str, callback=submit, heartbeat="5m", within="2h", ask=status(job))


@workflow()
async def careless(run: Run, name: str) -> str:
    await run.do(submit(name))
    try:
        return await run.wait("rendered", str, callback=submit, heartbeat="5m")
    except HeartbeatLost:
        await run.do(submit(name), item="again")
        return "handed over again"


@workflow()
async def early(run: Run, name: str) -> str:
    await run.do(submit(name))
    await run.wait("go", str)
    return await run.wait("rendered", str, callback=submit)


def with_secret(db, *workflows, **options):
    return working(db, *workflows, **({"callback_secret": SECRET} | options))


async def handed_over(app):
    """Wait until the run waits for its job, and return the token that reached the outside last."""
    await until(lambda: waits_for(app, "rendered"), "the wait for the job")
    await reaches(app, "r", RunState.WAITING)
    return farm.tokens[-1]


async def waits_for(app, name):
    return [one for one in (await app.show("r")).steps if one.name == name and one.state == "open"]


async def signals(app, run="r"):
    return {one.id: (one.state, one.reason) for one in (await app.show(run)).signals}


async def refusals(app, run="r"):
    return [row.reason for row in await app.audit(run=run) if row.outcome == "refused"]


@played
async def test_a_report_under_the_jobs_token_is_its_result(db):
    async with with_secret(db, rendering) as app:
        handle = await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        await app.callback(token, "a film")
        assert await handle.result(within="20s") == "a film, made after"
    assert target.objects == ["video", "after"]


@played
async def test_every_attempt_hands_out_the_same_token_and_the_ledger_holds_only_its_digest(db):
    target.plan("video", "drop", "lose")
    async with with_secret(db, rendering) as app:
        handle = await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        assert len(farm.tokens) == 3
        assert len(set(farm.tokens)) == 1
        found = await app.show("r")
        handed_out = [seen for one in found.operations for seen in one.observations if seen.kind == CALLBACK]
        assert len(handed_out) == 1
        await app.callback(token, "a film")
        await handle.result(within="20s")
        with app.store.walk() as walk:
            everything = repr([(await app.show("r")), await app.audit(), list(walk.audits())])
    assert token not in everything
    assert token.removeprefix("fpc_") not in everything
    assert len(token.removeprefix("fpc_")) * 6 >= 256


@played
async def test_a_report_that_comes_before_the_wait_is_kept_for_it(db):
    async with with_secret(db, early) as app:
        handle = await app.start(early, "video", id="r")
        await reaches(app, "r", RunState.WAITING)
        assert (await app.callback(farm.tokens[0], "a film")).state is SignalState.KEPT
        await app.signal("r", "go", "now")
        assert await handle.result(within="20s") == "a film"


@played
async def test_a_hundred_reports_under_one_token_are_one_answer(db):
    async with with_secret(db, rendering) as app:
        handle = await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        for _ in range(50):
            await app.callback(token, "a film")
        for number in range(50):
            with pytest.raises(CallbackRefused, match="another answer before") as refused:
                await app.callback(token, f"film {number}")
            assert refused.value.refusal == "used"
        assert await handle.result(within="20s") == "a film, made after"
        assert [state for state, _ in (await signals(app)).values()] == [SignalState.APPLIED]
        assert len(await refusals(app)) == 50
    assert target.requests == ["video", "after"]


@played
async def test_a_report_after_the_run_has_ended_is_refused_and_audited(db):
    async with with_secret(db, rendering) as app:
        await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        await app.terminate("r", by="ann", reason="not wanted any more")
        with pytest.raises(CallbackRefused) as refused:
            await app.callback(token, "a film")
        assert refused.value.refusal == "over"
        with pytest.raises(CallbackRefused, match="ended"):
            await app.heartbeat(token)
        assert await refusals(app) == ["the run has ended"]


@played
async def test_a_token_that_nobody_gave_out_is_refused_alike_whatever_it_looks_like_and_counted(db):
    async with with_secret(db, rendering) as app:
        await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        last = "A" if token[-1] != "A" else "B"
        strange = [token[:-1] + last, "fpc_" + "A" * 43, "", "guess", token + "A", token.upper(), "\ud800"]
        said = set()
        for one in strange:
            with pytest.raises(CallbackRefused) as refused:
                await app.callback(one, "a film")
            said.add((str(refused.value), refused.value.refusal))
            with pytest.raises(CallbackRefused):
                await app.heartbeat(one)
        assert len(said) == 1
        assert await app.strange_tokens() == 2 * len(strange)
        assert await signals(app) == {}
        assert await app.audit(run="r") == []


@played
async def test_a_token_of_another_namespace_is_nobodys(db):
    async with with_secret(db, rendering) as app, with_secret(db, rendering, namespace="other") as other:
        await app.start(rendering, "video", id="r")
        await handed_over(app)
        with pytest.raises(CallbackRefused, match="nobody"):
            await other.callback(farm.tokens[0], "a film")


@played
async def test_a_job_that_reports_its_failure_raises_in_the_workflow(db):
    async with with_secret(db, telling) as app:
        handle = await app.start(telling, "video", id="r")
        await handed_over(app)
        await app.callback(farm.tokens[0], failed="the disk is full")
        assert await handle.result(within="20s") == "failed: the disk is full"
        assert (await app.check()).found == []


@workflow()
async def telling(run: Run, name: str) -> str:
    await run.do(submit(name))
    try:
        return await run.wait("rendered", str, callback=submit)
    except JobFailed as failed:
        return f"failed: {failed.message}"


@played
async def test_a_report_of_the_wrong_form_is_refused_and_may_be_mended(db):
    async with with_secret(db, rendering) as app, with_secret(db) as stranger:
        handle = await app.start(rendering, "video", id="r")
        token = await handed_over(app)
        with pytest.raises(CallbackRefused) as refused:
            await app.callback(token, 7)
        assert refused.value.refusal == "misfit"
        await stranger.callback(token, 8)  # knows no types, so that the worker judges
        await until(lambda: _refused_signals(app), "the worker to refuse it")
        await app.callback(token, "a film")
        assert await handle.result(within="20s") == "a film, made after"


async def _refused_signals(app):
    return [state for state, _ in (await signals(app)).values() if state is SignalState.REFUSED]


@played
async def test_a_plain_signal_is_no_report(db):
    async with with_secret(db, rendering) as app:
        handle = await app.start(rendering, "video", id="r")
        await handed_over(app)
        with pytest.raises(VerbRefused, match="a report on a job is waited for"):
            await app.signal("r", "rendered", "a film")
        await app.signal("r", "rendered", {"done": "a person's film"}, sender="ann")
        assert await handle.result(within="20s") == "a person's film, made after"


# -- silence ----------------------------------------------------------------------------------------------------------


@played
async def test_heartbeats_keep_a_job_alive_and_their_end_wakes_the_run(db):
    clock = Clock()
    async with with_secret(db, telling_of_silence, clock=clock) as app:
        handle = await app.start(telling_of_silence, "video", id="r")
        token = await handed_over(app)
        for part in range(3):
            clock.offset += 4 * MINUTE
            assert await app.heartbeat(token, progress={"frames": part})
            wait = (await app.show("r")).steps[-1]
            assert wait.due_at is not None
            assert wait.due_at - app.store.now() > 4 * MINUTE
            assert json.loads(wait.progress or "") == {"frames": part}
        app._wake()
        await reaches(app, "r", RunState.WAITING)
        clock.offset += 6 * MINUTE
        app._wake()
        assert await handle.result(within="20s") == "silent"


@workflow()
async def telling_of_silence(run: Run, name: str) -> str:
    await run.do(submit(name))
    try:
        return await run.wait("rendered", str, callback=submit, heartbeat="5m", within="2h")
    except HeartbeatLost:
        return "silent"


@played
async def test_heartbeats_do_not_reach_beyond_the_whole_time(db):
    clock = Clock()
    async with with_secret(db, rendering, clock=clock) as app:
        handle = await app.start(rendering, "video", id="r")
        await handed_over(app)
        for _ in range(31):
            clock.offset += 4 * MINUTE
            await app.heartbeat(farm.tokens[0])
        app._wake()
        with pytest.raises(RunFailed, match="WaitExpired"):
            await handle.result(within="20s")


@played
async def test_a_job_of_unknown_fate_is_not_handed_over_again(db):
    clock = Clock()
    async with with_secret(db, careless, clock=clock) as app:
        await app.start(careless, "video", id="r")
        await handed_over(app)
        clock.offset += 6 * MINUTE
        app._wake()
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "JobUnknown"
        await app.resume("r", by="ann", reason="once more")
        await reaches(app, "r", RunState.HELD)
    assert target.requests == ["video"]


@played
async def test_a_report_that_comes_after_the_silence_settles_it(db):
    clock = Clock()
    async with with_secret(db, patient, clock=clock) as app:
        handle = await app.start(patient, "video", id="r")
        await handed_over(app)
        clock.offset += 6 * MINUTE
        app._wake()
        await until(lambda: waits_for(app, "slept"), "the silence to be noticed")
        assert (await app.callback(farm.tokens[0], "a film")).state is SignalState.KEPT
        await app.signal("r", "slept", "long enough")
        assert await handle.result(within="20s") == "a film, at last; made again"
    assert target.requests == ["video", "again"]


@workflow()
async def patient(run: Run, name: str) -> str:
    await run.do(submit(name))
    try:
        await run.wait("rendered", str, callback=submit, heartbeat="5m")
    except HeartbeatLost:
        await run.wait("slept", str)
    film = await run.wait("rendered", str, callback=submit)
    return f"{film}, at last; {await run.do(submit('again'), item='2')}"


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ([Found("found there")], "found there"),
        ([Inconclusive("still at work"), Found("found there")], "found there"),
        ([Absent()], "JobLost"),
        ([Inconclusive("who knows"), Absent()], "JobLost"),
    ],
    ids=["found", "found later", "absent", "absent later"],
)
def test_a_silent_job_is_asked_about_before_anything_else(db, answers, ends):
    @played
    async def play() -> None:
        clock = Clock()
        farm.answers += answers
        async with with_secret(db, asking, clock=clock) as app:
            handle = await app.start(asking, "video", id="r")
            for number in range(len(answers)):
                await reaches(app, "r", RunState.WAITING)
                await until(lambda number=number: farm.asked == number, "the answer before")
                clock.offset += 6 * MINUTE
                app._wake()
                await until(lambda number=number: farm.asked == number + 1, "the question")
            if ends == "JobLost":
                with pytest.raises(RunFailed, match="JobLost"):
                    await handle.result(within="20s")
            else:
                assert await handle.result(within="20s") == ends
        assert farm.asked == len(answers)
        assert target.requests == ["video"]

    play()


@played
async def test_a_run_kept_in_memory_reads_the_heartbeats_before_it_calls_a_job_silent(db):
    clock, gate = Clock(), Gate()
    target.plan("slow", gate)
    async with with_secret(db, side_by_side, clock=clock) as app:
        handle = await app.start(side_by_side, "video", id="r")
        await gate.reached.wait()
        await until(lambda: waits_for(app, "rendered"), "the wait")
        clock.offset += 4 * MINUTE
        assert await app.heartbeat(farm.tokens[0])
        clock.offset += 2 * MINUTE
        gate.opened.set()
        await reaches(app, "r", RunState.WAITING)
        await app.callback(farm.tokens[0], "a film")
        assert await handle.result(within="20s") == "a film, made slow"


@workflow()
async def side_by_side(run: Run, name: str) -> str:
    await run.do(submit(name))
    film, slow = await run.gather(run.wait("rendered", str, callback=submit, heartbeat="5m"), run.do(once("slow")))
    return f"{film}, {slow}"


# -- a report while it is not known whether the job was handed over --------------------------------------------------


async def find_job(call: Call, name: str) -> Found[str] | Absent:
    """A look-up that lags behind: it finds nothing."""
    target.looked += 1
    if farm.gate is not None:
        await farm.gate.wait()
    return Absent()


@effect(reconcile=find_job, attempt_timeout="40ms", settle="10ms", retry=QUICK)
async def begin(call: Call, name: str) -> str:
    token = await call.callback("rendered")
    farm.tokens.append(token)
    if farm.reporting is not None:
        await farm.reporting(token)
    return await target.take(call, name)


@workflow()
async def begun(run: Run, name: str) -> str:
    await run.do(begin(name))
    return await run.wait("rendered", str, callback=begin)


@pytest.mark.parametrize("when", ["in flight", "unknown"])
def test_a_job_that_reports_is_not_believed_absent_and_not_begun_again(db, when):
    @played
    async def play() -> None:
        target.plan("video", "lose")
        async with with_secret(db, begun) as app:

            async def report(token: str) -> None:
                await app.callback(token, "a film")

            farm.reporting, farm.gate = (report, None) if when == "in flight" else (None, Gate())
            await app.start(begun, "video", id="r")
            if farm.gate is not None:
                await farm.gate.reached.wait()  # by a look-up: nothing is proved before the report is there
                await app.callback(farm.tokens[0], "a film")
                farm.gate.opened.set()
            await reaches(app, "r", RunState.HELD)
            assert (await hold(app, "r"))["reason"] == HoldReason.CANNOT_TELL
            with pytest.raises(VerbRefused, match="reports on the job under its token"):
                await app.settle("r", "begin", happened=False, by="ann", reason="not there")
            await app.settle("r", "begin", happened=True, result='"job 7"', by="ann", reason="it reports")
            assert await (await app.handle("r")).result(within="20s") == "a film"
        assert target.requests == target.objects == ["video"]

    play()


@played
async def test_a_look_up_that_was_overtaken_by_a_report_is_no_proof(db):
    target.plan("video", "lose")
    async with with_secret(db, begun) as app:
        farm.gate = Gate()
        await app.start(begun, "video", id="r")
        await farm.gate.reached.wait()
        await app.callback(farm.tokens[0], "a film")
        farm.gate.opened.set()
        await reaches(app, "r", RunState.HELD)
        run = (await app.show("r")).run
        absent = Report(run.no, "begin", 1, Outcome.NOT_APPLIED, Absent().evidence(), run.generation)
        await asyncio.to_thread(take_in, app.store, absent, begin.contract)
        assert (await operation(app, "r", "begin")).state is OperationState.UNKNOWN
        assert (await app.show("r")).run.state is RunState.HELD
        await app.settle("r", "begin", happened=True, result='"job 7"', by="ann", reason="it reports")
        assert await (await app.handle("r")).result(within="20s") == "a film"
    assert target.requests == ["video"]


@effect(on_unknown="hold", retry=Retry(attempts=1))
async def refused_hand_over(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name)


@workflow()
async def refused_job(run: Run, name: str) -> str:
    return await run.do(refused_hand_over(name))


@played
async def test_a_job_that_reports_although_it_was_proved_not_to_begin_is_a_conflict(db):
    target.plan("video", "refuse")
    async with with_secret(db, refused_job) as app:
        await app.start(refused_job, "video", id="r")
        await until(lambda: farm.tokens, "the token")
        await until(lambda: _is_over(app), "the refusal")
        with pytest.raises(CallbackRefused):
            await app.callback(farm.tokens[0], "a film")
        [operation] = (await app.show("r")).operations
        assert operation.conflict
        checked = await app.check()
    assert target.requests == []
    assert checked.found == []


async def _is_over(app):
    return (await app.show("r")).run.state in (RunState.FAILED, RunState.HELD)


# -- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "now", [("another secret of at least 32 bytes, for tests", SECRET), None], ids=["both", "gone"]
)
def test_an_operation_keeps_its_token_while_its_secret_is_there(db, now):
    @played
    async def play() -> None:
        target.plan("video", "drop")
        clock = Clock()
        async with App(db, workflows=[slowly], callback_secret=SECRET) as app:
            app.clock = clock
            async with app.worker():
                await app.start(slowly, "video", id="r")
                await until(lambda: farm.tokens, "the first attempt")
                await reaches(app, "r", RunState.WAITING)
        clock.offset += 2 * MINUTE
        secrets = now or "another secret of at least 32 bytes, for tests"
        async with with_secret(db, slowly, callback_secret=secrets, clock=clock) as app:
            if now is None:
                await reaches(app, "r", RunState.HELD)
                assert len(farm.tokens) == 1
            else:
                await until(lambda: waits_for(app, "rendered"), "the second attempt")
                assert len(farm.tokens) == 2
                assert len(set(farm.tokens)) == 1
                await app.callback(farm.tokens[0], "a film")
                assert await (await app.handle("r")).result(within="20s") == "a film"

    play()


@effect(
    send_key=KeyHeader("Idempotency-Key", window="1h"),
    retry=Retry(attempts=5, within="15m", first_delay="1m", longest_delay="1m"),
)
async def submit_slowly(call: Call, name: str) -> str:
    farm.tokens.append(await call.callback("rendered"))
    return await target.take(call, name, honours_keys=True)


@workflow()
async def slowly(run: Run, name: str) -> str:
    await run.do(submit_slowly(name))
    return await run.wait("rendered", str, callback=submit_slowly)


@played
async def test_without_a_secret_nothing_is_sent(db):
    async with working(db, rendering) as app:
        handle = await app.start(rendering, "video", id="r")
        with pytest.raises((RunFailed, RunHeld), match="callback secret"):
            await handle.result(within="20s")
    assert target.requests == []


@pytest.mark.parametrize("secret", ["short", ("long enough to be one of the secrets", "short")])
def test_a_secret_that_is_too_short_is_refused_at_once(db, secret):
    with pytest.raises(DeclarationError, match="32 bytes"):
        App(db, workflows=[], callback_secret=secret)
