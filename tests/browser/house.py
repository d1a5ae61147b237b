"""What the browser's tests look at: a console's process over a ledger, two workers that live its runs, and the world.

The workflow is the example's: ticket, mail, approval, payment, entry. A test strikes the requests of its own invoice,
and asks here what came of them; nothing of it is read from a page.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from fencepost.core.records import Audit, Run
from fencepost.core.states import RunState
from fencepost.demo import example
from fencepost.demo.crew import Crew
from fencepost.demo.live import console_command
from fencepost.demo.sides import Fenced, environment, run_id
from fencepost.runtime import accounts
from fencepost.runtime.app import App
from fencepost.runtime.signalling import waits_for_approval
from fencepost.testing import Configure, Fault, Keys, LookUp, World
from tests.polling import until

TEXT = "Invoice number: {number}\nSupplier: Northwind\nTotal due: £120.00\n"

LOST_REPLY = Fault(do="reset", when="after", collection="payments", name="lost reply")
LOST_REQUEST = Fault(do="reset", when="before", collection="payments", name="lost request")
REFUSED_ENTRY = Fault(do="answer", status=422, collection="entries", name="refused entry")

STOPPED_SECONDS_MAX = 60

COLLECTIONS = ("tasks", "messages", "payments", "entries", "refunds", "reversals")

_NO_KEYS = Keys(honoured=False)
SETTINGS = (
    Configure(service="tasks", collection="tasks", identity=("invoice",)),
    Configure(service="books", collection="payments", keys=_NO_KEYS, look_up=LookUp(offered=False)),
    Configure(service="books", collection="entries", keys=_NO_KEYS),
    Configure(service="books", identity=("invoice",)),
)


class Consoles:
    """Processes that serve the console of one ledger, each with its address; any may be paused for a moment."""

    def __init__(self, folder: Path, settings: Mapping[str, str], stack: ExitStack) -> None:
        self.addresses: list[str] = []
        self._folder = folder
        self._settings = settings
        self._stack = stack
        self._crews: list[Crew] = []
        self.another()

    def another(self) -> str:
        """Start one more; returns its address."""
        log = self._folder / f"console-{len(self._crews)}.log"
        crew = self._stack.enter_context(Crew(console_command(self._folder, 0), self._settings, log, workers=1))
        self.addresses.append(until(lambda: crew.replace_dead() or _address_in(log), "the console", seconds_max=60))
        self._crews.append(crew)
        return self.addresses[-1]

    @contextmanager
    def stopped(self, number: int) -> Iterator[None]:
        """Stop one with SIGSTOP, and not while it writes to the ledger, which nobody else could use then."""
        crew, ledger = self._crews[number], self._folder / "fencepost.db"
        crew.stop(0, STOPPED_SECONDS_MAX)
        while not _can_be_written(ledger):
            crew.go_on(0, crew.pid(0))
            crew.stop(0, STOPPED_SECONDS_MAX)
        yield
        crew.go_on(0, crew.pid(0))


class House:
    """A console that is served, with what it shows; `app` only starts, reads and acts beside it."""

    def __init__(self, app: App, world: World, consoles: Consoles) -> None:
        self.app = app
        self.world = world
        self.url = consoles.addresses[0]
        self.consoles = consoles
        self._example = example.load()

    @classmethod
    @contextmanager
    def built(cls, folder: Path) -> Iterator[House]:
        """Build one in a folder, and leave no process of it behind."""
        with World.start(folder / "world", settings=SETTINGS) as world:
            settings = environment(world, folder)
            app = Fenced.app(folder)
            with app.sync, Crew(Fenced.command, settings, folder / "workers.log"), ExitStack() as stack:
                yield cls(app, world, Consoles(folder, settings, stack))

    # -- people

    def link(self, person: str, *roles: str, at: str = "") -> str:
        """Where somebody comes in, once."""
        secret, _ = accounts.invite(self.app, person, roles, by="tests", reason="for a test")
        return f"{at or self.url}/sign-in?link={secret}"

    # -- runs

    def starts(self, invoice: str, *, fault: Fault | None = None) -> str:
        """Let an invoice come in whose requests are struck by this; returns its run's id."""
        if fault is not None:
            self.world.configure("books", faults=[fault.model_copy(update={"body": invoice})])
        document = self._example.Document(name=f"{invoice}.txt", text=TEXT.format(number=invoice))
        self.app.sync.start(self._example.approve_invoice, document, id=run_id(invoice), on_behalf_of="accounting")
        return run_id(invoice)

    def asks(self, invoice: str, *, fault: Fault | None = None) -> str:
        """One that has come as far as asking for its payment's approval."""
        run = self.starts(invoice, fault=fault)
        until(lambda: waits_for_approval(self.app.sync.show(run), "decision"), "the run to ask", seconds_max=60)
        return run

    def many_unknown(self, prefix: str, number: int) -> list[str]:
        """So many of them, all at once."""
        fault = LOST_REPLY.model_copy(update={"body": prefix, "times": number})
        self.world.configure("books", faults=[fault])
        invoices = [f"{prefix}-{one:02}" for one in range(number)]
        runs = [self.starts(one) for one in invoices]
        for run in runs:
            until(lambda run=run: waits_for_approval(self.app.sync.show(run), "decision"), f"{run}", seconds_max=90)
            self.app.sync.approve(run, "decision", by="approver")
        self.rest(runs)
        return runs

    def unknown(self, invoice: str, *, fault: Fault = LOST_REPLY) -> str:
        """One whose payment's reply was lost: nobody can be asked, and it is held."""
        run = self.asks(invoice, fault=fault)
        self.app.sync.approve(run, "decision", by="approver")
        self.until(run, RunState.HELD)
        return run

    def lost(self, invoice: str) -> str:
        """One whose payment never arrived, and by now cannot arrive any more: whoever looked may say so."""
        run = self.unknown(invoice, fault=LOST_REQUEST)
        self.wait_out(run)
        return run

    def wait_out(self, run: str) -> None:
        """Wait until nothing that was sent for a run that is held can still land."""
        over = self.run(run).changed_at + self._example.pay.contract.span
        until(lambda: self.app.store.now() > over, "the span of what was sent")

    def failed(self, invoice: str) -> str:
        """One that has paid, whose entry was refused: it has failed, and its effects stand."""
        run = self.asks(invoice, fault=REFUSED_ENTRY)
        self.app.sync.approve(run, "decision", by="approver")
        self.until(run, RunState.FAILED)
        return run

    def run(self, run: str) -> Run:
        """The run as it is."""
        return self.app.sync.show(run).run

    def until(self, run: str, *states: RunState) -> RunState:
        """Wait until the run is in one of these states."""
        return until(lambda: (found := self.run(run).state) in states and found, f"{run}: {states}", seconds_max=60)

    def rest(self, runs: list[str]) -> None:
        """Wait until each of them is held again."""
        for run in runs:
            self.until(run, RunState.HELD)

    # -- what came of it

    def holds(self, invoice: str) -> dict[str, int]:
        """How many objects about an invoice the world holds, by collection."""
        return {name: len(self.objects(name, invoice)) for name in COLLECTIONS}

    def objects(self, collection: str, invoice: str) -> list[Any]:
        """The objects of a collection about an invoice."""
        return [one for one in self.world.files.objects(collection) if invoice in str(one)]

    def writes(self) -> int:
        """How many requests to make or change anything have come so far."""
        counts = self.world.counts().values()
        return sum(one.requests + sum(one.actions.values()) for one in counts)

    def audit(self, run: str, verb: str) -> list[Audit]:
        """The audit rows of a verb on a run."""
        return [row for row in self.app.store.audits(self.app.namespace, None) if (row.run_id, row.verb) == (run, verb)]


def _can_be_written(ledger: Path) -> bool:
    with closing(sqlite3.connect(ledger, timeout=0.2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def _address_in(log: Path) -> str:
    said = log.read_text("utf-8").partition("the console is at ")[2]
    return said.partition("/api")[0] if "\n" in said else ""
