"""A run seen from outside: its handle, and how this process learns that a run has ended.

Whoever waits for a run that this process lives is told when it is given up; runs that are worked on elsewhere are
found by looking at the ledger again and again: at a file when it has changed, at a server less and less often. Starting
runs is `app`, working on them `worker`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost.core.duration import SECOND, microseconds, spelled
from fencepost.core.errors import (
    CompensationIncomplete,
    ErrorRecord,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunHeld,
    RunTerminated,
    StepFailed,
    StoreBusy,
    StoreUnavailable,
)
from fencepost.core.records import Run
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.runtime.blame import blamed

if TYPE_CHECKING:
    from fencepost.effects.declare import Duration
    from fencepost.effects.values import Door
    from fencepost.runtime.app import App
    from fencepost.store.api import Store
    from fencepost.store.changes import Signalled

R_co = TypeVar("R_co", covariant=True)

LOOK_AGAIN = 0.05
"""Seconds between the first two looks at a ledger that another process may have changed."""

LOOK_AGAIN_MAX = 1.0
"""Seconds between two looks at a server, at most."""

SLOWER = 1.25
"""Each pause before a look at a server is so many times the one before it.

Whoever waits learns of an end late by a quarter of its waiting time at most, and never by more than a second.
"""


class Looks:
    """When to look again for a run in a ledger that another process may have changed."""

    def __init__(self, store: Store) -> None:
        self._changes = None if store.is_remote else store.changes(_nobody)
        self._pause = LOOK_AGAIN
        self.saw_nothing = False
        """Whether the last look was refused, since the ledger was too busy."""

    def is_worthwhile(self) -> bool:
        """Whether anything may have changed since the last look; a file is asked, which is cheap."""
        try:
            return self._changes is None or self._changes.look() or self.saw_nothing
        except StoreUnavailable:
            return True  # the look itself says more

    def pause(self) -> float:
        """Seconds until the next look."""
        pause = self._pause
        if self._changes is None:
            self._pause = min(pause * SLOWER, LOOK_AGAIN_MAX)
        return pause

    def close(self) -> None:
        """Look no more."""
        if self._changes is not None:
            self._changes.close()


def _nobody(_: Signalled | None) -> None:
    """Is told of changes to a file: it never is."""


class Watchers:
    """Who waits for which run to be given up.

    `here` holds the numbers of the runs that this process lives: their end is told, not looked for.
    """

    def __init__(self) -> None:
        self.here: set[int] = set()
        self._waiting: dict[int, list[asyncio.Future[Run | None]]] = {}
        self._lock = threading.Lock()

    def run_left(self, number: int, run: Run | None) -> None:
        """This process has given the run up; `run` is how it left it, None if somebody else owns it."""
        with self._lock:
            self.here.discard(number)
            told = self._waiting.pop(number, ())
        for waiting in told:
            _on_loop_of(waiting, run)

    @contextmanager
    def leaving(self, number: int) -> Iterator[asyncio.Future[Run | None]]:
        """A future that is told, while inside, how this process leaves a run that it lives; None if it cannot tell."""
        waiting: asyncio.Future[Run | None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.setdefault(number, []).append(waiting)
        try:
            yield waiting
        finally:
            self._forget(number, waiting)

    def _forget(self, number: int, waiting: asyncio.Future[Run | None]) -> None:
        with self._lock:
            others = [one for one in self._waiting.pop(number, ()) if one is not waiting]
            if others:
                self._waiting[number] = others


def _on_loop_of(waiting: asyncio.Future[Run | None], run: Run | None) -> None:
    """Tell whoever waits, on the loop on which it does: a blocking call has another one than the worker."""

    def tell() -> None:
        if not waiting.done():
            waiting.set_result(run)

    loop = waiting.get_loop()
    if loop is asyncio.get_running_loop():
        tell()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(tell)


NO_NUMBER = 0
"""Instead of a run's number, while a transaction that may never commit holds it: another run may get it then."""


