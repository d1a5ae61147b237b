"""On which terms effects are compensated: by whom, under which policy, what rests on what, and across turns."""

import asyncio
import json

import pytest

from fencepost.core.errors import CompensationIncomplete, DeclarationError, Misuse, RunFailed, VerbRefused
from fencepost.core.records import VERDICT
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.effects.call import Call
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import effect
from fencepost.effects.policy import Allowed, Refused
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.late import Report, take_in
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Gate,
    expire,
    hold,
    keyed,
    once,
    operation,
    played,
    reaches,
    staying,
    target,
    undo,
    until,
    verb,
    working,
)  # fmt: skip


def on_terms(name, **terms):
    """An effect whose compensation is `undo`, on these terms."""

    @effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, name=name, reference=lambda _: name,
            compensate=Compensation(undo, **terms))  # fmt: skip
    async def body(call: Call, what: str) -> str:
        return await target.take(call, what, honours_keys=True)

    return body


def undone():
    return [name.removeprefix("undo ") for name in target.requests if name.startswith("undo ")]


async def report(app, run_id="r"):
    """What became of each effect, by the last compensation that is over."""
    steps = [step for step in (await app.show(run_id)).steps if step.kind == "compensate" and step.result]
    return {one["effect"]: one["outcome"] for one in json.loads(steps[-1].result)["effects"]}


# -- who may start it -------------------------------------------------------------------------------------------------

BY_PERSONS = on_terms("by persons", by={"operator"})
BY_CODE = on_terms("by code", by={"workflow"})
BY_FINANCE = on_terms("by finance", by={"finance"})


@workflow()
async def of_three_rights(run: Run) -> str:
    for one in (BY_PERSONS, BY_CODE, BY_FINANCE):
        await run.do(one(one.name))
    await run.compensate(reason="wrong")
    return "done"


@workflow()
async def of_finance(run: Run) -> str:
    return await run.do(BY_FINANCE("paid"))


@played
async def test_each_effect_is_compensated_by_whom_it_names_and_by_nobody_else(db):
    async with working(db, of_three_rights) as app:
        handle = await app.start(of_three_rights, id="r")
        with pytest.raises(CompensationIncomplete, match="1 of 3"):
            await handle.result()
        assert undone() == ["by code"]
        assert await report(app) == {
            "by finance": "not permitted", "by code": "compensated", "by persons": "not permitted",
        }  # fmt: skip
        await app.compensate("r", by="ann", reason="the rest")
        await until(lambda: undone() == ["by code", "by persons"], "the person's part")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        await app.compensate("r", by="flo", reason="the money", roles={"operator", "finance"})
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["by code", "by persons", "by finance"]


@played
async def test_a_person_who_may_start_none_of_it_is_refused_and_the_refusal_is_audited(db):
    async with working(db, of_finance) as app:
        await (await app.start(of_finance, id="r")).result()
        with pytest.raises(VerbRefused, match="by finance may be compensated by finance"):
            await app.compensate("r", by="ann", reason="wrong")
        [row] = app.store.audits("default", "r")
        assert (row.verb, row.outcome, row.actor) == ("compensate", "refused", "ann")
        assert (await app.show("r")).run.state is RunState.SUCCEEDED
    assert undone() == []


RESTORING = on_terms("restoring", restores=True)


@workflow()
async def restoring(run: Run) -> None:
    await run.do(RESTORING("a"))
    await run.do(BY_CODE("b"))
    await run.do(staying("c"))
    await run.compensate(reason="wrong")


@played
async def test_restored_is_said_of_what_is_declared_to_restore_and_of_nothing_else(db):
    async with working(db, restoring) as app:
        await (await app.start(restoring, id="r")).result()
        outcomes = {"restoring": "restored", "by code": "compensated", "staying": "stands as declared"}
        assert await report(app) == outcomes


# -- the policy -------------------------------------------------------------------------------------------------------

SHIPPED: set[str] = set()
ASKED: list[tuple[object, ...]] = []


def not_shipped(principal: str | None, what: str, result: str | None, reference: str | None) -> Allowed | Refused:
    """Whether an order may still be cancelled."""
    ASKED.append((principal, what, result, reference))
    if "mend me" in SHIPPED:
        raise LookupError("the warehouse is not there")
    return Refused("it is on its way to the customer") if what in SHIPPED else Allowed("still in the house")


ORDER = on_terms("order", policy=not_shipped)


@workflow()
async def ordering(run: Run) -> str:
    await run.do(ORDER("book"), item="book")
    await run.do(ORDER("lamp"), item="lamp")
    raise ValueError("no money")


@pytest.fixture(autouse=True)
def house():
    SHIPPED.clear()
    ASKED.clear()


