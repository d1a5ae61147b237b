"""What the browser's tests look at: a console's process over a ledger, two workers that live its runs, and the world.

The workflow is the example's: ticket, mail, approval, payment, entry. A test strikes the requests of its own invoice,
and asks here what came of them; nothing of it is read from a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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

COLLECTIONS = ("tasks", "messages", "payments", "entries", "refunds", "reversals")

_NO_KEYS = Keys(honoured=False)
SETTINGS = (
    Configure(service="tasks", collection="tasks", identity=("invoice",)),
    Configure(service="books", collection="payments", keys=_NO_KEYS, look_up=LookUp(offered=False)),
    Configure(service="books", collection="entries", keys=_NO_KEYS),
    Configure(service="books", identity=("invoice",)),
)


class House:
    """A console that is served, with what it shows; `app` only starts, reads and acts beside it."""

    def __init__(self, app: App, world: World, url: str) -> None:
        self.app = app
        self.world = world
        self.url = url
        self._example = example.load()

    @classmethod
    @contextmanager
    def built(cls, folder: Path) -> Iterator[House]:
        """Build one in a folder, and leave no process of it behind."""
        with World.start(folder / "world", settings=SETTINGS) as world:
            settings = environment(world, folder)
            app = Fenced.app(folder)
            log = folder / "console.log"
            with (
                app.sync,
                Crew(Fenced.command, settings, folder / "workers.log"),
                Crew(console_command(folder, 0), settings, log, workers=1) as console,
            ):
                said = until(lambda: console.replace_dead() or _address_in(log), "the console", seconds_max=60)
                yield cls(app, world, said)

    # -- people

    def link(self, person: str, *roles: str) -> str:
        """Where somebody comes in, once."""
        secret, _ = accounts.invite(self.app, person, roles, by="tests", reason="for a test")
        return f"{self.url}/sign-in?link={secret}"

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

    def unknown(self, invoice: str, *, fault: Fault = LOST_REPLY) -> str:
        """One whose payment's reply was lost: nobody can be asked, and it is held."""
        run = self.asks(invoice, fault=fault)
        self.app.sync.approve(run, "decision", by="approver")
        self.until(run, RunState.HELD)
        return run

    def lost(self, invoice: str) -> str:
        """One whose payment never arrived, and by now cannot arrive any more: whoever looked may say so."""
        run = self.unknown(invoice, fault=LOST_REQUEST)
        over = self.run(run).changed_at + self._example.pay.contract.span
        until(lambda: self.app.store.now() > over, "the span of what was sent")
        return run

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


def _address_in(log: Path) -> str:
    said = log.read_text("utf-8").partition("the console is at ")[2]
    return said.partition("/api")[0] if "\n" in said else ""
