"""The two sides of the demo behind one face: how work comes in, what people do, and what a worker has in its hands.

`Fenced` is the example on Fencepost, `Naive` is the script of `naive`. Both are steered by `drive`, which does not know
which one it has; what came of their work is not asked here but read from the world's files (`tally`).
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from fencepost.core.records import Run
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.core.trace import Status
from fencepost.demo import example
from fencepost.demo.naive import Job
from fencepost.demo.plan import Paper
from fencepost.demo.tally import payment_of
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.signalling import waits_for_approval
from fencepost.runtime.tracing import read_trace
from fencepost.telemetry.tree import tree
from fencepost.testing import World, WorldFiles

OPERATOR = "operator"

LEASE = "2s"
MARGIN = "500ms"

Hands = Mapping[str, int]
"""What a process has in its hands: run or job, with the generation, or the pid, under which it has it."""

_RUNS_MAX = 10_000
_ON_THE_SCAN = {"supplier": "HELIOS ENERGIE SpA", "total": 107_210, "currency": "EUR"}
"""What a clerk reads on the paper of which the machine could not read the total."""


class Side(Protocol):
    """What `drive` needs of a side."""

    name: str
    command: tuple[str, ...]

    async def submit(self, paper: Paper) -> None:
        """Let one invoice come in; a clerk types what the machine cannot read."""

    async def approve(self, invoice: str) -> bool:
        """The approver says yes; False: nothing asks for it yet."""

    async def attend(self) -> None:
        """Let whoever attends to this side look once; on Fencepost's an operator settles what is held."""

    async def in_hands(self, pid: int) -> Hands:
        """What a worker has in its hands."""

    async def went_over(self, hands: Hands) -> int:
        """How many of these another process has taken over."""

    async def ended(self) -> int:
        """How many invoices are through, well or not."""

    async def settled(self) -> int:
        """How many invoices an operator had to settle something of."""

    async def troubles(self) -> list[str]:
        """A sentence for each invoice that did not get through well."""


def environment(world: World, folder: Path) -> dict[str, str]:
    """Return the environment of a worker: the example's settings, and no model but the local rules."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FENCEPOST_MODEL")}
    return inherited | {
        "INVOICE_LEDGER": ledger_url(folder),
        "INVOICE_TASKS": world.tasks.url,
        "INVOICE_BOOKS": world.books.url,
        "INVOICE_MAIL": world.mail.url,
        "INVOICE_SMTP": world.mail.address,
        "INVOICE_LEASE": LEASE,
    }


def ledger_url(folder: Path) -> str:
    """Return the URL of the ledger in the demo's folder."""
    return f"sqlite:///{folder / 'fencepost.db'}"