@played
async def test_what_the_policy_refuses_is_not_sent_and_says_why_and_the_others_go_on(db):
    SHIPPED.add("lamp")
    async with working(db, ordering) as app:
        with pytest.raises(RunFailed):
            await (await app.start(ordering, id="r", on_behalf_of="kim")).result()
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        assert undone() == ["book"]
        refused = await operation(app, "r", "compensate order", "lamp")
        assert (refused.state, len(refused.attempts)) == (OperationState.FAILED, 0)
        assert json.loads(refused.policy) == {"verdict": "refused", "why": "it is on its way to the customer"}
        assert json.loads((await operation(app, "r", "compensate order", "book")).policy)["verdict"] == "allowed"
        assert (await report(app))["order[lamp]"] == "refused"
        assert ASKED[0] == ("kim", "lamp", "made lamp", "order")


@played
async def test_the_policy_is_asked_anew_when_somebody_tries_again_and_both_verdicts_are_kept(db):
    SHIPPED.add("lamp")
    async with working(db, ordering) as app:
        with pytest.raises(RunFailed):
            await (await app.start(ordering, id="r")).result()
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        SHIPPED.clear()
        await app.compensate("r", by="ann", reason="it came back")
        await reaches(app, "r", RunState.COMPENSATED)
        came = await operation(app, "r", "compensate order", "lamp")
        assert [json.loads(seen.evidence)["verdict"] for seen in came.observations if seen.kind == VERDICT] == [
            "allowed"
        ]
        assert json.loads(came.policy)["verdict"] == "allowed"
        assert not (await app.check()).found
    assert undone() == ["book", "lamp"]


@played
async def test_a_policy_that_fails_holds_the_run_and_is_asked_again_once_it_is_mended(db):
    SHIPPED.add("mend me")
    async with working(db, ordering) as app:
        with pytest.raises(RunFailed):
            await (await app.start(ordering, id="r")).result()
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "PolicyFailed"
        assert undone() == []
        SHIPPED.clear()
        await app.resume("r", by="ann", reason="mended")
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["lamp", "book"]


# -- what rests on what -----------------------------------------------------------------------------------------------

RESERVE = on_terms("reserve")
PAY = on_terms("pay")
SHIP = on_terms("ship")
CAREFREE = on_terms("carefree", on_failure="go on")


@workflow()
async def resting(run: Run) -> str:
    """The reservation is answered last, and yet two effects rest on it."""

    async def paid() -> None:
        await run.do(PAY("pay"), after=[(RESERVE, "seat")])

    async def shipped() -> None:
        await run.do(SHIP("ship"), after=[PAY])

    await run.gather(run.do(RESERVE("reserve"), item="seat"), paid(), shipped(), run.do(keyed("alone")))
    raise ValueError("wrong")


@workflow()
async def resting_without_care(run: Run) -> str:
    await run.do(RESERVE("reserve"))
    await run.do(CAREFREE("carefree"), after=[RESERVE])
    raise ValueError("wrong")


@played
async def test_a_person_compensates_in_the_order_of_resting_without_any_memory_of_the_workflow(db):
    gate = Gate()
    target.plan("reserve", gate)
    async with working(db, resting) as app:
        handle = await app.start(resting, id="r")
        await until(lambda: len(target.objects) == 3, "the others to be done")
        gate.opened.set()
        with pytest.raises(RunFailed):
            await handle.result()
        assert (await operation(app, "r", "pay")).after == (("reserve", "seat"),)
    async with working(db, resting) as app:
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.COMPENSATED)
    order = undone()
    assert sorted(order) == ["alone", "pay", "reserve", "ship"]
    assert order.index("ship") < order.index("pay") < order.index("reserve")


@played
async def test_what_a_failed_compensation_rests_on_is_held_back_and_what_is_independent_goes_on(db):
    target.plan("undo ship", "refuse")
    async with working(db, resting) as app:
        with pytest.raises(RunFailed):
            await (await app.start(resting, id="r")).result()
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        assert undone() == ["alone"]
        assert await report(app) == {
            "ship": "failed", "pay": "held back", "reserve[seat]": "held back", "keyed": "compensated",
        }  # fmt: skip
        await app.compensate("r", by="ann", reason="mended")
        await reaches(app, "r", RunState.COMPENSATED)
        assert not (await app.check()).found
    assert undone() == ["alone", "ship", "pay", "reserve"]


@played
async def test_an_effect_may_say_that_what_it_rests_on_goes_on_without_it(db):
    target.plan("undo carefree", "refuse")
    async with working(db, resting_without_care) as app:
        with pytest.raises(RunFailed):
            await (await app.start(resting_without_care, id="r")).result()
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
    assert undone() == ["reserve"]


