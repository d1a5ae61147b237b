"""The commands `metrics` and `health`: a ledger's numbers for Prometheus, and how the workers on it fare.

Both read the ledger from outside of the workers; what a worker counts itself it serves by `worker --telemetry`. What
is measured is `telemetry.metrics`, and `telemetry.health` says what is well.
"""

from __future__ import annotations

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, Db, Namespace
from fencepost.console.printable import instant


def metrics(*, app: AppOption = None, db: Db = None, namespace: Namespace = None) -> Exit:
    """Write a ledger's numbers as OpenMetrics text, the oldest unknown effect first.

    What processes count is in it at nothing: each worker serves its own counts, with `worker --telemetry`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.telemetry.metrics import metrics as measured

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        terminal.say(measured(ledger).rstrip("\n"))
    return Exit.DONE


def health(*, app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False) -> Exit:
    """Say of each worker that holds a lease whether it still moves; exit 3 if one does not.

    A worker whose working loop is stuck renews its lease no more, though its process and its threads live on. Exit 3
    too if runs could go on and no worker is alive.

    With --json: `well`, `workers` (`lease`, `host`, `pid`, `renewed_at`, `expires_at`, `overdue`: microseconds, 0 for
    one in time) and `waiting` (microseconds that the run has waited that could go on longest, 0 for none).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.console.workers import workers_of

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        fares = workers_of(ledger.store, ledger.namespace)
    code = Exit.DONE if fares.are_well else Exit.FINDINGS
    if as_json:
        terminal.document(fares.as_document())
        return code
    rows = [
        ("STUCK OR GONE" if one.overdue else "moves", one.lease.host, one.lease.pid, instant(one.lease.renewed_at))
        for one in fares.seen
    ]
    if rows:
        terminal.table(("", "host", "pid", "lease renewed"), rows)
    else:
        terminal.say("no worker holds a lease")
    if fares.are_missed:
        queue = fares.waiting
        terminal.say(f"no worker moves, and a run could have gone on since {queue.shown}: {queue.says}")
    return code
