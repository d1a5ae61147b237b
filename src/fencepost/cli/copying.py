"""`fencepost copy`: moves a ledger from a file to PostgreSQL.

What is copied, and what is refused, is `store.copy`'s matter.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AsJson

From = Annotated[str, typer.Argument(metavar="FILE", help="The ledger's file: a path, or sqlite:///path.")]
To = Annotated[str, typer.Option("--to", metavar="URL", help="An empty ledger: postgresql://... (?schema=NAME).")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count, and say what would be refused; change nothing.")]
Margin = Annotated[str, typer.Option("--margin", metavar="TIME", help="How long a lease is respected after its end.")]


def copy(source: From, *, to: To, dry_run: DryRun = False, margin: Margin = "2s", as_json: AsJson = False) -> Exit:
    """Copy a ledger from an SQLite file into an empty one on PostgreSQL.

    Refused while workers hold leases. Afterwards the file is not opened any more: it says where its ledger has gone.

    With --json: `tables` (`table`, `here`, and `there`, null with --dry-run).
    """
    from fencepost.core.duration import microseconds
    from fencepost.store.copy import copy as copy_ledger
    from fencepost.store.open import open_store, path_of, schema_at, wall_clock
    from fencepost.store.postgres import PostgresStore

    if not schema_at(source):
        raise Usage(f"there is no ledger at {source}", hint="name the file of an existing ledger")
    target = open_store(to)
    try:
        if not isinstance(target, PostgresStore):
            raise Usage(f"{to!r} is no PostgreSQL ledger", hint="write --to postgresql://user@host/database")
        lasts = microseconds(margin, what="margin")
        counts = copy_ledger(path_of(source), target, now=wall_clock(), margin=lasts, dry_run=dry_run)
    finally:
        target.close()
    if as_json:
        terminal.document({"tables": [count._asdict() for count in counts]})
        return Exit.DONE
    for count in counts:
        there = "" if count.there is None else f"  ->  {count.there:>9,}"
        terminal.say(f"{count.table:12}{count.here:>9,}{there}")
    terminal.say("nothing was changed" if dry_run else "copied; give your workers the new url")
    return Exit.DONE