# -- the declared policy ----------------------------------------------------------------------------------------------


@workflow(on_failure="compensate")
async def tidy(run: Run) -> str:
    await run.do(keyed("first"))
    await run.do(once("second"))
    await run.do(once("third"), item="3")
    return "done"


@workflow(on_failure="compensate")
async def tidy_by_code(run: Run) -> str:
    await run.do(BY_PERSONS("persons"))
    await run.do(keyed("first"))
    raise ValueError("a fault of the code")


@played
async def test_a_workflow_that_declares_it_is_compensated_when_its_code_raises_and_ends_with_its_error(db):
    target.plan("third", "refuse")
    async with working(db, tidy) as app:
        handle = await app.start(tidy, id="r")
        with pytest.raises(RunFailed, match="NotSent"):
            await handle.result()
        history = await app.show("r")
        assert history.run.state is RunState.COMPENSATED
        assert "NotSent" in (history.run.error or "")
    assert undone() == ["second", "first"]


@played
async def test_a_declared_compensation_is_the_workflows_and_stops_at_what_only_persons_may_start(db):
    async with working(db, tidy_by_code) as app:
        with pytest.raises(CompensationIncomplete):
            await (await app.start(tidy_by_code, id="r")).result()
        assert (await app.show("r")).run.state is RunState.PARTLY_COMPENSATED
        assert undone() == ["first"]
        await app.compensate("r", by="ann", reason="the rest")
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["first", "persons"]


@played
async def test_a_declared_compensation_goes_on_where_a_crash_or_a_hold_has_left_it(db):
    gate = Gate()
    target.plan("third", "refuse")
    target.plan("undo second", gate)
    async with working(db, tidy) as lost:
        await lost.start(tidy, id="r")
        await gate.reached.wait()
        expire(lost)
        async with working(db, tidy) as heir:
            await reaches(heir, "r", RunState.HELD)
            gate.opened.set()
            await reaches(heir, "r", RunState.COMPENSATED)
            assert not (await heir.check()).found
    assert undone() == ["second", "first"]


MENDED: set[str] = set()


@workflow(on_failure="compensate")
async def mended(run: Run) -> str:
    await run.do(once("first"))
    if run.id not in MENDED:
        raise ValueError("a fault of the code")
    return await run.do(once("second"), item="2")


@played
async def test_a_run_that_goes_back_is_held_before_changed_code_could_go_on_from_what_was_undone(db):
    MENDED.clear()  # this story is played more than once
    target.plan("undo first", "lose")
    async with working(db, mended) as app:
        await app.start(mended, id="r")
        await reaches(app, "r", RunState.HELD)
        MENDED.add("r")
        await app.settle("r", "compensate once", happened=True, by="ann", reason="seen", result='"x"')
        await reaches(app, "r", RunState.HELD)
        await until(lambda: _reason(app), "it to be held for its code")
        await app.compensate("r", by="ann", reason="by hand")
        await reaches(app, "r", RunState.COMPENSATED)
        assert not (await app.check()).found
    assert target.requests == ["first", "undo first"]


async def _reason(app) -> bool:
    return (await hold(app, "r")).get("reason") == "HistoryMismatch"


@played
async def test_without_the_declaration_nothing_is_compensated_by_itself(db):
    async with working(db, ordering) as app:
        with pytest.raises(RunFailed):
            await (await app.start(ordering, id="r")).result()
        assert (await app.show("r")).run.state is RunState.FAILED
    assert undone() == []


# -- the turns of before ----------------------------------------------------------------------------------------------


@workflow()
async def page_by_page(run: Run, number: int) -> str:
    await run.do(keyed(f"a{number}"), item="a")
    await run.do(keyed(f"b{number}"), item="b")
    if number < 2:
        return run.continue_as(number + 1)
    await run.do(staying("last"))
    await run.compensate(reason="wrong")
    return "done"


@workflow()
async def turning(run: Run, number: int) -> str:
    await run.do(keyed(f"t{number}"))
    return run.continue_as(number + 1) if number < 2 else "done"


@workflow()
async def above(run: Run, number: int) -> str:
    await run.child(turning, 0, id=f"child {number}")
    return run.continue_as(number + 1) if number < 1 else "done"


@played
async def test_the_effects_of_every_turn_are_compensated_the_last_turn_first_each_once(db):
    async with working(db, page_by_page) as app:
        handle = await app.start(page_by_page, 0, id="r")
        assert await handle.result() == "done"
        history = await app.show("r")
        assert history.run.state is RunState.COMPENSATED
        rows = {one.compensates: one.step for one in history.operations if one.compensates}
        assert rows["turn 1 keyed[b]"] == "compensate turn 1 keyed"
        assert len({one.key for one in history.operations}) == len(history.operations)
        assert not (await app.check()).found
    assert undone() == ["b2", "a2", "b1", "a1", "b0", "a0"]


