"""What holds of every verb of a person, read off the table of verbs: role, version, reason, generation, two persons.

A verb without a row in the table, or without a stage here on which it applies, fails by that.
"""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from fencepost import runtime
from fencepost.core.contract import Retry
from fencepost.core.errors import Misuse, NotPermitted, RunNotFound, SecondPersonNeeded, VerbRefused
from fencepost.core.permissions import CASES, VERBS, Compares, Permissions
from fencepost.core.states import RunState
from fencepost.effects.answers import Conflicting, Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.model import model
from fencepost.runtime import (
    accounts,
    api_tokens,
    applicable,
    bulking,
    confirming,
    containing,
    queues,
    restoring,
    retention,
    schedules,
    signalling,
)
from fencepost.runtime.app import App
from fencepost.runtime.bulk import IN_BULK, Selection
from fencepost.runtime.repertoire import ON_RUNS
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Gate, asked, keyed, once, played, reaches, target, undo, working

WHO = Permissions({"ann": "admin", "bob": "admin", "vic": "viewer", "app": "approver", "max": "operator"})


@workflow(name="hangs")
async def hangs(run: Run) -> str:
    await run.do(keyed("before"))
    return await run.do(once("two"))


@workflow(name="hangs", version=2)
async def hangs_on(run: Run) -> str:
    await run.do(keyed("before"))
    return await run.do(once("two"))


@workflow(name="contradicts")
async def contradicts(run: Run) -> str:
    return await run.do(asked("two"))


