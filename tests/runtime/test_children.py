"""Child runs: begun in their parent's commit, answered at a recorded position, cancelled and compensated with it."""

import pytest

from fencepost.core.errors import Cancelled, ChildFailed, RunCancelled, RunFailed, RunHeld
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import compute
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, expire, hold, keyed, once, played, reaches, target, until, verb, working


@workflow()
async def leaf(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow()
async def held_leaf(run: Run, name: str) -> str:
    return await run.do(once(name))


@workflow()
async def five(run: Run) -> None:
    """C13: five effects, one after the other."""
    for number in range(5):
        await run.do(keyed(f"tool {number}"), item=str(number))


@workflow()
async def waiting(run: Run, name: str) -> str:
    await run.do(keyed(name))
    return await run.wait("answer", str)


@workflow()
async def two_leaves(run: Run) -> list[str]:
    first = await run.child(leaf, "one", id="leaf one")
    second = await run.child(leaf, "two", id="leaf two")
    return [first, second]


@workflow()
async def with_five(run: Run) -> str:
    await run.child(five, id="five")
    await run.do(keyed("after"))
    return "done"


MENDED = [False]


@compute()
async def check(call: Call) -> None:
    if not MENDED[0]:
        raise ValueError("not mended yet")


@workflow()
async def failing(run: Run) -> str:
    await run.do(keyed("before"))
    await run.do(check())
    return "mended"


@workflow()
async def with_failing(run: Run) -> str:
    return await run.child(failing, id="failing")


@workflow()
async def catching(run: Run) -> str:
    try:
        return await run.child(failing, id="failing")
    except ChildFailed as error:
        return f"{error.child}: {error.record.class_name}: {error.ids['step']}"


@workflow()
async def beside(run: Run) -> str:
    """An effect that is asked for while a child's effect is unknown."""

    async def after_go() -> str:
        await run.wait("go", str)
        return await run.do(keyed("mine"))

    return (await run.gather(run.child(held_leaf, "theirs", id="held"), after_go()))[1]


@workflow()
async def racing(run: Run) -> str:
    async def soon() -> str:
        return await run.wait("enough", str)

    return (await run.race(run.child(waiting, "slow", id="slow"), soon()))[1]


@workflow()
async def undoing(run: Run) -> str:
    await run.do(keyed("first"), item="1")
    await run.child(leaf, "second", id="second")
    await run.do(keyed("third"), item="3")
    await run.child(check_only, id="no effects")
    await run.compensate(reason="all of it")
    return "undone"


@workflow()
async def check_only(run: Run) -> None:
    run.uuid()


@workflow()
async def aside(run: Run) -> str:
    return await run.child(waiting, "aside", id="aside", detached=True)


@workflow()
async def same_id(run: Run) -> None:
    await run.child(leaf, "one", id="taken")


async def begins(app: App, run_id: str, *states: RunState) -> None:
    """Wait until there is such a run, in one of these states."""

    def there() -> bool:
        run = app.store.find("default", run_id)
        return run is not None and run.state in states

    await until(there, f"{run_id} to be {' or '.join(states)}")


@played
async def test_a_childs_result_is_the_answer_of_its_parent(db: str) -> None:
    async with working(db, leaf, two_leaves) as app:
        handle = await app.start(two_leaves, id="parent", on_behalf_of="ann")
        assert await handle.result(within="20s") == ["made one", "made two"]
        parent, child = (await app.show("parent")), (await app.show("leaf one")).run
    assert target.objects == ["one", "two"]
    assert (child.parent, child.parent_step, child.principal) == (parent.run.no, "/leaf", "ann")
    assert [(step.position, step.kind, step.state) for step in parent.steps] == [
        ("/leaf", "child", "done"),
        ("/leaf#2", "child", "done"),
    ]


@played
async def test_a_child_that_another_worker_ends_wakes_its_parent_by_its_row(db: str) -> None:
    async with working(db, two_leaves, leaf) as here:
        target.plan("one", Gate())
        gate = target.script["one"][0]
        await here.start(two_leaves, id="parent")
        await gate.reached.wait()
        await until(lambda: here.store.find("default", "parent").state is RunState.WAITING, "the parent to wait")
        assert here.store.find("default", "parent").wake_at is None, "nothing but the child's end wakes it"
        gate.opened.set()
        await reaches(here, "parent", RunState.SUCCEEDED)


@played
async def test_a_failed_child_fails_its_parent_and_both_go_on_when_they_are_resumed(db: str) -> None:
    MENDED[0] = False
    async with working(db, failing, with_failing) as app:
        handle = await app.start(with_failing, id="parent")
        with pytest.raises(RunFailed, match="not mended yet"):
            await handle.result(within="20s")
        MENDED[0] = True
        await verb(app, verbs.resume, "failing")
        await reaches(app, "failing", RunState.SUCCEEDED)
        await verb(app, verbs.resume, "parent")
        assert await handle.result(within="20s") == "mended"
    assert target.objects == ["before"]


@played
async def test_the_parent_may_catch_what_its_child_ended_with(db: str) -> None:
    MENDED[0] = False
    async with working(db, failing, catching) as app:
        handle = await app.start(catching, id="parent")
        assert await handle.result(within="20s") == "failing: ValueError: /failing"


@played
async def test_c13_cancelling_the_parent_cancels_the_child_and_nothing_of_it_begins_any_more(db: str) -> None:
    gate = Gate()
    target.plan("tool 0", gate)
    async with working(db, five, with_five) as app:
        handle = await app.start(with_five, id="parent")
        await gate.reached.wait()
        await verb(app, verbs.cancel, "parent")
        await reaches(app, "five", RunState.CANCELLING)
        assert (await app.show("parent")).run.state is RunState.CANCELLING, "the child has something in flight"
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result(within="20s")
        assert (await app.show("five")).run.state is RunState.CANCELLED
        [row] = [row for row in app.store.audits("default", "five") if row.verb == "cancel"]
    assert target.objects == ["tool 0"]
    assert row.actor == "run parent"


@played
async def test_a_parent_is_not_cancelled_before_its_childs_effects_are_known(db: str) -> None:
    target.plan("theirs", "lose")
    async with working(db, held_leaf, beside) as app:
        await app.start(beside, id="parent")
        await begins(app, "held", RunState.HELD)
        await verb(app, verbs.cancel, "parent")
        await reaches(app, "parent", RunState.CANCELLING)
        await begins(app, "held", RunState.CANCELLING, RunState.HELD)
        await until(lambda: app.store.find("default", "held").cancel, "the cancel to reach the child")
        await begins(app, "held", RunState.HELD)
        assert (await app.show("parent")).run.state is RunState.CANCELLING
        await verb(app, verbs.settle, "held", step="once", happened=True, result='"made theirs"')
        await begins(app, "held", RunState.CANCELLED)
        await reaches(app, "parent", RunState.CANCELLED)
    assert target.objects == ["theirs"]


@played
async def test_law_3_no_effect_of_the_parent_begins_while_one_of_its_child_is_unknown(db: str) -> None:
    target.plan("theirs", "lose")
    async with working(db, held_leaf, beside) as app:
        handle = await app.start(beside, id="parent")
        await begins(app, "held", RunState.HELD)
        await app.signal("parent", "go", "now")

        async def is_waiting() -> bool:
            run = (await app.show("parent")).run
            return run.state is RunState.WAITING and run.wake_at is not None

        await until(is_waiting, "the parent to give way")
        assert target.requests == ["theirs"]
        await verb(app, verbs.settle, "held", step="once", happened=True, result='"made theirs"')
        assert await handle.result(within="20s") == "made mine"
    assert target.objects == ["theirs", "mine"]


@played
async def test_law_3_holds_where_the_childs_effect_becomes_unknown_after_its_parent_has_asked(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.plan("theirs", "lose")
    asked: list[list[str]] = []
    async with working(db, held_leaf, beside) as app:
        looks = app.store.unknown_below

        def too_early(run: int) -> list[str]:
            """The first answer is from before the child's effect was lost."""
            asked.append(looks(run))
            return asked[-1] if len(asked) > 1 else []

        monkeypatch.setattr(app.store, "unknown_below", too_early)
        handle = await app.start(beside, id="parent")
        await begins(app, "held", RunState.HELD)
        await app.signal("parent", "go", "now")
        await until(lambda: len(asked) > 1, "the parent to ask again")
        assert asked[0], "the first one was wrong"
        assert target.requests == ["theirs"]
        await verb(app, verbs.settle, "held", step="once", happened=True, result='"made theirs"')
        assert await handle.result(within="20s") == "made mine"
    assert target.objects == ["theirs", "mine"]


@played
async def test_the_child_of_a_lost_branch_is_cancelled_and_its_parent_ends_after_it(db: str) -> None:
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, waiting, racing) as app:
        handle = await app.start(racing, id="parent")
        await gate.reached.wait()
        await app.signal("parent", "enough", "won")
        await begins(app, "slow", RunState.CANCELLING)
        assert (await app.show("parent")).run.state in (RunState.RUNNING, RunState.WAITING)
        gate.opened.set()
        assert await handle.result(within="20s") == "won"
        assert (await app.show("slow")).run.state is RunState.CANCELLED


@played
async def test_f3_compensation_takes_the_child_in_its_place_the_last_one_first(db: str) -> None:
    async with working(db, leaf, check_only, undoing) as app:
        handle = await app.start(undoing, id="parent")
        assert await handle.result(within="20s") == "undone"
        assert (await app.show("second")).run.state is RunState.COMPENSATED
        assert (await app.show("parent")).run.state is RunState.COMPENSATED
        assert (await app.show("no effects")).run.state is RunState.SUCCEEDED
    assert target.objects == ["first", "second", "third", "undo third", "undo second", "undo first"]


@played
async def test_a_childs_compensation_that_fails_is_no_clean_end_of_its_parent(db: str) -> None:
    target.plan("undo second", "refuse")
    async with working(db, leaf, check_only, undoing) as app:
        await app.start(undoing, id="parent")
        await reaches(app, "parent", RunState.PARTLY_COMPENSATED)
        assert (await app.show("second")).run.state is RunState.COMPENSATION_FAILED
    assert target.objects == ["first", "second", "third", "undo third", "undo first"]


@played
async def test_a_person_compensates_the_parent_and_its_child(db: str) -> None:
    async with working(db, leaf, two_leaves) as app:
        handle = await app.start(two_leaves, id="parent")
        await handle.result(within="20s")
        await verb(app, verbs.compensate, "parent")
        await reaches(app, "parent", RunState.COMPENSATED)
        assert (await app.show("leaf one")).run.state is RunState.COMPENSATED
    assert target.objects == ["one", "two", "undo two", "undo one"]


@played
async def test_a_detached_child_goes_on_by_itself_and_is_listed_as_such(db: str) -> None:
    async with working(db, waiting, aside) as app:
        handle = await app.start(aside, id="parent")
        assert await handle.result(within="20s") == "aside"
        [child] = app.store.children((await app.show("parent")).run.no)
        assert (child.id, child.parent_step) == ("aside", None)
        await app.signal("aside", "answer", "yes")
        await reaches(app, "aside", RunState.SUCCEEDED)


APPS: list[App] = []


@compute()
async def begin_elsewhere(call: Call) -> str:
    return (await APPS[0].start(leaf, "elsewhere", id="elsewhere")).id


@workflow()
async def beginning(run: Run) -> str:
    return await run.do(begin_elsewhere())


@played
async def test_a_run_that_a_step_starts_is_listed_as_a_detached_child(db: str) -> None:
    async with working(db, leaf, beginning) as app:
        APPS[:] = [app]
        await (await app.start(beginning, id="parent")).result(within="20s")
        [child] = app.store.children((await app.show("parent")).run.no)
        assert (child.id, child.parent_step) == ("elsewhere", None)
        alone = await app.start(leaf, "alone", id="alone")
        assert (await app.show(alone.id)).run.parent is None


@played
async def test_an_id_that_another_run_has_holds_the_parent_before_anything_begins(db: str) -> None:
    async with working(db, leaf, same_id) as app:
        await (await app.start(leaf, "elsewhere", id="taken")).result(within="20s")
        with pytest.raises(RunHeld, match="ChildRefused"):
            await (await app.start(same_id, id="parent")).result(within="20s")
        assert (await hold(app, "parent"))["step"] == "/leaf"
    assert target.objects == ["elsewhere"]


@played
async def test_terminating_the_parent_cancels_its_children(db: str) -> None:
    async with working(db, waiting, racing) as app:
        await app.start(racing, id="parent")
        await begins(app, "slow", RunState.WAITING)
        await reaches(app, "parent", RunState.WAITING)
        waits = Selection(state="waiting", prefix="parent")
        (would,) = await app.bulk("terminate", waits, dry_run=True, by="ann", reason="she says so")
        assert would.moves == ("child run slow: waiting -> cancelling",)
        await verb(app, verbs.terminate, "parent")
        await begins(app, "slow", RunState.CANCELLED)
        assert (await app.show("parent")).run.state is RunState.TERMINATED
        done = next(row for row in await app.audit(run="parent") if row.verb == "terminate")
        assert '"run":"terminated"' in done.after
        assert not (await app.check()).found


@played
async def test_a_terminated_child_is_a_failure_of_its_parent(db: str) -> None:
    async with working(db, waiting, racing) as app:
        handle = await app.start(racing, id="parent")
        await begins(app, "slow", RunState.WAITING)
        await verb(app, verbs.terminate, "slow")
        with pytest.raises(RunFailed, match="a person ended the run"):
            await handle.result(within="20s")


@played
async def test_a_worker_that_is_lost_with_parent_and_child_leaves_one_child_and_its_effects_once(db: str) -> None:
    gate = Gate()
    target.plan("two", gate)
    async with working(db, leaf, two_leaves) as lost:
        await lost.start(two_leaves, id="parent")
        await gate.reached.wait()
        expire(lost)
        async with working(db, leaf, two_leaves) as heir:
            await reaches(heir, "parent", RunState.SUCCEEDED)
            assert sorted(run.id for run in await heir.runs()) == ["leaf one", "leaf two", "parent"]
        gate.opened.set()
    assert sorted(target.objects) == ["one", "two"]


def test_a_workflow_that_lets_its_cancel_through_is_told_of_it_by_no_other_name() -> None:
    assert not issubclass(ChildFailed, Cancelled)
