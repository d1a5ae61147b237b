"""Purging: what ended long ago loses what it holds, and nothing is lost that anything still needs."""

import random
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.core.errors import Misuse, RunInputMismatch, SecondPersonNeeded, ValueRefused, VerbRefused
from fencepost.core.permissions import Permissions
from fencepost.core.standin import PURGED, told_by
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect, read
from fencepost.effects.promises import Stands
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.checking import check, verify_audit
from fencepost.runtime.retention import PURGEABLE, Retention
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.aes_gcm import AesGcm
from tests.runtime.stage import QUICK, Clock, keyed, played, reaches, target, working
from tests.store.inside import answer_of, rows_of
from tests.store.tamper import tampering

DAY = 24 * 3_600 * 1_000_000
MONTH = Retention(dict.fromkeys(PURGEABLE, "30d"))
WHO = {"by": "ann", "reason": "the retention of the shop"}
LEFT = """
    SELECT run.id FROM run JOIN step ON step.run = run.no
    UNION SELECT run.id FROM run JOIN operation ON operation.run = run.no
    UNION SELECT run.id FROM run JOIN attempt ON attempt.run = run.no UNION SELECT run_id FROM piece
    UNION SELECT run.id FROM run JOIN observation ON observation.run = run.no
    UNION SELECT run.id FROM run JOIN signal ON signal.run = run.no
"""


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is meant to stay"), name="gets lost")
async def gets_lost(call: Call, name: str) -> str:
    await target.take(call, name)
    raise RuntimeError("the reply was lost")


@read(name="breaks")
async def breaks(call: Call) -> str:
    raise ValueError("broken")


