"""What survives a crash in mid-call: remembered references, accepted answers of a model, budgets used so far."""

import asyncio

import pytest
from pydantic import BaseModel

from fencepost.core.errors import RunHeld
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.model import model
from fencepost.effects.question import Question
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Gate, expire, hold, operation, played, reaches, target, until, verb, working


class Kind(BaseModel):
    """What the model decides."""

    name: str


class Answers:
    """A model that gives its answers in turn and counts the questions."""

    provenance = "answers of a test"

    def __init__(self, *answers: str) -> None:
        self.left = list(answers)
        self.asked = 0

    def answer(self, question: Question) -> str:
        self.asked += 1
        return self.left.pop(0) if self.left else "no JSON"


GOOD = '{"name":"invoice"}'


@model(output=Kind, format_attempts=3)
async def classify(call: Call, text: str) -> Kind:
    return await call.model.ask("what is it", text)


@workflow()
async def classifying(run: Run, text: str) -> str:
    kind = await run.do(classify(text))
    await run.wait("go", str)
    return kind.name


@effect(on_unknown="hold", retry=QUICK, name="undo_remembering")
async def undo_remembering(call: Call, result: str | None, reference: str | None) -> str:
    target.requests.append(f"undo {reference}")
    return "undone"


@effect(on_unknown="hold", retry=QUICK, name="remembering", compensate=undo_remembering)
async def remembering(call: Call) -> str:
    await call.remember("T-17")
    gate = target.script["remembering"].popleft()
    await gate.wait()
    return "done"


@workflow()
async def referring(run: Run) -> str:
    return await run.do(remembering())


@played
async def test_an_accepted_answer_is_stored_once_and_never_asked_for_again(db):
    answers = Answers(GOOD)
    async with working(db, classifying, model=answers) as app:
        await app.start(classifying, "text", id="r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, classifying, model=answers) as app:
        await app.signal("r", "go", "on")
        assert await (await app.handle("r")).result() == "invoice"
    assert answers.asked == 1


@played
async def test_the_budget_for_malformed_answers_goes_on_where_an_earlier_life_stopped(db):
    answers = Answers("bad", "bad")

    class Pausing(Answers):
        def answer(self, question: Question) -> str:
            if self.asked == 2:
                app._workers[0].stop()
            return super().answer(question)

    answers = Pausing("bad", "bad", "bad")
    async with working(db, classifying, model=answers) as app:
        await app.start(classifying, "text", id="r")
        await until(lambda: answers.asked >= 2, "two questions")
    async with working(db, classifying, model=answers) as app:
        with pytest.raises(RunHeld, match="format budget spent"):
            await (await app.handle("r")).result(within="10s")
        assert answers.asked == 3
        answers.left.append(GOOD)
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.WAITING)
    assert answers.asked == 4


@played
async def test_an_answer_that_came_with_a_cancel_is_kept(db):
    class Cancelling(Answers):
        def answer(self, question: Question) -> str:
            run = app.store.find("default", "r")
            verbs.cancel(app, run, by="ann", reason="stop")
            return super().answer(question)

    answers = Cancelling(GOOD)
    async with working(db, classifying, model=answers) as app:
        await app.start(classifying, "text", id="r")
        await reaches(app, "r", RunState.CANCELLED)
        assert [step.name for step in (await app.show("r")).steps if step.result] == ["classify", ""]
    assert answers.asked == 1


@played
async def test_a_reference_that_was_remembered_in_mid_call_survives_a_crash(db):
    gate = Gate()
    target.script["remembering"].append(gate)
    async with working(db, referring) as app:
        await app.start(referring, id="r")
        await gate.reached.wait()
        expire(app)
        async with working(db, referring) as heir:
            await reaches(heir, "r", RunState.HELD)
            assert (await hold(heir, "r"))["reference"] == "T-17"
            await verb(heir, verbs.settle, "r", step="remembering", happened=True, result='"seen"')
            await reaches(heir, "r", RunState.SUCCEEDED)
            found = await operation(heir, "r", "remembering")
            assert (found.state, found.reference) == (OperationState.SUCCEEDED, "T-17")
            await verb(heir, verbs.compensate, "r")
            await reaches(heir, "r", RunState.COMPENSATED)
            gate.opened.set()
    assert target.requests == ["undo T-17"]


@played
async def test_a_worker_that_stops_between_two_answers_loses_none(db):
    answers = Answers(GOOD, GOOD)

    @workflow(name="twice")
    async def twice(run: Run) -> list[str]:
        first = await run.do(classify("one"))
        second = await run.do(classify("two"))
        return [first.name, second.name]

    class Cancelling(Answers):
        def answer(self, question: Question) -> str:
            app._workers[0].stop()
            return super().answer(question)

    answers = Cancelling(GOOD)
    async with working(db, twice, model=answers) as app:
        await app.start(twice, id="r")
        await until(lambda: answers.asked == 1, "the question")
    plain = Answers(GOOD)
    async with working(db, twice, model=plain) as app:
        assert await (await app.handle("r")).result() == ["invoice", "invoice"]
    assert (answers.asked, plain.asked) == (1, 1)
    await asyncio.sleep(0)
