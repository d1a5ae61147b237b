"""Bodies, look-ups, policies and workflows that do what they must not: the run is held or fails, and never lost.

C18 is here: an error that cannot be stored does not hide what happened.
"""

import asyncio
import gc
import socket
import threading
from contextlib import suppress

import pytest

from fencepost.core.errors import LeaseLost, RunFailed, RunHeld, StepFailed, StoreUnavailable
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Absent, Found
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect, read
from fencepost.effects.policy import Allowed, Refused
from fencepost.effects.promises import KeyHeader
from fencepost.effects.values import VALUE_MAX
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Gate,
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


class Stop(BaseException):
    """Not an Exception."""


class Awkward(Exception):
    """Holds a socket, wants two arguments, and cannot even be shown."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__(one, two)
        self.held = socket.socket()
        self.held.close()

    def __str__(self) -> str:
        raise RuntimeError("not even this")


def running(step, *arguments, name="hostile"):
    """A workflow of this one step."""

    @workflow(name=name)
    async def hostile(run: Run) -> str:
        return await run.do(step(*arguments))

    return hostile


RAISED = [Stop("x"), asyncio.CancelledError(), SystemExit(3), Awkward(1, 2), RecursionError(), MemoryError()]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("in_thread", [False, True], ids=["loop", "thread"])
def test_whatever_a_body_raises_after_its_send_leaves_it_unknown_and_the_run_held(db, error, in_thread):
    def plain(call: SyncCall) -> str:
        target.requests.append("x")
        raise error

    async def coroutine(call: Call) -> str:
        target.requests.append("x")
        raise error

    flow = running(effect(on_unknown="hold", retry=QUICK, name="raising")(plain if in_thread else coroutine))

    async def play() -> None:
        async with working(db, flow) as app:
            handle = await app.start(flow, id="r")
            with pytest.raises(RunHeld):
                await handle.result(within="10s")
            found = await operation(app, "r", "raising")
            assert found.state is OperationState.UNKNOWN
            assert type(error).__name__ in (found.error or "")
            await verb(app, verbs.settle, "r", step="raising", happened=True, result='"ok"')
            assert await handle.result() == "ok"

    asyncio.run(play())
    assert target.requests == ["x"]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_a_computation_raises_makes_its_run_fail_and_it_can_be_resumed(db, error):
    faulty = [True]

    @compute(name="computing")
    async def computing(call: Call) -> str:
        if faulty:
            raise error
        return "mended"

    flow = running(computing)

    async def play() -> None:
        async with working(db, flow) as app:
            handle = await app.start(flow, id="r")
            with pytest.raises(RunFailed, match=type(error).__name__):
                await handle.result(within="10s")
            faulty.clear()
            await verb(app, verbs.resume, "r")
            assert await handle.result() == "mended"

    asyncio.run(play())


@pytest.mark.parametrize("error", [LeaseLost("another ledger's"), StoreUnavailable("another ledger's")])
def test_a_read_that_fails_like_the_engine_itself_does_not_spin(db, error):
    calls = []

    @read(name="reading", retry=QUICK)
    async def reading(call: Call) -> str:
        calls.append(1)
        raise error

    flow = running(reading)

    async def play() -> None:
        async with working(db, flow) as app:
            await app.start(flow, id="r")
            await asyncio.sleep(0.7)
            assert len(calls) <= 10

    asyncio.run(play())


@pytest.mark.parametrize("error", [Stop("x"), Awkward(1, 2), asyncio.CancelledError(), SystemExit(3)])
def test_whatever_a_workflow_raises_makes_its_run_fail(db, error):
    @workflow(name="raising")
    async def raising(run: Run) -> None:
        await run.do(once("a"))
        raise error

    async def play() -> None:
        async with working(db, raising) as app:
            with pytest.raises(RunFailed, match=type(error).__name__):
                await (await app.start(raising, id="r")).result(within="10s")

    asyncio.run(play())
    assert target.requests == ["a"]


@pytest.mark.parametrize("answer", [17, None, object(), b"bytes", ["made"], "x" * (VALUE_MAX + 1), "\udc80"])
def test_a_body_that_returns_what_its_type_does_not_allow_has_happened_and_its_result_is_missing(db, answer):
    @effect(send_key=KeyHeader("K", window="24h"), retry=QUICK, name="wrong")
    async def wrong(call: Call) -> str:
        target.requests.append("x")
        return answer

    flow = running(wrong)

    async def play() -> None:
        async with working(db, flow) as app:
            handle = await app.start(flow, id="r")
            with pytest.raises(RunHeld, match="result missing"):
                await handle.result()
            found = await operation(app, "r", "wrong")
            assert (found.state, len(found.attempts)) == (OperationState.SUCCEEDED, 1)
            told = await hold(app, "r")
            assert told["step"] == "wrong"
            assert told["detail"]
            await verb(app, verbs.resume, "r")
            await reaches(app, "r", RunState.HELD)
            await verb(app, verbs.settle, "r", step="wrong", happened=True, result='"ok"')
            assert await handle.result() == "ok"

    asyncio.run(play())
    assert target.requests == ["x"]


@played
async def test_an_oversized_argument_holds_the_run_and_nothing_is_sent(db):
    flow = running(keyed, "x" * (VALUE_MAX + 1))
    async with working(db, flow) as app:
        with pytest.raises(RunHeld, match="ValueRefused"):
            await (await app.start(flow, id="r")).result()
        assert str(VALUE_MAX) in (await hold(app, "r"))["detail"]
    assert target.requests == []


@played
async def test_an_oversized_result_of_a_workflow_holds_it_and_repeats_nothing(db):
    @workflow(name="large")
    async def large(run: Run) -> str:
        return await run.do(keyed("a")) * VALUE_MAX

    async with working(db, large) as app:
        with pytest.raises(RunHeld, match="result refused"):
            await (await app.start(large, id="r")).result()
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
    assert target.requests == ["a"]


@played
async def test_an_oversized_error_message_is_cut_and_the_run_is_readable(db):
    @compute(name="loud")
    async def loud(call: Call) -> str:
        raise ValueError("x" * VALUE_MAX)

    flow = running(loud)
    async with working(db, flow) as app:
        with pytest.raises(RunFailed) as failed:
            await (await app.start(flow, id="r")).result()
        assert len(str(failed.value)) < 10_000


@played
async def test_an_error_of_a_class_that_the_reader_lacks_keeps_its_name_message_and_traceback(db):
    class Unshared(Exception):
        pass

    @compute(name="failing")
    async def failing(call: Call) -> str:
        raise Unshared("the reason")

    seen = []

    @workflow(name="seeing")
    async def seeing(run: Run) -> str:
        try:
            return await run.do(failing())
        except StepFailed as error:
            seen.append(error.record)
            raise

    async with working(db, seeing) as app:
        with pytest.raises(RunFailed):
            await (await app.start(seeing, id="r")).result()
    record = seen[0]
    assert record.class_name.endswith("Unshared")
    assert (record.message, "raise Unshared" in record.traceback) == ("the reason", True)


@played
async def test_a_reference_that_cannot_be_read_does_not_hide_that_the_effect_happened(db):
    @effect(on_unknown="hold", retry=QUICK, name="referring", reference=lambda result: result["absent"])
    async def referring(call: Call) -> dict:
        target.requests.append("x")
        return {}

    @workflow(name="hostile")
    async def hostile(run: Run) -> dict:
        return await run.do(referring())

    async with working(db, hostile) as app:
        await app.start(hostile, id="r")
        await reaches(app, "r", RunState.HELD, RunState.SUCCEEDED)
        assert (await operation(app, "r", "referring")).state is OperationState.SUCCEEDED
    assert target.requests == ["x"]


@pytest.mark.parametrize("error", [Stop("x"), asyncio.CancelledError(), Awkward(1, 2)])
def test_a_look_up_that_raises_whatever_has_not_answered(db, error):
    async def look(call: Call) -> Found[str] | Absent:
        raise error

    @effect(reconcile=look, settle="1ms", attempt_timeout="30ms", retry=QUICK, name="looked")
    async def looked(call: Call) -> str:
        target.requests.append("x")
        raise OSError("lost")

    flow = running(looked)

    async def play() -> None:
        async with working(db, flow) as app:
            with pytest.raises(RunHeld, match="cannot tell"):
                await (await app.start(flow, id="r")).result(within="15s")

    asyncio.run(play())
    assert target.requests == ["x"]


@pytest.mark.parametrize("verdict", [True, None, ValueError("a fault")])
def test_a_policy_that_gives_no_verdict_lets_nothing_through(db, verdict):
    def policy(principal: str | None, *args: object) -> object:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    @effect(on_unknown="hold", retry=QUICK, name="guarded", policy=policy)
    async def guarded(call: Call) -> str:
        return await target.take(call, "guarded")

    flow = running(guarded)

    async def play() -> None:
        nonlocal verdict
        async with working(db, flow) as app:
            handle = await app.start(flow, id="r")
            with pytest.raises(RunHeld, match=r"PolicyFailed: the policy policy"):
                await handle.result()
            assert target.requests == []
            verdict = Allowed("mended")
            await verb(app, verbs.resume, "r")
            assert await handle.result() == "made guarded"

    asyncio.run(play())
    assert target.requests == ["guarded"]


@played
async def test_a_policys_refusal_reaches_the_workflow_and_is_recorded(db):
    @effect(
        on_unknown="hold",
        retry=QUICK,
        name="guarded",
        policy=lambda who, name: Refused("not this") if name == "b" else Allowed("fine"),
    )
    async def guarded(call: Call, name: str) -> str:
        return await target.take(call, name)

    @workflow(name="asking")
    async def asking(run: Run) -> str:
        await run.do(guarded("a"), item="a")
        try:
            await run.do(guarded("b"), item="b")
        except StepFailed as error:
            await run.wait("go", str)
            return error.record.message
        return "sent"

    async with working(db, asking) as app:
        await app.start(asking, id="r")
        await reaches(app, "r", RunState.WAITING)
        assert "not this" in ((await operation(app, "r", "guarded", "b")).policy or "")
    async with working(db, asking) as app:
        await app.signal("r", "go", "on")
        assert "not this" in await (await app.handle("r")).result()
    assert target.requests == ["a"]


# -- workflows --------------------------------------------------------------------------------------------------------


@played
async def test_a_workflow_that_catches_everything_leaves_memory_and_comes_back(db):
    @workflow(name="grasping")
    async def grasping(run: Run) -> str:
        while True:
            try:
                return await run.wait("word", str)
            except BaseException:  # noqa: BLE001 - what a user may write
                await run.do(once("in the handler"))

    async with working(db, grasping) as app:
        await app.start(grasping, id="r")
        await reaches(app, "r", RunState.WAITING)
        gc.collect()
        await app.signal("r", "word", "hello")
        assert await (await app.handle("r")).result() == "hello"
    assert target.requests == []


@played
async def test_a_workflow_that_awaits_something_foreign_is_held_and_nothing_is_sent(db):
    @workflow(name="foreign")
    async def foreign(run: Run) -> str:
        await asyncio.sleep(0.01)
        return await run.do(once("a"))

    async with working(db, foreign) as app:
        with pytest.raises(RunHeld, match="ForeignAwait"):
            await (await app.start(foreign, id="r")).result()
    assert target.requests == []


@played
async def test_a_workflow_that_reads_a_file_is_held_even_if_it_swallows_the_error(db):
    @workflow(name="reading")
    async def reading(run: Run) -> str:
        with suppress(Exception):
            open(__file__).close()  # noqa: PTH123, ASYNC230 - what a user may write
        return await run.do(once("a"))

    async with working(db, reading) as app:
        with pytest.raises(RunHeld, match="InputOutputInWorkflow"):
            await (await app.start(reading, id="r")).result()
    assert target.requests == []


@played
async def test_a_step_that_is_built_and_dropped_holds_the_run(db):
    @workflow(name="forgetful")
    async def forgetful(run: Run) -> str:
        once("forgotten")
        return await run.do(once("a"))

    async with working(db, forgetful) as app:
        with pytest.raises(RunHeld, match="Misuse"):
            await (await app.start(forgetful, id="r")).result()
    assert target.requests == []


@played
async def test_a_workflow_that_changes_its_mind_between_lives_is_held(db):
    world = {"mode": "a"}

    @workflow(name="moody")
    async def moody(run: Run) -> str:
        await run.do(once(world["mode"]))
        return await run.wait("word", str)

    async with working(db, moody) as app:
        await app.start(moody, id="r")
        await reaches(app, "r", RunState.WAITING)
        world["mode"] = "b"
        await app.signal("r", "word", "hello")
        with pytest.raises(RunHeld, match="HistoryMismatch"):
            await (await app.handle("r")).result()
    assert target.requests == ["a"]


@played
async def test_an_effect_met_again_while_a_lost_branch_is_still_sending_it_is_sent_once(db):
    gate = Gate()
    target.plan("x", gate)

    @workflow(name="returning")
    async def returning(run: Run) -> str:
        await run.race(run.do(once("x"), item="x"), run.wait("go", str))
        await run.sleep("1ms")
        return await run.do(once("x"), item="x")

    async with working(db, returning) as app:
        handle = await app.start(returning, id="r")
        await gate.reached.wait()
        await app.signal("r", "go", "on")
        await asyncio.sleep(0.2)
        gate.opened.set()
        assert await handle.result(within="10s") == "made x"
    assert target.requests == ["x"]


@played
async def test_a_key_effect_met_again_while_a_lost_branch_is_still_sending_it_is_sent_once(db):
    gate = Gate()
    target.plan("x", gate)

    @workflow(name="returning")
    async def returning(run: Run) -> str:
        await run.race(run.do(keyed("x"), item="x"), run.wait("go", str))
        await run.sleep("1ms")
        return await run.do(keyed("x"), item="x")

    async with working(db, returning) as app:
        handle = await app.start(returning, id="r")
        await gate.reached.wait()
        await app.signal("r", "go", "on")
        await asyncio.sleep(0.2)
        gate.opened.set()
        assert await handle.result(within="10s") == "made x"
    assert target.requests == ["x"]


@played
async def test_a_fault_in_one_branch_does_not_lose_what_another_one_is_sending(db):
    gate = Gate()
    target.plan("slow", gate)

    def policy(principal: str | None) -> object:
        raise ZeroDivisionError

    @effect(on_unknown="hold", retry=QUICK, name="faulty", policy=policy)
    async def faulty(call: Call) -> str:
        return "never"

    @workflow(name="two branches")
    async def two_branches(run: Run) -> None:
        await run.gather(run.do(faulty()), run.do(once("slow")))

    async with working(db, two_branches) as app:
        await app.start(two_branches, id="r")
        await gate.reached.wait()
        gate.opened.set()
        await reaches(app, "r", RunState.HELD)
        assert (await operation(app, "r", "once")).state is OperationState.SUCCEEDED


@played
async def test_a_thread_that_outlives_its_worker_says_what_it_saw(db):
    may_return = threading.Event()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="slow")
    def slow(call: SyncCall) -> str:
        may_return.wait(10)
        raise Awkward(1, 2)

    flow = running(slow)
    async with working(db, flow) as app:
        await app.start(flow, id="r")
        await reaches(app, "r", RunState.HELD)
        may_return.set()

        async def heard():
            return any("late" in seen.evidence for seen in (await operation(app, "r", "slow")).observations)

        await until(heard, "the thread's word")
        assert (await app.show("r")).run.state is RunState.HELD


@played
async def test_a_gather_whose_branches_failed_can_be_resumed_after_the_fault_is_mended(db):
    faulty = [True]

    @compute(name="computing")
    async def computing(call: Call, number: int) -> int:
        if faulty:
            raise ValueError(f"a fault in {number}")
        return number

    @workflow(name="gathering")
    async def gathering(run: Run) -> list[int]:
        return list(await run.gather(run.do(computing(1)), run.do(computing(2)), run.do(computing(3))))

    async with working(db, gathering) as app:
        handle = await app.start(gathering, id="r")
        with pytest.raises(RunFailed, match="a fault in 1"):
            await handle.result()
        faulty.clear()
        await verb(app, verbs.resume, "r")
        assert await handle.result(within="10s") == [1, 2, 3]