class Handle(Generic[R_co]):
    """One run, from outside. One that was started in a transaction is found once that is committed."""

    def __init__(self, app: App, run: Run, results: Door | None) -> None:
        self._app = app
        self._run = run
        self._results = results

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    async def state(self) -> RunState:
        """What the ledger says now."""
        return (await self._app._find(self.id)).state  # noqa: SLF001 - app and handle are one thing in two files

    async def result(self, *, within: Duration | None = None) -> R_co:
        """Wait until the run has ended and return its result.

        `within`: a duration, such as "20s"; raises `TimeoutError` after that, which changes nothing for the run. A
        ledger that is too busy to be asked is asked again until then.

        Raises:
            RunHeld: it waits for a person; the hint names the verbs.
            RunFailed, RunCancelled, RunTerminated, CompensationIncomplete: how else it ended.
        """
        try:
            run = await self.left(within=within)
        except StoreBusy as busy:
            assert within is not None, "without a limit it asks on"
            raise TimeoutError(
                f"what became of run {self.id} is not known after {spelled(microseconds(within))}: {busy.message}"
            ) from busy
        if within is not None and not _is_over(run):
            raise TimeoutError(
                f"run {self.id} is {run.state} after {spelled(microseconds(within))} and goes on by itself "
                "(is a worker running?)"
            )
        return self._read(run)

    async def left(self, *, within: Duration | None) -> Run:
        """The run once it has ended or is held; as it is when the time is over.

        Raises:
            StoreBusy: the ledger could not be asked how it is then.
        """
        limit = None if within is None else microseconds(within, what="within")
        try:
            async with asyncio.timeout(None if limit is None else limit / SECOND):
                return await self._left()
        except TimeoutError:
            return await self._as_it_is()

    async def _as_it_is(self) -> Run:
        try:
            async with asyncio.timeout(LOOK_AGAIN_MAX):
                return await self._app._find(self.id)  # noqa: SLF001 - as above
        except TimeoutError as late:
            raise StoreBusy("the ledger is too busy to say", hint="ask again", ids={"run": self.id}) from late

    async def _left(self) -> Run:
        """The run once it has ended or is held.

        What this handle was made with says nothing any more: a run that was held then may have gone on since.
        """
        looks = Looks(self._app.store)
        run: Run | None = None
        try:
            while run is None or not _is_over(run):
                run = await self._look(looks, has_left=run is not None)
                if run is not None and run.state is RunState.CONTINUED:
                    self._run, run = await self._app._find(self.id), None  # noqa: SLF001 - as above
        finally:
            looks.close()
        return run

    async def _look(self, looks: Looks, *, has_left: bool) -> Run | None:
        """The run as this process leaves it, or over, or None after a pause.

        `has_left`: this process has just left it, and knows what a look would say.
        """
        watchers, number = self._app._watchers, self._run.no  # noqa: SLF001 - as above
        with watchers.leaving(number) as leaving:
            if number in watchers.here:
                return await leaving
            if not has_left and looks.is_worthwhile():
                run = await self._find(looks)
                if run is not None and number != run.no:
                    self._run = run  # it was not committed when this handle was made, or is in a later turn now
                if run is not None and _is_over(run):
                    return run
            await asyncio.wait([leaving], timeout=looks.pause())
            return leaving.result() if leaving.done() else None

    async def _find(self, looks: Looks) -> Run | None:
        """What the ledger says; None while it is too busy to say, which passes: its limit is that of whoever waits."""
        looks.saw_nothing = True
        with suppress(StoreBusy):
            run = await self._app._find(self.id)  # noqa: SLF001 - as above
            looks.saw_nothing = False
            return run
        return None

    def _read(self, run: Run) -> R_co:
        ids = {"run": run.id}
        error = None if run.error is None else ErrorRecord.from_text(run.error)
        told = error.said if error is not None else ""
        match run.state:
            case RunState.COMPENSATED if run.result is None:
                raise _without_result(run, told)
            case RunState.SUCCEEDED | RunState.COMPENSATED:
                return self._result(run)
            case RunState.HELD:
                hold = json.loads(run.hold or "{}")
                raise RunHeld(
                    ": ".join(filter(None, ("the run is held", hold.get("reason"), hold.get("detail")))),
                    hint="`fencepost show` lists what is known and which verbs apply",
                    ids=ids | ({"step": str(hold["step"])} if hold.get("step") else {}),
                )
            case RunState.FAILED:
                ids |= _step_blamed(run)
                failed = RunFailed(told, hint="its effects stand; resume it after a fix, or compensate it", ids=ids)
                raise failed from (None if error is None else StepFailed(error, ids=ids))
            case RunState.CANCELLED:
                raise RunCancelled(
                    "the run was cancelled", hint="`fencepost show` lists the effects that stand", ids=ids
                )
            case RunState.TERMINATED:
                raise RunTerminated("a person ended the run", hint="its effects stand", ids=ids)
            case _:
                raise CompensationIncomplete(told or f"the run is {run.state}", hint="see `fencepost show`", ids=ids)

    def _result(self, run: Run) -> R_co:
        if run.result is None or self._results is None:
            return None  # type: ignore[return-value]  # a workflow of another process, or one without result
        result: Any = self._results.decode(run.result)
        return result  # type: ignore[no-any-return]  # the door reads R


def _is_over(run: Run) -> bool:
    """Whether nothing more happens to it by itself; one that continues does so as its next turn."""
    return run.state is RunState.HELD or (run.state in FINAL_RUN_STATES and run.state is not RunState.CONTINUED)


def _step_blamed(run: Run) -> dict[str, str]:
    """The step whose failure ended the run, where it is one."""
    steps = blamed(run.error)
    return {"step": steps.pop()} if len(steps) == 1 else {}


def _without_result(run: Run, told: str) -> RunEnded:
    """How a run that was compensated ended, where its workflow returned nothing: it raised, or did not come so far."""
    ids, hint = {"run": run.id}, "all its effects are compensated; `fencepost show` lists them"
    if run.error is not None:
        return RunFailed(told, hint=hint, ids=ids)
    if run.cancel is not None:
        return RunCancelled("the run was cancelled and compensated", hint=hint, ids=ids)
    return RunEnded("the run was compensated before it had a result", hint=hint, ids=ids)
