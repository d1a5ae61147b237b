"""An expired key, and a target that is down, cost requests once: counted at the world, over real HTTP."""

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager

import pytest

from fencepost.core.breaker import Breaker, Says
from fencepost.core.classify import Reading
from fencepost.core.contract import Retry
from fencepost.core.duration import SECOND
from fencepost.core.errors import DeclarationError
from fencepost.core.states import OperationState, Outcome
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.testing.world import Fault, World
from tests.runtime.stage import Clock, played, target, until

RUNS, PLACES = 200, 20
MINUTE = 60 * SECOND


@pytest.fixture(scope="module")
def the_world(tmp_path_factory):
    with World.start(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def world(the_world):
    the_world.configure("tasks", faults=[])
    yield the_world
    the_world.configure("tasks", faults=[])


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"), target="tasks", compensate=Stands("meant to stay"),
    retry=Retry(attempts=1, within="1m"),
)  # fmt: skip
async def create(call: Call, name: str) -> str:
    reply = await call.http.post("/tasks", json={"title": name})
    return str(reply.status)


@workflow()
async def creates(run: Run, name: str) -> str:
    return await run.do(create(name))


@effect(
    send_key=KeyHeader("K", window="24h"), target="near", compensate=Stands("meant to stay"),
    retry=Retry(attempts=20, within="1m", first_delay="1ms", longest_delay="1ms"),
)  # fmt: skip
async def tries(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@workflow()
async def trying(run: Run, name: str) -> str:
    return await run.do(tries(name))


@asynccontextmanager
async def working(db, clock, world=None, runs_max=1_000, **breaker):
    app = App(
        db,
        workflows=[creates, trying],
        targets={
            "tasks": Target(
                "http://x.invalid" if world is None else world.tasks.url, scope="acct", breaker=Breaker(**breaker)
            ),
            "near": Target("http://x.invalid", scope="near", breaker=Breaker(**breaker)),
        },
        lease="90d",  # the clock is set by minutes, which must not cost it
    )
    app.clock = clock
    async with app, app.worker(runs_max=runs_max):
        yield app


def named(db, number=0):
    """A run's id that no other test has: keys are made from it, and the world remembers them."""
    return f"{hashlib.sha256(db.encode()).hexdigest()[:12]}-{number}"


def expired(world, status=401):
    world.configure("tasks", faults=[Fault(do="answer", status=status, times=None)])


def requests(world):
    counts = world.counts()["tasks"]
    return counts.requests, counts.objects


async def behind(app, number):
    async def all_wait():
        await asyncio.sleep(0.05)
        return sum(one.behind is not None for one in await app.runs(limit=1_000)) == number

    await until(all_wait, f"{number} runs to wait behind a breaker")


@played
async def test_two_hundred_runs_with_an_expired_key_cost_a_request_for_each_place_and_not_for_each_run(db, world):
    clock, (sent, made) = Clock(), requests(world)
    expired(world)
    async with working(db, clock, world, runs_max=PLACES) as app:
        for number in range(RUNS):
            await app.start(creates, f"{db} {number}", id=named(db, number))
        await behind(app, RUNS)
        used = requests(world)[0] - sent
        assert 1 <= used <= PLACES  # those that were on their way when the first was refused
        (breaker,) = await app.contained()
        assert (breaker.kind, breaker.name, breaker.actor) == ("credential", "acct", "breaker")
        assert breaker.text == "credential acct by breaker because tasks refused the credential with status 401"
        # Each cool-down costs one request more, made by one run.
        for more, cool_down in enumerate((31, 61), 1):
            clock.offset += cool_down * SECOND
            await until(lambda wanted=sent + used + more: requests(world)[0] == wanted, "one run to be let through")
            await behind(app, RUNS)
        assert (await app.contained())[0].cool_down == 120 * SECOND
        # The key is renewed: the next one that is let through closes it, and everybody goes on.
        world.configure("tasks", faults=[])
        clock.offset += 121 * SECOND

        async def all_done():
            await asyncio.sleep(0.05)
            return len(await app.runs(state="succeeded", limit=1_000)) == RUNS

        await until(all_done, "every run to succeed")
        assert await app.contained() == []
        assert requests(world) == (sent + used + 2 + RUNS, made + RUNS)
        rows = await app.audit(run="credential:acct")
        assert [(row.verb, row.actor, row.reason) for row in rows] == [
            ("release", "breaker", "it works again"),
            ("contain", "breaker", "tasks refused the credential with status 401"),
        ]
        assert json.loads(rows[1].after)["cool_down"] == 30 * SECOND


@played
async def test_a_person_closes_it(db, world):
    clock, (sent, made) = Clock(), requests(world)
    expired(world)
    async with working(db, clock, world) as app:
        handle = await app.start(creates, f"{db} x", id=named(db))
        await behind(app, 1)
        world.configure("tasks", faults=[])
        await app.release("credential", "acct", by="ann", reason="the key is renewed")
        assert await handle.result(within="20s") == "201"
        assert requests(world) == (sent + 2, made + 1)
        (operation,) = (await app.show(named(db))).operations
        assert [one.outcome for one in operation.attempts] == [Outcome.NOT_APPLIED, Outcome.APPLIED]


@played
async def test_what_may_have_happened_opens_nothing_and_is_reconciled(db, world):
    clock, (sent, made) = Clock(), requests(world)
    world.configure("tasks", faults=[Fault(do="answer", status=503, when="after", times=None)])
    async with working(db, clock, world, failures=1) as app:
        for number in range(3):
            await app.start(creates, f"{db} {number}", id=named(db, number))

        async def all_held():
            return len(await app.runs(state="held")) == 3

        await until(all_held, "every run to be held")
        assert await app.contained() == []
        states = [(await app.show(named(db, number))).operations[0].state for number in range(3)]
        assert states == [OperationState.UNKNOWN] * 3
        assert requests(world) == (sent + 3, made + 3)


@played
async def test_a_target_that_refuses_connections_again_and_again_is_left_alone(db):
    target.plan("x", *["busy"] * 7)
    clock = Clock()
    async with working(db, clock, failures=5) as app:
        handle = await app.start(trying, "x", id="r")
        await behind(app, 1)
        assert len(target.script["x"]) == 2  # five were tried
        (breaker,) = await app.contained()
        assert (breaker.kind, breaker.name) == ("target", "near")
        for left in (1, 0):
            clock.offset += 11 * MINUTE
            await until(lambda left=left: len(target.script["x"]) == left, "one more to be tried")
            await behind(app, 1)
        clock.offset += 11 * MINUTE
        assert await handle.result(within="20s") == "made x"
        assert await app.contained() == []


@played
async def test_a_run_that_is_let_through_and_brings_no_answer_makes_room_for_another(db, world):
    clock, (sent, _) = Clock(), requests(world)
    expired(world)
    async with working(db, clock, world) as app:
        for number in range(2):
            await app.start(creates, f"{db} {number}", id=named(db, number))
        await behind(app, 2)
        used = requests(world)[0] - sent
        world.configure("tasks", faults=[Fault(do="answer", status=503, times=1)])
        clock.offset += 31 * SECOND

        async def one_is_held():
            return len(await app.runs(state="held")) == 1

        await until(one_is_held, "the run that was let through to be held, unknown")
        assert (await app.contained())[0].probe_run is not None
        clock.offset += 3 * MINUTE

        async def the_other_is_done():
            return len(await app.runs(state="succeeded")) == 1

        await until(the_other_is_done, "the other to be let through")
        assert requests(world)[0] == sent + used + 2
        assert await app.contained() == []


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (None, Says.WORKS),
        (Reading(Outcome.NOT_APPLIED, retryable=False, status=401), Says.REFUSES),
        (Reading(Outcome.NOT_APPLIED, retryable=False, status=422), Says.WORKS),
        (Reading(Outcome.NOT_APPLIED, retryable=True, status=429), Says.FAILS),
        (Reading(Outcome.NOT_APPLIED, retryable=True), Says.FAILS),
        (Reading(Outcome.NOT_APPLIED, retryable=False), Says.NOTHING),
        (Reading(Outcome.NOT_APPLIED, retryable=False, status=401, replayed=True), Says.NOTHING),
        (Reading(Outcome.UNRESOLVED, retryable=True, status=401), Says.NOTHING),
        (Reading(Outcome.UNRESOLVED, retryable=True), Says.NOTHING),
    ],
)
def test_what_an_attempt_says_to_a_breaker(reading, says):
    assert Breaker().hears(reading) is says


@pytest.mark.parametrize(
    "wrong", [{"failures": 0}, {"cool_down": "1ms"}, {"cool_down": "1h", "longest_cool_down": "1m"}]
)
def test_a_breaker_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(DeclarationError):
        Breaker(**wrong)
