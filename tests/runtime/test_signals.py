"""Signals: early, late, twice, of the wrong type, or for nobody; none is lost without a word. Approvals come later."""

import sys
from contextlib import AsyncExitStack

import pytest
from pydantic import BaseModel

from fencepost.cli.timeline import timeline
from fencepost.console.story import story
from fencepost.core.errors import RunFailed, RunNotFound, ValueRefused, VerbRefused, WaitExpired
from fencepost.core.states import RunState, SignalState
from fencepost.effects.values import MIB
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, keyed, once, played, reaches, target, until, verb, working

MINUTE = 60_000_000


@workflow()
async def waiting(run: Run, name: str) -> str:
    await run.do(keyed(name))
    word = await run.wait("word", str, within="10m")
    return f"{await run.do(once('after'))} {word}"


@workflow()
async def patient(run: Run) -> str:
    try:
        return await run.wait("word", str, within="10m")
    except WaitExpired:
        return "nothing came"


@workflow()
async def busy(run: Run, name: str) -> str:
    return await run.do(once(name))


@workflow()
async def counting(run: Run) -> list[int]:
    return [await run.wait("number", int, many=True) for _ in range(3)]


@workflow()
async def after_undoing(run: Run) -> str:
    await run.do(once("a"))
    await run.compensate(reason="it was wrong")
    return await run.wait("seen", str)


async def states(app, run_id):
    return {one.id: one.state for one in (await app.show(run_id)).signals}


@played
async def test_a_signal_that_comes_before_its_wait_is_taken_when_the_wait_comes(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, waiting) as app:
        handle = await app.start(waiting, "a", id="r")
        await gate.reached.wait()
        await app.signal("r", "word", "yes", id="s")
        gate.opened.set()
        assert await handle.result() == "made after yes"
        assert await states(app, "r") == {"s": SignalState.APPLIED}


@played
async def test_a_signal_that_comes_twice_counts_once(db):
    async with working(db, waiting) as app:
        handle = await app.start(waiting, "a", id="r")
        for _ in range(2):
            await app.signal("r", "word", "yes", id="s")
        await handle.result()
        again = await app.signal("r", "word", "yes", id="s")
        assert again.state is SignalState.APPLIED
        assert await states(app, "r") == {"s": SignalState.APPLIED}
    assert target.requests == ["a", "after"]


@played
async def test_a_signal_id_that_comes_again_with_another_value_is_refused(db):
    async with working(db, waiting) as app:
        await app.start(waiting, "a", id="r")
        await app.signal("r", "word", "yes", id="s")
        with pytest.raises(VerbRefused, match="came before"):
            await app.signal("r", "word", "no", id="s")


@played
async def test_a_signal_after_its_wait_is_over_is_refused_with_a_reason(db):
    gate = Gate()
    target.plan("after", gate)
    async with working(db, waiting) as app:
        handle = await app.start(waiting, "a", id="r")
        await app.signal("r", "word", "yes")
        await gate.reached.wait()
        with pytest.raises(VerbRefused, match="not waiting"):
            await app.signal("r", "word", "late", id="late")
        gate.opened.set()
        assert await handle.result() == "made after yes"
        with pytest.raises(VerbRefused, match="ended"):
            await app.signal("r", "word", "later still", id="later")
        found = await states(app, "r")
        assert found["late"] is found["later"] is SignalState.REFUSED


@played
async def test_a_signal_to_a_run_that_does_not_exist_is_refused(db):
    async with App(db, workflows=[waiting]) as app:
        with pytest.raises(RunNotFound):
            await app.signal("r", "word", "yes")


@played
async def test_a_signal_of_another_type_is_refused_to_its_sender_where_the_wait_and_its_type_are_known(db):
    async with working(db, patient) as app:
        handle = await app.start(patient, id="r")
        await reaches(app, "r", RunState.WAITING)
        with pytest.raises(VerbRefused, match="signal 'word' is refused") as refused:
            await app.signal("r", "word", 7, id="s1")
        assert "nothing was kept" in refused.value.hint
        assert await states(app, "r") == {}
        await app.signal("r", "word", "right", id="s1")
        assert await handle.result() == "right"


@pytest.mark.parametrize("knows", [True, False], ids=["before the wait is reached", "from code that knows no workflow"])
def test_a_signal_that_nobody_can_judge_yet_is_kept_until_the_worker_refuses_it(db, knows):
    @played
    async def play() -> None:
        async with App(db, workflows=[patient] if knows else []) as sender, App(db, workflows=[patient]) as app:
            handle = await app.start(patient, id="r")
            async with AsyncExitStack() as stack:
                if not knows:
                    await stack.enter_async_context(app.worker())
                    await reaches(app, "r", RunState.WAITING)
                await sender.signal("r", "word", 7, id="wrong")
                await sender.signal("r", "word", "right", id="right")
                if knows:
                    await stack.enter_async_context(app.worker())
                assert await handle.result() == "right"
                assert await states(app, "r") == {"wrong": SignalState.REFUSED, "right": SignalState.APPLIED}

    play()


class Said(BaseModel):
    """What a wait takes whose code was changed since."""

    word: str


AS_WAITED_FOR = Said


@workflow()
async def reading_what_was_said(run: Run) -> str:
    return (await run.wait("said", AS_WAITED_FOR)).word