@played
async def test_a_person_compensates_all_turns_of_a_run_and_tries_only_what_failed_again(db):
    target.plan("undo t1", "refuse")
    async with working(db, turning) as app:
        assert await (await app.start(turning, 0, id="r")).result() == "done"
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        assert undone() == ["t2", "t0"]
        await app.compensate("r", by="ann", reason="again")
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["t2", "t0", "t1"]


@played
async def test_children_of_earlier_turns_and_the_turns_of_children_are_compensated_too(db):
    async with working(db, above, turning) as app:
        assert await (await app.start(above, 0, id="r")).result() == "done"
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.COMPENSATED)
        assert not (await app.check()).found
    assert undone() == ["t2", "t1", "t0", "t2", "t1", "t0"]


@played
async def test_a_late_conflict_of_an_earlier_turn_stops_the_compensation_until_it_is_settled_there(db):
    async with working(db, turning) as app:
        assert await (await app.start(turning, 0, id="r")).result() == "done"
        earlier = app.store.turn("default", "r", 1)
        late = Report(earlier.no, "keyed", 1, Outcome.NOT_APPLIED, '{"kind":"late"}', 1)
        await asyncio.to_thread(take_in, app.store, late, keyed.contract)
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert (held["reason"], held["step"]) == ("conflicting evidence", "turn 1 keyed")
        assert undone() == []
        with pytest.raises(Misuse, match="no turn 7"):
            await app.settle_conflict("r", "keyed", happened=True, by="ann", reason="one is there", turn=7)
        with pytest.raises(VerbRefused, match="in no conflict"):
            await app.settle_conflict("r", "keyed", happened=True, by="ann", reason="one is there")
        await app.settle_conflict(
            "r", "keyed", happened=True, by="ann", reason="one is there", result='"made t1"', turn=1
        )
        await app.resume("r", by="ann", reason="settled")
        await reaches(app, "r", RunState.COMPENSATED)
        assert not (await app.check()).found
    assert undone() == ["t2", "t1", "t0"]


# -- reopening --------------------------------------------------------------------------------------------------------


@played
async def test_what_was_compensated_is_not_reopened_since_what_it_recorded_stands_no_more(db):
    target.plan("undo t1", "refuse")
    async with working(db, turning) as app:
        await (await app.start(turning, 2, id="whole")).result()
        await (await app.start(turning, 1, id="part")).result()
        for name, state in (("whole", RunState.COMPENSATED), ("part", RunState.PARTLY_COMPENSATED)):
            await app.compensate(name, by="ann", reason="wrong")
            await reaches(app, name, state)
            with pytest.raises(VerbRefused, match="would go on as if they stood"):
                await app.reopen(name, by="ann", reason="once more")


@played
async def test_a_run_ended_in_the_middle_of_its_compensation_goes_on_going_back_when_it_is_reopened(db):
    target.plan("undo second", "lose")
    async with working(db, tidy) as app:
        assert await (await app.start(tidy, id="r")).result() == "done"
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.HELD)
        await app.terminate("r", by="ann", reason="enough")
        await app.reopen("r", by="ann", reason="no, go on")
        await reaches(app, "r", RunState.HELD)
        await verb(app, verbs.settle, "r", step="compensate once", happened=True, result='"x"')
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["third", "second", "first"]
    assert [name for name in target.requests if not name.startswith("undo")] == ["first", "second", "third"]


# -- declarations -----------------------------------------------------------------------------------------------------


def test_terms_that_cannot_be_meant_are_refused_where_they_are_declared():
    for terms in ({"by": set()}, {"by": "operator"}, {"on_failure": "stop"}):
        with pytest.raises(DeclarationError):
            Compensation(undo, **terms)
    with pytest.raises(DeclarationError, match="restores"):
        effect(compensate=Compensation(undo), restores=True)
    with pytest.raises(DeclarationError, match="no effect"):
        effect(compensate=Compensation(not_shipped))
    with pytest.raises(DeclarationError, match="on_failure"):
        workflow(on_failure="retry")


@played
async def test_what_an_effect_rests_on_is_an_effect(db):
    @workflow(name="resting on a text")
    async def wrong(run: Run) -> str:
        return await run.do(keyed("x"), after=["reserve"])

    async with working(db, wrong) as app:
        with pytest.raises(RunFailed, match="no effect"):
            await (await app.start(wrong, id="r")).result()
    assert target.requests == []