class Fenced:
    """The example on Fencepost; `app` only starts, signals and settles here, workers are processes of their own."""

    name = "Fencepost"
    command: tuple[str, ...] = ("fencepost.demo.worker",)

    def __init__(self, app: App, statement: WorldFiles) -> None:
        self._app = app
        self._statement = statement
        self._example: ModuleType = example.load()

    @classmethod
    def app(cls, folder: Path) -> App:
        """Return an app on the ledger in this folder, with the example's workflow."""
        shown = example.load()
        # An app names the targets of its effects; from here nothing is sent to them.
        targets = shown.app.outside.targets
        return App(
            ledger_url(folder), workflows=[shown.approve_invoice], targets=targets, lease=LEASE, margin=MARGIN
        )  # fmt: skip

    async def submit(self, paper: Paper) -> None:
        """Start a run whose id comes from the business event."""
        document = self._example.Document(name=paper.file, text=paper.text)
        run = run_id(paper.number)
        await self._app.start(self._example.approve_invoice, document, id=run, on_behalf_of="accounting")
        if not paper.is_legible:
            invoice = self._example.Invoice(number=paper.number, **_ON_THE_SCAN)
            await self._app.signal(run, "correction", invoice, id=f"{paper.number} corrected", sender="clerk")

    async def approve(self, invoice: str) -> bool:
        """Approve the payment that waits; the mail may have come before the run waits for what it asks."""
        run = run_id(invoice)
        if not waits_for_approval(await self._app.show(run), "decision"):
            return False
        await self._app.approve(run, "decision", by="approver")
        return True

    async def attend(self) -> None:
        """Settle each payment that is held by what the bank's statement shows, as soon as the statement can tell."""
        for run in await self._app.runs(state=RunState.HELD, limit=_RUNS_MAX):
            if _is_for_the_operator(run):
                self._settle(run)

    def _settle(self, run: Run) -> None:
        payment = payment_of(self._statement, run.id.rpartition(":")[2])
        happened: dict[str, Any] = {"happened": False, "reason": "not on the bank's statement"}
        if payment is not None:
            result = json.dumps({"id": payment})
            happened = {"happened": True, "reason": f"{payment} is on the bank's statement", "result": result}
        elif self._app.store.now() < run.changed_at + self._example.pay.contract.span:
            return  # a request that is still on its way is on no statement yet
        verbs.settle(self._app, run, step="pay", by=OPERATOR, version=run.version, **happened)

    async def in_hands(self, pid: int) -> Hands:
        """The runs under the leases of that process, with their generations."""
        leases = {lease.id for lease in self._app.store.leases() if lease.pid == pid}
        return {run.id: run.generation for run in await self._runs() if run.lease in leases}

    async def went_over(self, hands: Hands) -> int:
        """Runs whose generation has risen since: their owner could not raise it, being dead or stopped."""
        return sum(run.id in hands and run.generation > hands[run.id] for run in await self._runs())

    async def ended(self) -> int:
        """Count the runs that have ended, and those that are held for what this operator knows nothing of."""
        runs = await self._runs()
        stuck = sum(run.state is RunState.HELD and not _is_for_the_operator(run) for run in runs)
        return stuck + sum(run.state in FINAL_RUN_STATES for run in runs)

    async def settled(self) -> int:
        """Count, in the audit, the runs of which the operator settled something."""
        rows = self._app.store.audits(self._app.namespace, None)
        return len({row.run_id for row in rows if (row.actor, row.verb, row.outcome) == (OPERATOR, "settle", "done")})

    async def troubles(self) -> list[str]:
        """Name the runs that have not succeeded, and what contradicts itself in the ledger."""
        stuck = [
            f"Run {run.id} is {run.state}: {run.hold or run.error or 'not through in time'}."
            for run in await self._runs()
            if run.state is not RunState.SUCCEEDED
        ]
        return [*stuck, *(f"The ledger contradicts itself: {one}." for one in (await self._app.check()).found)]

    async def trace(self, runs: Iterable[str]) -> list[str]:
        """The trace of one of these runs as a tree: of the one of which most was in flight when it lost a worker."""
        wanted = set(runs)
        traces = [read_trace(self._app.store, run) for run in await self._runs() if run.id in wanted]
        most = max(traces, key=lambda one: sum(span.status is Status.UNKNOWN for span in one.spans), default=None)
        return [] if most is None else [*tree(most)]

    async def _runs(self) -> list[Run]:
        return await self._app.runs(limit=_RUNS_MAX)


class Naive:
    """The script with retries and checkpoints; its queue is a folder of jobs."""

    name = "naive retry"

    def __init__(self, queue: Path) -> None:
        queue.mkdir(parents=True)
        self._queue = queue
        self.command: tuple[str, ...] = ("fencepost.demo.naive", str(queue))

    async def submit(self, paper: Paper) -> None:
        """Put a job into the queue."""
        job = Job.submit(self._queue, paper.number, {"name": paper.file, "text": paper.text})
        if not paper.is_legible:
            job.write("correction", {"number": paper.number, **_ON_THE_SCAN})

    async def approve(self, invoice: str) -> bool:
        """Put the decision beside the job."""
        Job(self._queue / invoice).write("approval", {"approved": True})
        return True

    async def attend(self) -> None:
        """Nobody attends: nothing tells anybody that there is something to decide."""

    async def in_hands(self, pid: int) -> Hands:
        """The jobs whose lock names that process."""
        return {job.folder.name: pid for job in self._jobs() if job.owner == pid}

    async def went_over(self, hands: Hands) -> int:
        """Jobs of which another has put that process's lock away."""
        return sum(Job(self._queue / name).left_by(pid).exists() for name, pid in hands.items())

    async def ended(self) -> int:
        """Count the jobs that are done or given up."""
        return sum(job.is_done for job in self._jobs())

    async def settled(self) -> int:
        """Nobody settles anything."""
        return 0

    async def troubles(self) -> list[str]:
        """Name the jobs that are not done."""
        return [f"Job {job.folder.name} is not done." for job in self._jobs() if job.read("done") is None]

    def _jobs(self) -> list[Job]:
        return [Job(folder) for folder in sorted(self._queue.iterdir())]


def _is_for_the_operator(run: Run) -> bool:
    return bool(json.loads(run.hold or "{}").get("step") == "pay")


def run_id(invoice: str) -> str:
    """The run id of an invoice, which comes from the business event."""
    return f"invoice:demo:{invoice}"
