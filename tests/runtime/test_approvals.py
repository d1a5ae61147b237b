"""An approval allows one exact call, once, while both persons have the right to it; counted at the target."""

import json

import pytest

from fencepost.core.approval import Approval, Refusal, Right
from fencepost.core.errors import (
    ApprovalRefused,
    Misuse,
    RunFailed,
    RunNotFound,
    StepFailed,
    Transient,
    VerbRefused,
    WaitExpired,
)
from fencepost.core.recovery import HoldReason
from fencepost.core.states import OperationState, RunState, SignalState
from fencepost.effects.call import Call
from fencepost.effects.declare import read
from fencepost.effects.policy import Refused
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.restoring import restored
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Clock,
    Gate,
    asked,
    hold,
    keyed,
    lose,
    once,
    operation,
    played,
    reaches,
    target,
    until,
    verb,
    working,
)

DAY = 86_400_000_000


class Directory:
    """Who has lost a right, what was asked, and what goes wrong with the next questions."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.plan: list[object] = []

    async def may(self, right: Right) -> bool:
        self.asked.append((right.role, right.who))
        doing = self.plan.pop(0) if self.plan else None
        if isinstance(doing, Exception):
            raise doing
        if isinstance(doing, Gate):
            await doing.wait()
        return right.who not in self.lost


directory = Directory()


@pytest.fixture(autouse=True)
def _forgetful():
    directory.__init__()


@read(retry=QUICK)
async def may(call: Call, right: Right) -> bool:
    return await directory.may(right)


@workflow()
async def paying(run: Run, name: str) -> str:
    call = once(name)
    answer = await run.wait("ok", Approval, allows=call, within="7d", authorise=may, valid_for="3d")
    await run.wait("go", str)
    return await run.do(call, approval=answer)


@workflow()
async def asking_again(run: Run, name: str) -> str:
    for number in ("1", "2"):
        call = once(name)
        answer = await run.wait(f"ok-{number}", Approval, allows=call, item=number, authorise=may)
        try:
            return await run.do(call, item=number, approval=answer)
        except ApprovalRefused as refused:
            last = refused.refusal
    return last


async def given(app, run_id="r", **answer):
    """A run that waits, and its approval by ann; it goes on at "go"."""
    await reaches(app, run_id, RunState.WAITING)
    await app.approve(run_id, "ok", **({"by": "ann"} | answer))
    await until(lambda: _applied(app, run_id), "the approval to be applied")
    await reaches(app, run_id, RunState.WAITING)


async def _applied(app, run_id):
    return any(one.state is SignalState.APPLIED for one in (await app.show(run_id)).signals)


def audits(app, *, outcome="refused"):
    return [(one.verb, one.actor, one.reason) for one in app.store.audits("default", None) if one.outcome == outcome]


# -- allowed ----------------------------------------------------------------------------------------------------------


@played
async def test_an_approved_call_is_sent_once_and_the_dispatch_has_used_the_approval(db):
    async with working(db, paying) as app:
        handle = await app.start(paying, "a", id="r", on_behalf_of="bob")
        await given(app, comment="fine")
        assert directory.asked == []
        await app.signal("r", "go", "now")
        assert await handle.result() == "made a"
        history = await app.show("r")
        wait = next(step for step in history.steps if step.name == "ok")
        assert (await operation(app, "r", "once")).approval == wait.position
        assert directory.asked == [("approver", "ann"), ("principal", "bob")]
        assert audits(app, outcome="done") == [("approve", "ann", "fine")]
        assert audits(app) == []
    assert target.requests == ["a"]


@played
async def test_the_workflow_sees_who_approved_what_and_when(db):
    @workflow(name="telling")
    async def telling(run: Run) -> Approval:
        return await run.wait("ok", Approval, allows=once("a"))

    async with working(db, telling) as app:
        handle = await app.start(telling, id="r")
        await reaches(app, "r", RunState.WAITING)
        kept = await app.approve("r", "ok", by="ann", approved=False, comment="too dear")
        seen = await handle.result()
    assert (seen.approved, seen.by, seen.comment, seen.id) == (False, "ann", "too dear", kept.id)
    assert seen.digest == once("a").digest("r")
    assert round(seen.at.timestamp() * 1_000_000) == kept.sent_at


@played
async def test_rights_are_asked_when_the_approval_is_used_days_later_and_by_a_replay_not_again(db):
    clock = Clock()
    async with App(db, workflows=[paying]) as app:
        app.clock = clock
        handle = await app.start(paying, "a", id="r", on_behalf_of="bob")
        async with app.worker():
            await given(app)
        for _ in range(3):
            async with app.worker():
                await reaches(app, "r", RunState.WAITING)
        clock.offset = 2 * DAY
        assert directory.asked == []
        await app.signal("r", "go", "now")
        async with app.worker():
            assert await handle.result() == "made a"
        assert len(directory.asked) == 2
    assert target.requests == ["a"]


@played
async def test_whoever_lost_the_run_between_check_and_dispatch_sends_nothing_and_its_heir_checks_again(db):
    gate = Gate()
    directory.plan = [gate]
    async with App(db, workflows=[paying]) as old, App(db, workflows=[paying]) as heir:
        async with old.worker():
            handle = await old.start(paying, "a", id="r", on_behalf_of="bob")
            await given(old)
            await old.signal("r", "go", "now")
            await gate.reached.wait()
            lose(old)
            async with heir.worker():
                assert await (await heir.handle("r")).result() == "made a"
                gate.opened.set()
        assert await handle.result() == "made a"
    assert target.requests == ["a"]
    assert directory.asked[0] == ("approver", "ann")
    assert directory.asked.count(("approver", "ann")) == 2


@played
async def test_what_may_have_happened_is_looked_up_and_what_did_not_is_checked_again(db):
    @workflow(name="looked up")
    async def looked_up(run: Run) -> str:
        answer = await run.wait("ok", Approval, allows=asked("a"), authorise=may)
        return await run.do(asked("a"), approval=answer)

    target.plan("a", "drop")
    async with working(db, looked_up) as app:
        handle = await app.start(looked_up, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="ann")
        assert await handle.result() == "made a"
    assert target.requests == ["a", "a"]
    assert target.looked
    assert directory.asked == [("approver", "ann")] * 2


@played
async def test_a_key_is_sent_again_without_asking_since_it_may_have_happened(db):
    @workflow(name="by key")
    async def by_key(run: Run) -> str:
        answer = await run.wait("ok", Approval, allows=keyed("a"), authorise=may)
        return await run.do(keyed("a"), approval=answer)

    target.plan("a", "lose")
    async with working(db, by_key) as app:
        handle = await app.start(by_key, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="ann")
        assert await handle.result() == "made a"
    assert (target.requests, target.objects) == (["a", "a"], ["a"])
    assert directory.asked == [("approver", "ann")]


# -- refused when used ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "refusal"), [("ann", "right lost by approver"), ("bob", "right lost by principal")], ids=["ann", "bob"]
)
def test_a_right_lost_since_the_approval_refuses_it_and_a_resume_asks_again(db, who, refusal):
    @played
    async def play() -> None:
        async with working(db, paying) as app:
            handle = await app.start(paying, "a", id="r", on_behalf_of="bob")
            await given(app)
            directory.lost = {who}
            await app.signal("r", "go", "now")
            with pytest.raises(RunFailed, match=refusal):
                await handle.result()
            lost = await operation(app, "r", "once")
            assert (lost.state, lost.approval, lost.attempts) == (OperationState.FAILED, None, [])
            assert target.requests == []
            assert audits(app) == [("use approval", "ann", f"{refusal}: {who} may not have this done any more")]
            directory.lost = set()
            await verb(app, verbs.resume, "r")
            assert await (await app.handle("r")).result() == "made a"
        assert target.requests == ["a"]

    play()


@played
async def test_a_workflow_can_catch_the_refusal_and_ask_somebody_else(db):
    directory.lost = {"ann"}
    async with working(db, asking_again) as app:
        handle = await app.start(asking_again, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok-1", by="ann")
        await until(lambda: _waits_for(app, "ok-2"), "the second wait")
        await app.approve("r", "ok-2", by="carl")
        assert await handle.result() == "made a"
        assert [row[2] for row in audits(app)] == ["right lost by approver: ann may not have this done any more"]
    assert target.requests == ["a"]


async def _waits_for(app, name):
    return any(step.name == name and step.state == "open" for step in (await app.show("r")).steps)


@played
async def test_a_denied_approval_allows_nothing(db):
    async with working(db, paying) as app:
        handle = await app.start(paying, "a", id="r")
        await given(app, approved=False, comment="not ours")
        await app.signal("r", "go", "now")
        with pytest.raises(RunFailed, match="denied: ann has denied it: not ours"):
            await handle.result()
        assert [row[0] for row in audits(app)] == ["use approval"]
        assert [row[0] for row in audits(app, outcome="done")] == ["deny"]
    assert (target.requests, directory.asked) == ([], [])


@played
async def test_an_approval_that_was_kept_too_long_has_expired(db):
    clock = Clock()
    async with working(db, paying, clock=clock) as app:
        handle = await app.start(paying, "a", id="r")
        await given(app)
        clock.offset = 4 * DAY
        await app.signal("r", "go", "now")
        with pytest.raises(RunFailed, match="expired: it was given 4d"):
            await handle.result()
    assert target.requests == []


@workflow()
async def misusing(run: Run, how: str) -> list[str]:
    said, other = [], once("b")
    first = await run.wait("ok", Approval, allows=once("a"), item="1")
    forged = Approval(True, first.by, first.at, other.digest(run.id, "2"), "", first.id)
    other.performed = True
    plans = {
        "another request": [(once, "b", "1", first)],
        "another item": [(once, "a", "2", first)],
        "another step": [(keyed, "a", "1", first)],
        "twice": [(once, "a", "1", first), (once, "a", "2", first)],
        "by another step too": [(once, "a", "1", first), (keyed, "a", "1", first)],
        "the same again": [(once, "a", "1", first), (once, "a", "1", first)],
        "forged": [(once, "b", "2", forged)],
    }
    for step, name, item, approval in plans[how]:
        try:
            said.append(await run.do(step(name), item=item, approval=approval))
        except ApprovalRefused as refused:
            said.append(refused.refusal)
    return said


@pytest.mark.parametrize(
    ("how", "right", "sent"),
    [
        ("another request", ["other call"], []),
        ("another item", ["other call"], []),
        ("another step", ["other call"], []),
        ("twice", ["made a", "used already"], ["a"]),
        ("by another step too", ["made a", "used already"], ["a"]),
        ("the same again", ["made a", "made a"], ["a"]),
        ("forged", ["not an approval of this run"], []),
    ],
)
def test_what_was_not_approved_is_not_sent(db, how, right, sent):
    @played
    async def play() -> None:
        async with working(db, misusing) as app:
            handle = await app.start(misusing, how, id="r")
            await reaches(app, "r", RunState.WAITING)
            await app.approve("r", "ok", by="ann")
            assert await handle.result() == right
            assert len(audits(app)) == sum(word in set(Refusal) for word in right)
        assert target.requests == sent

    play()


@played
async def test_two_branches_with_one_approval_send_once(db):
    directory.plan = [Gate(), Gate()]
    gates = list(directory.plan)

    @workflow(name="both")
    async def both(run: Run) -> list[str]:
        call = once("a")
        answer = await run.wait("ok", Approval, allows=call, item="1", authorise=may)

        async def one(bound, item: str) -> str:
            try:
                return await run.do(bound, item=item, approval=answer)
            except ApprovalRefused as refused:
                return refused.refusal

        return [*await run.gather(one(call, "1"), one(keyed("a"), "1"))]

    async with working(db, both) as app:
        handle = await app.start(both, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="ann")
        await gates[0].reached.wait()
        for gate in gates:
            gate.opened.set()
        assert await handle.result() == ["made a", "other call"]
    assert target.requests == ["a"]


@played
async def test_a_refused_policy_uses_no_approval(db):
    from fencepost.effects.declare import effect

    @effect(on_unknown="hold", policy=lambda principal, name: Refused("closed"), name="guarded")
    async def guarded(call: Call, name: str) -> str:
        return await target.take(call, name)

    @workflow(name="guarding")
    async def guarding(run: Run) -> str:
        answer = await run.wait("ok", Approval, allows=guarded("a"))
        try:
            return await run.do(guarded("a"), approval=answer)
        except StepFailed as failed:
            return failed.record.message

    async with working(db, guarding) as app:
        handle = await app.start(guarding, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="ann")
        assert await handle.result() == "refused by policy: closed"
        assert (await operation(app, "r", "guarded")).approval is None
    assert target.requests == []


@played
async def test_a_persons_retry_with_a_new_budget_asks_again(db):
    target.plan("a", "busy", "busy", "busy")
    async with working(db, paying) as app:
        handle = await app.start(paying, "a", id="r")
        await given(app)
        await app.signal("r", "go", "now")
        await reaches(app, "r", RunState.HELD)
        assert directory.asked == [("approver", "ann")] * 3
        directory.lost = {"ann"}
        await verb(app, verbs.retry, "r", step="once")
        with pytest.raises(RunFailed, match="right lost by approver"):
            await handle.result()
        directory.lost = set()
        await verb(app, verbs.resume, "r")
        assert await (await app.handle("r")).result() == "made a"
    assert target.requests == ["a"]


@pytest.mark.parametrize("lost", [set(), {"ann"}], ids=["who still may", "who may not any more"])
def test_what_a_restored_ledger_supposes_to_be_sent_is_not_sent_unasked(db, lost):
    @workflow(name="restored keyed")
    async def by_key(run: Run) -> str:
        answer = await run.wait("ok", Approval, allows=keyed("a"), authorise=may)
        await run.wait("go", str)
        return await run.do(keyed("a"), approval=answer)

    @played
    async def play() -> None:
        async with App(db, workflows=[by_key]) as app:
            handle = await app.start(by_key, id="r")
            async with app.worker():
                await given(app)
            restored(app, by="anna", reason="the disk died")
            directory.lost = lost
            await app.signal("r", "go", "now")
            async with app.worker():
                if lost:
                    await reaches(app, "r", RunState.HELD)
                    assert (await hold(app, "r"))["reason"] == HoldReason.REFUSED
                else:
                    assert await handle.result() == "made a"
                    assert (await operation(app, "r", "keyed")).approval
        assert target.requests == ([] if lost else ["a"])
        assert directory.asked == [("approver", "ann")]

    play()


# -- rights that cannot be asked for ----------------------------------------------------------------------------------


@played
async def test_a_directory_that_is_away_for_a_moment_is_asked_again(db):
    directory.plan = [Transient("away")]
    async with working(db, paying) as app:
        handle = await app.start(paying, "a", id="r", on_behalf_of="bob")
        await given(app)
        await app.signal("r", "go", "now")
        assert await handle.result() == "made a"
    assert directory.asked == [("approver", "ann"), ("approver", "ann"), ("principal", "bob")]
    assert target.requests == ["a"]


@pytest.mark.parametrize(
    ("troubles", "reason"),
    [([ValueError("a bug")], "AuthoriseFailed"), ([Transient("away")] * 3, "budget spent")],
    ids=["fails", "stays away"],
)
def test_a_right_that_cannot_be_asked_for_holds_the_run_until_a_person_resumes_it(db, troubles, reason):
    @played
    async def play() -> None:
        directory.plan = [*troubles]
        async with working(db, paying) as app:
            await app.start(paying, "a", id="r", on_behalf_of="bob")
            await given(app)
            await app.signal("r", "go", "now")
            await reaches(app, "r", RunState.HELD)
            assert (await hold(app, "r"))["reason"] == reason
            assert target.requests == []
            await verb(app, verbs.resume, "r")
            assert await (await app.handle("r")).result() == "made a"
        assert target.requests == ["a"]

    play()


@played
async def test_a_worker_that_stops_while_rights_are_asked_for_sends_nothing_and_the_next_one_asks_again(db):
    gate = Gate()
    directory.plan = [gate]
    async with App(db, workflows=[paying]) as app:
        handle = await app.start(paying, "a", id="r")
        async with app.worker() as worker:
            await given(app)
            await app.signal("r", "go", "now")
            await gate.reached.wait()
            worker.stop()
            gate.opened.set()
        assert target.requests == []
        assert (await app.show("r")).operations == []
        async with app.worker():
            assert await handle.result() == "made a"
    assert directory.asked == [("approver", "ann")] * 2
    assert target.requests == ["a"]


@played
async def test_a_run_that_is_cancelled_while_rights_are_asked_for_sends_nothing(db):
    gate = Gate()
    directory.plan = [gate]
    async with working(db, paying) as app:
        await app.start(paying, "a", id="r")
        await given(app)
        await app.signal("r", "go", "now")
        await gate.reached.wait()
        await app.cancel("r", by="ann", reason="not now")
        gate.opened.set()
        await reaches(app, "r", RunState.CANCELLED)
        assert (await app.show("r")).operations == []
    assert target.requests == []


@played
async def test_what_becomes_unknown_beside_it_meanwhile_keeps_an_approved_effect_from_beginning(db):
    gate, held = Gate(), Gate()
    directory.plan = [gate]
    target.plan("b", held)

    @workflow(name="beside an unknown")
    async def beside(run: Run) -> list[str]:
        async def approved() -> str:
            answer = await run.wait("ok", Approval, allows=keyed("a"), authorise=may)
            return await run.do(keyed("a"), approval=answer)

        return [*await run.gather(run.do(once("b")), approved())]

    async with working(db, beside) as app:
        handle = await app.start(beside, id="r")
        await held.reached.wait()
        await app.approve("r", "ok", by="ann", digest=keyed("a").digest("r"))
        await gate.reached.wait()
        target.script["b"].clear()
        await _lose_the_reply(app, held)
        gate.opened.set()
        await reaches(app, "r", RunState.HELD)
        assert target.requests == ["b"]
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"made b"', override=True)
        assert await handle.result() == ["made b", "made a"]
    assert target.requests == ["b", "a"]


async def _lose_the_reply(app, gate):
    """The request that waits at the gate is lost: whether it happened is not known."""
    gate.error = OSError("the reply is lost")
    gate.opened.set()
    await until(lambda: _is_unknown(app), "the operation to be unknown")


async def _is_unknown(app):
    execution = next(iter(app._workers[0]._lives.values()), None)
    return execution is not None and any(one.state == "unknown" for one in execution.operations.values())


@played
async def test_a_branch_that_loses_its_race_while_rights_are_asked_for_sends_nothing(db):
    gate = Gate()
    directory.plan = [gate]

    @workflow(name="racing")
    async def racing(run: Run) -> str:
        call = once("a")
        answer = await run.wait("ok", Approval, allows=call, item="1", authorise=may)
        await run.race(run.do(call, item="1", approval=answer), run.wait("stop", str))
        return await run.do(once("a"), item="1", approval=answer)

    async with working(db, racing) as app:
        handle = await app.start(racing, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="ann")
        await gate.reached.wait()
        await app.signal("r", "stop", "now")
        gate.opened.set()
        assert await handle.result() == "made a"
    assert target.requests == ["a"]


# -- signals that are answers -----------------------------------------------------------------------------------------


@played
async def test_of_two_waits_with_one_name_each_gets_the_answer_that_names_its_call(db):
    @workflow(name="two of a name")
    async def two(run: Run) -> list[str]:
        async def one(bound) -> str:
            answer = await run.wait("ok", Approval, allows=bound)
            return await run.do(bound, approval=answer) if answer.approved else f"{answer.by} says no"

        return [*await run.gather(one(once("pay 10")), one(keyed("delete 5")))]

    async with working(db, two) as app:
        handle = await app.start(two, id="r")
        await reaches(app, "r", RunState.WAITING)
        with pytest.raises(VerbRefused, match="2 calls wait") as refused:
            await app.approve("r", "ok", by="ann")
        assert once("pay 10").digest("r") in refused.value.hint
        await app.approve("r", "ok", by="ann", approved=False, digest=keyed("delete 5").digest("r"))
        await app.approve("r", "ok", by="ann", digest=once("pay 10").digest("r"))
        assert await handle.result() == ["made pay 10", "ann says no"]
    assert target.requests == ["pay 10"]


@played
async def test_what_was_shown_must_be_what_waits(db):
    async with working(db, paying) as app:
        await app.start(paying, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        with pytest.raises(VerbRefused, match="what waits is not what was shown"):
            await app.approve("r", "ok", by="ann", digest=once("b").digest("r"))
        with pytest.raises(Misuse, match="needs who gives it"):
            await app.approve("r", "ok", by=" ")
        with pytest.raises(VerbRefused, match="nothing waits"):
            await app.approve("r", "nope", by="ann")
        with pytest.raises(RunNotFound):
            await app.approve("nobody", "ok", by="ann")
        assert [row[0] for row in audits(app)] == ["approve"] * 4
        assert (await app.show("r")).signals == []


@pytest.mark.parametrize(
    ("value", "sender", "why"),
    [
        ("yes", "ann", "its value must be"),
        ({"approved": True}, "ann", "its value must be"),
        ({"approved": True, "digest": "x", "by": "boss"}, "ann", "its value must be"),
        ({"approved": True, "digest": "x"}, "ann", "other call: it names x"),
        ({"approved": True, "digest": once("a").digest("r")}, "", "nobody is named"),
    ],
)
def test_a_signal_that_is_no_answer_is_refused_to_its_sender_from_any_process(db, value, sender, why):
    @played
    async def play() -> None:
        async with working(db, paying) as app, App(db, workflows=[]) as anybody:
            await app.start(paying, "a", id="r")
            await reaches(app, "r", RunState.WAITING)
            with pytest.raises(VerbRefused, match=why):
                await anybody.signal("r", "ok", value, sender=sender)
            assert len(audits(app)) == 1
            assert (await app.show("r")).signals == []

    play()


@played
async def test_an_answer_as_a_plain_signal_counts_with_its_sender_as_the_approver(db):
    async with working(db, paying) as app, App(db, workflows=[]) as anybody:
        handle = await app.start(paying, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        await anybody.signal("r", "ok", {"approved": True, "digest": once("a").digest("r")}, sender="ann")
        await app.signal("r", "go", "now")
        assert await handle.result() == "made a"
    assert directory.asked == [("approver", "ann")]


@played
async def test_an_early_answer_is_kept_and_judged_when_its_wait_opens(db):
    async with App(db, workflows=[paying]) as app:
        handle = await app.start(paying, "a", id="r")
        with pytest.raises(VerbRefused, match="needs its digest"):
            await app.approve("r", "ok", by="ann")
        wrong = await app.approve("r", "ok", by="ann", digest=once("b").digest("r"))
        right = await app.approve("r", "ok", by="ann", digest=once("a").digest("r"))
        assert wrong.state is right.state is SignalState.KEPT
        await app.signal("r", "go", "now")
        async with app.worker():
            assert await handle.result() == "made a"
        states = {one.id: one.state for one in (await app.show("r")).signals if one.name == "ok"}
        assert states == {wrong.id: SignalState.REFUSED, right.id: SignalState.APPLIED}
        assert [(row[0], row[2][:10]) for row in audits(app)] == [("approve", "nothing wa"), ("signal", "other call")]
    assert target.requests == ["a"]


@played
async def test_the_same_answer_twice_counts_once_and_another_one_is_refused(db):
    async with App(db, workflows=[paying]) as app:
        await app.start(paying, "a", id="r")
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
        first = await app.approve("r", "ok", by="ann")
        assert (await app.approve("r", "ok", by="ann")).id == first.id
        with pytest.raises(VerbRefused, match="came before with another name or value"):
            await app.approve("r", "ok", by="ann", approved=False)
        second = await app.approve("r", "ok", by="carl", approved=False)
        async with app.worker():
            await until(lambda: _refused(app, second.id), "carl's answer to be refused")
        assert len((await app.show("r")).signals) == 2
        assert [(row[1], row[2][:11]) for row in audits(app)] == [("ann", "signal id '"), ("carl", "not waiting")]


async def _refused(app, signal_id):
    return any(one.id == signal_id and one.state is SignalState.REFUSED for one in (await app.show("r")).signals)


@played
async def test_a_comment_in_any_characters_is_kept_and_audited(db):
    async with working(db, paying) as app:
        await app.start(paying, "a", id="r")
        await given(app, comment="no\0thing \u202e 日本語")
        assert audits(app, outcome="done") == [("approve", "ann", "no\\0thing \u202e 日本語")]
        [answer] = (await app.show("r")).signals
        assert json.loads(answer.payload)["comment"] == "no\0thing \u202e 日本語"


@played
async def test_a_late_answer_is_refused_and_audited_in_one_commit(db):
    clock = Clock()
    async with App(db, workflows=[paying]) as app:
        app.clock = clock
        handle = await app.start(paying, "a", id="r")
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
            clock.offset = 8 * DAY
            app._workers[0].wake()
            with pytest.raises(RunFailed, match=WaitExpired.__name__):
                await handle.result()
        with pytest.raises(VerbRefused, match="ended"):
            await app.approve("r", "ok", by="ann", digest=once("a").digest("r"))
        [late] = (await app.show("r")).signals
        assert (late.state, late.reason) == (SignalState.REFUSED, "the run has ended")
        assert audits(app) == [("approve", "ann", "the run has ended")]


@played
async def test_signals_by_the_hundred_are_each_applied_or_refused_with_an_audit_row(db):
    @workflow(name="some of many")
    async def some(run: Run) -> list[int]:
        return [await run.wait("number", int, many=True) for _ in range(50)]

    async with App(db, workflows=[some]) as app:
        handle = await app.start(some, id="r")
        for number in range(100):
            await app.signal("r", "number", number, id=f"s{number:03}", sender="hook")
        async with app.worker():
            assert await handle.result() == list(range(50))
        found = [one.state for one in (await app.show("r")).signals]
        assert (found.count(SignalState.APPLIED), found.count(SignalState.REFUSED)) == (50, 50)
        assert audits(app) == [("signal", "hook", "not waiting: the run has ended")] * 50


@played
async def test_a_signal_that_its_runs_end_refuses_unheard_has_its_audit_row_too(db):
    @workflow(name="deaf")
    async def deaf(run: Run) -> str:
        return await run.do(once("a"))

    gate = Gate()
    target.plan("a", gate)
    async with App(db, workflows=[deaf]) as app, App(db, workflows=[]) as sender:
        async with app.worker() as worker:
            handle = await app.start(deaf, id="r")
            await gate.reached.wait()
            worker._changed = _hears_nothing
            kept = await sender.signal("r", "nobody", 1, id="s", sender="hook")
            gate.opened.set()
            assert await handle.result() == "made a"
        assert kept.state is SignalState.KEPT
        assert [one.state for one in (await app.show("r")).signals] == [SignalState.REFUSED]
        assert audits(app) == [("signal", "hook", "the run has ended")]


async def _hears_nothing():
    return True


@played
async def test_what_a_persons_terminate_refuses_has_its_audit_row_at_once(db):
    async with App(db, workflows=[paying]) as app:
        await app.start(paying, "a", id="r")
        await app.signal("r", "go", "early", sender="hook")
        await app.terminate("r", by="ann", reason="enough")
        assert audits(app) == [("signal", "hook", "the run has ended")]


# -- what cannot be meant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda run: run.wait("ok", Approval),
        lambda run: run.wait("ok", Approval, allows=may(Right("a", "approver", "r", "s", None, "{}", None))),
        lambda run: run.wait("ok", Approval, allows=once("a"), authorise=once),
        lambda run: run.wait("ok", str, allows=once("a")),
        lambda run: run.wait("ok", str, authorise=may),
        lambda run: run.do(once("a"), approval=True),
    ],
    ids=["no call", "a read", "no read asks", "another type", "another type asks", "no approval"],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(db, ask):
    @workflow(name="meaningless")
    async def meaningless(run: Run) -> str:
        try:
            ask(run)
        except Misuse as refused:
            return refused.message
        return "was taken"

    @played
    async def play() -> None:
        async with working(db, meaningless) as app:
            handle = await app.start(meaningless, id="r")
            assert "was taken" not in await handle.result()

    play()
