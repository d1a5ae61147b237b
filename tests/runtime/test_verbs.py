"""What a person may do, with the guards that the machine obeys, once for any number of clicks, each with its row (C25).

Cancel, terminate and compensate have files of their own.
"""

import asyncio
import json
from datetime import timedelta

import pytest

from fencepost.core.errors import DeclarationError, Misuse, RunFailed, RunHeld, VerbRefused
from fencepost.core.records import History
from fencepost.core.records import Run as RunRecord
from fencepost.core.recovery import BY_ONE_CLOCK
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.core.transitions import RUN, RunEvent
from fencepost.effects.call import Call
from fencepost.effects.declare import compute
from fencepost.runtime import applicable, verbs
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    Clock,
    Gate,
    asked,
    expire,
    keyed,
    once,
    operation,
    played,
    reaches,
    target,
    verb,
    working,
)  # fmt: skip


@workflow()
async def three_steps(run: Run) -> str:
    await run.do(keyed("one"))
    second = await run.do(once("two"))
    return f"{second}, {await run.do(asked('three'))}"


@workflow()
async def one_look(run: Run) -> str:
    return await run.do(asked("a"))


def rows(app, run_id="r"):
    return [(row.verb, row.outcome) for row in app.store.audits("default", run_id)]


async def held(app):
    target.plan("two", "lose")
    handle = await app.start(three_steps, id="r")
    await reaches(app, "r", RunState.HELD)
    return handle


@played
async def test_settled_as_happened_the_step_is_not_sent_again_and_the_run_goes_on_by_itself(db):
    async with working(db, three_steps) as app:
        handle = await held(app)
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"seen"', reference="T-1")
        assert await handle.result() == "seen, made three"
        assert (await operation(app, "r", "once")).reference == "T-1"
        (row,) = app.store.audits("default", "r")
        assert (row.actor, row.reason, row.verb) == ("ann", "she says so", "settle")
        assert json.loads(row.before)["operation"] == "unknown"
        assert json.loads(row.after)["operation"] == "succeeded"
    assert target.requests == ["one", "two", "three"]


@played
async def test_settled_as_not_happened_the_step_is_sent_once_more_under_its_key(db):
    async with working(db, three_steps) as app:
        target.plan("two", "drop")
        handle = await app.start(three_steps, id="r")
        await reaches(app, "r", RunState.HELD)
        key = (await operation(app, "r", "once")).key
        with pytest.raises(VerbRefused, match="may still land"):
            await verb(app, verbs.settle, "r", step="once", happened=False)
        assert (await operation(app, "r", "once")).state is OperationState.UNKNOWN
        await verb(app, verbs.settle, "r", step="once", happened=False, override=True)
        assert await handle.result() == "made two, made three"
        assert target.keys["two"] == key
        assert rows(app) == [("settle", "refused"), ("settle", "done")]
        statements = [seen for seen in (await operation(app, "r", "once")).observations if seen.kind == "statement"]
        assert json.loads(statements[-1].evidence)["override"] is True
    assert target.objects == ["one", "two", "three"]


@pytest.mark.parametrize("passed", [0, 1])
@played
async def test_a_statement_goes_by_the_ledgers_clock_alone_and_the_refusal_says_so(db, passed):
    """A clock that is set forward by the span makes an early statement pass: a named assumption, on the limits page."""
    clock = Clock()
    async with working(db, three_steps, clock=clock) as app:
        target.plan("two", "drop")
        await app.start(three_steps, id="r")
        await reaches(app, "r", RunState.HELD)
        found = await operation(app, "r", "once")
        clock.offset = passed * (found.attempts[0].span_ends_at - found.attempts[0].dispatched_at)
        if not passed:
            with pytest.raises(VerbRefused) as refused:
                await verb(app, verbs.settle, "r", step="once", happened=False)
            assert BY_ONE_CLOCK in (refused.value.hint or "")
            assert target.requests == ["one", "two"]
        else:
            await verb(app, verbs.settle, "r", step="once", happened=False)
            assert (await operation(app, "r", "once")).attempts[0].outcome is Outcome.NOT_APPLIED