@effect(on_unknown="hold", retry=Retry(attempts=1, within="1m"), compensate=undo, forward=keyed)
async def tried(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow(name="tries")
async def tries(run: Run) -> str:
    return await run.do(tried("two"))


@model(output=str)
async def classify(call: Call, name: str) -> str:
    return name


@workflow(name="decides")
async def decides(run: Run) -> str:
    return await run.do(tried(await run.do(classify("two"))))


CODE = (hangs, hangs_on, contradicts, tries, decides)


class Stage(NamedTuple):
    """How a run comes to where a verb applies, and what the verb is given beside who and why."""

    arguments: Mapping[str, Any] = MappingProxyType({})
    plan: tuple[str, ...] = ("lose",)
    code: Any = hangs
    first: str | None = None


STAGES = {
    "resume": Stage(),
    "reconcile": Stage(),
    "retry": Stage({"step": "once"}, ("busy",) * 3),
    "settle": Stage({"step": "once", "happened": True, "result": '"seen"'}),
    "settle conflict": Stage({"step": "asked", "happened": True, "result": '"seen"'}, code=contradicts),
    "cancel": Stage(),
    "compensate": Stage(),
    "compensate step": Stage({"step": "keyed"}),
    "forward": Stage({"step": "tried"}, ("busy",), tries),
    "redecide": Stage({}, ("busy",), decides),
    "terminate": Stage(),
    "reopen": Stage(first="terminate"),
    "migrate": Stage({"to": 2}),
}
every_verb = pytest.mark.parametrize("name", STAGES)


async def staged(db: str, name: str) -> None:
    """Leave a run "r" to which the verb applies in the ledger, and no worker."""
    stage = STAGES[name]
    target.plan("two", *stage.plan)
    if stage.code is contradicts:
        target.answers.append(Conflicting(2))
    async with working(db, *CODE) as app:
        await app.start(stage.code, id="r")
        await reaches(app, "r", RunState.HELD)
        if stage.first is not None:
            await app._verb(ON_RUNS[stage.first], "r", by="ann", reason="so that it applies")


def rows(app: App, run: str = "r") -> list[tuple[str, str, str]]:
    return [(row.actor, row.verb, row.outcome) for row in app.store.audits("default", run)]


def test_the_table_the_repertoire_and_the_stages_name_the_same_verbs() -> None:
    on_runs = {name for name, verb in VERBS.items() if verb.compares is Compares.RUN_VERSION}
    assert on_runs == set(ON_RUNS) == set(STAGES)
    assert set(IN_BULK) < on_runs < set(CASES)
    assert set(applicable.APPLIES) < set(VERBS)


def test_every_verb_that_is_not_on_a_run_has_a_row_too() -> None:
    others = {f"{name} schedule" for name in ("pause", "resume", "fire", "remove")}
    others |= {"contain", "release", "pause queue", "resume queue", bulking.PAUSE, bulking.RESUME}
    others |= {restoring.RESTORED, restoring.CLOSED, "signal", "approve", "deny", "confirm", "decline", "purge"}
    others |= {api_tokens.MAKE, api_tokens.REVOKE, accounts.INVITE, accounts.CLOSE}
    # Asked for by the door itself, which has no function of its own to look or to start.
    others |= {"look", "check", "start"}
    assert others == set(VERBS) - set(ON_RUNS)


def test_no_function_that_a_person_calls_is_missing_from_the_tables() -> None:
    known = {*ON_RUNS.values(), confirming.confirm, confirming.decline, signalling.send}
    known |= {schedules.pause, schedules.resume, schedules.fire, schedules.remove}
    known |= {containing.contain, containing.release, queues.pause, queues.resume, bulking.pause, bulking.resume}
    known |= {retention.purge, restoring.restored, restoring.close_lost_time, api_tokens.make, api_tokens.revoke}
    known |= {accounts.invite, accounts.close}
    found = {
        function
        for module in pkgutil.iter_modules(runtime.__path__, "fencepost.runtime.")
        if module.name not in CARRY_OUT
        for function in vars(importlib.import_module(module.name)).values()
        if inspect.isfunction(function) and function.__module__ == module.name and not function.__name__.startswith("_")
        and {"app", "by", "reason"} <= set(inspect.signature(function).parameters)
    }  # fmt: skip
    assert found == known


CARRY_OUT = {"fencepost.runtime.deeds", "fencepost.runtime.permits"}
"""Where it is asked who may; these are no verbs."""


@every_verb
@played
async def test_what_is_refused_changes_nothing_and_leaves_a_row_that_says_what_was_missing(db, name):
    await staged(db, name)
    async with App(db, workflows=CODE, permissions=WHO) as app:
        before, earlier = await app.show("r"), rows(app)
        given = {"by": "ann", "reason": "she says so", "version": before.run.version} | dict(STAGES[name].arguments)

        async def refused(error: type[Exception], match: str, **instead: Any) -> None:
            with pytest.raises(error, match=match):
                await app._verb(ON_RUNS[name], "r", **(given | instead))

        await refused(Misuse, "needs who does it and why", by=" ")
        await refused(Misuse, "needs who does it and why", reason="")
        await refused(NotPermitted, f"'vic' lacks the role {VERBS[name].role} for {name}", by="vic")
        await refused(NotPermitted, f"'app' lacks the role {VERBS[name].role}", by="app")
        await refused(NotPermitted, "'eve' lacks the role", by="eve")
        await refused(VerbRefused, "has changed since you looked", version=before.run.version - 1)
        with pytest.raises(RunNotFound):
            await app._verb(ON_RUNS[name], "nobody", **given)

        assert await app.show("r") == before
        refusals = [(" ", name), ("ann", name), ("vic", name), ("app", name), ("eve", name), ("ann", name)]
        assert rows(app) == earlier + [(*one, "refused") for one in refusals]
        assert rows(app, "nobody") == [("ann", name, "refused")]
        said = app.store.audits("default", "r")[len(earlier) + 2]
        assert f"lacks the role {VERBS[name].role}" in said.reason
        assert app.store.audits("default", "nobody")[0].reason == "she says so (refused: no run has the id 'nobody')"


@every_verb
@played
async def test_what_is_done_compares_the_version_raises_the_generation_if_it_takes_and_leaves_one_row(db, name):
    await staged(db, name)
    async with App(db, workflows=CODE, permissions=WHO) as app:
        before, earlier = (await app.show("r")).run, rows(app)
        person = "ann" if VERBS[name].role == "admin" else "max"
        done = await app._verb(
            ON_RUNS[name], "r", by=person, reason="why not", version=before.version, **STAGES[name].arguments
        )
        assert done.version > before.version
        assert (done.generation > before.generation) is VERBS[name].takes
        assert rows(app) == [*earlier, (person, name, "done")]
        assert (await app.verify_audit()).broken is None


@every_verb
@played
async def test_what_takes_two_persons_is_done_once_by_the_second_on_the_run_that_the_first_one_saw(db, name):
    await staged(db, name)
    two = Permissions({"ann": "admin", "bob": "admin", "vic": "viewer"}, two_persons=[name])
    async with App(db, workflows=CODE, permissions=two) as app:
        before, earlier = await app.show("r"), rows(app)
        given = {"by": "ann", "reason": "she says so"} | dict(STAGES[name].arguments)
        for _ in range(2):  # the second click is the same proposal
            with pytest.raises(SecondPersonNeeded, match="two persons are needed") as needed:
                await app._verb(ON_RUNS[name], "r", **given)
        assert await app.show("r") == before
        (open_,) = await app.proposals()
        assert needed.value.ids == {"run": "r", "proposal": str(open_.no)}

        for who, error, match in (
            ("ann", VerbRefused, "cannot be the second person"), ("vic", NotPermitted, "'vic' lacks the role"),
        ):  # fmt: skip
            with pytest.raises(error, match=match):
                await app.confirm(open_.no, by=who, reason="I have looked")
        assert await app.show("r") == before

        done = await app.confirm(open_.no, by="bob", reason="I have looked")
        assert done.version > before.run.version
        with pytest.raises(VerbRefused, match=f"proposal {open_.no} is confirmed by bob"):
            await app.confirm(open_.no, by="bob", reason="once more")
        refused_by = ("ann", "confirm"), ("vic", "confirm" if VERBS["confirm"].role == "operator" else name)
        told = [("ann", "propose", "done"), *((*one, "refused") for one in refused_by)]
        assert rows(app) == [*earlier, *told, ("bob", name, "done"), ("bob", "confirm", "refused")]
        row = app.store.audits("default", "r")[-2]
        assert "proposed by ann; I have looked" in row.reason
        assert (json.loads(row.after)["proposed by"], json.loads(row.after)["proposal"]) == ("ann", open_.no)
        assert await app.proposals() == []
        assert [one.state for one in await app.proposals(every=True)] == ["confirmed"]


@pytest.mark.parametrize(("name", "arguments"), [("terminate", {}), ("migrate", {"to": 2}), ("cancel", {})])
@played
async def test_a_run_that_somebody_is_at_work_on_is_taken_from_them_where_the_table_says_so(db, name, arguments):
    gate = Gate()
    target.plan("two", gate)
    async with working(db, *CODE) as app:
        await app.start(hangs, id="r")
        await gate.reached.wait()
        before = (await app.show("r")).run
        assert before.lease is not None
        async with App(db, workflows=CODE) as other:
            done = await other._verb(
                ON_RUNS[name], "r", by="ann", reason="why not", version=before.version, **arguments
            )
        assert (done.generation > before.generation, done.lease is None) == (VERBS[name].takes,) * 2
        gate.opened.set()


class Search:
    """The second look-up hangs in it."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.asked = 0


@played
async def test_an_unknown_effect_is_settled_over_the_head_of_whoever_is_asking_about_it(db):
    """Its owner knows nothing of the statement: the run is taken from them, as the table says, and goes on with it."""
    search = Search()

    async def look(call: Call, name: str) -> Inconclusive:
        search.asked += 1
        if search.asked > 1:
            await search.gate.wait()
        return Inconclusive("the search is down")

    @effect(reconcile=look, attempt_timeout="400ms", settle="0s", retry=QUICK, compensate=undo)
    async def searched(call: Call, name: str) -> str:
        return await target.take(call, name)

    @workflow(name="searches")
    async def searches(run: Run) -> str:
        return await run.do(searched("lost"))

    target.plan("lost", "lose")
    async with working(db, searches) as app:
        handle = await app.start(searches, id="r")
        await search.gate.reached.wait()
        before = (await app.show("r")).run
        assert (before.lease is not None, VERBS["settle"].takes) == (True, True)
        async with App(db, workflows=[searches]) as other:
            said = dict(STAGES["settle"].arguments) | {"step": "searched"}
            done = await other._verb(ON_RUNS["settle"], "r", by="ann", reason="she looked", **said)
        assert (done.generation > before.generation, done.lease) == (True, None)
        search.gate.opened.set()
        assert await handle.result(within="20s") == "seen"
    assert target.objects == ["lost"]


# -- what is not on one run -------------------------------------------------------------------------------------------


def on_a_schedule(verb: Callable[..., Any]) -> Callable[[App, str], Any]:
    return lambda app, by: verb(app, "yearly", by=by, reason="why")


OTHERS: dict[str, Callable[[App, str], Any]] = {
    "pause schedule": on_a_schedule(schedules.pause),
    "resume schedule": on_a_schedule(schedules.resume),
    "fire schedule": on_a_schedule(schedules.fire),
    "remove schedule": on_a_schedule(schedules.remove),
    "pause bulk": lambda app, by: bulking.pause(app, 1, by=by, reason="why"),
    "resume bulk": lambda app, by: bulking.resume(app, 1, by=by, reason="why"),
    "restored": lambda app, by: restoring.restored(app, by=by, reason="why"),
    "close lost time": lambda app, by: restoring.close_lost_time(app, by=by, reason="why"),
    "purge": lambda app, by: retention.purge(
        app, retention.Retention({"succeeded": "90d"}), by=by, reason="why", dry_run=False, batch=9
    ),
    "make token": lambda app, by: api_tokens.make(app, "vic", ["admin"], by=by, reason="why"),
    "revoke token": lambda app, by: api_tokens.revoke(app, 1, by=by, reason="why"),
    "invite": lambda app, by: accounts.invite(app, "vic", ["admin"], by=by, reason="why"),
    "close account": lambda app, by: accounts.close(app, "ann", by=by, reason="why"),
    "signal": lambda app, by: signalling.send(app, "r", "word", 1, id=None, sender="", by=by),
    "approve": lambda app, by: signalling.approve(
        app, "r", "ok", by=by, approved=True, comment="", digest=None, id=None
    ),
    "deny": lambda app, by: signalling.approve(app, "r", "ok", by=by, approved=False, comment="", digest=None, id=None),
}


@pytest.mark.parametrize("name", OTHERS)
@played
async def test_verbs_on_schedules_the_ledger_and_waits_ask_for_the_role_too(db, name):
    async with App(db, workflows=CODE, permissions=WHO) as app:
        with pytest.raises(NotPermitted, match=f"'vic' lacks the role {VERBS[name].role} for {name}"):
            OTHERS[name](app, "vic")
        (row,) = app.store.audits("default", None)
        assert (row.actor, row.verb, row.outcome) == ("vic", name, "refused")
        assert app.store.epoch() is None


@played
async def test_what_a_person_sends_by_hand_leaves_a_row_and_what_code_sends_does_not(db):
    async with App(db, workflows=CODE, permissions=WHO) as app:
        await app.start(hangs, id="r")
        for number in range(20):
            await app.signal("r", "word", number, id=str(number), sender="the shop")
        assert rows(app) == []
        await app.signal("r", "word", 1, id="by hand", by="max", reason="it was lost")
        assert rows(app) == [("max", "signal", "done")]
        assert app.store.audits("default", "r")[0].reason == "it was lost"


@played
async def test_many_at_once_are_asked_for_their_role_and_their_second_person_too(db):
    await staged(db, "terminate")
    two = Permissions({"ann": "admin", "vic": "viewer"}, two_persons=["terminate an unknown"])
    async with App(db, workflows=CODE, permissions=two) as app:
        held = Selection(state="held")
        with pytest.raises(NotPermitted, match="lacks the role operator"):
            await app.bulk("terminate", held, by="vic", reason="all of them")
        assert await app.bulks(every=True) == []
        (would,) = await app.bulk("terminate", held, dry_run=True, by="ann", reason="all of them")
        assert "two persons are needed" in would.refused
        assert await app.proposals() == []
        (proposed,) = await app.bulk("terminate", held, by="ann", reason="all of them")
        assert "kept as proposal 1" in proposed.refused
        assert [one.no for one in await app.proposals()] == [1]
        assert rows(app) == [("ann", "propose", "done")]
        assert rows(app, "") == [("vic", "terminate", "refused")]
