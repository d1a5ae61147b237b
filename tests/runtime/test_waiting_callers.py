"""What those who wait cost a ledger: its statements are counted, while callers wait for results and signals come.

What they are told in the end is in test_start and test_signals.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.handle import LOOK_AGAIN_MAX, Looks
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, keyed, once, played, reaches, target, until, working


@workflow()
async def short(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow()
async def either(run: Run) -> str:
    """The wait is heard while an effect is in flight."""

    async def asks() -> str:
        word = await run.wait("word", str)
        return await run.do(once(word))

    return (await run.gather(run.do(keyed("long")), asks()))[1]


class Counted:
    """Counts a store's verbs, and notes on which threads they were asked."""

    def __init__(self, app: App, monkeypatch: pytest.MonkeyPatch, *verbs: str) -> None:
        self.counts: Counter[str] = Counter()
        self.threads: dict[str, set[int]] = {verb: set() for verb in verbs}
        for verb in verbs:
            monkeypatch.setattr(app.store, verb, self._counting(verb, getattr(app.store, verb)))

    def _counting(self, verb: str, asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **kwargs: Any) -> Any:
            self.counts[verb] += 1
            self.threads[verb].add(threading.get_ident())
            return asked(*args, **kwargs)

        return ask


@pytest.fixture
def is_file(dialect: str) -> bool:
    return dialect == "sqlite"


@played
async def test_a_caller_who_waits_for_a_run_of_nobody_asks_a_quiet_file_once_and_a_server_less_and_less(
    db, monkeypatch, is_file
):
    async with App(db, workflows=[short]) as app:
        handle = await app.start(short, "a", id="r")
        asked = Counted(app, monkeypatch, "find")
        with pytest.raises(TimeoutError, match="is ready after"):
            await handle.result(within="1500ms")
    # The last one says in which state the run is.
    assert asked.counts["find"] == 2 if is_file else asked.counts["find"] <= 12


@played
async def test_a_file_is_asked_again_when_somebody_else_has_written_and_not_before(tmp_path, monkeypatch):
    file = f"sqlite:///{tmp_path / 'ledger.db'}"
    async with App(file, workflows=[short]) as app, App(file, workflows=[short]) as other:
        handle = await app.start(short, "a", id="r")
        await other.start(short, "before", id="before")
        asked = Counted(app, monkeypatch, "find")
        looked: list[bool] = []
        monkeypatch.setattr(Looks, "is_worthwhile", _noting(looked, Looks.is_worthwhile))
        result = asyncio.create_task(handle.result())
        for writes in range(1, 4):
            looked.clear()
            await until(lambda: len(looked) > 2, "the caller to look again, twice in vain")
            assert asked.counts["find"] == writes
            await other.start(short, "b", id=f"other-{writes}")
            await until(lambda so_far=writes: asked.counts["find"] > so_far, "the caller to ask again")
        result.cancel()


def _noting(looked: list[bool], look: Callable[[Looks], bool]) -> Callable[[Looks], bool]:
    def noted(looks: Looks) -> bool:
        looked.append(look(looks))
        return looked[-1]

    return noted


@played
async def test_a_caller_hears_of_an_end_by_another_process_and_one_that_came_with_its_last_moment_too(db, monkeypatch):
    async with App(db, workflows=[short]) as caller:
        handle = await caller.start(short, "a", id="r")
        monkeypatch.setattr(Looks, "pause", lambda looks: 3600.0)
        late = asyncio.create_task(handle.result(within="2s"))
        async with working(db, short) as worker:
            await reaches(worker, "r", RunState.SUCCEEDED)
        assert await late == "made a"


@played
async def test_pauses_grow_to_a_second_before_a_server_and_not_before_a_file(db, is_file):
    async with App(db, workflows=[short]) as app:
        looks = Looks(app.store)
        pauses = [looks.pause() for _ in range(30)]
    assert pauses[0] == 0.05
    assert pauses[-1] == (0.05 if is_file else LOOK_AGAIN_MAX)
    assert all(later <= 1.25 * before + 1e-9 for before, later in pairwise(pauses))


@played
async def test_a_caller_beside_a_worker_asks_nothing_while_the_run_is_lived_here(db, monkeypatch):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, short) as app:
        handle = await app.start(short, "a", id="r")
        await gate.reached.wait()
        asked = Counted(app, monkeypatch, "find")
        result = asyncio.create_task(handle.result())
        await asyncio.sleep(0.2)
        gate.opened.set()
        assert await result == "made a"
    assert asked.counts["find"] == 0


@played
async def test_nobody_is_remembered_who_waits_no_more(db):
    async with App(db, workflows=[short]) as app:
        for number in range(3):
            handle = await app.start(short, "a", id=f"r{number}")
            with pytest.raises(TimeoutError):
                await handle.result(within="60ms")
        assert app._watchers._waiting == {}


# -- what comes for a run that is lived -------------------------------------------------------------------------------


@played
async def test_what_comes_for_a_run_in_flight_is_loaded_beside_the_loop_and_taken_at_once(db, monkeypatch, is_file):
    gate = Gate()
    target.plan("long", gate)
    async with working(db, either) as app:
        handle = await app.start(either, id="r")
        await gate.reached.wait()
        asked = Counted(app, monkeypatch, "load")
        await app.signal("r", "word", "yes", id="s")
        await until(lambda: "yes" in target.objects, "the signal to be taken while the other effect is in flight")
        loaded_here = threading.get_ident() in asked.threads["load"]
        gate.opened.set()
        assert await handle.result(within="20s") == "made yes"
    assert loaded_here == is_file, "a file is read where it is asked for; a server would keep the loop waiting"