@played
async def test_an_override_is_named_in_its_audit_row(db):
    async with working(db, three_steps) as app:
        await held(app)
        await verb(app, verbs.settle, "r", step="once", happened=False, override=True)
        (row,) = app.store.audits("default", "r")
        assert "override" in row.reason + row.after + row.verb


@played
async def test_five_clicks_settle_once(db):
    async with working(db, three_steps) as app:
        handle = await held(app)
        clicks = [
            verb(app, verbs.settle, "r", step="once", happened=True, result='"seen"') for _ in range(5)
        ]  # fmt: skip
        outcomes = await asyncio.gather(*clicks, return_exceptions=True)
        assert sum(isinstance(one, VerbRefused) for one in outcomes) == 4
        assert await handle.result() == "seen, made three"
        assert sorted(rows(app)) == [("settle", "done")] + [("settle", "refused")] * 4
    assert target.requests == ["one", "two", "three"]


@played
async def test_a_handle_of_a_run_that_was_held_waits_for_what_it_does_since(db):
    @workflow(name="two steps")
    async def two_steps(run: Run) -> str:
        first = await run.do(once("one"))
        return f"{first}, {await run.do(keyed('two'))}"

    gate = Gate()
    target.plan("one", "lose")
    target.plan("two", gate)
    async with working(db, two_steps) as app:
        handle = await app.start(two_steps, id="r")
        with pytest.raises(RunHeld):
            await handle.result()
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"seen"')
        await gate.reached.wait()
        with pytest.raises(TimeoutError, match="is running after 100ms"):
            await handle.result(within=timedelta(milliseconds=100))
        with pytest.raises(DeclarationError, match="within is 20, which is not a duration"):
            await handle.result(within=20)
        gate.opened.set()
        assert await handle.result() == "seen, made two"


@played
async def test_a_click_on_what_has_changed_since_it_was_shown_is_refused(db):
    async with working(db, three_steps) as app:
        await held(app)
        shown = (await app.show("r")).run.version
        await verb(app, verbs.resume, "r", version=shown)
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(VerbRefused, match="changed since"):
            await verb(app, verbs.settle, "r", step="once", happened=True, result='"x"', version=shown)
        assert (await operation(app, "r", "once")).state is OperationState.UNKNOWN


@played
async def test_a_result_of_another_type_is_refused_and_changes_nothing(db):
    async with working(db, three_steps) as app:
        await held(app)
        with pytest.raises(VerbRefused, match="result is refused"):
            await verb(app, verbs.settle, "r", step="once", happened=True, result="17")
        assert (await operation(app, "r", "once")).state is OperationState.UNKNOWN
        assert rows(app) == [("settle", "refused")]


@played
async def test_what_happened_without_a_result_holds_the_run_until_somebody_gives_one(db):
    async with working(db, three_steps) as app:
        handle = await held(app)
        await verb(app, verbs.settle, "r", step="once", happened=True, reference="T-1")
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(RunHeld, match="result missing"):
            await handle.result()
        with pytest.raises(VerbRefused):
            await verb(app, verbs.settle, "r", step="once", happened=False, override=True)
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"x"')
        assert await handle.result() == "x, made three"


@played
async def test_a_verb_without_who_or_why_is_refused_with_a_row(db):
    async with working(db, three_steps) as app:
        await held(app)
        for missing in ({"by": " "}, {"reason": ""}):
            with pytest.raises(Misuse):
                await verb(app, verbs.resume, "r", **missing)
        assert rows(app) == [("resume", "refused")] * 2
        assert "needs who does it and why" in app.store.audits("default", "r")[0].reason


@played
async def test_a_verb_on_a_step_that_does_not_exist_says_which_there_are_and_leaves_a_row(db):
    async with working(db, three_steps) as app:
        await held(app)
        with pytest.raises(Misuse) as refused:
            await verb(app, verbs.settle, "r", step="twice", happened=True)
        assert "once" in refused.value.hint
        assert rows(app) == [("settle", "refused")]


@played
async def test_a_verb_from_an_app_that_lacks_the_effect_is_refused_with_a_row(db):
    async with working(db, three_steps) as app:
        await held(app)
        async with App(db, workflows=[]) as other:
            with pytest.raises(Misuse, match="no workflow of this app"):
                await verb(other, verbs.settle, "r", step="once", happened=True)
        assert rows(app) == [("settle", "refused")]


