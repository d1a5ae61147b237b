"""Queues on the command line: how full they are, and a person's pause and resume.

The guards and the audit are those of `runtime.queues`; none needs an app's code. A queue is declared in code and
written into the ledger by whoever uses it, never here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import queue_row
from fencepost.console.printable import printable

if TYPE_CHECKING:
    from fencepost.core.queue import QueueStanding

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]


def queue(
    context: typer.Context, *, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List queues: their limits, how many slots are taken, how many runs are due, and which are paused.

    With --json: `queues` (`name`, `concurrency`, `per_key`, `rate`, `rate_within`, `in_work`, `due`, `waiting`,
    `paused_at`, `paused_by`, `paused_because`, `version`).
    """
    from fencepost.cli.target import app_for, opened

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found, lengths = ledger.store.queues(ledger.namespace), ledger.store.queue_lengths(ledger.namespace)
    rows = [queue_row(one, *lengths.get(one.name, (0, 0))) for one in found]
    if as_json:
        terminal.document({"queues": rows})
    elif not rows:
        terminal.remark("no queues")
    else:
        terminal.table(
            ("queue", "in work", "per key", "rate", "due", "waiting", "state"),
            [
                (
                    one.name, f"{one.owned} of {one.concurrency or 'any'}", str(one.per_key or "any"), _rate(one),
                    str(row["due"]), str(row["waiting"]), _state(one),
                )
                for one, row in zip(found, rows, strict=True)
            ],
        )  # fmt: skip
    return Exit.DONE


def pause(
    name: QueueName, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let no run of a queue begin or go on until `resume`. What is in work, cancelled or compensated goes on."""
    return _act("pause", name, reason, by, where=(app, db, namespace), as_json=as_json)


def resume(
    name: QueueName, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let the runs of a paused queue go on."""
    return _act("resume", name, reason, by, where=(app, db, namespace), as_json=as_json)


def _act(
    verb: str, name: str, reason: str, by: str | None, *, where: tuple[str | None, str | None, str | None],
    as_json: bool,
) -> Exit:  # fmt: skip
    """Call the verb and say how the queue stands. With --json: `verb`, and `queue` as `queue` lists it."""
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import queues as verbs

    with opened(app_for(*where, with_code=False)) as ledger:
        found = getattr(verbs, verb)(ledger, name, by=somebody(by), reason=reason)
        lengths = ledger.store.queue_lengths(ledger.namespace).get(name, (0, 0))
    if as_json:
        terminal.document({"verb": verb, "queue": queue_row(found, *lengths)})
    else:
        terminal.say(f"{verb}: queue {printable(name)} is {printable(_state(found), limit=None)}")
    return Exit.DONE


def _state(one: QueueStanding) -> str:
    return "active" if one.paused_at is None else f"paused by {one.paused_by} because {one.paused_because}"


def _rate(one: QueueStanding) -> str:
    from fencepost.core.duration import spelled

    return "any" if one.rate is None else f"{one.begun} of {one.rate} in {spelled(one.rate_within or 0)}"
