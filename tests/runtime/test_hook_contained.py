"""A target that is contained is not asked to cancel either: counted at the hook, whatever a worker has heard."""

import json

import pytest

from fencepost.console.cancelled import layers
from fencepost.console.story import story
from fencepost.core.containment import BREAKER, Containment, Kind, mark
from fencepost.core.duration import HOUR
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import Fenced
from fencepost.runtime.app import App
from fencepost.runtime.containing import audit
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, played, reaches, target, undo, until

asked_to_cancel: list[str] = []


async def stop_it(call: Call, name: str, reference: str | None) -> str:
    asked_to_cancel.append(name)
    return "cancelled"


@effect(on_unknown="hold", target="bank", retry=QUICK, compensate=undo, cancel=stop_it)
async def shot(call: Call, name: str) -> str:
    return await target.take(call, name)


class Accounts:
    """A fence that lets everything in."""

    name, weakness = "accounts", None

    async def raise_to(self, resource, token):
        pass


@effect(
    on_unknown="hold", fence=Fenced(Accounts(), resource=lambda name: f"account:{name}"), retry=QUICK, compensate=undo,
    cancel=stop_it,
)  # fmt: skip
async def fenced_shot(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def shots(run: Run, fenced: bool) -> str:
    return await run.do((fenced_shot if fenced else shot)("a"))


def app_of(db):
    return App(db, workflows=[shots], targets={"bank": Target("http://bank.invalid", scope="acct-7")})


@pytest.fixture(autouse=True)
def forgetful():
    asked_to_cancel.clear()


async def by_a_person(app, kind, name):
    await app.contain(kind, name, by="ann", reason="it books twice")


async def by_a_breaker(app, kind, name):
    now, wanted = app.store.now(), mark("default", Kind(kind), name)
    opened = Containment(wanted, "default", Kind(kind), name, BREAKER, "it fails", now, HOUR, now + HOUR)
    app.store.contain(opened, audit(opened, "contain", by=BREAKER, reason="it fails", after=opened))


CONTAINED = [
    (by_a_person, "target", "bank"),
    (by_a_person, "tenant", "acme"),
    (by_a_person, "workflow", "shots"),
    (by_a_person, "credential", "acct-7"),
    (by_a_person, "resource", "account:a"),
    (by_a_person, "resource", "line"),
    (by_a_breaker, "target", "bank"),
    (by_a_breaker, "credential", "acct-7"),
]


@pytest.mark.parametrize(("contain", "kind", "name"), CONTAINED)
@played
async def test_what_is_contained_is_not_asked_and_after_the_release_it_is_asked_once(db, contain, kind, name):
    target.plan("a", "lose")
    async with app_of(db) as app, app.worker():
        resource = "line" if name == "line" else None
        await app.begin(shots, (name == "account:a",), {}, id="r", on_behalf_of="acme/ann", resource=resource)
        await reaches(app, "r", RunState.HELD)
        async with app_of(db) as elsewhere:  # the worker hears of it when it asks
            await contain(elsewhere, kind, name)
        await app.cancel("r", by="ann", reason="stop")

        async def told():
            (one,) = (await app.show("r")).cancellation.operations
            return [json.loads(each.answer) for each in one.provider if each.answer is not None]

        (answer,) = await until(told, "what became of the hook")
        assert answer["sends"] == 0
        assert f"{kind} {name} by " in answer["contained"]
        await reaches(app, "r", RunState.HELD)
        await app.resume("r", by="ann", reason="look again")
        await reaches(app, "r", RunState.HELD)
        assert len(await told()) == 1, "each life would say it again"
        assert (asked_to_cancel, target.requests) == ([], ["a"])

        screen = "\n".join(layers(story(await app.show("r"), app.store.leases(), [])["cancellation"]))
        assert f"not asked to cancel, it is contained: {kind} {name} by " in screen

        await app.release(kind, name, by="ann", reason="mended")
        await app.resume("r", by="ann", reason="look again")
        await until(lambda: answered(told, 2), "the target's answer")
        await app.resume("r", by="ann", reason="once more")
        await reaches(app, "r", RunState.HELD)
        assert asked_to_cancel == ["a"]


async def answered(told, count):
    return len(await told()) == count
