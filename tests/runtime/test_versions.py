"""Code that changes: runs are pinned to their version, patches, versions side by side, and migration (C19)."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import migrating, verbs
from fencepost.runtime.bulk import Selection
from fencepost.runtime.rehearsal import rehearse
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import Workflow, workflow
from tests.runtime.stage import QUICK, hold, played, reaches, target, verb, working


def made(name: str) -> Any:
    """An effect of that name."""

    @effect(name=name, send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK)
    async def make(call: Call, what: str) -> str:
        return await target.take(call, f"{name} {what}", honours_keys=True)

    return make


a, b, c, extra, other = (made(name) for name in ("A", "B", "C", "extra", "other"))

Body = Callable[[Run, str], Awaitable[str]]


def version(number: int, body: Body) -> Workflow[..., str]:
    """The workflow `flow` in that version."""

    async def flow(run: Run, name: str) -> str:
        return await body(run, name)

    declared = workflow(version=number, name="flow")(flow)
    declared.steps = declared.steps_with([a, b, c, extra, other])
    return declared


async def old(run: Run, name: str) -> str:
    await run.do(a(name))
    await run.do(b(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def removed(run: Run, name: str) -> str:
    await run.do(a(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def inserted(run: Run, name: str) -> str:
    await run.do(a(name))
    await run.do(extra(name))
    await run.do(b(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def renamed(run: Run, name: str) -> str:
    await run.do(a(name))
    await run.do(other(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def reordered(run: Run, name: str) -> str:
    await run.do(b(name))
    await run.do(a(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def other_arguments(run: Run, name: str) -> str:
    await run.do(a(name))
    await run.do(b(name.upper()))
    await run.wait("go", str)
    return await run.do(c(name))


async def longer(run: Run, name: str) -> str:
    """What was done so far is the same; what comes is new."""
    await run.do(a(name))
    await run.do(b(name))
    await run.wait("go", str)
    await run.do(extra(name))
    return await run.do(c(name))


async def patched(run: Run, name: str) -> str:
    await run.do(a(name))
    if run.patched("extra"):
        await run.do(extra(name))
    await run.do(b(name))
    await run.wait("go", str)
    return await run.do(c(name))


async def deprecated(run: Run, name: str) -> str:
    run.deprecated("extra")
    await run.do(a(name))
    await run.do(extra(name))
    await run.do(b(name))
    await run.wait("go", str)
    return await run.do(c(name))


V1 = version(1, old)


async def until_it_waits(db: str, *workflows: Any, name: str = "x") -> None:
    async with working(db, *workflows) as app:
        newest = max(workflows, key=lambda one: one.version)
        await app.start(newest, name, id=name)
        await reaches(app, name, RunState.WAITING)


@played
async def test_c19_a_run_keeps_to_its_version_while_new_runs_take_the_newest(db: str) -> None:
    v2 = version(2, inserted)
    await until_it_waits(db, V1)
    async with working(db, V1, v2) as app:
        await app.signal("x", "go", "on")
        assert await (await app.handle("x")).result(within="20s") == "made C x"
        await app.start(v2, "y", id="y")
        await app.signal("y", "go", "on")
        await (await app.handle("y")).result(within="20s")
    assert target.objects == ["A x", "B x", "C x", "A y", "extra y", "B y", "C y"]


@pytest.mark.parametrize("changed", [removed, inserted, renamed, reordered, other_arguments])
@played
async def test_c19_code_that_tells_another_story_is_refused_with_the_first_difference_named(
    db: str, changed: Body
) -> None:
    await until_it_waits(db, V1)
    async with working(db, version(2, changed)) as app:
        found = await app.rehearse("x", to=2)
        assert not found.fits
        with pytest.raises(VerbRefused, match="the history does not fit flow version 2") as refused:
            await verb(app, migrating.migrate, "x", to=2)
        assert found.difference is not None
        assert found.difference.message in refused.value.message
        assert (await app.show("x")).run.workflow_version == 1
        [row] = [row for row in app.store.audits("default", "x") if row.verb == "migrate"]
        assert row.outcome == "refused"
    assert target.objects == ["A x", "B x"]


@played
async def test_many_runs_are_migrated_each_if_its_own_history_fits_after_a_rehearsal(db: str) -> None:
    await until_it_waits(db, V1)
    await until_it_waits(db, V1, name="y")
    async with working(db, V1, version(2, longer)) as app:
        waiting = Selection(state="waiting")
        tried = await app.bulk("migrate", waiting, dry_run=True, to=2, by="ann", reason="new code")
        assert [(one.run, one.refused) for one in tried] == [("y", None), ("x", None)]
        assert {run.workflow_version for run in await app.runs()} == {1}
        done = await app.bulk("migrate", waiting, to=2, by="ann", reason="new code")
        assert [(one.run, one.refused) for one in done] == [("y", None), ("x", None)]
        assert {run.workflow_version for run in await app.runs()} == {2}
        await app.signal("x", "go", "on")
        assert await (await app.handle("x")).result(within="20s") == "made C x"
        assert (await app.verify_audit()).broken is None


@played
async def test_a_run_is_migrated_to_code_that_tells_its_story_so_far_and_goes_on_with_it(db: str) -> None:
    await until_it_waits(db, V1)
    async with working(db, version(2, longer)) as app:
        found = await app.rehearse("x", to=2)
        assert (found.fits, found.delivered, found.waits_for) == (True, 2, ("/go",))
        assert target.objects == ["A x", "B x"], "a dry run does nothing"
        await verb(app, migrating.migrate, "x", to=2)
        await app.signal("x", "go", "on")
        assert await (await app.handle("x")).result(within="20s") == "made C x"
        [row] = [row for row in app.store.audits("default", "x") if row.verb == "migrate"]
        assert (json.loads(row.before)["pinned"], json.loads(row.after)["pinned"]) == (1, 2)
        with pytest.raises(VerbRefused):
            await verb(app, migrating.migrate, "x", to=2)
        with pytest.raises(Misuse, match="no version 7"):
            await verb(app, migrating.migrate, "x", to=7)
    assert target.objects == ["A x", "B x", "extra x", "C x"]


@played
async def test_a_held_run_stays_held_until_it_is_resumed_with_the_code_it_was_migrated_to(db: str) -> None:
    await until_it_waits(db, V1)
    async with working(db, version(1, inserted), version(2, patched)) as app:
        await app.signal("x", "go", "on")
        await reaches(app, "x", RunState.HELD)
        assert (await hold(app, "x"))["reason"] == "HistoryMismatch"
        await verb(app, migrating.migrate, "x", to=2)
        assert (await app.show("x")).run.state is RunState.HELD
        await verb(app, verbs.resume, "x")
        assert await (await app.handle("x")).result(within="20s") == "made C x"
    assert target.objects == ["A x", "B x", "C x"]


@played
async def test_a_patch_is_false_for_runs_of_before_and_true_for_new_ones_in_every_replay(db: str) -> None:
    await until_it_waits(db, V1)
    changed = version(1, patched)
    await until_it_waits(db, changed, name="y")
    async with working(db, changed) as app:
        for name in ("x", "y"):
            await app.signal(name, "go", "on")
            await (await app.handle(name)).result(within="20s")
        assert [step.position for step in (await app.show("y")).steps if step.kind == "patch"] == ["/patch:extra"]
        assert not [step for step in (await app.show("x")).steps if step.kind == "patch"]
    assert target.objects == ["A x", "B x", "A y", "extra y", "B y", "C x", "C y"]


@played
async def test_a_patch_is_deprecated_and_then_gone_for_runs_that_have_it(db: str) -> None:
    await until_it_waits(db, version(1, patched))
    await until_it_waits(db, version(1, deprecated), name="y")
    async with working(db, version(1, deprecated)) as app:
        history = await app.show("x")
        assert rehearse(version(1, deprecated), history).fits
        assert "/patch:extra" in str(rehearse(version(1, inserted), history).difference), "it is deleted too early"
        assert rehearse(version(1, inserted), await app.show("y")).fits
        await app.signal("x", "go", "on")
        assert await (await app.handle("x")).result(within="20s") == "made C x"


@played
async def test_a_run_whose_version_no_worker_carries_is_there_to_be_seen(db: str) -> None:
    await until_it_waits(db, V1)
    async with working(db, version(2, longer)) as app:
        await app.signal("x", "go", "on")
        assert app.store.pinned("default") == [("flow", 1, 1, "x")]
        [lease] = app.store.leases()
        assert json.loads(lease.carries) == [["default", "flow", 2]]
        with pytest.raises(TimeoutError):
            await (await app.handle("x")).result(within="50ms")
