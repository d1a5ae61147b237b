"""C13: a run of five effects is cancelled while the first is in flight; nothing more is sent, counted at the world."""

import asyncio
import threading

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import CancelAccepted, RunCancelled
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Absent, Conflicting, Found
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.testing.world import Fault, World
from tests.runtime.stage import operation, played, reaches, until, working

QUICK = Retry(attempts=5, within="1m", first_delay="2ms", longest_delay="10ms")
HOLD = Fault(do="wait", when="after", hold=True, name="in flight")


async def find(call: Call, name: str) -> Found[str] | Absent | Conflicting:
    found = await call.http.get("/tasks", params={"external_key": call.key})
    return Found.only(str(one["id"]) for one in found.json())


declared = effect(
    target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"), reconcile=find, settle="10ms",
    attempt_timeout="5s", retry=QUICK, reference=str,
)  # fmt: skip


@declared
async def create(call: Call, name: str) -> str:
    """Makes a task."""
    reply = await call.http.post("/tasks", json={"external_key": call.key, "name": name})
    return str(reply.json()["id"])


@workflow()
async def five(run: Run) -> int:
    for number in range(5):
        await run.do(create(str(number)), item=str(number))
    return 5


@workflow()
async def parent(run: Run) -> int:
    await run.child(five, id="aside", detached=True)
    return await run.child(five, id="child")


@pytest.fixture(scope="module")
def earth(tmp_path_factory):
    with World.start(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture
def world(earth):
    earth.configure("tasks", faults=[])
    earth.before = len(earth.files.requests("tasks"))
    return earth


def sent(world: World) -> list[tuple[str, str]]:
    return [(line.method, line.body) for line in world.files.requests("tasks")[world.before :]]


def posted(world: World) -> int:
    return sum(method == "POST" for method, _ in sent(world))


@played
async def test_the_one_in_flight_is_the_last_and_its_reply_is_taken_in(db, world):
    world.configure("tasks", faults=[HOLD])
    async with working(db, five, targets={"tasks": Target(world.tasks.url)}) as app:
        app.host.overdue.grace = 0.1
        handle = await app.start(five, id="r")
        await asyncio.to_thread(world.until_waiting, "in flight")
        await app.cancel("r", by="ann", reason="stop")
        await until(lambda: app._workers[0]._lives[1].changed, "the worker to hear of it")
        await asyncio.sleep(0.5)  # longer than the grace: a write on its way is not torn, its reply says more
        world.release("in flight")
        with pytest.raises(RunCancelled):
            await handle.result()
        found = (await app.show("r")).cancellation
    (one,) = found.operations
    assert (one.state, one.looked_up, [seen.how for seen in one.told]) == (OperationState.SUCCEEDED, None, ["flagged"])
    assert [(one.position, one.reference) for one in found.stands] == [("create[0]", one.reference)]
    assert posted(world) == 1


@played
async def test_an_attached_child_is_cancelled_and_a_detached_one_is_listed_and_goes_on(db, world):
    world.configure("tasks", faults=[Fault(do="wait", when="after", hold=True, name="in flight", times=None)])
    async with working(db, parent, five, targets={"tasks": Target(world.tasks.url)}) as app:
        await app.start(parent, id="r")
        await asyncio.to_thread(world.until_waiting, "in flight", 2)
        await app.cancel("r", by="ann", reason="stop")
        assert (await app.show("child")).run.state is RunState.CANCELLING
        world.configure("tasks", faults=[])
        world.release("in flight")
        await reaches(app, "r", RunState.CANCELLED)
        await reaches(app, "aside", RunState.SUCCEEDED)
        children = {one.id: (one.attached, one.state) for one in (await app.show("r")).cancellation.children}
    assert children == {"child": (True, RunState.CANCELLED), "aside": (False, RunState.SUCCEEDED)}
    assert posted(world) == 6


def refusing(db, world, make):
    """A body that is cancelled before its first write: refused at the door, counted at the world, and proved."""
    reached, may_go_on, refused = threading.Event(), threading.Event(), []
    late = make(reached, may_go_on, refused)

    @workflow(name="late")
    async def flow(run: Run) -> str:
        return await run.do(late())

    async def play():
        async with working(db, flow, targets={"tasks": Target(world.tasks.url)}) as app:
            handle = await app.start(flow, id="r")
            await asyncio.to_thread(reached.wait, 10)
            await app.cancel("r", by="ann", reason="stop")
            await until(lambda: app._workers[0]._lives[1].changed, "the worker to hear of it")
            may_go_on.set()
            with pytest.raises(RunCancelled):
                await handle.result()
            assert (await operation(app, "r", "late")).state is OperationState.CANCELLED

    asyncio.run(play())
    assert (posted(world), len(refused)) == (0, 1)


def write_async(reached, may_go_on, refused):
    @effect(target="tasks", on_unknown="hold", retry=QUICK, name="late")
    async def late(call: Call) -> str:
        reached.set()
        await until(may_go_on.is_set, "the cancel")
        try:
            return (await call.http.post("/tasks", json={})).text
        except CancelAccepted as error:
            refused.append(error)
            raise

    return late


def write_in_a_thread(reached, may_go_on, refused):
    @effect(target="tasks", on_unknown="hold", retry=QUICK, name="late")
    def late(call: SyncCall) -> str:
        reached.set()
        may_go_on.wait(10)
        try:
            return call.http.post("/tasks", json={}).text
        except CancelAccepted as error:
            refused.append(error)
            raise

    return late


@pytest.mark.parametrize("make", [write_async, write_in_a_thread])
def test_a_send_after_the_cancel_is_refused_at_the_door(db, world, make):
    refusing(db, world, make)


@played
async def test_what_was_lost_on_its_way_is_asked_about_and_not_sent_again(db, world):
    """A keyed effect could be sent again under its key; of a cancelled one the target is asked."""
    world.configure("tasks", faults=[Fault(do="reset", when="before", hold=True, name="lost")])
    async with working(db, five, targets={"tasks": Target(world.tasks.url)}) as app:
        handle = await app.start(five, id="another")
        await asyncio.to_thread(world.until_waiting, "lost")
        await app.cancel("another", by="ann", reason="stop")
        await until(lambda: app._workers[0]._lives[1].changed, "the worker to hear of it")
        world.release("lost")
        with pytest.raises(RunCancelled):
            await handle.result()
        (one,) = (await app.show("another")).cancellation.operations
    assert (one.state, one.looked_up) == (OperationState.CANCELLED, "absent")
    assert posted(world) == 1