@played
async def test_a_type_of_another_form_than_the_waits_own_judges_nothing(db, monkeypatch):
    async with working(db, reading_what_was_said) as app:
        handle = await app.start(reading_what_was_said, id="r")
        await reaches(app, "r", RunState.WAITING)
        with pytest.raises(VerbRefused, match="said"):
            await app.signal("r", "said", {"words": 1})

        class Changed(BaseModel):
            words: list[str]

        Changed.__qualname__ = "Said"
        monkeypatch.setattr(sys.modules[__name__], "Said", Changed)
        await app.signal("r", "said", {"word": "as it was"})
        assert await handle.result() == "as it was"


@played
async def test_a_signal_over_the_limit_is_refused_where_it_is_handed_in(db):
    async with App(db, workflows=[patient]) as app:
        await app.start(patient, id="r")
        with pytest.raises(ValueRefused, match="more than the limit"):
            await app.signal("r", "word", "a" * (MIB + 1))


@played
async def test_a_wait_that_takes_many_takes_them_in_their_order(db):
    async with working(db, counting) as app:
        handle = await app.start(counting, id="r")
        for number in range(3):
            await app.signal("r", "number", number)
        assert await handle.result() == [0, 1, 2]


@played
async def test_a_signal_that_nobody_took_is_refused_when_its_run_succeeds(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, busy) as app:
        handle = await app.start(busy, "a", id="r")
        await gate.reached.wait()
        await app.signal("r", "nobody", "hello", id="s")
        gate.opened.set()
        await handle.result()
        assert await states(app, "r") == {"s": SignalState.REFUSED}


@played
async def test_a_signal_that_nobody_took_is_refused_when_its_run_is_terminated(db):
    async with working(db, patient) as app:
        await app.start(patient, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "nobody", "hello", id="s")
        await verb(app, verbs.terminate, "r")
        assert await states(app, "r") == {"s": SignalState.REFUSED}


@played
async def test_a_wait_expires_at_its_time_and_not_before(db):
    clock = Clock()
    async with working(db, patient, clock=clock) as app:
        handle = await app.start(patient, id="r")
        await reaches(app, "r", RunState.WAITING)
        clock.offset = 9 * MINUTE
        app._workers[0].wake()
        with pytest.raises(TimeoutError):
            await handle.result(within="200ms")
        clock.offset = 11 * MINUTE
        app._workers[0].wake()
        assert await handle.result() == "nothing came"


@played
async def test_a_signal_sent_in_time_wins_over_a_deadline_seen_at_once(db):
    clock = Clock()
    async with App(db, workflows=[patient]) as app:
        app.clock = clock
        handle = await app.start(patient, id="r")
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "word", "in time")
        clock.offset = 11 * MINUTE
        async with app.worker():
            assert await handle.result() == "in time"


@played
async def test_a_wait_of_a_compensating_run_is_woken_by_its_signal(db):
    async with working(db, after_undoing) as app:
        handle = await app.start(after_undoing, id="r")

        async def given_up():
            run = (await app.show("r")).run
            return run.state is RunState.COMPENSATING and run.lease is None

        await until(given_up, "the run to wait")
        await app.signal("r", "seen", "ok")
        assert await handle.result(within="5s") == "ok"
        assert await handle.state() is RunState.COMPENSATED


@played
async def test_a_signal_that_a_clock_set_back_dates_after_the_deadline_is_taken_without_spinning(db):
    @workflow(name="two things")
    async def two_things(run: Run) -> str:
        word, _ = await run.gather(run.wait("word", str, within="10m"), run.sleep("1m"))
        return word

    clock = Clock()
    async with App(db, workflows=[two_things]) as app:
        app.clock = clock
        handle = await app.start(two_things, id="r")
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
        clock.offset = 20 * MINUTE
        await app.signal("r", "word", "from the future")
        clock.offset = 2 * MINUTE
        async with app.worker():
            assert await handle.result(within="5s") == "from the future"


@played
async def test_an_unanswered_wait_that_is_not_caught_fails_its_run(db):
    clock = Clock()
    async with working(db, waiting, clock=clock) as app:
        handle = await app.start(waiting, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        clock.offset = 11 * MINUTE
        app._workers[0].wake()
        with pytest.raises(RunFailed, match="WaitExpired"):
            await handle.result()
    assert target.requests == ["a"]


@workflow()
async def twice_with_a_pause(run: Run) -> int:
    first = await run.wait("number", int, many=True)
    await run.wait("go", str)
    return first + (await run.wait("number", int, many=True) if first > 1 else 0)


@pytest.mark.parametrize("first", [1, 2])
@played
async def test_f9_what_no_wait_has_taken_is_shown_as_unclaimed_and_taken_by_the_next_or_refused_at_the_end(db, first):
    async with working(db, twice_with_a_pause) as app:
        handle = await app.start(twice_with_a_pause, id="r")
        await app.signal("r", "number", first, id="1")
        await until(lambda: shown(app, "  applied: "), "the first to be taken")
        await app.signal("r", "number", 40, id="2")
        assert await shown(app, "number 40  kept, unclaimed: arrived, not taken by a wait yet")
        await app.signal("r", "go", "on")
        assert await handle.result() == (42 if first == 2 else 1)
        assert not await shown(app, "unclaimed")
        assert await shown(app, "number 40  applied" if first == 2 else "number 40  refused")


async def shown(app, text):
    return text in "\n".join(timeline(story(await app.show("r"), app.store.leases(), [])))