@workflow(name="simple")
async def simple(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow(name="failing")
async def failing(run: Run, name: str) -> str:
    await run.do(keyed(name))
    return await run.do(breaks())


@workflow(name="lost")
async def lost(run: Run, name: str) -> str:
    return await run.do(gets_lost(name))


@workflow(name="signalled")
async def signalled(run: Run, name: str) -> str:
    return await run.wait("word", str)


@workflow(name="parent")
async def parent(run: Run, name: str, *, waits: bool = False) -> str:
    of = signalled if waits else simple
    return await run.child(of, name, id=f"{run.id}/child")


@workflow(name="lets go")
async def lets_go(run: Run, name: str) -> str:
    return await run.child(signalled, name, id=f"{run.id}/child", detached=True)


@workflow(name="turns")
async def turns(run: Run, name: str, left: int = 2) -> str:
    await run.do(keyed(f"{name}-{left}"))
    return name if left == 0 else run.continue_as(name, left - 1)


ALL = [simple, failing, lost, signalled, parent, lets_go, turns]


def owners(db: str) -> set[str]:
    """The ids of the runs of which anything is left beside their own row."""
    return {run_id for (run_id,) in answer_of(db, LEFT)}


@played
async def test_what_a_run_held_is_gone_and_its_row_and_id_stay(db):
    clock = Clock()
    async with working(db, *ALL, clock=clock, inline_bytes=8) as app:
        handle = await app.start(simple, "a long enough name", id="old", on_behalf_of="user")
        result = await handle.result(within="20s")
        clock.offset = 31 * DAY
        await (await app.start(simple, "a new enough name", id="new")).result(within="20s")
        assert (await app.purge(MONTH, **WHO, dry_run=True)).total == 1
        assert owners(db) == {"old", "new"}
        done = await app.purge(MONTH, **WHO)
        assert (done.runs["succeeded"], done.kept) == (1, 0)
        assert owners(db) == {"new"}
        assert result not in str([row for row in rows_of(db)["run"] if row[2] == "old"])
        row = (await app.show("old")).run
        assert (row.state, told_by(row.input, PURGED) is not None) == (RunState.SUCCEEDED, True)
        assert check(app.store).found == []
        # The same start again is the same run: nothing is done a second time.
        again = await app.start(simple, "a long enough name", id="old", on_behalf_of="user")
        with pytest.raises(ValueRefused, match=r"purged \(nothing brings it back\)|cannot be read here: purged"):
            await again.result(within="5s")
        with pytest.raises(RunInputMismatch):
            await app.start(simple, "another", id="old", on_behalf_of="user")
        assert target.objects.count("a long enough name") == 1
        for verb in (app.reopen, app.compensate):
            with pytest.raises(VerbRefused, match="was purged"):
                await verb("old", by="ann", reason="again")


@played
async def test_each_batch_leaves_one_audit_row_that_counts(db):
    clock = Clock()
    async with working(db, *ALL, clock=clock) as app:
        for number in range(5):
            await (await app.start(simple, f"n{number}", id=f"r{number}")).result(within="20s")
        clock.offset = 31 * DAY
        assert (await app.purge(MONTH, **WHO, batch=2)).total == 5
        rows = [row for row in app.store.audits(None, None) if row.verb == "purge"]
        assert [(row.actor, '"runs":2' in row.after, '"runs":1' in row.after) for row in rows] == [
            ("ann", True, False), ("ann", True, False), ("ann", False, True),
        ]  # fmt: skip
        assert rows[0].reason.startswith("the retention of the shop (")
        assert verify_audit(app.store).broken is None
        assert (await app.purge(MONTH, **WHO)).total == 0
        assert len([row for row in app.store.audits(None, None) if row.verb == "purge"]) == 3


@played
async def test_an_unknown_operation_keeps_its_run_also_when_a_person_has_ended_it(db):
    clock = Clock()
    async with working(db, *ALL, clock=clock) as app:
        await app.start(lost, "a", id="held")
        await app.start(lost, "b", id="ended")
        await reaches(app, "held", RunState.HELD)
        await reaches(app, "ended", RunState.HELD)
        await app.terminate("ended", by="ann", reason="enough")
        clock.offset = 400 * DAY
        done = await app.purge(MONTH, **WHO)
        assert (done.total, done.kept) == (0, 1)
        await app.settle("ended", step="gets lost", happened=True, result='"b"', by="ann", reason="seen", override=True)
        assert (await app.purge(MONTH, **WHO)).total == 1
        assert owners(db) == {"held"}


@played
async def test_what_people_wanted_done_to_a_run_goes_with_it(db):
    """A settled result is in the proposal that two persons settled it by; a job on many says why it was refused."""
    policy = Permissions({"ann": "admin", "bob": "operator"}, two_persons=["settle"])
    kept, at_once = Permissions({"ann": "admin", "bob": "operator"}), Retention({"succeeded": "0s"})
    numbers = []
    async with working(db, *ALL, permissions=policy) as app:
        await app.start(lost, "a", id="r")
        await reaches(app, "r", RunState.HELD)
        for said in ("canary", "canary too"):
            with pytest.raises(SecondPersonNeeded) as needed:
                await app.settle("r", "gets lost", happened=True, result=f'"{said}"', by="ann", reason="seen")
            numbers.append(int(needed.value.ids["proposal"]))
        await app.confirm(numbers[0], by="bob", reason="seen too")
        await reaches(app, "r", RunState.SUCCEEDED)
        app.permissions = kept
        (refused,) = await app.bulk("retry", Selection(state="succeeded"), by="ann", reason="x", step="gets lost")
        assert refused.refused
        rows = rows_of(db)
        assert "canary too" in str(rows["proposal"])
        assert refused.refused in str(rows["bulk_run"])
        assert (await app.purge(at_once, **WHO)).total == 1
        rows = rows_of(db)
        assert "canary" not in str(rows)
        assert refused.refused not in str(rows["bulk_run"])
        with pytest.raises(VerbRefused, match="was purged, and what was proposed"):
            await app.confirm(numbers[1], by="bob", reason="seen too")
        assert [one.is_purged() for one in await app.proposals(every=True)] == [True, True]
        assert check(app.store).found == []
        assert verify_audit(app.store).broken is None
        await app.decline(numbers[1], by="bob", reason="it is gone")
    for verb in (["proposals", "--all"], ["bulks", "show", "1"]):
        for form in ((), ("--json",)):
            assert main([*verb, "--db", db, *form]) == 0


SEEN = """
    INSERT INTO observation (run, step, item, attempt, kind, says, evidence, current, seen_at)
    SELECT run, step, item, 1, '{}', {}, '{{}}', 1, first_settled_at + 1 FROM operation
"""

NEEDED = {
    "evidence that contradicts itself": (
        "UPDATE operation SET conflict = 1",
        "UPDATE operation SET conflict = 0",
    ),
    "a compensation that did not succeed": (
        "UPDATE operation SET compensates = 'another', state = 'failed', error = '{}'",
        "UPDATE operation SET state = 'succeeded'",
    ),
    "a reply that contradicts how its attempt was settled": (
        SEEN.format("reply", "'not applied'"),
        SEEN.format("conflict settled", "NULL"),
    ),
    "a refused signal that is not audited": (
        """
        INSERT INTO signal (run, id, name, payload, fingerprint, sender, state, reason, sent_at, closed_at, audited)
        SELECT no, 's', 'word', '1', 'f', 'bob', 'refused', 'the run has ended', ended_at, ended_at, 0 FROM run
        """,
        "UPDATE signal SET audited = 1",
    ),
}
"""What keeps a run that has ended otherwise: how it comes to be there, and how it is settled."""


@pytest.mark.parametrize("needed", NEEDED)
@played
async def test_what_is_not_settled_keeps_its_run_until_it_is(db, needed):
    """Each is planted alone: of the conditions that a purge asks, none but its own sees it."""
    clock = Clock()
    async with working(db, *ALL, clock=clock) as app:
        await (await app.start(simple, "a", id="r")).result(within="20s")
    async with App(db, workflows=ALL) as app:  # without a worker, which would audit what is left
        app.clock = clock
        clock.offset = 400 * DAY
        there, settled = NEEDED[needed]
        with tampering(db) as inside:
            assert inside.do(there) == 1
        done = await app.purge(MONTH, **WHO)
        assert (done.total, done.kept) == (0, 1)
        assert owners(db) == {"r"}
        with tampering(db) as inside:
            assert inside.do(settled) == 1
        done = await app.purge(MONTH, **WHO)
        assert (done.total, done.kept) == (1, 0)


@pytest.mark.parametrize("case", ["attached", "detached"])
@played
async def test_a_family_is_kept_until_the_last_of_it_is_over_and_goes_from_above(db, case):
    clock = Clock()
    async with working(db, *ALL, clock=clock) as app:
        above = parent if case == "attached" else lets_go
        await app.start(above, "a", id="p", **({"waits": True} if case == "attached" else {}))
        await reaches(app, "p", RunState.WAITING if case == "attached" else RunState.SUCCEEDED)
        await reaches(app, "p/child", RunState.WAITING)
        clock.offset = 400 * DAY
        assert (await app.purge(MONTH, **WHO)).total == 0
        await app.signal("p/child", "word", "done")
        await reaches(app, "p/child", RunState.SUCCEEDED)
        await reaches(app, "p", RunState.SUCCEEDED)
        clock.offset = 800 * DAY
        assert (await app.purge(MONTH, **WHO)).total == 2
        assert owners(db) == set()
        assert check(app.store).found == []


@played
async def test_states_that_are_not_named_are_kept(db):
    clock = Clock()
    async with working(db, *ALL, clock=clock) as app:
        await app.start(failing, "a", id="failed")
        await reaches(app, "failed", RunState.FAILED)
        await (await app.start(turns, "t", id="turns")).result(within="20s")
        clock.offset = 31 * DAY
        assert (await app.purge(Retention({"succeeded": "30d"}), **WHO)).runs == {"succeeded": 1}
        assert owners(db) == {"failed"}
        assert (await app.purge(Retention({"failed": "30d"}), **WHO)).runs == {"failed": 1}
        assert owners(db) == set()
        assert check(app.store).found == []


@played
async def test_a_child_goes_after_whoever_has_started_it(db):
    clock = Clock()

    @workflow(name="fails after")
    async def fails_after(run: Run, name: str) -> str:
        await run.child(simple, name, id=f"{run.id}/child")
        return await run.do(breaks())

    async with working(db, *ALL, fails_after, clock=clock) as app:
        await app.start(fails_after, "a", id="p")
        await reaches(app, "p", RunState.FAILED)
        clock.offset = 31 * DAY
        done = await app.purge(Retention({"succeeded": "30d"}), **WHO)
        assert (done.total, done.kept) == (0, 1)
        assert (await app.purge(MONTH, **WHO)).runs["succeeded"] == 1
        assert owners(db) == set()


def test_a_retention_says_what_it_cannot_be():
    for keep in ({}, {"running": "1d"}, {"compensation failed": "1d"}, {"held": "1d"}, {"succeeded": "soon"}):
        with pytest.raises(Misuse):
            Retention(keep)


@pytest.mark.parametrize("seed", range(4))
@played
async def test_whatever_a_ledger_holds_a_purge_leaves_it_whole(db, seed):
    """Random runs of every kind, ended or not, purged after a random age: what is needed is there, and all agrees."""
    draw = random.Random(seed)
    clock = Clock()
    codec = AesGcm({"k": b"k" * 32}) if seed % 2 else None
    started: dict[str, Any] = {}
    async with working(db, *ALL, clock=clock, codec=codec, inline_bytes=draw.choice([10, 10**6])) as app:
        for number in range(20):
            started[f"r{number}"] = draw.choice(ALL)
            await app.start(started[f"r{number}"], f"name {number}", id=f"r{number}")
        for run_id, declared in started.items():
            await reaches(app, run_id, *_settled(declared))
        for run_id, declared in started.items():
            if declared is lost and draw.random() < 0.5:
                await app.terminate(run_id, by="ann", reason="enough")
            if declared in (signalled, lets_go) and draw.random() < 0.5:
                waiting = run_id if declared is signalled else f"{run_id}/child"
                await app.signal(waiting, "word", "x")
                await reaches(app, waiting, RunState.SUCCEEDED)
        clock.offset = draw.randrange(20, 60) * DAY
        before = {run.id: run for run in await app.runs(limit=1_000)}
        needed = owners(db) if clock.offset < 30 * DAY else {one for one in before if _is_needed(app, one, before)}
        await app.purge(MONTH, **WHO, batch=draw.randrange(1, 8))
        assert needed <= owners(db), seed
        assert {run.id for run in await app.runs(limit=1_000)} == set(before)
        assert check(app.store).found == []
        assert verify_audit(app.store).broken is None
        for run_id, declared in started.items():
            if declared is lost and before[run_id].state is RunState.HELD:
                await app.settle(
                    run_id, step="gets lost", happened=True, result='"y"', by="ann", reason="seen", override=True
                )
                await reaches(app, run_id, RunState.SUCCEEDED)


def _settled(declared: Any) -> tuple[RunState, ...]:
    ends = {failing: RunState.FAILED, lost: RunState.HELD, signalled: RunState.WAITING}
    return (ends.get(declared, RunState.SUCCEEDED),)


def _is_needed(app: App, run_id: str, runs: dict[str, Any]) -> bool:
    """By the rules as a reader has them, asked of the histories and not of the statement."""
    run = runs[run_id]
    history = app.store.load(run.no)
    family = [child for child in history.children if child.ended_at is None]
    above = next((one for one in runs.values() if one.no == run.parent), None)
    unknown = any(one.state in ("unknown", "dispatched", "reserved") or one.conflict for one in history.operations)
    return run.ended_at is None or unknown or bool(family) or (above is not None and _is_needed(app, above.id, runs))
