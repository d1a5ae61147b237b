"""The command `trace`: the one trace of a run, as a tree or as one JSON document.

It reads and changes nothing. What is in a trace is `core.trace`, how it is laid out `telemetry.tree`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, Db, Namespace, RunId
from fencepost.cli.printable import instant, printable


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
    spans: list[dict[str, Any]] = []
    for one in found.spans:
        said = asdict(one)
        del said["settled_at"]
        spans.append(said | {"began_at": instant(one.began_at), "ended_at": instant(one.ended_at)})
    terminal.document({"trace": found.id, "run": found.run_id, "namespace": found.namespace, "spans": spans})
    return Exit.DONE
