"""The other side of the demo: the invoice job as most code does it, with retries, time limits, heartbeats, checkpoints.

This is no straw man. A worker process takes jobs from a queue that gives a job to somebody else when its worker's
heartbeat stops (as SQS, Celery with late acknowledgement, or a table with `locked_until` do); each step is repeated
with growing pauses when it fails, honouring Retry-After; each result is written down at once, and a job that is taken
up again goes on after its last checkpoint. What it lacks is what nobody told its author: a request that failed may
have happened, a worker that seems dead may come back, and between an effect and its checkpoint a process can die.

It shares with the example how an invoice is read and classified, and nothing else. Fencepost's side is in `sides`.
"""

import json
import os
import smtplib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from fencepost.demo import example, leash
from fencepost.effects.question import Question

T = TypeVar("T")

TRIES = 6
HTTP_SECONDS = 2.0
SMTP_SECONDS = 1.0
HEARTBEAT_SECONDS = 0.5
DEAD_AFTER_SECONDS = 2.5
"""How long a job stays with a worker whose heartbeat stopped."""
JOBS_AT_A_TIME = 16


class Job:
    """One job's folder: the document, the checkpoint, the lock, and what people answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = folder / "lock"

    @classmethod
    def submit(cls, queue: Path, number: str, document: dict[str, str]) -> "Job":
        """Put a job into the queue."""
        folder = queue / number
        folder.mkdir(parents=True)
        job = cls(folder)
        job.write("document", document)
        return job

    def read(self, name: str) -> dict[str, Any] | None:
        """Return what was written under that name, or None."""
        try:
            found: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def write(self, name: str, value: object) -> None:
        """Write durably, whole or not at all."""
        draft = self.folder / f"{name}.{os.getpid()}.{threading.get_ident()}.draft"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / f"{name}.json")

    @property
    def is_done(self) -> bool:
        """Whether its last step is behind it, or it was given up."""
        return (self.folder / "done.json").exists() or (self.folder / "given up.json").exists()

    @property
    def owner(self) -> int | None:
        """The pid of the worker that has it, alive or not."""
        try:
            return int(self.lock.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def left_by(self, pid: int | None) -> Path:
        """Where the lock of a worker that seemed dead is kept once another has the job."""
        return self.folder / f"lock left by {pid}"

    def take(self) -> bool:
        """Take the job if nobody has it, or if whoever has it gives no sign of life."""
        try:
            if time.time() - self.lock.stat().st_mtime < DEAD_AFTER_SECONDS:
                return False
            self.lock.rename(self.left_by(self.owner))
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(self.lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        os.write(descriptor, str(os.getpid()).encode())
        os.close(descriptor)
        return True

    def beat(self) -> None:
        """Say that its worker is alive."""
        if self.owner == os.getpid():
            os.utime(self.lock)

    def give_back(self) -> None:
        """Let others have it."""
        if self.owner == os.getpid():
            self.lock.unlink(missing_ok=True)


# -- the steps --------------------------------------------------------------------------------------------------------


def retried(step: Callable[[], T]) -> T:
    """Repeat a step that fails, with growing pauses; a target's Retry-After is honoured."""
    for attempt in range(1, TRIES):
        pause = 0.25 * 2**attempt
        try:
            return step()
        except httpx2.HTTPStatusError as error:
            pause = max(pause, float(error.response.headers.get("retry-after", 0)))
        except (httpx2.TransportError, smtplib.SMTPException, OSError):
            pass
        threading.Event().wait(pause)
    return step()


def post(client: httpx2.Client, url: str, body: dict[str, Any]) -> str:
    """Create an object and return its id."""
    reply = client.post(url, json=body)
    reply.raise_for_status()
    return str(reply.json()["id"])


def send_mail(subject: str, text: str) -> bool:
    """Send a mail to the approver."""
    mail = EmailMessage()
    mail["From"] = "invoices@example.com"
    mail["To"] = "approver@example.com"
    mail["Subject"] = subject
    mail.set_content(text)
    host, _, port = os.environ["INVOICE_SMTP"].rpartition(":")
    with smtplib.SMTP(host, int(port), timeout=SMTP_SECONDS) as smtp:
        smtp.send_message(mail)
    return True


