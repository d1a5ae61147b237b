"""One ledger with the processes on it, which can be killed, and the person who settles what only a person can.

Many stages share one world. What a process does is in `child`, what is counted at the world in `count`, and playing
many stages side by side is `harness`.
"""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Self

import httpx2

from fencepost.core.errors import VerbRefused
from fencepost.core.records import History, Operation
from fencepost.core.states import FINAL_RUN_STATES, LeaseState, OperationState, RunState
from fencepost.runtime import verbs
from fencepost.runtime.checking import check
from fencepost.store.api import RunFilter
from fencepost.store.open import wall_clock
from fencepost.testing.world import Fault, World
from tests.polling import until
from tests.processes import booking, child, stories
from tests.processes.count import End, count, made
from tests.processes.nursery import Nursery

DOOMED = ("1200ms", "200ms")
"""Lease and margin of a worker that will be killed, so that its heir need not wait long."""

LASTING = ("20s", "200ms")
"""Lease and margin of a worker that is to live, however busy the machine."""

_steering = threading.Lock()
_faults: dict[str, list[Fault]] = {}
"""What strikes at each service; the world takes a service's whole list at a time."""


def forget_faults() -> None:
    """Begin anew; the world is told by whoever arranges it."""
    _faults.clear()


class Child:
    """One process of `tests.processes.child`."""

    def __init__(self, nursery: Nursery, told: dict, kill_at: str, points: Path | None, folder: Path) -> None:
        self.kill_at = kill_at
        self._complaints = folder / "stderr.txt"
        environment = {
            stories.KILL_AT: kill_at, stories.MEMORY: str(folder), child.POINTS: str(points or ""),
            booking.LEDGER: told["ledger"],
        }  # fmt: skip
        self._process = nursery.fork(told, environment, self._complaints)

    @property
    def pid(self) -> int:
        return self._process.pid

    def says(self) -> str:
        """What it says next; "" if it ended."""
        return self._process.stdout.readline().decode().strip()

    def said(self, word: str) -> None:
        """Return once it has said `word`."""
        line = self.says()
        assert line == word, f"the child said {line!r} in place of {word!r}: {self._complaints.read_text()[-3000:]}"

    def go(self) -> None:
        """Tell a child that is armed to begin."""
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def died(self) -> None:
        """Wait until it has killed itself at its fault point; any other end is a failure."""
        try:
            code = self._process.wait(40)
        except TimeoutError:
            self.kill()
            raise AssertionError(f"no {self.kill_at!r} in 40 s: {self._complaints.read_text()[-3000:]}") from None
        assert code == -signal.SIGKILL, f"ended with {code}: {self._complaints.read_text()[-3000:]}"

    def kill(self) -> None:
        """End it with SIGKILL, as a power cut would."""
        if self._process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def code(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """Tell it to finish what is in flight and end."""
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def ended(self) -> int:
        """Let it finish and end by itself; returns its exit code."""
        self.ask_to_end()
        return self._process.wait(40)

    def close(self) -> None:
        """End it whatever it does."""
        self.kill()
        self._process.close()


class Stage:
    """One ledger, its processes, and the person who settles what only a person can.

    The ledger is a file in `folder`, unless `ledger` is the url of another.
    """

    def __init__(self, world: World, nursery: Nursery, folder: Path, control: str = "", ledger: str = "") -> None:
        folder.mkdir(parents=True)
        self.ledger = ledger or f"sqlite:///{folder / 'ledger.db'}"
        self._nursery = nursery
        self.world = world
        self.folder = folder
        self._control = control
        self._children: list[Child] = []
        self._held: list[str] = []
        self.app = child.make_app(self._told(*LASTING))

    def _told(self, lease: str, margin: str) -> dict:
        return {
            "ledger": self.ledger,
            "questions": str(self.folder / "questions.txt"),
            "tasks": self.world.tasks.url,
            "books": self.world.books.url,
            "lease": lease,
            "margin": margin,
            "control": self._control,
            "traces": "",
            "working": True,
            "at_once": False,
            "schedules": [],
            "starts": [],
            "verbs": [],
            "signals": [],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_children()
        self.app.sync.close()

    # -- processes

    def end_children(self) -> None:
        """End every process of this stage, whatever it does."""
        for one in self._children:
            one.close()

    def child(
        self, *starts: tuple[str, str], kill_at: str = "", lease: tuple[str, str] | None = None,
        points: Path | None = None, **told: object,
    ) -> Child:  # fmt: skip
        """Start a process; without `kill_at` it has a lease that lasts."""
        orders = self._told(*(lease or (DOOMED if kill_at else LASTING))) | {"starts": [*starts]} | told
        one = Child(self._nursery, orders, kill_at, points, self.folder)
        self._children.append(one)
        return one

    def worker(self) -> Child:
        """Start a worker and return once it works."""
        one = self.child()
        one.said("begun")
        return one

    def killed_at(self, point: str, workflow: str, run_id: str, *, other: bool) -> None:
        """Start a run in a worker that is killed at `point`; then another worker, or the same again, goes on."""
        if other:
            self.worker()
        self.child((workflow, run_id), kill_at=point).died()
        if not other:
            self.worker()

    def does(self, verb: str, run_id: str, **arguments: object) -> str:
        """Carry out a person's verb in a process of its own; returns "begun", or "refused: ..."."""
        one = self.child(verbs=[[verb, run_id, arguments]], working=False)
        said = one.says()
        assert one.ended() == 0, (self.folder / "stderr.txt").read_text()[-3000:]
        return said

    def signals(self, run_id: str, name: str, value: str, signal_id: str) -> None:
        """Send a signal from a process of its own."""
        one = self.child(signals=[[run_id, name, value, signal_id]], working=False)
        one.said("begun")
        assert one.ended() == 0

    def strike(self, service: str, *faults: Fault) -> None:
        """Add faults for this stage's runs; they must name the run, since all stages share the world."""
        with _steering:
            _faults.setdefault(service, []).extend(faults)
            self.world.configure(service, faults=_faults[service])

    def questions(self) -> int:
        """How often the model was asked."""
        file = self.folder / "questions.txt"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def killed_while(self, target: str, workflow: str, run_id: str, *, other: bool, ordinal: int = 1) -> None:
        """Start a run and kill whoever owns it when the target has committed its first step and still holds the reply.

        `ordinal` says at which of the operation's requests. Unlike a fault point, this finds the owner also where the
        run has changed hands between two attempts.
        """
        hold = Fault(
            do="wait", when="after", hold=True, name=run_id, ordinal=ordinal, times=None, body=f'"{run_id}/first"'
        )
        self.strike(target, hold)
        if other:
            self.child(lease=DOOMED).said("begun")
        self.child((workflow, run_id), lease=DOOMED).said("begun")
        self.world.until_waiting(run_id)
        self.kill_owner(run_id)
        self.world.release(run_id)
        if not other:
            self.worker()

    def kill_owner(self, run_id: str) -> None:
        """End the process that owns a run with SIGKILL."""
        lease = self.history(run_id).run.lease
        pid = next(one.pid for one in self.app.store.leases() if one.id == lease)
        next(one for one in self._children if one.pid == pid).kill()

    # -- the ledger

    def history(self, run_id: str) -> History | None:
        run = self.app.store.find("default", run_id)
        return None if run is None else self.app.store.load(run.no)

    def state(self, run_id: str) -> RunState | None:
        run = self.app.store.find("default", run_id)
        return None if run is None else run.state

    def reaches(self, run_id: str, *states: RunState, seconds_max: float = 40.0) -> History:
        """Return the run once it is in one of the states."""

        def there() -> History | None:
            return self.history(run_id) if self.state(run_id) in states else None

        try:
            return until(there, f"{run_id} to be {states}", seconds_max=seconds_max, seconds_between=0.03)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self.account(run_id)}") from None

    def account(self, run_id: str) -> str:
        """What is known of a run, for a failure's message."""
        history = self.history(run_id)
        told = (self.folder / "stderr.txt").read_text()[-2000:]
        if history is None:
            return f"no run {run_id}; {told}"
        operations = [
            (
                one.position, one.state.value, [attempt.outcome.value for attempt in one.attempts],
                [f"{seen.kind} {seen.says or ''}".strip() for seen in one.observations], (one.error or "")[:200],
            )
            for one in history.operations
        ]  # fmt: skip
        run = history.run
        waits = "" if run.wake_at is None else f"for {(run.wake_at - wall_clock()) / 1e6:.1f} s more"
        return f"{run.state} {waits} {run.hold or run.error or ''} {operations} {told}"

    # -- the end

    def end(self, run_id: str, *, person: bool = True) -> End:
        """Wait for the run's end and count; a person settles by what is at the world whatever is held."""
        while True:
            history = self.reaches(run_id, *FINAL_RUN_STATES, RunState.HELD)
            if history.run.state is not RunState.HELD or not person:
                break
            self._held.append(json.loads(history.run.hold)["reason"])
            assert len(self._held) < 8, f"held again and again: {self.account(run_id)}"
            self.help(run_id)
        self.check_negatives(run_id, history)
        return self.count(run_id)

    def count(self, run_id: str) -> End:
        """What the world has seen of a run so far."""
        return count(self.world.files, self.history(run_id), self._held)

    def help(self, run_id: str) -> None:
        """Do what a careful person does with a held run: look at the world, then say what happened and how one knows.

        What failed for good gets another budget.
        """
        history = self.history(run_id)
        unknown = [one for one in history.operations if one.state is OperationState.UNKNOWN]
        if not unknown:
            failed = [one for one in history.operations if one.state is OperationState.FAILED]
            is_spent = bool(failed) and json.loads(history.run.hold)["reason"] == "budget spent"
            assert is_spent, f"held for something that nobody can settle: {self.account(run_id)}"
            verbs.retry(self.app, history.run, step=failed[0].step, by="ann", reason="the limit is lifted")
        for operation in unknown:
            found = self.made(operation)
            statement = {"happened": bool(found), "by": "ann", "reason": "looked at the target"}
            if found:
                statement |= {"result": json.dumps({"id": found}), "reference": found}
            until(lambda: self._settled(history, operation, statement), "the old request to be dead")  # noqa: B023 - called at once

    def _settled(self, history: History, operation, statement: dict) -> bool:
        try:
            verbs.settle(self.app, history.run, step=operation.step, item=operation.item, **statement)
        except VerbRefused as refused:
            if "may still land" not in refused.message:
                raise
            return False
        return True

    def duplicate(self, run_id: str) -> None:
        """Somebody else makes the same object once more, under the same external key."""
        lines = self.world.files.requests("payments")
        mine = next((line for line in lines if f'"{run_id}/' in (line.body or "")), None)
        if mine is not None:
            httpx2.post(f"{self.world.books.url}/payments", content=mine.body, trust_env=False).raise_for_status()

    def made(self, operation: Operation) -> str | None:
        """The id of what an operation made at the world, if it made something."""
        return made(self.world.files, operation)

    # -- what must never be seen

    def check_negatives(self, run_id: str, history: History) -> None:
        """No run runs past its lease, no success lacks its reference, nothing contradicts itself, and no end moves."""
        now = self.app.store.now()
        live = {one.id: one for one in self.app.store.leases() if one.state is LeaseState.LIVE}
        for run in self.app.store.runs(RunFilter("default", limit=1_000)):
            if run.state is RunState.RUNNING:
                lease = live.get(run.lease)
                assert lease is not None, f"{run.id} runs under no live lease"
                assert lease.expires_at > now, f"{run.id} runs past its lease"
        for operation in history.operations:
            if operation.state is OperationState.SUCCEEDED and verbs.effect_of(self.app, operation).contract.reference:
                assert operation.reference, f"{operation.position} succeeded without its reference"
        found = [str(one) for one in check(self.app.store).found if one.run in ("", run_id)]
        assert found == [], f"the ledger contradicts itself: {found}"
        if history.run.state in FINAL_RUN_STATES:
            self._check_it_stays(history)

    def _check_it_stays(self, history: History) -> None:
        run = history.run
        for verb in (verbs.cancel, verbs.resume):
            if verb is verbs.resume and run.state is RunState.FAILED:
                continue
            try:
                verb(self.app, run, by="ann", reason="to see whether it moves")
            except VerbRefused:
                continue
            raise AssertionError(f"{verb.__name__} moved the run {run.id}, which is {run.state}")
        after = self.history(run.id)
        assert (after.run.state, after.run.version) == (run.state, run.version), f"{run.id} moved"
