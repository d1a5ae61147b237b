"""Where two persons are needed: when, on which picture of the run, for how long, and whatever dies in between.

That every verb can be asked of two is in `test_every_verb`.
"""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta

import pytest

from fencepost.core.duration import HOUR
from fencepost.core.errors import DeclarationError, Misuse, NotPermitted, SecondPersonNeeded, StepFailed, VerbRefused
from fencepost.core.permissions import RISKY, Above, Permissions
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Clock, once, operation, played, reaches, target, working

PEOPLE = {"ann": "operator", "bob": "operator"}
TWO = Permissions(PEOPLE, two_persons=RISKY)


@workflow(name="one")
async def one(run: Run) -> str:
    return await run.do(once("two"))


async def held(db, plan="lose", **options):
    """Leave a run in the ledger of which one effect is unknown."""
    target.plan("two", plan)
    async with working(db, one, **options) as app:
        await app.start(one, id="r")
        await reaches(app, "r", RunState.HELD)


async def proposed(app, verb, **arguments):
    with pytest.raises(SecondPersonNeeded) as needed:
        await verb("r", by="ann", reason="she says so", **arguments)
    return int(needed.value.ids["proposal"])


def rows(app, run_id="r"):
    return [(row.actor, row.verb, row.outcome) for row in app.store.audits("default", run_id)]


@played
async def test_an_early_did_not_happen_is_believed_when_two_say_so(db):
    await held(db, "drop", permissions=TWO)
    async with working(db, one) as app:
        forced = {"step": "once", "happened": False}
        with pytest.raises(VerbRefused, match="may still land"):  # what would be refused of two is refused of one
            await app.settle("r", by="ann", reason="she says so", **forced)
        number = await proposed(app, app.settle, **forced, override=True)
        assert (await operation(app, "r", "once")).state is OperationState.UNKNOWN
        assert target.requests == ["two"]
        await app.confirm(number, by="bob", reason="I have looked")
        assert await (await app.handle("r")).result() == "made two"
        found = await operation(app, "r", "once")
        (statement,) = [json.loads(seen.evidence) for seen in found.observations if seen.kind == "statement"]
        assert (statement["by"], "proposed by ann" in statement["reason"]) == ("bob", True)
    assert target.requests == ["two", "two"]
    assert target.objects == ["two"]


