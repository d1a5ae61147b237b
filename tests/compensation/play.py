"""Plays all squares of the compensation matrix side by side, on one ledger and against one world in this process.

The world counts what it holds and what it was asked for; a script says what goes wrong with whose request or question.
What is right is said in `cells`.
"""

import asyncio
from collections import Counter

from fencepost.core.contract import Retry
from fencepost.core.errors import NotSent, StepFailed
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import effect
from fencepost.effects.policy import Allowed, Refused
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.compensation import cells
from tests.compensation.cells import SHAPES, Came, Cell

SECONDS_MAX = 60.0
UNDO = "undo "
LOST, DROPPED, REFUSED = "lost", "dropped", "refused"

ONCE = Retry(attempts=1, within="5m", first_delay="2ms", longest_delay="5ms")
TWICE = Retry(attempts=2, within="5m", first_delay="2ms", longest_delay="5ms")


class World:
    """What is outside: objects, and what happens to the first request for each."""

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.requests: list[str] = []
        self.first: dict[str, str] = {}
        self.dark: set[str] = set()
        self.busy: set[str] = set()
        self.forbidden: set[str] = set()

    def take(self, name: str) -> str:
        happens = self.first.pop(name, "")
        if happens == REFUSED:
            raise NotSent("not this one")
        self.requests.append(name)
        if happens == DROPPED:
            raise OSError("lost on its way")
        self.objects[name] += 1
        if happens == LOST:
            raise OSError("the reply is lost")
        return f"made {name}"

    def look(self, name: str) -> Found[str] | Absent | Inconclusive | Conflicting:
        if name in self.dark:
            return Inconclusive("nobody can tell")
        return Found.only(f"made {name}" for _ in range(self.objects[name]))


world = World()


def not_forbidden(principal: str | None, name: str, result: str | None, reference: str | None) -> Allowed | Refused:
    return Refused("it is too late") if name in world.forbidden else Allowed("in time")


async def find_undone(
    call: Call, name: str, result: str | None, reference: str | None
) -> Found[str] | Absent | Inconclusive | Conflicting:
    return world.look(UNDO + name)


@effect(reconcile=find_undone, attempt_timeout="800ms", settle="10ms", retry=TWICE)
async def unmake(call: Call, name: str, result: str | None, reference: str | None) -> str:
    if name in world.busy:
        with call.sending():
            raise ConnectionRefusedError("nobody listens, as often as one comes")
    return world.take(UNDO + name)


async def find(call: Call, name: str) -> Found[str] | Absent | Inconclusive | Conflicting:
    return world.look(name)


@effect(
    reconcile=find, attempt_timeout="800ms", settle="10ms", retry=ONCE,
    compensate=Compensation(unmake, policy=not_forbidden),
)  # fmt: skip
async def make(call: Call, name: str) -> str:
    return world.take(name)


async def do(run: Run, shape: int) -> None:
    """Every effect of a shape, and then the failure for which one goes back."""
    found = SHAPES[shape]

    async def branch(effects: str) -> None:
        for one in effects:
            after = [(make, low) for low in found.rests.get(one, "")]
            await run.do(make(f"{run.id} / {one}"), item=one, after=after)

    await run.gather(*map(branch, found.branches))
    raise ValueError("the business is off")


@workflow(name="workflow")
async def by_itself(run: Run, shape: int) -> None:
    try:
        await do(run, shape)
    except (StepFailed, ValueError) as error:
        await run.compensate(reason=str(error))


@workflow(name="declared", on_failure="compensate")
async def as_declared(run: Run, shape: int) -> None:
    await do(run, shape)


@workflow(name="person")
async def by_a_person(run: Run, shape: int) -> None:
    await do(run, shape)


WORKFLOWS = {declared.name: declared for declared in (by_itself, as_declared, by_a_person)}


def prepare(played: list[Cell]) -> None:
    """Tell the world what goes wrong in each square."""
    world.__init__()
    for cell in played:
        name = cell.name(cell.place)
        match cell.trouble:
            case cells.EFFECT_REFUSED:
                world.first[name] = REFUSED
            case cells.EFFECT_HAPPENED | cells.EFFECT_DARK:
                world.first[name] = LOST
            case cells.EFFECT_ABSENT:
                world.first[name] = DROPPED
            case cells.UNDO_REFUSED:
                world.first[UNDO + name] = REFUSED
            case cells.UNDO_HAPPENED | cells.UNDO_DARK:
                world.first[UNDO + name] = LOST
            case cells.UNDO_ABSENT:
                world.first[UNDO + name] = DROPPED
            case cells.UNDO_BUSY:
                world.busy.add(name)
            case cells.UNDO_FORBIDDEN:
                world.forbidden.add(name)
        world.dark |= {name} if cell.trouble == cells.EFFECT_DARK else set()
        world.dark |= {UNDO + name} if cell.trouble == cells.UNDO_DARK else set()


async def play(url: str, played: list[Cell]) -> tuple[dict[Cell, Came], list[str]]:
    """What each square came to, and what contradicts itself in the ledger afterwards."""
    prepare(played)
    app = App(url, workflows=WORKFLOWS.values())
    async with app, app.worker():
        starts = [app.start(WORKFLOWS[cell.starter], SHAPES.index(cell.shape), id=str(cell)) for cell in played]
        await asyncio.gather(*starts)
        persons = [str(cell) for cell in played if cell.starter == "person"]
        await _until(app, persons, {RunState.FAILED, RunState.HELD})
        for run in persons:
            await app.compensate(run, by="ann", reason="the business is off")
        states = await _until(app, list(map(str, played)), FINAL_RUN_STATES | {RunState.HELD})
        checked = await app.check()
    return {cell: _came(cell, states[str(cell)]) for cell in played}, [str(one) for one in checked.found]


async def _until(app: App, runs: list[str], wanted: set[RunState] | frozenset[RunState]) -> dict[str, RunState]:
    give_up_at = asyncio.get_running_loop().time() + SECONDS_MAX
    while True:
        states = {run.id: run.state for run in await app.runs(limit=10_000)}
        left = [run for run in runs if states[run] not in wanted]
        if not left:
            return states
        if asyncio.get_running_loop().time() > give_up_at:
            raise TimeoutError(f"{len(left)} runs did not come to an end, such as {left[0]}: {states[left[0]]}")
        await asyncio.sleep(0.05)


def _came(cell: Cell, state: RunState) -> Came:
    def held(prefix: str) -> dict[str, int]:
        counts = {one: world.objects[prefix + cell.name(one)] for one in cell.shape.effects}
        return {one: count for one, count in counts.items() if count}

    asked = [name for name in world.requests if name.startswith(f"{UNDO}{cell} / ")]
    return Came(held(""), held(UNDO), [name[-1] for name in asked], state.value)
