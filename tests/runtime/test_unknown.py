"""An effect of unknown outcome: asked about, sent again only where that is harmless, else left to a person (C02, C07).

Law 3 is here too: while one effect is unknown no other begins, also one that an earlier life left behind.
"""

import asyncio

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import RunHeld, StepFailed, StoreFailed
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.effects.values import VALUE_MAX
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.moves import MoveRun
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
    target,
    until,
    verb,
    working,
)  # fmt: skip


@workflow()
async def by_key(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow()
async def by_asking(run: Run, name: str) -> str:
    return await run.do(asked(name))


@workflow()
async def by_nobody(run: Run, name: str) -> str:
    first = await run.do(once(name))
    return f"{first}, {await run.do(keyed('next'))}"


@workflow()
async def side_by_side(run: Run) -> list[str]:
    async def two_in_a_row(name: str) -> str:
        await run.do(keyed(f"{name} first"), item=f"{name} first")
        return await run.do(keyed(f"{name} second"), item=f"{name} second")

    both = await run.gather(run.do(once("unknown")), two_in_a_row("b"))
    return list(both)


@effect(on_unknown="hold", retry=QUICK, independent=True)
async def independent(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def with_an_independent_one(run: Run) -> list[str]:
    async def later() -> str:
        await run.do(keyed("b"))
        return await run.do(independent("c"))

    return list(await run.gather(run.do(once("a")), later()))


# -- one effect -------------------------------------------------------------------------------------------------------


@played
async def test_a_lost_reply_under_a_key_is_sent_again_under_it_and_made_once(db):
    target.plan("a", "lose")
    async with working(db, by_key) as app:
        assert await (await app.start(by_key, "a", id="r")).result() == "made a"
    assert (target.requests, target.objects) == (["a", "a"], ["a"])


@played
async def test_a_lost_reply_of_what_can_be_asked_is_found_and_not_sent_again(db):
    target.plan("a", "lose")
    async with working(db, by_asking) as app:
        assert await (await app.start(by_asking, "a", id="r")).result() == "made a"
        assert (await operation(app, "r", "asked")).state is OperationState.SUCCEEDED
    assert (target.requests, target.objects) == (["a"], ["a"])


@played
async def test_a_request_that_never_arrived_is_sent_again_once_its_absence_is_proved(db):
    target.plan("a", "drop")
    async with working(db, by_asking) as app:
        assert await (await app.start(by_asking, "a", id="r")).result() == "made a"
        found = await operation(app, "r", "asked")
        assert [one.outcome.value for one in found.attempts] == ["not applied", "applied"]
        first, second = found.attempts
        assert second.dispatched_at >= first.span_ends_at
    assert (target.requests, target.objects) == (["a", "a"], ["a"])


@played
async def test_a_look_up_that_cannot_tell_is_asked_again_and_then_left_to_a_person(db):
    target.plan("a", "lose")
    target.answers.extend(
        [ValueError("garbage"), Inconclusive("busy"), "not an answer", Inconclusive(), Inconclusive()]
    )
    async with working(db, by_asking) as app:
        handle = await app.start(by_asking, "a", id="r")
        with pytest.raises(RunHeld, match="cannot tell"):
            await handle.result()
        assert (await operation(app, "r", "asked")).state is OperationState.UNKNOWN
        await verb(app, verbs.resume, "r")
        assert await handle.result() == "made a"
    assert (target.requests, target.objects, target.looked) == (["a"], ["a"], 6)


@played
async def test_a_look_up_that_finds_two_is_a_conflict_that_no_resume_averages(db):
    target.plan("a", "lose")
    target.answers.append(Conflicting(2))
    async with working(db, by_asking) as app:
        handle = await app.start(by_asking, "a", id="r")
        with pytest.raises(RunHeld, match="conflicting evidence"):
            await handle.result()
        assert (await operation(app, "r", "asked")).conflict
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "conflicting evidence"
    assert target.requests == ["a"]


@played
async def test_what_is_found_late_in_a_form_that_the_step_does_not_have_still_happened(db):
    target.plan("a", "lose")
    target.answers.append(Found(17))
    async with working(db, by_asking) as app:
        handle = await app.start(by_asking, "a", id="r")
        with pytest.raises(RunHeld, match="result missing"):
            await handle.result()
        assert (await operation(app, "r", "asked")).state is OperationState.SUCCEEDED
        await verb(app, verbs.settle, "r", step="asked", happened=True, result='"made a"')
        assert await handle.result() == "made a"
    assert target.requests == ["a"]


@played
async def test_what_can_be_neither_asked_nor_repeated_is_left_to_a_person_after_one_request(db):
    target.plan("a", "lose")
    async with working(db, by_nobody) as app:
        handle = await app.start(by_nobody, "a", id="r")
        with pytest.raises(RunHeld) as held:
            await handle.result()
        assert held.value.ids == {"run": "r", "step": "once"}
        assert held.value.hint
        told = await hold(app, "r")
        assert (told["step"], told["attempts"], told["state"]) == ("once", 1, "unknown")
        assert told["key"] == (await operation(app, "r", "once")).key
    assert (target.requests, target.objects) == (["a"], ["a"])


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_what_must_not_be_repeated_is_not_repeated_however_large_its_budget(db, attempts):
    @effect(on_unknown="hold", name="risky", retry=Retry(attempts=attempts, first_delay="1ms"))
    async def risky(call: Call, name: str) -> str:
        await target.take(call, name)
        raise RuntimeError("something after the send")

    @workflow(name="risking")
    async def risking(run: Run, name: str) -> str:
        return await run.do(risky(name))

    async def play() -> None:
        async with working(db, risking) as app:
            with pytest.raises(RunHeld):
                await (await app.start(risking, "a", id="r")).result()
            found = await operation(app, "r", "risky")
            assert (found.state, len(found.attempts)) == (OperationState.UNKNOWN, 1)

    asyncio.run(play())
    assert (target.requests, target.objects) == (["a"], ["a"])


@played
async def test_a_proof_that_nothing_was_sent_costs_an_attempt_and_no_object(db):
    target.plan("a", "busy")
    async with working(db, by_nobody) as app:
        handle = await app.start(by_nobody, "a", id="r")
        assert await handle.result() == "made a, made next"
        found = await operation(app, "r", "once")
        assert [one.outcome.value for one in found.attempts] == ["not applied", "applied"]


@played
async def test_a_spent_budget_of_proved_failures_holds_the_run_and_a_retry_gives_a_new_one(db):
    target.plan("a", *["busy"] * 3)
    async with working(db, by_nobody) as app:
        handle = await app.start(by_nobody, "a", id="r")
        with pytest.raises(RunHeld, match="budget spent"):
            await handle.result()
        assert (await operation(app, "r", "once")).state is OperationState.FAILED
        await verb(app, verbs.retry, "r", step="once")
        assert await handle.result() == "made a, made next"
        assert len((await operation(app, "r", "once")).attempts) == 4
    assert target.requests == ["a", "next"]


@played
async def test_a_worker_that_stops_when_the_budget_is_spent_leaves_the_run_to_a_person(db):
    gate = Gate()

    @effect(on_unknown="hold", name="last", retry=Retry(attempts=1))
    async def last(call: Call) -> str:
        await gate.wait()
        with call.sending():
            raise ConnectionRefusedError("nobody listens")

    @workflow(name="tolerant")
    async def tolerant(run: Run) -> str:
        try:
            return await run.do(last())
        except StepFailed:
            return await run.do(keyed("instead"))

    async with working(db, tolerant) as app:
        await app.start(tolerant, id="r")
        await gate.reached.wait()
        app._workers[0].stop()
        gate.opened.set()
    async with working(db, tolerant) as app:
        await reaches(app, "r", RunState.HELD, RunState.SUCCEEDED)
        assert (await app.show("r")).run.state is RunState.HELD
    assert target.requests == []


def dies_before_a_hold(app):
    """From the commit that holds a run on, nothing of this process reaches the ledger; what was to, is returned."""
    submit, died = app.host.journal.submit, []

    def dying(group, when_done=None):
        if died or any(isinstance(move, MoveRun) and move.to == RunState.HELD for move in group.moves):
            died.append(group)
            raise StoreFailed("the process dies right before this commit")
        return submit(group, when_done)

    app.host.journal.submit = dying
    return died


@played
async def test_a_spent_budget_reaches_nobody_but_a_person_when_the_process_dies_before_the_hold(db):
    """The failure and the hold are one commit: an heir that found the one without the other would raise it.

    Another lane commits right before, and what is known of the attempts with it.
    """
    gate = Gate()

    async def seek(call: Call) -> Found[str] | Absent:
        await gate.wait()
        return Absent()

    @effect(on_unknown="hold", name="last", retry=Retry(attempts=1))
    async def last(call: Call) -> str:
        with call.sending():
            raise ConnectionRefusedError("nobody listens")

    @effect(reconcile=seek, attempt_timeout="2s", settle="0s", retry=QUICK, name="sought")
    async def sought(call: Call) -> str:
        if call.attempt == 1:
            raise OSError("lost on its way")
        return "made"

    @workflow(name="tolerant")
    async def tolerant(run: Run) -> str:
        async def first() -> str:
            try:
                return await run.do(last())
            except StepFailed:
                return await run.do(keyed("instead"))

        return (await run.gather(first(), run.do(sought())))[0]

    async with working(db, tolerant) as app:
        died = dies_before_a_hold(app)
        await app.start(tolerant, id="r")
        await gate.reached.wait()
        life = app._workers[0]._lives[1]
        await until(lambda: life.holding, "the budget to be spent")
        resting = life.operations["sought"]
        await until(lambda: app.store.now() > (resting.not_before or 0), "the pause before the next look-up")
        gate.opened.set()
        await until(lambda: died, "the process to die")
    async with working(db, tolerant) as heir:
        await reaches(heir, "r", RunState.HELD, RunState.SUCCEEDED)
        assert (await hold(heir, "r"))["reason"] == "budget spent"
        assert (await operation(heir, "r", "last")).state is OperationState.FAILED
    assert target.requests == []


# -- law 3 ------------------------------------------------------------------------------------------------------------


@played
async def test_no_new_effect_begins_while_another_one_of_the_run_is_unknown(db):
    lost, slow = Gate(), Gate()
    target.plan("b first", slow)
    target.plan("unknown", lost)

    async with working(db, side_by_side) as app:
        handle = await app.start(side_by_side, id="r")
        await lost.reached.wait()
        await slow.reached.wait()
        target.script["unknown"].clear()
        lost.opened.set()
        slow.opened.set()
        await handle.result()
    target.reset()
    slow = Gate()
    target.plan("b first", slow)
    target.plan("unknown", "lose")
    async with working(db, side_by_side) as app:
        handle = await app.start(side_by_side, id="again")
        await slow.reached.wait()
        slow.opened.set()
        with pytest.raises(RunHeld):
            await handle.result()
        assert "b second" not in target.requests
        await verb(app, verbs.settle, "again", step="once", happened=True, result='"x"')
        assert await handle.result() == ["x", "made b second"]


@played
async def test_an_effect_that_was_refused_does_not_begin_again_while_another_is_unknown(db):
    entered = Gate()

    @effect(on_unknown="hold", name="refused", retry=QUICK)
    async def refused(call: Call) -> str:
        if call.attempt == 1:
            await entered.wait()
            with call.sending():
                raise ConnectionRefusedError("nobody listens")
        return await target.take(call, "refused")

    @workflow(name="pair")
    async def pair(run: Run) -> None:
        await run.gather(run.do(once("unknown")), run.do(refused()))

    target.plan("unknown", "lose")
    async with working(db, pair) as app:
        handle = await app.start(pair, id="r")
        await entered.reached.wait()
        entered.opened.set()
        with pytest.raises(RunHeld):
            await handle.result()
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
        await asyncio.sleep(0.1)
        assert (await app.show("r")).run.state is RunState.HELD
        assert target.requests == ["unknown"]


@played
async def test_what_is_declared_independent_begins_all_the_same(db):
    gate = Gate()
    target.plan("a", "lose")
    target.plan("b", gate)
    async with working(db, with_an_independent_one) as app:
        await app.start(with_an_independent_one, id="r")
        await gate.reached.wait()
        gate.opened.set()
        await reaches(app, "r", RunState.HELD)
        await verb(app, verbs.resume, "r")

        async def sent():
            return "c" in target.requests

        await until(sent, "the independent effect")


@played
async def test_what_an_earlier_life_left_unknown_is_settled_before_anything_new_begins(db):
    gate = Gate()

    @workflow(name="racing")
    async def racing(run: Run) -> str:
        await run.race(run.do(once("loser")), run.wait("go", str))
        return await run.do(keyed("after"))

    target.plan("loser", gate)
    async with working(db, racing) as app:
        await app.start(racing, id="r")
        await gate.reached.wait()
        expire(app)
        async with working(db, racing) as heir:
            # Until then the signal may still be its former owner's.
            await until(lambda: heir.store.find("default", "r").generation > 1, "the heir to own the run")
            await heir.signal("r", "go", "on")
            await reaches(heir, "r", RunState.HELD)
            assert target.requests == ["loser"]
            await verb(heir, verbs.settle, "r", step="once", happened=True, result='"x"')
            assert await (await heir.handle("r")).result() == "made after"
            gate.opened.set()
    assert target.requests == ["loser", "after"]


# -- threads ----------------------------------------------------------------------------------------------------------


@played
async def test_a_thread_that_returns_after_its_time_settles_what_its_timeout_left_unknown(db):
    import threading

    may_return = threading.Event()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="slow")
    def slow(call: SyncCall, name: str) -> str:
        target.requests.append(name)
        may_return.wait(10)
        return f"late {name}"

    @workflow(name="threaded")
    async def threaded(run: Run, name: str) -> str:
        return await run.do(slow(name))

    async with working(db, threaded) as app:
        handle = await app.start(threaded, "a", id="r")
        with pytest.raises(RunHeld):
            await handle.result()
        may_return.set()
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == "late a"
    assert target.requests == ["a"]


@played
async def test_a_late_thread_whose_result_cannot_be_kept_still_says_that_it_happened(db):
    import threading

    may_return = threading.Event()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="slow")
    def slow(call: SyncCall) -> str:
        may_return.wait(10)
        return "a" * VALUE_MAX

    @workflow(name="threaded")
    async def threaded(run: Run) -> str:
        return await run.do(slow())

    async with working(db, threaded) as app:
        await app.start(threaded, id="r")
        await reaches(app, "r", RunState.HELD)
        may_return.set()

        async def known():
            return (await operation(app, "r", "slow")).state is OperationState.SUCCEEDED

        await until(known, "the late result")
        await reaches(app, "r", RunState.HELD)


@played
async def test_a_thread_that_returns_in_the_moment_of_its_timeout_is_not_lost(db):
    import threading

    may_return = threading.Event()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="slow")
    def slow(call: SyncCall) -> str:
        may_return.wait(10)
        return "just"

    @workflow(name="threaded")
    async def threaded(run: Run) -> str:
        return await run.do(slow())

    async with working(db, threaded) as app:
        submit = app.host.journal.submit

        def in_between(group, when_done=None):
            # The timeout is over and about to be written down: the thread returns now.
            if any(type(move).__name__ == "MoveOperation" for move in group.moves) and not may_return.is_set():
                may_return.set()
                threading.Event().wait(0.2)
            return submit(group, when_done)

        app.host.journal.submit = in_between
        handle = await app.start(threaded, id="r")
        await reaches(app, "r", RunState.HELD, RunState.SUCCEEDED)
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == "just"
