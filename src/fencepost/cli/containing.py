"""Containing on the command line: stop what is sent toward something, let it go again, and list what is stopped.

The guards and the audit are those of `runtime.containing`; none needs an app's code.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import containment_row
from fencepost.console.printable import instant, printable

What = Annotated[str, typer.Argument(metavar="KIND", help="target, resource, tenant, workflow or credential.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]


def contain(
    kind: What, name: Name, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let no new effect be sent toward a target, resource, tenant or workflow, by any worker, until `release`.

    Look-ups go on, and what was sent before is settled. Runs that meet it wait, and `show` says for what. A tenant is a
    run's principal, or what stands before its first slash. What is contained already stays as it is.

    With --json: `contained`, as `contained` lists it.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import containing

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = containing.contain(ledger, kind, name, by=somebody(by), reason=reason)
    if as_json:
        terminal.document({"contained": containment_row(found)})
    else:
        terminal.say(f"contained: {printable(found.text, limit=None)}")
    return Exit.DONE


def release(
    kind: What, name: Name, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Contain something no more: the runs that wait for it go on by themselves.

    With --json: `released`, as `contained` lists it, or null if it was not contained.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import containing

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = containing.release(ledger, kind, name, by=somebody(by), reason=reason)
    if as_json:
        terminal.document({"released": None if found is None else containment_row(found)})
    elif found is None:
        terminal.say(f"{printable(kind)} {printable(name)} is not contained")
    else:
        terminal.say(f"released: {printable(found.text, limit=None)}")
    return Exit.DONE


def contained(*, app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False) -> Exit:
    """List what is contained, by people and by breakers.

    With --json: `contained` (`kind`, `name`, `by`, `reason`, `at`; of a breaker also `probe_at`, when one run is let
    through, and `probe_run`, its number).
    """
    from fencepost.cli.target import app_for, opened

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = ledger.store.contained(ledger.namespace)
    if as_json:
        terminal.document({"contained": [containment_row(one) for one in found]})
    elif not found:
        terminal.remark("nothing is contained")
    else:
        terminal.table(
            ("what", "by", "since", "next probe", "because"),
            [
                (f"{one.kind} {one.name}", one.actor, instant(one.at), instant(one.probe_at) or "", one.reason)
                for one in found
            ],
        )
    return Exit.DONE
