"""Reads out of the ledger what one answer shows: a page of runs, or one run with all that stands around it.

The documents are the same for `--json` on the command line and for the HTTP API. What a run's document says is `story`;
whatever is listed beside runs is in `documents`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.console.documents import Document, run_row
from fencepost.console.story import Family, is_carried, story
from fencepost.store.api import RunFilter

if TYPE_CHECKING:
    from fencepost.core.queue import QueueStanding
    from fencepost.core.records import Audit, History, Lease, Run
    from fencepost.store.api import Store


@dataclass(frozen=True, slots=True)
class Page:
    """Runs, newest first; of each whether a live worker carries it; and after which number the next page begins."""

    runs: list[Run]
    carried: list[bool | None]
    following: int | None

    def as_document(self) -> Document:
        """`runs`, and `next`: null at the end."""
        rows = [run_row(run) | {"carried": carried} for run, carried in zip(self.runs, self.carried, strict=True)]
        return {"runs": rows, "next": self.following}


def runs_page(store: Store, wanted: RunFilter) -> Page:
    """A page of runs."""
    found = store.runs(wanted._replace(limit=wanted.limit + 1))
    following = found[wanted.limit - 1].no if len(found) > wanted.limit else None
    found = found[: wanted.limit]
    leases, now = store.leases(), store.now()
    return Page(found, [is_carried(run, leases, now) for run in found], following)


@dataclass(frozen=True, slots=True)
class Told:
    """One turn of a run: its history with the leases and the audit around it, and the document that is told of it."""

    history: History
    leases: list[Lease]
    audits: list[Audit]
    document: Document


def document_of(store: Store, run: Run, *, redact: bool = False) -> Document:
    """One turn of a run, step by step; with `redact` without requests, results, evidence and signals' values."""
    return told_of(store, run, redact=redact).document


def told_of(store: Store, run: Run, *, redact: bool = False) -> Told:
    """The document, with what it was made from."""
    history = store.load(run.no)
    leases, audits = store.leases(), store.audits(run.namespace, run.id)
    parent = None if history.run.parent is None else store.load(history.run.parent).run.id
    document = story(
        history,
        leases,
        audits,
        family=Family(parent, store.children(run.no), store.now()),
        ahead=store.ahead_of(history.run) if history.run.resource is not None else None,
        contained=store.contained(run.namespace) if history.run.behind is not None else [],
        queue=_queue_of(history.run, store),
        redact=redact,
    )
    return Told(history, leases, audits, document)


def _queue_of(run: Run, store: Store) -> QueueStanding | None:
    """How the queue of a run stands, if it is in one."""
    found = store.queues(run.namespace) if run.queue is not None else []
    return next((one for one in found if one.name == run.queue), None)
