"""The command `trace`: the one trace of a run, as a tree or as one JSON document.

It reads and changes nothing. What is in a trace is `core.trace`, how it is laid out `telemetry.tree`.
"""

from __future__ import annotations

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, Db, Namespace, RunId
from fencepost.console.documents import trace_document
from fencepost.console.printable import printable


def trace(
    run: RunId, *, app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False
) -> Exit:
    """Show what a run did as one trace, across crashes, workers and verbs.

    It is made from the ledger, under the ids that OpenTelemetry gets too. What a killed worker had sent is an attempt
    that ended unknown.

    With --json: `trace` (its id), `run`, `namespace`, and `spans` (`id`, `parent`, `name`, `kind`, `began_at`,
    `ended_at`, `status`: open, ok, error or unknown, `says`, `attributes`).
    """
    from fencepost.cli.target import app_for, opened, run_of
    from fencepost.runtime.tracing import read_trace
    from fencepost.telemetry.tree import tree

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = read_trace(ledger.store, run_of(ledger, run))
    if not as_json:
        terminal.say(*(printable(line, limit=None) for line in tree(found)))
        return Exit.DONE
    terminal.document(trace_document(found))
    return Exit.DONE
