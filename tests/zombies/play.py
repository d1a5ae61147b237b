"""One play of the matrix: a world, a ledger, the victim with its runs at their points, the heir, and a person.

What is done to the victim is one function of `faults`, handed in with a play; what came of each cell is `verdict`.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fencepost.core.errors import VerbRefused
from fencepost.core.records import History, Run
from fencepost.core.states import FINAL_RUN_STATES, OperationState, RunState
from fencepost.runtime import verbs
from fencepost.runtime.checking import check
from fencepost.store.api import RunFilter
from fencepost.store.open import wall_clock
from fencepost.testing.world import Keys, LookUp, World
from tests.polling import until
from tests.zombies.accounts import Accounts
from tests.zombies.bodies import SERVICES
from tests.zombies.cells import CELLS, Cell, Row
from tests.zombies.clock import JumpingClock
from tests.zombies.ledgers import Ledger, is_unlocked
from tests.zombies.parking import Notes, Parking, pid_is_stopped
from tests.zombies.wires import Wires
from tests.zombies.worker import make_app

DOOMED = ("2s", "300ms")
"""Lease and margin of the victim, so that its heir need not wait long."""

LASTING = ("20s", "300ms")
"""Lease and margin of the heir."""

SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Times:
    """What the effects of a play declare: how long an attempt lasts, and what the target needs beyond."""

    timeout: str = "15s"
    settle: str = "1s"


class Worker:
    """One process of `tests.zombies.worker`."""

    def __init__(self, told: dict, complaints: Path, environment: Mapping[str, str]) -> None:
        self._complaints = complaints
        with complaints.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.zombies.worker", json.dumps(told)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env={**os.environ, **environment},
                cwd=Path(__file__).parents[2],
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    def works(self) -> None:
        """Return once it works."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == b"works\n", f"it said {line!r}: {self.complaints()}"

    def give_word(self) -> None:
        """Let its runs go on from where they stand."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def drain(self) -> int:
        """Let it finish what is in flight and end; its exit code."""
        if self._process.stdin is not None and self.code() is None:
            self._process.stdin.close()
        return self._process.wait(SECONDS_MAX)

    def complaints(self) -> str:
        """The end of what it wrote to standard error."""
        return self._complaints.read_text("utf-8")[-3_000:]

    def close(self) -> None:
        """End it whatever it does."""
        if self.code() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Play:
    """The stage of one fault; a context manager that ends everything on it."""

    def __init__(self, folder: Path, ledger: Ledger, times: Times, *, control: bool = False) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.ledger = ledger
        self.times = times
        self.is_control = control
        self.accounts = Accounts(folder / "accounts.db")
        self.accounts.create()
        self.notes = Notes(folder / "notes.jsonl")
        self.clocks = {who: JumpingClock(folder / f"{who}.clock") for who in ("victim", "heir")}
        self._ended = ExitStack()
        self.word_at = self.healed_at = 0
        """When the victim was given the word, and when the wires were healed; microseconds of this machine's clock."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.world = stack.enter_context(World.start(self.folder / "world"))
            self.wires = stack.enter_context(Wires())
            _arrange(self.world)
            # A wire per cell, so that no run finds a connection of another's. Both owners use it: it is part of the
            # address, and with another address it would be another request.
            self._targets = {
                cell.id: self.wires.to(getattr(self.world, SERVICES[cell.row]).url)
                for cell in CELLS
                if cell.row in SERVICES
            }
            self.app = make_app(self._told("heir"), Parking(None))
            stack.callback(self.app.sync.close)
            self._ended = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.close()

    def _told(self, who: str) -> dict:
        is_victim = who == "victim"
        lease, margin = DOOMED if is_victim else LASTING
        return {
            "ledger": self.ledger.victims_url if is_victim else self.ledger.url, "targets": self._targets,
            "accounts": str(self.accounts.file), "lease": lease, "margin": margin, "timeout": self.times.timeout,
            "settle": self.times.settle, "starts": is_victim, "notes": str(self.notes.file) if is_victim else "",
            "control": self.is_control,
        }  # fmt: skip

    # -- processes

    def enter(self, *, jumping: bool = False) -> None:
        """Bring the victim's runs to their points, and the heir to where it waits for them."""
        self.victim = self._spawn("victim", jumping=jumping)
        self.victim.works()
        self.until(lambda: len(self.notes.having("stands")) == len(CELLS), "every run to stand at its point")
        self.before = {run.id: run for run in self.runs()}
        self.leases_before = {lease.id: lease.renewed_at for lease in self.app.store.leases()}
        self.heir = self._spawn("heir", jumping=jumping)
        self.heir.works()

    def _spawn(self, who: str, *, jumping: bool) -> Worker:
        environment = self.clocks[who].environment() if jumping else {}
        worker = Worker(self._told(who), self.folder / f"{who}.stderr", environment)
        self._ended.callback(worker.close)
        return worker

    def stop_victim(self) -> None:
        """Stop it with SIGSTOP, though not while it holds a write lock, since nobody else could write then."""

        def is_stopped() -> bool:
            self.victim.signal(signal.SIGSTOP)
            until(lambda: pid_is_stopped(self.victim.pid), "the victim to stand still")
            if is_unlocked(self.accounts.file) and self._is_free_in_a_moment():
                return True
            self.victim.signal(signal.SIGCONT)
            return False

        until(is_stopped, "the victim to be outside a transaction")

    def _is_free_in_a_moment(self) -> bool:
        """Whether the ledger is free, once what others are doing there is done."""
        try:
            return until(self.ledger.is_free, "the ledger to be free", seconds_max=0.5)
        except TimeoutError:
            return False

    def give_word(self) -> None:
        """Let the victim's runs go on from where they stand."""
        self.word_at = wall_clock()
        self.victim.give_word()

    # -- the ledger

    def runs(self) -> list[Run]:
        """Every run, as it is now."""
        return self.app.store.runs(RunFilter("default", limit=1_000))

    def history(self, cell: Cell) -> History:
        """Everything of a cell's run."""
        return self.app.store.load(self.before[cell.id].no)

    def is_taken_over(self) -> bool:
        """Whether no run is as its first owner left it."""
        return all(run.generation > self.before[run.id].generation for run in self.runs())

    def has_done_what_it_could(self) -> bool:
        """Whether the heir waits for nothing but time, or a person; without reconciliation, for nothing at all."""
        if self.is_control:
            return self.is_over()
        at_once = (Row.KEY.value, Row.FENCE.value)
        done = (*FINAL_RUN_STATES, RunState.HELD)
        nothing = Row.NOTHING.value
        return self.is_taken_over() and all(
            run.state in done for run in self.runs() if run.id.split(".")[0] in (*at_once, nothing)
        )

    def has_renewed(self) -> bool:
        """Whether the victim has renewed its lease since its runs stood."""
        renewed = {lease.id: lease.renewed_at for lease in self.app.store.leases()}
        return any(renewed.get(lease, 0) > at + 1_000_000 for lease, at in self.leases_before.items())

    def is_over(self) -> bool:
        """Whether every run has ended."""
        return all(run.state in FINAL_RUN_STATES for run in self.runs())

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return once it is so; a failure tells how the runs stand."""
        try:
            until(condition, what, seconds_max=SECONDS_MAX, seconds_between=0.03)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._account()}") from None

    def _account(self) -> str:
        told = [f"{run.id} {run.state} {run.hold or run.error or ''}" for run in self.runs()]
        return "\n".join([*told, self.victim.complaints(), f"in {self.folder}"])

    # -- the end

    def until_reported(self) -> None:
        """Return once the ledger has answered to each run that went on in the victim."""

        def reported() -> bool:
            return {note.cell for note in self.notes.answers_after_waking()} == {cell.id for cell in CELLS}

        self.until(reported, "the victim to report on every run")

    def finish(self) -> None:
        """Let the victim end if it lives, and a person settle what only a person can, until every run has ended."""
        if self.victim.code() is None:
            assert self.victim.drain() == 0, self.victim.complaints()
        self.until(self._helped, "every run to end")

    def contradictions(self) -> list[str]:
        """What contradicts itself in the ledger that is left."""
        return [str(one) for one in check(self.app.store).found]

    def _helped(self) -> bool:
        for run in self.runs():
            if run.state is RunState.HELD:
                self._help(run)
        return self.is_over()

    def _help(self, run: Run) -> None:
        """Do what a careful person does: look at the target, then say what happened, once nothing can land any more."""
        if self.is_control:
            verbs.terminate(self.app, run, by="ann", reason="nobody can tell")
            return
        history = self.app.store.load(run.no)
        cell = next(cell for cell in CELLS if cell.id == run.id)
        for operation in history.operations:
            if operation.state is not OperationState.UNKNOWN:
                continue
            made = next((one["id"] for one in self.world.files.objects("tasks") if one.get("name") == cell.first), None)
            statement = {"result": json.dumps({"id": made}), "reference": made} if made else {}
            try:
                verbs.settle(
                    self.app, run, step=operation.step, happened=bool(made), by="ann", reason="looked", **statement
                )
            except VerbRefused as refused:
                if "may still land" not in refused.message:
                    raise


def _arrange(world: World) -> None:
    """Make the collections understand what their rows say."""
    for service in ("tasks", "books"):
        world.configure(service, identity=["name"])
    world.configure("books", "payments", keys=Keys(honoured=False))
    world.configure("tasks", "tasks", keys=Keys(honoured=False), look_up=LookUp(offered=False))
