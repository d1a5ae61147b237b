"""Making effects acceptable again: the last first, what fails stays visible, a person may start it and try again."""

import asyncio
import json
import time

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import CompensationIncomplete, DeclarationError, RunFailed, VerbRefused
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Gate,
    asked,
    expire,
    hold,
    keyed,
    once,
    operation,
    played,
    reaches,
    staying,
    target,
    until,
    verb,
    working,
)  # fmt: skip


@workflow()
async def three(run: Run) -> str:
    for name in ("a", "b", "c"):
        await run.do(once(name), item=name)
    await run.compensate(reason="wrong")
    return "done"


@workflow()
async def failing(run: Run) -> str:
    await run.do(once("a"))
    raise ValueError("a fault of the code")


@workflow()
async def succeeding(run: Run) -> str:
    await run.do(once("a"), item="a")
    await run.do(staying("b"))
    return "done"


@workflow()
async def undoing_the_unknown(run: Run) -> str:
    await run.do(keyed("first"))
    try:
        await run.do(asked("second"))
        await run.do(once("third"))
    finally:
        await run.compensate(reason="wrong")
    return "done"


@played
async def test_effects_are_compensated_the_last_one_first_each_once(db):
    async with working(db, three) as app:
        handle = await app.start(three, id="r")
        assert await handle.result() == "done"
        assert await handle.state() is RunState.COMPENSATED
    assert target.requests == ["a", "b", "c", "undo c", "undo b", "undo a"]


@played
async def test_a_compensation_that_fails_stays_visible_and_the_others_are_done(db):
    target.plan("undo b", "refuse")
    async with working(db, three) as app:
        handle = await app.start(three, id="r")
        with pytest.raises(CompensationIncomplete, match="2 of 3"):
            await handle.result()
        assert await handle.state() is RunState.PARTLY_COMPENSATED
        assert (await operation(app, "r", "compensate once", "b")).state is OperationState.FAILED
    assert target.requests == ["a", "b", "c", "undo c", "undo a"]


@played
async def test_a_person_who_compensates_again_tries_only_what_failed(db):
    target.plan("undo b", "refuse")
    async with working(db, three) as app:
        await app.start(three, id="r")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.requests == ["a", "b", "c", "undo c", "undo a", "undo b"]


@played
async def test_a_compensation_has_a_budget_of_its_own_and_a_person_who_tries_again_gives_it_a_new_one(db):
    target.plan("undo b", *["busy"] * (QUICK.attempts + 1))
    async with working(db, three) as app:
        handle = await app.start(three, id="r")
        with pytest.raises(CompensationIncomplete, match="2 of 3"):
            await handle.result()
        assert await handle.state() is RunState.PARTLY_COMPENSATED
        spent = await operation(app, "r", "compensate once", "b")
        assert (spent.state, len(spent.attempts)) == (OperationState.FAILED, QUICK.attempts)
        assert target.requests == ["a", "b", "c", "undo c", "undo a"]
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATED)
        again = await operation(app, "r", "compensate once", "b")
        assert (again.state, len(again.attempts)) == (OperationState.SUCCEEDED, QUICK.attempts + 2)
        assert again.key == spent.key
    assert target.requests == ["a", "b", "c", "undo c", "undo a", "undo b"]


@played
async def test_a_run_whose_compensations_all_fail_says_so(db):
    target.plan("undo a", "refuse")
    async with working(db, failing) as app:
        handle = await app.start(failing, id="r")
        with pytest.raises(RunFailed):
            await handle.result()
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATION_FAILED)
        with pytest.raises(CompensationIncomplete):
            await handle.result()


@played
async def test_a_person_may_compensate_a_run_that_succeeded_and_what_stands_stays(db):
    async with working(db, succeeding) as app:
        handle = await app.start(succeeding, id="r")
        await handle.result()
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATED)
        with pytest.raises(VerbRefused):
            await verb(app, verbs.compensate, "r")
    assert target.requests == ["a", "b", "undo a"]


@played
async def test_what_is_unknown_is_settled_before_anything_is_undone(db):
    target.plan("third", "lose")
    async with working(db, undoing_the_unknown) as app:
        await app.start(undoing_the_unknown, id="r")
        await reaches(app, "r", RunState.HELD)
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.HELD)
        assert not [name for name in target.requests if name.startswith("undo")]
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"x"')
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.requests[3:] == ["undo third", "undo second", "undo first"]


