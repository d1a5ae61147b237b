"""The processes of one story, of which the one that reaches a given fault point kills itself and is replaced.

A cast does what a plot says: starts, verbs, signals, deaths, faults of the world. Each wait also ends when the run
does, since a kill may have made impossible what was waited for. The plots themselves are in `plots`.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fencepost.core.states import FINAL_RUN_STATES, OperationState, RunState
from fencepost.testing.world import Fault
from tests.polling import until
from tests.processes import stories
from tests.processes.count import End
from tests.processes.stage import DOOMED, LASTING, Child, Stage

SECONDS_MAX = 45.0


class Cast:
    """The processes of one story, of which the one that reaches `kill_at` kills itself and is replaced."""

    def __init__(self, stage: Stage, run_id: str, kill_at: str, points: Path) -> None:
        self.stage = stage
        self.run_id = run_id
        self.reached = False
        self._kill_at = kill_at
        self._points = points
        self._workers: list[Child] = []
        self._start: str = ""

    # -- processes

    def start(self, workflow, *, working: bool = True) -> None:
        """Start the run, in a worker or in a process that only starts it; one that dies of it is asked again."""
        self._start = workflow.name
        one = self._spawn(starts=[[self._start, self.run_id]], working=working)
        if one.says() != "begun":
            self._fell(one)
            if working:
                self._workers.remove(one)
            self.start(workflow, working=working)
        elif not working:
            self._finish(one)

    def worker(self) -> None:
        """Start one more worker."""
        one = self._spawn(working=True)
        if one.says() != "begun":
            self._fell(one)
            self._workers.remove(one)
            self.worker()

    def person(self, verb: str, **arguments: object) -> None:
        """Carry out a verb in a process of its own; one that dies of it is clicked again, and may be refused then."""
        one = self._spawn(verbs=[[verb, self.run_id, arguments]], working=False)
        if not one.says():
            self._fell(one)
            self.person(verb, **arguments)
            return
        self._finish(one)

    def tell(self, name: str, value: str, signal_id: str) -> None:
        """Send a signal; a sender that dies of it sends again under the same id."""
        one = self._spawn(signals=[[self.run_id, name, value, signal_id]], working=False)
        if not one.says():
            self._fell(one)
            self.tell(name, value, signal_id)
            return
        self._finish(one)

    def kill_owner(self) -> None:
        """Somebody ends the owner of the run, if it has one; another worker is there."""
        history = self.stage.history(self.run_id)
        owner = history and next((x.pid for x in self.stage.app.store.leases() if x.id == history.run.lease), None)
        for one in [one for one in self._workers if one.pid == owner]:
            one.kill()
            self._workers.remove(one)
        self.worker()

    def stop_owner(self) -> Child | None:
        """Somebody pauses the owner of the run with SIGSTOP, though not while it holds the ledger's write lock."""
        history = self.stage.history(self.run_id)
        owner = history and next((x.pid for x in self.stage.app.store.leases() if x.id == history.run.lease), None)
        for one in self._workers:
            if one.pid == owner:
                until(lambda: self._stopped(one.pid), "the owner to be outside a transaction")  # noqa: B023 - called at once
                return one
        return None

    def _stopped(self, pid: int) -> bool:
        """Stop it; if it holds the lock, let it go on, since nobody else could write then."""
        os.kill(pid, signal.SIGSTOP)
        with closing(sqlite3.connect(self.stage.folder / "ledger.db", timeout=0.3)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                return False
            connection.rollback()
        return True

    def drain(self) -> None:
        """Every worker finishes what is in flight and ends."""
        workers, self._workers = self._workers, []
        for one in workers:
            one.ask_to_end()
        self.release()
        for one in workers:
            code = one.ended()
            assert code in (0, -signal.SIGKILL), self.stage.account(self.run_id)
            self.reached |= code == -signal.SIGKILL

    def _spawn(self, *, working: bool, **told: object) -> Child:
        kill_at = "" if self.reached else self._kill_at
        one = self.stage.child(
            kill_at=kill_at, points=self._points, lease=LASTING if self.reached else DOOMED, working=working,
            **{"starts": [], **told},
        )  # fmt: skip
        if working:
            self._workers.append(one)
        return one

    def _finish(self, one: Child) -> None:
        code = one.ended()
        assert code in (0, -signal.SIGKILL), self.stage.account(self.run_id)
        self.reached |= code == -signal.SIGKILL

    def _fell(self, one: Child) -> None:
        """A process said nothing: it must have killed itself at the point."""
        one.died()
        assert one.kill_at, f"{one.pid} died of nothing: {self.stage.account(self.run_id)}"
        self.reached = True

    def _revive(self) -> None:
        """Replace the worker that killed itself at the point."""
        for one in [one for one in self._workers if one.code() is not None]:
            self._workers.remove(one)
            self._fell(one)
            if self.stage.history(self.run_id) is None:
                self.start(next(x for x in stories.WORKFLOWS if x.name == self._start))
            else:
                self.worker()

    # -- waiting

    def watch(self, condition: Callable[[], bool], what: str) -> None:
        """Return once it is so, or the run has ended or is held; replaces workers that die meanwhile."""

        def seen() -> bool:
            self._revive()
            return condition() or self.state in FINAL_RUN_STATES or self.state is RunState.HELD

        try:
            until(seen, what, seconds_max=SECONDS_MAX, seconds_between=0.02)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self.stage.account(self.run_id)}") from None

    @property
    def state(self) -> RunState | None:
        return self.stage.state(self.run_id)

    def until(self, *states: RunState) -> None:
        self.watch(lambda: self.state in states, f"{self.run_id} to be {states}")

    def until_operation(self, step: str, state: OperationState, attempts: int = 0) -> None:
        """Return once the operation is in that state and has so many attempts."""

        def there() -> bool:
            history = self.stage.history(self.run_id)
            found = [one for one in history.operations if one.step == step] if history else []
            return bool(found) and found[0].state is state and len(found[0].attempts) >= attempts

        self.watch(there, f"{step} to be {state}")

    def until_conflict(self) -> None:
        """Return once an operation of the run contradicts itself, whatever the run's state."""
        until(
            lambda: any(one.conflict for one in self.stage.history(self.run_id).operations) or self._all_dead(),
            "the late evidence", seconds_max=SECONDS_MAX,
        )  # fmt: skip

    def _all_dead(self) -> bool:
        fallen = [one for one in self._workers if one.code() is not None]
        for one in fallen:
            self._workers.remove(one)
            self._fell(one)
        return bool(fallen)

    def until_held(self, name: str = "hold") -> None:
        """Return once the world holds a reply of this run."""
        self.watch(lambda: self.stage.world.waiting(f"{self.run_id} {name}") > 0, "the world to hold a reply")

    # -- the world

    def strike(self, target: str, step: str, **fault: object) -> None:
        """What befalls requests of this run for a step; holds are released by `release`."""
        given = {"times": None, "body": f'"{self.run_id}/{step}"'} | fault
        self.stage.strike(target, Fault(**given))

    def hold(self, target: str, step: str, ordinal: int = 1, name: str = "hold", **fault: object) -> None:
        """The world commits and keeps the reply, until `release`."""
        self.strike(
            target, step, do="wait", when="after", hold=True, name=f"{self.run_id} {name}", ordinal=ordinal, **fault
        )

    def cannot_tell(self, step: str, *, times: int) -> None:
        """The look-ups for a step are answered with 500, so many times."""
        # By their ordinals: how often a fault struck is forgotten whenever a story beside this one adds its own.
        for ordinal in range(1, times + 1):
            self.strike(
                stories.ASKED, step, do="answer", method="GET", status=500, ordinal=ordinal, body="",
                key=f"{self.run_id}/*",
            )  # fmt: skip

    def release(self, name: str = "hold") -> None:
        self.stage.world.release(f"{self.run_id} {name}")

    def release_all_but(self, one: Child | None, name: str = "hold") -> None:
        """Let the world answer, and the paused process go on."""
        self.release(name)
        if one is not None:
            os.kill(one.pid, signal.SIGCONT)

    # -- the end

    def end(self) -> End:
        """Wait for the end, with a person settling what is held, and let every worker drain."""
        self.until(*FINAL_RUN_STATES)
        while self.state is RunState.HELD:
            self.stage.help(self.run_id)
            self.watch(lambda: self.state is not RunState.HELD, "the run to go on")
            self.until(*FINAL_RUN_STATES)
        self.drain()
        return self.stage.end(self.run_id)
