"""Forward recovery: what failed is done the other way that is declared, once, and never where the run goes back too."""

from contextlib import suppress

import pytest

from fencepost.cli.offers import Place, offers
from fencepost.console.story import story
from fencepost.core.contract import Retry
from fencepost.core.errors import DeclarationError, RunFailed, StepFailed, VerbRefused
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.policy import Refused
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.applicable import verbs_for
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
    target,
    undo,
    until,
    working,
)  # fmt: skip

ONCE = Retry(attempts=1, within="1m")


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=undo)
async def transfer(call: Call, name: str) -> str:
    """The other way."""
    return await target.take(call, f"transfer {name}", honours_keys=True)


@effect(on_unknown="hold", retry=ONCE, compensate=undo, forward=transfer)
async def pay(call: Call, name: str) -> str:
    """What is tried first."""
    return await target.take(call, name)


@effect(on_unknown="hold", retry=ONCE, name="never", policy=lambda principal, name: Refused("not on this account"))
async def never(call: Call, name: str) -> str:
    return await target.take(call, name)


@effect(on_unknown="hold", retry=ONCE, name="barely", forward=never)
async def barely(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def paying(run: Run) -> list[str]:
    first = await run.do(keyed("order"))
    paid = await run.do(pay("pay"), item="1", after=[keyed])
    return [first, paid, await run.do(once("mail"))]


@workflow()
async def paying_barely(run: Run) -> str:
    try:
        return await run.do(barely("pay"))
    except StepFailed as error:
        return f"failed: {error.record.message}"


@workflow()
async def by_code(run: Run) -> str:
    await run.do(keyed("order"))
    try:
        return await run.do(pay("pay"))
    except StepFailed:
        return await run.forward(pay("pay"))


@workflow()
async def by_code_and_back(run: Run) -> str:
    await run.do(keyed("order"))
    try:
        return await run.do(pay("pay"))
    except StepFailed:
        await run.compensate(reason="no money")
        return await run.forward(pay("pay"))


@workflow()
async def by_code_too_early(run: Run) -> str:
    return await run.forward(pay("pay"))


@workflow()
async def by_code_after_all(run: Run) -> str:
    await run.do(pay("pay"))
    return await run.forward(pay("pay"))


# -- a person ---------------------------------------------------------------------------------------------------------


@played
async def test_a_person_has_a_held_step_done_another_way_and_the_workflow_goes_on_with_that_answer(db):
    target.plan("pay", "busy")
    async with working(db, paying) as app:
        handle = await app.start(paying, id="r")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["forward"] == "transfer"
        await app.forward("r", "pay", item="1", by="ann", reason="the card is blocked")
        assert await handle.result() == ["made order", "made transfer pay", "made mail"]
        other = await operation(app, "r", "instead of pay", "1")
        assert (other.state, other.after) == (OperationState.SUCCEEDED, (("keyed", None),))
        [row] = app.store.audits("default", "r")
        assert (row.verb, row.outcome, row.step, row.item) == ("forward", "done", "pay", "1")
        assert not (await app.check()).found
    assert target.requests == ["order", "transfer pay", "mail"]


@played
async def test_a_failed_run_goes_on_from_what_was_done_another_way(db):
    target.plan("pay", "refuse")
    async with working(db, paying) as app:
        handle = await app.start(paying, id="r")
        with pytest.raises(RunFailed):
            await handle.result()
        await app.forward("r", "pay", item="1", by="ann", reason="the card is blocked")
        assert await handle.result() == ["made order", "made transfer pay", "made mail"]
        assert not (await app.check()).found
    assert target.requests == ["order", "transfer pay", "mail"]


@played
async def test_whoever_takes_over_does_it_the_other_way_once(db):
    gate = Gate()
    target.plan("pay", "busy")
    target.plan("transfer pay", gate)
    async with working(db, paying) as lost:
        await lost.start(paying, id="r")
        await reaches(lost, "r", RunState.HELD)
        await lost.forward("r", "pay", item="1", by="ann", reason="blocked")
        await gate.reached.wait()
        expire(lost)
        async with working(db, paying) as heir:
            result = await (await heir.handle("r")).result(within="20s")
            assert result[1] == "made transfer pay"
            gate.opened.set()
    await until(lambda: target.requests.count("transfer pay") == 2, "the heir's request")
    assert target.objects.count("transfer pay") == 1


@played
async def test_what_was_done_another_way_is_compensated_in_its_place(db):
    target.plan("pay", "busy")
    async with working(db, paying) as app:
        handle = await app.start(paying, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.forward("r", "pay", item="1", by="ann", reason="blocked")
        await handle.result()
        target.plan("undo pay", "refuse")
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        assert target.requests[3:] == ["undo mail"]
        await app.compensate("r", by="ann", reason="again")
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.requests[3:] == ["undo mail", "undo pay", "undo order"]


@played
async def test_a_run_that_goes_back_does_not_go_forward_nor_is_a_step_that_goes_forward_tried_again(db):
    target.plan("pay", "busy")
    target.plan("undo order", "lose")
    async with working(db, paying) as app:
        await app.start(paying, id="back")
        await reaches(app, "back", RunState.HELD)
        await app.compensate("back", by="ann", reason="wrong")
        await until(lambda: "undo order" in target.requests, "it to go back")
        await reaches(app, "back", RunState.HELD)
        with pytest.raises(VerbRefused, match="begun to go back"):
            await app.forward("back", "pay", item="1", by="ann", reason="no, forward")
        target.plan("pay", "busy")
        target.plan("transfer pay", "busy", "busy", "busy")
        await app.start(paying, id="on")
        await reaches(app, "on", RunState.HELD)
        await app.forward("on", "pay", item="1", by="ann", reason="blocked")
        await until(lambda: not target.script["transfer pay"], "the other way to fail")
        await reaches(app, "on", RunState.HELD)
        for again in (app.forward, app.retry):
            with pytest.raises(VerbRefused, match="another way was chosen"):
                await again("on", "pay", item="1", by="ann", reason="again")
        await app.retry("on", "instead of pay", item="1", by="ann", reason="it may go now")
        assert await (await app.handle("on")).result() == ["made order", "made transfer pay", "made mail"]
    assert "pay" not in target.requests


@played
async def test_nothing_is_done_another_way_while_it_is_unknown_or_was_done_or_declares_none(db):
    target.plan("pay", "lose")
    async with working(db, paying) as app:
        await app.start(paying, id="r")
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(VerbRefused, match="is unknown"):
            await app.forward("r", "pay", item="1", by="ann", reason="blocked")
        with pytest.raises(VerbRefused, match="is succeeded"):
            await app.forward("r", "keyed", by="ann", reason="blocked")
    assert target.requests == ["order", "pay"]


@played
async def test_the_other_way_may_be_refused_by_its_own_policy_and_then_the_workflow_hears_of_that(db):
    target.plan("pay", "busy")
    async with working(db, paying_barely) as app:
        handle = await app.start(paying_barely, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.forward("r", "barely", by="ann", reason="blocked")
        assert await handle.result() == "failed: refused by policy: not on this account"
        assert not (await app.check()).found
    assert target.requests == []


@workflow()
async def paying_and_waiting(run: Run) -> list[str]:
    paid = await run.do(pay("pay"))
    word = await run.wait("word", str)
    return [paid, word, await run.do(once("mail"))]


@pytest.mark.parametrize("lost", ["busy", "refuse"])
@played
async def test_a_later_life_is_told_the_same_of_what_was_done_another_way(db, lost):
    target.plan("pay", lost)
    async with working(db, paying_and_waiting) as app:
        await app.start(paying_and_waiting, id="r")
        await reaches(app, "r", RunState.HELD, RunState.FAILED)
        await app.forward("r", "pay", by="ann", reason="blocked")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, paying_and_waiting) as app:
        await app.signal("r", "word", "go")
        assert await (await app.handle("r")).result() == ["made transfer pay", "go", "made mail"]
        assert not (await app.check()).found
    assert target.requests == ["transfer pay", "mail"]


@workflow()
async def paying_twice(run: Run) -> str:
    await run.do(keyed("order"))
    with suppress(StepFailed):
        await run.do(pay("first"), item="1")
    return await run.do(pay("pay"), item="2")


@workflow()
async def paying_in_its_own_words(run: Run) -> str:
    try:
        return await run.do(pay("pay"), item="2")
    except StepFailed:
        raise ValueError("no money") from None


@pytest.mark.parametrize("code", [paying_twice, paying_in_its_own_words])
@played
async def test_what_a_run_has_failed_of_is_offered_to_be_done_another_way_and_nothing_else_is(db, code):
    target.plan("first", "refuse")
    target.plan("pay", "refuse")
    async with working(db, code) as app:
        handle = await app.start(code, id="r")
        await reaches(app, "r", RunState.FAILED)
        failed = await app.show("r")
        assert "forward" in verbs_for(failed)
        lines = list(offers(story(failed, [], []), Place()))
        assert [line for line in lines if "forward" in line] == [
            "  fencepost forward r pay --item 2 --reason TEXT --app MODULE:APP"
        ]
        if code is paying_twice:
            with pytest.raises(VerbRefused, match="not what the run failed of"):
                await app.forward("r", "pay", item="1", by="ann", reason="blocked")
        await app.forward("r", "pay", item="2", by="ann", reason="blocked")
        assert await handle.result() == "made transfer pay"
        assert "forward" not in verbs_for(await app.show("r"))


@played
async def test_what_declares_no_other_way_is_not_offered_one(db):
    target.plan("mail", "refuse")
    async with working(db, paying) as app:
        await app.start(paying, id="r")
        await reaches(app, "r", RunState.FAILED)
        assert "forward" not in verbs_for(await app.show("r"))
        with pytest.raises(VerbRefused, match="declares no other way"):
            await app.forward("r", "once", by="ann", reason="blocked")


# -- the workflow -----------------------------------------------------------------------------------------------------


@played
async def test_a_workflow_goes_forward_by_its_own_code(db):
    target.plan("pay", "refuse")
    async with working(db, by_code) as app:
        assert await (await app.start(by_code, id="r")).result() == "made transfer pay"
        assert (await operation(app, "r", "forward pay")).effect == "transfer"
        assert not (await app.check()).found
    assert target.requests == ["order", "transfer pay"]


@played
async def test_a_workflow_that_goes_back_or_has_not_failed_is_held_if_it_goes_forward(db):
    target.plan("pay", "refuse")
    async with working(db, by_code_and_back, by_code_too_early, by_code_after_all) as app:
        for name, declared, why in (
            ("back", by_code_and_back, "begun to go back"),
            ("early", by_code_too_early, "was not tried before"),
            ("done", by_code_after_all, "is succeeded"),
        ):
            await app.start(declared, id=name)
            await reaches(app, name, RunState.HELD)
            assert why in (await hold(app, name))["detail"]
    assert not [name for name in target.requests if name.startswith("transfer")]


def test_another_way_is_an_effect_with_the_same_arguments_and_result():
    @effect(on_unknown="hold", retry=ONCE, name="else")
    async def something_else(call: Call, amount: int) -> str:
        return ""

    for wrong in (something_else, test_another_way_is_an_effect_with_the_same_arguments_and_result):
        with pytest.raises(DeclarationError, match="forward="):

            @effect(on_unknown="hold", retry=ONCE, forward=wrong)
            async def anything(call: Call, name: str) -> str:
                return ""