@played
async def test_what_did_not_happen_is_not_undone(db):
    target.plan("third", "refuse")
    async with working(db, undoing_the_unknown) as app:
        handle = await app.start(undoing_the_unknown, id="r")
        with pytest.raises(RunFailed, match="NotSent"):
            await handle.result()
        assert await handle.state() is RunState.COMPENSATED
    assert target.requests == ["first", "second", "undo second", "undo first"]


@played
async def test_an_unknown_compensation_stops_the_others_until_a_person_has_looked(db):
    target.plan("undo b", "lose")
    async with working(db, three) as app:
        handle = await app.start(three, id="r")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["step"] == "compensate once"
        assert target.requests == ["a", "b", "c", "undo c", "undo b"]
        await verb(app, verbs.settle, "r", step="compensate once", item="b", happened=True, result='"x"')
        assert await handle.result() == "done"
        assert await handle.state() is RunState.COMPENSATED
    assert target.requests == ["a", "b", "c", "undo c", "undo b", "undo a"]


@played
async def test_a_compensation_goes_on_where_a_crash_left_it(db):
    gate = Gate()
    target.plan("undo b", gate)
    async with working(db, three) as app:
        await app.start(three, id="r")
        await gate.reached.wait()
        expire(app)
        async with working(db, three) as heir:
            await reaches(heir, "r", RunState.HELD)
            gate.opened.set()
            await reaches(heir, "r", RunState.COMPENSATED)
    assert target.requests == ["a", "b", "c", "undo c", "undo b", "undo a"]


@played
async def test_a_compensation_whose_result_cannot_be_kept_was_done_all_the_same(db):
    @effect(on_unknown="hold", retry=QUICK, name="boast")
    async def boast(call: Call, result: str | None, reference: str | None) -> str:
        target.requests.append("boast")
        return "x" * 2_000_000

    @effect(on_unknown="hold", retry=QUICK, name="plain", compensate=boast)
    async def plain(call: Call) -> str:
        return await target.take(call, "plain")

    @workflow(name="boasting")
    async def boasting(run: Run) -> str:
        await run.do(plain())
        await run.compensate(reason="wrong")
        return "done"

    async with working(db, boasting) as app:
        handle = await app.start(boasting, id="r")
        await reaches(app, "r", RunState.COMPENSATED, RunState.PARTLY_COMPENSATED, RunState.COMPENSATION_FAILED)
        assert await handle.state() is RunState.COMPENSATED
    assert target.requests == ["plain", "boast"]


@played
async def test_a_compensation_gets_the_arguments_by_their_names_the_result_and_the_reference(db):
    got = []

    @effect(on_unknown="hold", retry=QUICK, name="unmake")
    async def unmake(call: Call, first: str, second: str, result: dict | None, reference: str | None) -> None:
        got.append((first, second, result, reference))

    @effect(send_key=KeyHeader("K", window="24h"), name="make", reference="id", compensate=unmake)
    async def make(call: Call, first: str, second: str) -> dict:
        return {"id": 17}

    @workflow(name="making")
    async def making(run: Run) -> str:
        await run.do(make(second="2", first="1"))
        await run.compensate(reason="wrong")
        return "done"

    async with working(db, making) as app:
        await (await app.start(making, id="r")).result()
    assert got == [("1", "2", {"id": 17}, "17")]


@played
async def test_an_effect_named_like_a_compensation_is_not_taken_for_one(db):
    @effect(on_unknown="hold", retry=QUICK, name="compensate once")
    async def impostor(call: Call) -> str:
        return await target.take(call, "impostor")

    with pytest.raises(DeclarationError, match="compensate"):

        @workflow(name="confused")
        async def confused(run: Run) -> str:
            await run.do(once("a"))
            await run.do(impostor())
            await run.compensate(reason="wrong")
            return "done"


@played
async def test_a_run_whose_code_does_not_catch_an_incomplete_compensation_never_ends_clean(db):
    @workflow(name="shrugging")
    async def shrugging(run: Run) -> str:
        await run.do(once("a"))
        try:
            await run.compensate(reason="wrong")
        except CompensationIncomplete:
            return "all is well"
        return "done"

    target.plan("undo a", "refuse")
    async with working(db, shrugging) as app:
        handle = await app.start(shrugging, id="r")
        with pytest.raises(CompensationIncomplete):
            await handle.result()
        assert await handle.state() is RunState.COMPENSATION_FAILED