def classified(text: str) -> str:
    """Ask the model until its answer has the right form."""
    invoice = example.load()
    for attempt in range(1, TRIES):
        answer = invoice.RULES.answer(Question("classify", "", text, {}, attempt))
        try:
            return str(invoice.Classification.model_validate_json(answer).account)
        except ValueError:
            continue
    return "other"


def work(job: Job, client: httpx2.Client) -> None:
    """Go on with a job after its last checkpoint, as far as it goes now."""
    done = job.read("checkpoint") or {}

    def step(name: str, effect: Callable[[], Any]) -> Any:
        if name not in done:
            done[name] = effect()
            job.write("checkpoint", done)
        return done[name]

    invoice = step("invoice", lambda: legible(job))
    if invoice is None:
        return
    tasks, books = os.environ["INVOICE_TASKS"], os.environ["INVOICE_BOOKS"]
    number, amount = invoice["number"], {"amount": invoice["total"], "currency": invoice["currency"]}
    account = step("account", lambda: classified((job.read("document") or {})["text"]))
    request = {"invoice": number, "supplier": invoice["supplier"], "account": account, **amount}
    ticket = step("ticket", lambda: retried(lambda: post(client, f"{tasks}/tasks", request)))
    subject = f"Invoice {number} waits for approval"
    step("mail", lambda: retried(lambda: send_mail(subject, f"{invoice['supplier']}: please decide on {ticket}.\n")))
    if job.read("approval") is None:
        return
    payment = {"invoice": number, "to": invoice["supplier"], **amount}
    step("payment", lambda: retried(lambda: post(client, f"{books}/payments", payment)))
    entry = {"invoice": number, "account": account, **amount}
    step("entry", lambda: retried(lambda: post(client, f"{books}/entries", entry)))
    job.write("done", {})


def legible(job: Job) -> dict[str, Any] | None:
    """Return what is on the invoice: read by the machine, or else by a clerk; None as long as nobody has."""
    module = example.load()
    document = module.Document.model_validate(job.read("document"))
    read = module.read_invoice.body(None, document)
    return job.read("correction") if read is None else dict(read.model_dump())


# -- the worker -------------------------------------------------------------------------------------------------------


def attend(job: Job, client: httpx2.Client, mine: set[Path]) -> None:
    """Work on one job that this process has taken."""
    try:
        work(job, client)
    except (httpx2.HTTPError, smtplib.SMTPException, OSError) as error:
        job.write("given up", {"error": str(error)})
    finally:
        mine.discard(job.folder)
        job.give_back()


def beat_forever(mine: set[Path]) -> None:
    """Keep the jobs of this process alive."""
    pause = threading.Event()
    while not pause.wait(HEARTBEAT_SECONDS):
        for folder in tuple(mine):
            Job(folder).beat()


def waiting(queue: Path, mine: set[Path]) -> Iterator[Job]:
    """Take and yield jobs that nobody has, as long as there is room."""
    for folder in sorted(set(queue.iterdir()) - mine):
        job = Job(folder)
        if len(mine) < JOBS_AT_A_TIME and not job.is_done and job.take():
            yield job


def serve(queue: Path) -> None:
    """Take jobs and work on them until killed."""
    mine: set[Path] = set()
    threading.Thread(target=beat_forever, args=(mine,), daemon=True).start()
    pause = threading.Event()
    with ThreadPoolExecutor(JOBS_AT_A_TIME) as pool, httpx2.Client(timeout=HTTP_SECONDS, trust_env=False) as client:
        while not pause.wait(0.1):
            for job in waiting(queue, mine):
                mine.add(job.folder)
                pool.submit(attend, job, client, mine)


if __name__ == "__main__":
    leash.end_with(parent=int(sys.argv[1]))
    serve(Path(sys.argv[2]))
