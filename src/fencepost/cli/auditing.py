"""The audit on the command line: lists who did what, verifies the chain, and writes the anchor that verifies its end.

What breaks a chain is `store.chain`; an anchor is worth as much as the place where it is kept is out of reach.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, Db, Namespace
from fencepost.console.documents import audit_row, verdict_document
from fencepost.console.printable import instant, printable

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.store.chain import Anchor, Verdict

OfRun = Annotated[str | None, typer.Option("--run", metavar="RUN", help="Only what was done to this run.")]
OfVerb = Annotated[str | None, typer.Option("--verb", metavar="VERB", help="Only this verb.")]
OfActor = Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Only what they did.")]
Refused = Annotated[bool, typer.Option("--refused", help="Only what was refused.")]
Before = Annotated[int | None, typer.Option("--before", metavar="N", help="The next page: `next` of the page before.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Rows on a page.")]
Known = Annotated[Path | None, typer.Option("--anchor", metavar="FILE", help="What `audit anchor` has written.")]
File = Annotated[Path, typer.Option("--file", metavar="FILE", help="Where to keep it: out of the ledger's reach.")]


def audit(
    context: typer.Context,
    *,
    run: OfRun = None,
    verb: OfVerb = None,
    actor: OfActor = None,
    refused: Refused = False,
    before: Before = None,
    limit: Limit = 50,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """List who did what to which run, and why, newest first; what was refused too.

    With --json: `rows` (`no`, `at`, `actor`, `verb`, `run`, `step`, `item`, `outcome`, `reason`, `before`, `after`,
    `hash`) and `next` (for --before; null at the end).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.store.governing import AuditFilter

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        outcome = "refused" if refused else None
        wanted = AuditFilter(ledger.namespace, run, verb, actor, outcome, before, limit + 1)
        found = ledger.store.list_audits(wanted)
    following = found[limit - 1].no if len(found) > limit else None
    found = found[:limit]
    if as_json:
        terminal.document({"rows": [audit_row(one) for one in found], "next": following})
        return Exit.DONE
    if not found:
        terminal.remark("no audit rows")
        return Exit.DONE
    terminal.table(
        ("row", "when", "who", "verb", "run", "step", "outcome", "why"),
        [
            (one.no, instant(one.at), one.actor, one.verb, one.run_id, one.step or "", one.outcome, one.reason)
            for one in found
        ],
    )
    if following is not None:
        terminal.remark(f"more: --before {following}")
    return Exit.DONE


def verify(*, anchor: Known = None, app: AppOption = None, db: Db = None, as_json: AsJson = False) -> Exit:
    """Say whether the audit is as it was written: intact, broken at a row, or intact but unanchored.

    The rows of all namespaces are one chain. Without --anchor, rows that were cut off at its end are not missed.

    With --json: `answer` ("intact", "unanchored" or "broken"), `rows`, `last` (`no`, `hash`), `broken` (null, or `at`,
    `how`, `says`, `expected`, `found`).
    """
    known = None if anchor is None else _read(anchor)
    with _ledger(app, db) as ledger:
        verdict = _verified(ledger, known)
    return _told(verdict, as_json=as_json)


def anchor(*, file: File, app: AppOption = None, db: Db = None, as_json: AsJson = False) -> Exit:
    """Write down the number and hash of the newest audit row, for `audit verify --anchor FILE`.

    The chain is verified first, by the anchor that is in the file if there is one: what is broken is not anchored. Keep
    the file where nobody who can write to the ledger can write.

    With --json: as `audit verify`.
    """
    known = _read(file) if file.exists() else None
    with _ledger(app, db) as ledger:
        verdict = _verified(ledger, known)
    if verdict.broken is None:
        _write(file, verdict.last)
    if as_json or verdict.broken is not None:
        return _told(verdict, as_json=as_json)
    terminal.say(f"anchored at row {verdict.last.no} of {verdict.rows:,}")
    return Exit.DONE


# -- shared -----------------------------------------------------------------------------------------------------------


def _ledger(app: str | None, db: str | None) -> Any:
    from fencepost.cli.target import app_for, opened

    return opened(app_for(app, db, None, with_code=False))


def _verified(ledger: App, known: Anchor | None) -> Verdict:
    from fencepost.runtime.checking import verify_audit

    return verify_audit(ledger.store, known)


def _told(verdict: Verdict, *, as_json: bool) -> Exit:
    broken = verdict.broken
    if as_json:
        terminal.document(verdict_document(verdict))
    elif broken is not None:
        terminal.say(
            f"broken at row {broken.at}: {broken.how}: {broken.says}",
            f"  known:  {broken.expected or 'nothing'}",
            f"  there:  {broken.found or 'nothing'}",
            f"the {verdict.rows:,} rows before it are as they were written",
        )
    elif verdict.anchored:
        terminal.say(f"intact: {verdict.rows:,} rows, with the anchored one among them")
    else:
        terminal.say(f"intact but unanchored: {verdict.rows:,} rows")
        terminal.remark("whether rows are missing at the end only an anchor tells: fencepost audit anchor --file FILE")
    return Exit.DONE if broken is None else Exit.FINDINGS


def _read(file: Path) -> Anchor:
    from fencepost.core.errors import Misuse
    from fencepost.store.chain import Anchor

    try:
        return Anchor.from_text(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Usage(f"the anchor {printable(str(file))} cannot be read: {error}", hint="name its file") from error
    except Misuse as error:
        raise Usage(f"{printable(str(file))}: {error.message}", hint=error.hint) from error


def _write(file: Path, anchor: Anchor) -> None:
    """Replace the file at once, so that it never holds half an anchor."""
    beside = file.with_name(f"{file.name}.new")
    try:
        beside.write_text(anchor.as_text(), "utf-8")
        beside.replace(file)
    except OSError as error:
        raise Usage(f"the anchor cannot be written: {error}", hint="name a file in a folder that exists") from error