@played
async def test_verbs_that_do_not_apply_to_a_finished_run_are_refused_with_a_row_each(db):
    async with working(db, three_steps) as app:
        handle = await app.start(three_steps, id="r")
        await handle.result()
        for done, arguments in (
            (verbs.resume, {}), (verbs.cancel, {}), (verbs.terminate, {}),
            (verbs.retry, {"step": "once"}), (verbs.settle, {"step": "once", "happened": False}),
        ):  # fmt: skip
            with pytest.raises(VerbRefused):
                await verb(app, done, "r", **arguments)
        assert [outcome for _, outcome in rows(app)] == ["refused"] * 5
        assert await handle.state() is RunState.SUCCEEDED


@played
async def test_a_resumed_run_that_failed_takes_back_only_the_answer_that_ended_it(db):
    faulty = [True]

    @compute(name="computing")
    async def computing(call: Call) -> int:
        if faulty:
            raise ValueError("a fault")
        return 7

    @workflow(name="mendable")
    async def mendable(run: Run) -> int:
        await run.do(once("before"))
        return await run.do(computing())

    async with working(db, mendable) as app:
        handle = await app.start(mendable, id="r")
        with pytest.raises(RunFailed):
            await handle.result()
        faulty.clear()
        await verb(app, verbs.resume, "r")
        assert await handle.result() == 7
    assert target.requests == ["before"]


@played
async def test_a_gather_that_failed_in_its_first_branch_can_be_resumed(db):
    faulty, gate = [True], Gate()
    target.plan("slow", gate)

    @compute(name="computing")
    async def computing(call: Call) -> int:
        if faulty:
            raise ValueError("a fault")
        return 7

    @workflow(name="mendable")
    async def mendable(run: Run) -> tuple[int, str]:
        return await run.gather(run.do(computing()), run.do(once("slow")))

    async with working(db, mendable) as app:
        handle = await app.start(mendable, id="r")
        await gate.reached.wait()
        gate.opened.set()
        with pytest.raises(RunFailed):
            await handle.result()
        faulty.clear()
        await verb(app, verbs.resume, "r")
        assert await handle.result() == (7, "made slow")
    async with working(db, mendable) as app:
        assert await (await app.handle("r")).result() == (7, "made slow")
    assert target.requests == ["slow"]


@played
async def test_a_persons_did_not_happen_is_believed_after_the_span(db):
    target.plan("a", "drop")
    gate = Gate()
    target.script["a"].clear()
    target.plan("a", gate)
    async with working(db, one_look) as app:
        await app.start(one_look, id="r")
        await gate.reached.wait()
        target.answers.extend([ValueError("down")] * 5)
        expire(app)
        async with working(db, one_look) as heir:
            await reaches(heir, "r", RunState.HELD)
            for _ in range(100):
                try:
                    await verb(heir, verbs.settle, "r", step="asked", happened=False)
                except VerbRefused:
                    await asyncio.sleep(0.02)
                else:
                    break
            assert await (await heir.handle("r")).result() == "made a"
            found = await operation(heir, "r", "asked")
            assert found.attempts[1].dispatched_at >= found.attempts[0].span_ends_at
        gate.opened.set()


@played
async def test_the_audit_rows_are_chained_in_their_order(db):
    async with working(db, three_steps) as app:
        await held(app)
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
        await verb(app, verbs.terminate, "r")
        first, second = app.store.audits("default", "r")
        assert second.previous == first.hash
        assert first.before != first.after


@pytest.mark.parametrize("state", RunState)
def test_what_is_offered_for_a_state_is_what_its_table_allows(state):
    offered = applicable.verbs_for(History(RunRecord(1, "n", "r", "w", 1, "{}", "f", state, 1, 1, 0, 0)))
    events = {"cancel": RunEvent.CANCEL, "terminate": RunEvent.TERMINATE, "compensate": RunEvent.COMPENSATE}
    assert all(RUN.allows(state, events[verb]) for verb in offered if verb in events)
    if state is not RunState.CANCELLING:
        assert {verb for verb in ("cancel", "terminate") if RUN.allows(state, events[verb])} <= set(offered)