@played
async def test_a_statement_that_is_no_override_takes_one(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        await app.settle("r", "once", happened=True, result='"seen"', by="ann", reason="she saw it")
        assert rows(app) == [("ann", "settle", "done")]


@played
async def test_a_run_is_ended_by_one_if_all_is_known_and_by_two_if_it_is_not(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        number = await proposed(app, app.terminate)
        await app.settle("r", "once", happened=True, result='"seen"', by="bob", reason="it is there")
        with pytest.raises(VerbRefused, match="has changed since you looked"):
            await app.confirm(number, by="bob", reason="I have looked")
        assert (await app.show("r")).run.state is RunState.READY
        assert [proposal.no for proposal in await app.proposals()] == [number]
        await app.terminate("r", by="ann", reason="nobody wants it")
        assert rows(app)[-2:] == [("bob", "terminate", "refused"), ("ann", "terminate", "done")]


@played
async def test_a_proposal_can_be_confirmed_for_its_time_and_made_again_after_it(db):
    clock = Clock()
    await held(db)
    app = App(db, workflows=[one], permissions=Permissions(PEOPLE, two_persons=RISKY, proposal_lasts="2h"))
    app.clock = clock
    async with app:
        number = await proposed(app, app.terminate)
        clock.offset += 2 * HOUR
        assert await app.proposals() == []
        with pytest.raises(VerbRefused, match=f"proposal {number} is expired"):
            await app.confirm(number, by="bob", reason="I have looked")
        with pytest.raises(VerbRefused, match=f"proposal {number} is expired"):
            await app.decline(number, by="bob", reason="too late")
        assert (await app.show("r")).run.state is RunState.HELD
        again = await proposed(app, app.terminate)
        assert again != number
        await app.confirm(again, by="bob", reason="I have looked")
        assert (await app.show("r")).run.state is RunState.TERMINATED
        assert [proposal.state for proposal in await app.proposals(every=True)] == ["confirmed", "expired"]


@played
async def test_the_first_person_must_still_have_the_role_when_the_second_one_confirms(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        number = await proposed(app, app.terminate)
        app.permissions = Permissions({"ann": "viewer", "bob": "operator"}, two_persons=RISKY)
        with pytest.raises(NotPermitted, match="'ann', who proposed it, lacks the role operator"):
            await app.confirm(number, by="bob", reason="I have looked")
        assert (await app.show("r")).run.state is RunState.HELD


@played
async def test_a_proposal_is_declined_by_either_person_and_then_over(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        for person in ("ann", "bob"):
            number = await proposed(app, app.terminate)
            assert (await app.decline(number, by=person, reason="on second thoughts")).state == "declined"
            with pytest.raises(VerbRefused, match=f"proposal {number} is declined by {person}"):
                await app.confirm(number, by="bob", reason="I have looked")
        with pytest.raises(Misuse, match="there is no proposal 77"):
            await app.confirm(77, by="bob", reason="I have looked")
        assert (await app.show("r")).run.state is RunState.HELD


@played
async def test_the_second_person_may_click_the_same_and_is_told_to_confirm(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        number = await proposed(app, app.terminate)
        with pytest.raises(SecondPersonNeeded, match=f"ann has proposed it already.*fencepost confirm {number}"):
            await app.terminate("r", by="bob", reason="me too")
        assert rows(app) == [("ann", "propose", "done")]


@played
async def test_of_many_who_confirm_at_once_one_does_it(db):
    await held(db)
    crowd = [f"person {number}" for number in range(6)]
    many = Permissions(dict.fromkeys(["ann", *crowd], "operator"), two_persons=RISKY)
    async with App(db, workflows=[one], permissions=many) as app:
        number = await proposed(app, app.terminate)
        clicks = [app.confirm(number, by=person, reason="I have looked") for person in crowd]
        outcomes = await asyncio.gather(*clicks, return_exceptions=True)
        assert sum(isinstance(outcome, VerbRefused) for outcome in outcomes) == 5
        assert [outcome for _, _, outcome in rows(app)].count("done") == 2  # proposed once, done once
        assert (await app.check()).found == []


@pytest.mark.parametrize("when", ["before", "after"])
@played
async def test_whoever_confirms_and_dies_has_done_it_whole_or_not_at_all(db, when):
    await held(db, permissions=TWO)
    async with App(db, workflows=[one]) as app:
        number = await proposed(app, app.terminate)
        child = [sys.executable, "-m", "tests.runtime.confirming_child", db, str(number), when]
        assert subprocess.run(child, check=False, timeout=60).returncode == -signal.SIGKILL  # noqa: ASYNC221 - nobody else runs
        happened = when == "after"
        (proposal,) = await app.proposals(every=True)
        assert proposal.state == ("confirmed" if happened else "open")
        assert (await app.show("r")).run.state is (RunState.TERMINATED if happened else RunState.HELD)
        assert (("bob", "terminate", "done") in rows(app)) is happened
        if happened:
            with pytest.raises(VerbRefused, match="is confirmed by bob"):
                await app.confirm(number, by="bob", reason="once more")
        else:
            await app.confirm(number, by="bob", reason="once more")
        assert rows(app).count(("bob", "terminate", "done")) == 1
        assert (await app.check()).found == []


# -- who may ----------------------------------------------------------------------------------------------------------


@effect(on_unknown="hold", retry=QUICK)
async def unpay(call: Call, name: str, cents: int, result: str | None, reference: str | None) -> str:
    return await target.take(call, f"undo {name}")


@effect(on_unknown="hold", retry=QUICK, compensate=unpay)
async def pay_out(call: Call, name: str, cents: int) -> str:
    return await target.take(call, name)


@workflow(name="payment")
async def payment(run: Run, cents: int) -> None:
    await run.do(pay_out("money", cents))
    raise ValueError("and then it failed")


@pytest.mark.parametrize(("cents", "two"), [(50_000, False), (50_001, True)])
@played
async def test_a_compensation_above_the_limit_takes_two(db, cents, two):
    async with working(db, payment) as app:
        await app.start(payment, cents, id="r")
        await reaches(app, "r", RunState.FAILED)
    limited = Permissions(PEOPLE, compensating_above=Above("cents", 50_000))
    async with App(db, workflows=[payment], permissions=limited) as app:
        if two:
            number = await proposed(app, app.compensate)
            await app.confirm(number, by="bob", reason="I have looked")
        else:
            await app.compensate("r", by="ann", reason="she says so")
        assert (await app.show("r")).run.state is RunState.COMPENSATING


@workflow(name="pays for another")
async def pays_for_another(run: Run, cents: int) -> str:
    with suppress(StepFailed):
        await run.child(payment, cents, id="r/child")
    return "done"


@workflow(name="pays and goes on")
async def pays_and_goes_on(run: Run, cents: int) -> str:
    if not cents:
        return "done"
    await run.do(pay_out("money", cents))
    return run.continue_as(0)


@workflow(name="pays without an answer")
async def pays_without_an_answer(run: Run, cents: int) -> str:
    target.plan("money", "lose")
    return await run.do(pay_out("money", cents))


@pytest.mark.parametrize(
    "doing", [pays_for_another, pays_and_goes_on, pays_without_an_answer], ids=lambda one: one.name
)
@pytest.mark.parametrize(("cents", "two"), [(50_000, False), (50_001, True)])
@played
async def test_what_a_compensation_reaches_beyond_the_effects_that_stand_counts_for_the_limit_too(
    db, doing, cents, two
):
    code = [payment, doing]
    async with working(db, *code) as app:
        await app.start(doing, cents, id="r")
        await reaches(app, "r", RunState.SUCCEEDED, RunState.HELD)
    limited = Permissions(PEOPLE, compensating_above=Above("cents", 50_000))
    async with App(db, workflows=code, permissions=limited) as app:
        wanted = Selection(state=(await app.show("r")).run.state.value, prefix="r", limit=1)
        (would,) = await app.bulk("compensate", wanted, dry_run=True, by="ann", reason="she says so")
        assert ("two persons are needed" in (would.refused or "")) is two
        if two:
            await app.confirm(await proposed(app, app.compensate), by="bob", reason="I have looked")
        else:
            await app.compensate("r", by="ann", reason="she says so")
        assert (await app.show("r")).run.state is RunState.COMPENSATING


@played
async def test_what_a_worker_has_declared_binds_processes_without_any_code_and_a_change_of_it_leaves_a_row(db):
    await held(db, permissions=TWO)
    async with App(db, workflows=()) as app:
        assert app.policy().as_text() == TWO.as_text()
        with pytest.raises(NotPermitted):
            await app.cancel("r", by="eve", reason="why not")
        async with App(db, workflows=(), namespace="another") as other:
            assert other.policy() is None
    for policy in (TWO, Permissions({"eve": "admin"})):
        async with working(db, one, permissions=policy):
            pass
    async with App(db, workflows=()) as app:
        await app.cancel("r", by="eve", reason="why not")
        told = [row for row in app.store.audits("default", None) if row.verb == "declare permissions"]
        assert [json.loads(row.before) is None for row in told] == [True, False]
        assert json.loads(told[1].after)["roles"] == {"eve": ["admin"]}
        assert (await app.verify_audit()).broken is None


@played
async def test_a_command_line_speaks_for_its_login_unless_names_are_believed(db):
    await held(db)
    async with App(db, workflows=[one], permissions=TWO) as app:
        app.login = "ann"
        with pytest.raises(NotPermitted, match="speaks for 'ann', not for 'bob'"):
            await app.cancel("r", by="bob", reason="I am bob, believe me")
        number = await proposed(app, app.terminate)
        with pytest.raises(NotPermitted, match="speaks for 'ann'"):
            await app.confirm(number, by="bob", reason="I am bob, believe me")
        app.permissions = Permissions(PEOPLE, two_persons=RISKY, names_are_given=True)
        await app.confirm(number, by="bob", reason="one login for all")


def test_a_policy_reads_back_as_it_was_written():
    policy = Permissions(
        {"ann": ["operator", "approver"]}, two_persons=RISKY, compensating_above=Above("payment.cents", 9.5),
        proposal_lasts=timedelta(minutes=5), names_are_given=True,
    )  # fmt: skip
    assert Permissions.from_text(policy.as_text()).as_text() == policy.as_text()
    assert Permissions.from_text(policy.as_text()).of("ann") == {"operator", "approver", "viewer"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"roles": {"ann": "king"}},
        {"roles": {" ": "admin"}},
        {"roles": {}, "two_persons": ["signal"]},
        {"roles": {"ann": "admin", "Ann": "admin"}},
        {"roles": {"ann b": "admin", "ann  b ": "admin"}},
        {"roles": {"\u00e5sa": "admin", "a\u030asa": "admin"}},
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(DeclarationError):
        Permissions(wrong.pop("roles"), **wrong)


def test_a_limit_reads_the_way_to_its_field():
    assert Above("payment.cents", 5).exceeded_by('{"payment":{"cents":6}}')
    assert not Above("payment.cents", 5).exceeded_by('{"payment":{"cents":5}}')
    assert not Above("cents", 5).exceeded_by('{"payment":{"cents":6}}')
    assert not Above("cents", 5).exceeded_by('{"cents":true}')
    assert not Above("cents", 5).exceeded_by('{"cents":"5.00"}')
    assert Above("cents", 5).exceeded_by("what nobody here can read")
    # How a Decimal is stored; what is no number, or no finite one, is for two persons to read.
    for text in ("5.01", "1e9", "NaN", "Infinity", "5 EUR"):
        assert Above("cents", 5).exceeded_by(f'{{"cents":"{text}"}}')