@played
async def test_a_persons_compensation_that_must_pause_does_not_spin_on_a_kept_signal(db):
    @effect(on_unknown="hold", name="patient", retry=Retry(attempts=5, first_delay="5m"))
    async def patient(call: Call, result: str | None, reference: str | None) -> str:
        return await target.take(call, "patient")

    @effect(on_unknown="hold", retry=QUICK, name="thing", compensate=patient)
    async def thing(call: Call) -> str:
        return 17  # so that the run is held for its result

    @workflow(name="waiting")
    async def waiting(run: Run) -> None:
        await run.gather(run.wait("word", str), run.do(thing()))

    target.plan("patient", "busy")
    async with working(db, waiting) as app:
        await app.start(waiting, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.signal("r", "word", "hello")
        await verb(app, verbs.compensate, "r")

        async def paused() -> bool:
            return any(one.attempts for one in (await app.show("r")).operations if one.compensates)

        await until(paused, "the first attempt of the compensation")
        await asyncio.sleep(0.3)
        before = app.host.journal.commits
        await asyncio.sleep(0.5)
        assert app.host.journal.commits - before < 5


@played
async def test_a_compensation_waits_for_what_another_branch_has_in_flight(db):
    gate = Gate()
    target.plan("slow", gate)

    @workflow(name="branches")
    async def branches(run: Run) -> str:
        async def giving_up() -> None:
            await run.do(once("quick"))
            await run.compensate(reason="wrong")

        await run.gather(run.do(keyed("slow")), giving_up())
        return "done"

    async with working(db, branches) as app:
        handle = await app.start(branches, id="r")
        await gate.reached.wait()
        await reaches(app, "r", RunState.COMPENSATING)
        await asyncio.sleep(0.2)
        assert target.requests == ["slow", "quick"]
        gate.opened.set()
        assert await handle.result(within="10s") == "done"
    assert target.requests == ["slow", "quick", "undo slow", "undo quick"]


@workflow()
async def going_on_beside(run: Run) -> str:
    """One branch goes back while another would begin one effect after the other."""

    async def giving_up() -> None:
        await run.do(once("quick"))
        await run.compensate(reason="wrong")

    async def going_on() -> None:
        await run.do(keyed("slow"))
        await run.do(keyed("next"), item="next")

    await run.gather(going_on(), giving_up())
    return "done"


@played
async def test_what_another_branch_would_begin_waits_until_the_run_has_gone_back(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, going_on_beside) as app:
        handle = await app.start(going_on_beside, id="r")
        await gate.reached.wait()
        await reaches(app, "r", RunState.COMPENSATING)
        gate.opened.set()
        assert await handle.result(within="10s") == "done"
        history = await app.show("r")
        assert history.run.state is RunState.COMPENSATED
        (reported,) = [json.loads(step.result) for step in history.steps if step.kind == "compensate"]
        told = [(one["effect"], one["outcome"]) for one in reported["effects"]]
        assert told == [("keyed", "compensated"), ("once", "compensated")], "what begins afterwards was not asked for"
        assert not (await app.check()).found
        assert "slow" in target.objects
    assert target.requests == ["slow", "quick", "undo slow", "undo quick", "next"]


@played
async def test_f3_nothing_is_undone_while_an_old_request_of_the_effect_may_still_land(db):
    at: dict[str, list[float]] = {"sent": [], "undone": []}

    @effect(on_unknown="hold", retry=QUICK, name="unmake late")
    async def unmake(call: Call, result: str | None, reference: str | None) -> str:
        at["undone"].append(time.monotonic())
        return "unmade"

    @effect(send_key=KeyHeader("K", window="15m"), name="lingering", attempt_timeout="100ms", settle="900ms",
            retry=QUICK, compensate=unmake)  # fmt: skip
    async def lingering(call: Call) -> str:
        at["sent"].append(time.monotonic())
        return await target.take(call, "lingering", honours_keys=True)

    @workflow(name="hasty")
    async def hasty(run: Run) -> str:
        await run.do(lingering())
        await run.compensate(reason="wrong")
        return "done"

    target.plan("lingering", "drop")  # and nobody knows when it will arrive; the second one is answered
    async with working(db, hasty) as app:
        handle = await app.start(hasty, id="r")
        assert await handle.result(within="20s") == "done"
        first, second = (await operation(app, "r", "lingering")).attempts
        assert (first.outcome, second.outcome) == (Outcome.UNRESOLVED, Outcome.APPLIED)
    assert at["sent"][1] - at["sent"][0] < 0.9, "or there was nothing to wait for"
    assert at["undone"][0] - at["sent"][0] >= 0.95
