"""What is contained gets nothing new: counted at the target, on both databases, whatever a worker has heard."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from fencepost.core.duration import HOUR
from fencepost.core.errors import Misuse
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import Fenced, KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Clock, Gate, find, keyed, played, reaches, target, until

BANK = {"bank": Target("http://bank.invalid"), "post": Target("http://post.invalid")}


@effect(repeatable=True, target="bank", retry=QUICK)
async def remind(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def reminds(run: Run, name: str) -> str:
    return await run.do(remind(name))


@effect(send_key=KeyHeader("K", window="15m"), compensate=Stands("meant to stay"), target="bank", retry=QUICK)
async def pay(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@workflow()
async def pays(run: Run, name: str) -> str:
    return await run.do(pay(name))


@workflow()
async def writes_and_pays(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} first"))
    return await run.do(pay(name))


def app_of(db, **options):
    return App(db, workflows=[pays, writes_and_pays, looks, reminds, books], **({"targets": BANK} | options))


@effect(
    reconcile=find, target="bank", retry=QUICK, settle="1ms", attempt_timeout="50ms", compensate=Stands("meant to stay")
)
async def look_first(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def looks(run: Run, name: str) -> str:
    return await run.do(look_first(name))


class Accounts:
    """A fence that is told tokens, and whom for; what is booked there is counted at the target."""

    name, weakness = "accounts", None

    def __init__(self):
        self.told = []

    async def raise_to(self, resource, token):
        self.told.append(resource)


accounts = Accounts()


@effect(reconcile=find, fence=Fenced(accounts, resource=lambda name: f"account:{name}"), retry=QUICK, settle="1ms",
        compensate=Stands("meant to stay"))  # fmt: skip
async def book(call: Call, name: str) -> str:
    call.token(f"account:{name}")
    return await target.take(call, name)


@workflow()
async def books(run: Run, name: str) -> str:
    return await run.do(book(name))


@asynccontextmanager
async def working(db, clock=None, **options):
    # A clock that is set by hours must not cost a lease.
    app = app_of(db, **({"lease": "90d"} if clock is not None else {}), **options)
    app.clock = clock
    async with app, app.worker():
        yield app


async def waits_behind(app, run_id):
    async def is_behind():
        run = (await app.show(run_id)).run
        return run.behind is not None and run.state is RunState.WAITING

    await until(is_behind, f"{run_id} to wait behind something")
    return (await app.show(run_id)).run


async def paid(app):
    return await app.start(pays, "one", id="r", on_behalf_of="acme/ann")


async def paid_in_line(app):
    """As what is enqueued for a resource, whose order it keeps."""
    return await app.begin(pays, ("one",), {}, id="r", on_behalf_of=None, resource="account:one")


async def booked(app):
    return await app.start(books, "one", id="r")


@played
@pytest.mark.parametrize(
    ("kind", "name", "begin"),
    [
        ("target", "bank", paid),
        ("workflow", "pays", paid),
        ("tenant", "acme", paid),
        ("tenant", "acme/ann", paid),
        ("resource", "account:one", paid_in_line),
        ("resource", "account:one", booked),
    ],
)
async def test_nothing_is_sent_toward_it_and_the_run_goes_on_by_itself_when_it_is_released(db, kind, name, begin):
    async with working(db) as app:
        contained = await app.contain(kind, name, by="ann", reason="it books twice")
        assert contained.text == f"{kind} {name} by ann because it books twice"
        handle = await begin(app)
        run = await waits_behind(app, "r")
        assert (run.wake_at, target.requests) == (None, [])
        await app.release(kind, name, by="bob", reason="mended")
        assert await handle.result(within="20s") == "made one"
        assert target.requests == ["one"]
        (operation,) = (await app.show("r")).operations
        assert len(operation.attempts) == 1
        assert not (await app.check()).found


@played
@pytest.mark.parametrize("behalf", [None, "acme2/ann", "other"])
async def test_what_does_not_go_toward_it_is_sent(db, behalf):
    async with working(db) as app:
        for kind, name in [
            ("target", "post"),
            ("workflow", "pay"),
            ("tenant", "acme"),
            ("resource", "bank"),
            ("resource", "account:o"),
        ]:
            await app.contain(kind, name, by="ann", reason="x")
        handle = await app.start(pays, "one", id="r", on_behalf_of=behalf)
        assert await handle.result(within="20s") == "made one"


@played
async def test_what_was_reserved_under_another_credential_is_stopped_by_the_one_it_would_be_sent_under(db):
    target.plan("one", Gate())
    old, new = ({"bank": Target("http://bank.invalid", scope=scope)} for scope in ("old", "new"))
    gate = target.script["one"][0]
    gate.error = ConnectionResetError("gone")
    async with working(db, targets=old) as app:
        await app.start(reminds, "one", id="r")
        await gate.reached.wait()
        await app.contain("target", "bank", by="ann", reason="x")
        gate.opened.set()
        await waits_behind(app, "r")
    async with working(db, targets=new) as app:
        await app.contain("credential", "new", by="ann", reason="it leaked")
        await app.release("target", "bank", by="ann", reason="y")
        await waits_behind(app, "r")
        assert target.requests == ["one"]
        await app.release("credential", "new", by="ann", reason="y")
        await reaches(app, "r", RunState.SUCCEEDED)
        assert target.requests == ["one", "one"]


@played
async def test_a_worker_that_has_not_heard_of_it_is_refused_by_the_ledger_and_keeps_what_it_knew(db):
    gate = Gate()
    target.plan("one first", gate)
    async with working(db) as app:
        handle = await app.start(writes_and_pays, "one", id="r")
        await gate.reached.wait()
        # Another process contains it; this one has looked a moment ago, and hears of it when it is refused.
        async with app_of(db) as other:
            await other.contain("target", "bank", by="ann", reason="x")
        assert not app.host.containments.may_stop("\ntarget 7:default bank\n")
        gate.opened.set()
        await waits_behind(app, "r")
        assert target.requests == ["one first"]
        assert [one.state for one in (await app.show("r")).operations] == ["succeeded"]
        await app.release("target", "bank", by="ann", reason="y")
        await handle.result(within="20s")
        assert target.requests == ["one first", "one"]


@played
async def test_a_look_up_goes_on_and_only_the_resend_waits(db):
    lost = Gate()
    lost.error = ConnectionResetError("gone")
    target.plan("five", lost)
    async with working(db) as app:
        await app.start(looks, "five", id="five")
        await lost.reached.wait()
        await app.contain("target", "bank", by="ann", reason="x")
        lost.opened.set()
        await waits_behind(app, "five")  # it was looked up, found absent, and may not go again
        assert target.looked >= 1
        assert target.requests == ["five"]
        assert await kinds_seen(app, "five") == ["contained"]
        await app.release("target", "bank", by="ann", reason="y")
        await reaches(app, "five", RunState.SUCCEEDED)
        assert await kinds_seen(app, "five") == ["contained", "released"]
        assert target.requests == ["five", "five"]


async def kinds_seen(app, run_id):
    (operation,) = (await app.show(run_id)).operations
    return [seen.kind for seen in operation.observations if seen.kind in ("contained", "released")]


@played
async def test_the_time_for_which_it_was_kept_back_counts_against_no_budget(db):
    clock = Clock()
    target.plan("five", Gate())
    async with working(db, clock=clock) as app:
        gate = target.script["five"][0]
        gate.error = ConnectionResetError("gone")
        await app.start(looks, "five", id="five")
        await gate.reached.wait()
        await app.contain("target", "bank", by="ann", reason="x")
        gate.opened.set()
        await waits_behind(app, "five")
        clock.offset += 10 * HOUR  # of a budget of one minute
        await app.release("target", "bank", by="ann", reason="y")
        await reaches(app, "five", RunState.SUCCEEDED)
        assert target.requests == ["five", "five"]


@played
async def test_a_second_click_changes_nothing_and_the_audit_has_one_row_each(db):
    async with app_of(db) as app:
        first = await app.contain("target", "bank", by="ann", reason="x")
        assert await app.contain("target", "bank", by="bob", reason="y") == first
        assert [one.name for one in await app.contained()] == ["bank"]
        assert await app.release("target", "bank", by="bob", reason="y") == first
        assert await app.release("target", "bank", by="bob", reason="y") is None
        rows = await app.audit(run="target:bank")
        assert [(row.verb, row.actor) for row in rows] == [("release", "bob"), ("contain", "ann")]
        assert json.loads(rows[1].after)["actor"] == "ann"
        assert await app.contained() == []
        for kind, by, reason in [("planet", "ann", "x"), ("target", " ", "x"), ("target", "ann", "")]:
            with pytest.raises(Misuse):
                await app.contain(kind, "bank", by=by, reason=reason)


@played
async def test_a_run_that_waits_behind_it_can_be_cancelled(db):
    async with working(db) as app:
        await app.contain("workflow", "pays", by="ann", reason="x")
        await app.start(pays, "one", id="r")
        await waits_behind(app, "r")
        await app.cancel("r", by="ann", reason="never mind")
        await reaches(app, "r", RunState.CANCELLED)
        assert target.requests == []


@played
async def test_a_release_that_was_cut_short_is_made_good(db):
    async with working(db) as app:
        await app.contain("target", "bank", by="ann", reason="x")
        handle = await app.start(pays, "one", id="r")
        await waits_behind(app, "r")
        found = await asyncio.to_thread(app.store.contained, "default")
        from fencepost.runtime.containing import audit

        row = audit(found[0], "release", by="ann", reason="y", before=found[0])
        await asyncio.to_thread(app.store._release, found[0].mark, row)
        assert await handle.result(within="20s") == "made one"
