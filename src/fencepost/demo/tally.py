"""What became of the invoices, read from the world's files alone, and what was injected on the way.

Neither side is asked what it believes. Only two numbers come from Fencepost's ledger: the takeovers, which no outside
can see, and the runs that an operator settled, from its audit. Whether the numbers are right is judged in `verdict`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fencepost.demo.plan import DROPPED, Paper
from fencepost.testing import WorldFiles

COLLECTIONS = {"tickets": "tasks", "mails": "messages", "payments": "payments", "entries": "entries"}
"""The columns of the table and where the world keeps what they count."""


@dataclass(frozen=True)
class Row:
    """One side's result: objects of each kind, those beyond one for each invoice, and those that are missing."""

    invoices: int
    tickets: int
    mails: int
    payments: int
    entries: int
    duplicates: int
    lost: int
    settled: int = 0


@dataclass(frozen=True)
class Injected:
    """What was done to one side. `takeovers` counts runs, or jobs, that another process went on with.

    `lost_twice`: those that were in the hands of a worker that was killed, and then in those of another.
    """

    kills: int
    pauses: int
    dropped_replies: int
    takeovers: int
    lost_twice: frozenset[str] = frozenset()


def count(files: WorldFiles, papers: Iterable[Paper], *, settled: int = 0) -> Row:
    """Count what the world holds of these invoices."""
    numbers = [paper.number for paper in papers]
    made = {name: _by_invoice(files, collection) for name, collection in COLLECTIONS.items()}
    duplicates = sum(objects - 1 for some in made.values() for objects in some.values())
    lost = sum(number not in some for some in made.values() for number in numbers)
    totals = {name: some.total() for name, some in made.items()}
    return Row(len(numbers), **totals, duplicates=duplicates, lost=lost, settled=settled)


def mailed(files: WorldFiles) -> set[str]:
    """Return the numbers of the invoices about which at least one mail was delivered."""
    return set(_by_invoice(files, "messages"))


def payment_of(files: WorldFiles, invoice: str) -> str | None:
    """Return the id of the payment of an invoice, as the bank's statement shows it, or None."""
    found = [one["id"] for one in files.objects("payments") if one.get("invoice") == invoice]
    return str(found[0]) if found else None


def dropped_replies(files: WorldFiles) -> int:
    """Return how many replies were dropped after the service had done its work."""
    return sum(summary.faults.get(DROPPED, 0) for summary in files.summary().values())


def requests(files: WorldFiles) -> int:
    """Return how many whole writing requests have reached the world."""
    return sum(files.summary()[collection].requests for collection in COLLECTIONS.values())


def _by_invoice(files: WorldFiles, collection: str) -> Counter[str]:
    """The objects of a collection by the invoice that they name, a mail in its subject."""
    objects = files.objects(collection)
    if collection == "messages":
        return Counter(str(one["subject"]).split()[1] for one in objects)
    return Counter(str(one.get("invoice")) for one in objects)
