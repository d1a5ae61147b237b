"""`fencepost alerts`: every alert as it is now, for whoever wakes people; exit 3 if one fires.

Which alerts there are, and what to do about each, is `core.alerts`; measuring them is `runtime.alerting`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, Db, Namespace
from fencepost.console.documents import alert_row, page_of

Thresholds = Annotated[
    list[str] | None,
    typer.Option("--threshold", metavar="ALERT=VALUE", help='Another one, such as "queue age=30s"; repeatable.'),
]


def alerts(
    *, threshold: Thresholds = None, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Measure every alert on the ledger, and say which ones fire.

    Exit 3 if one does. With --json: `alerts` (`name`, `severity`, `fires`, `value`, `threshold`, `unit`: time is in
    microseconds, `says`, `measures`, `runbook`) and `firing` (how many).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime.alerting import readings

    own = _thresholds(threshold or [])
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = readings(ledger.store, ledger.namespace, thresholds=own)
    firing = [one for one in found if one.fires]
    if as_json:
        terminal.document({"alerts": [alert_row(one) for one in found], "firing": len(firing)})
    else:
        terminal.table(
            ("", "alert", "now", "fires above", "about"),
            [(one.alert.severity if one.fires else "ok", one.name, one.shown, one.bound, one.says) for one in found],
        )
        for one in firing:
            terminal.say(f"{one.name}: {one.alert.look_at} (docs/reference/runbook/{page_of(one.name)})")
    return Exit.FINDINGS if firing else Exit.DONE


def _thresholds(given: list[str]) -> dict[str, int]:
    from fencepost.core.alerts import thresholds
    from fencepost.core.errors import DeclarationError

    pairs = [one.partition("=") for one in given]
    try:
        return thresholds({name.strip().replace("-", " "): value.strip() for name, _, value in pairs})
    except DeclarationError as error:
        raise Usage(error.message, hint=error.hint) from error
